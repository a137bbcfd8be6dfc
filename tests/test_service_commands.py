"""The commands `rolin serve` and `rolin keys`."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from typer.testing import CliRunner

from rolin.cli.app import app
from rolin.errors import DataError, MissingExtra, ParameterError
from rolin.service.keys import Keys
from support.service import client

ROLIN = [sys.executable, "-c", "from rolin.cli import main; main()"]


def invoked(*arguments: object) -> Any:
    """Return what a command did in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@contextmanager
def served(data: Path, *options: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:  # fmt: skip
    """Start a service on a free port; give its process and the lines that it prints first."""
    command = [*ROLIN, "serve", "--port", "0", "--data", str(data), *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **variables}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = []
            while not lines or not lines[-1].startswith("Try: "):
                line = process.stdout.readline()
                if not line:
                    pytest.fail(f"it did not start: {process.communicate()[1]}")
                lines.append(line.strip())
            yield process, lines
        finally:
            process.kill()


def test_keys_are_created_listed_and_revoked(tmp_path: Path) -> None:
    """The key is the only line of the output, so that a script can store it."""
    created = invoked("keys", "create", "shop", "--data", tmp_path, "--scopes", "decide, read")
    text = created.stdout.strip()
    key = Keys(tmp_path).find(text)
    assert key is not None
    assert (key.name, key.scopes) == ("shop", {"decide", "read"})
    listed = invoked("keys", "list", "--data", tmp_path)
    assert key.id in listed.stdout
    assert text not in listed.stdout
    revoked = invoked("keys", "revoke", key.id, "--data", tmp_path)
    assert revoked.stdout == f"Revoked key {key.id} of shop\n"
    assert Keys(tmp_path).list() == ()
    assert isinstance(
        invoked("keys", "revoke", key.id, "--data", tmp_path).exception, ParameterError
    )
    assert isinstance(invoked("keys", "list", "--data", tmp_path / "no").exception, DataError)


@pytest.mark.service
def test_the_service_starts_answers_and_stops(tmp_path: Path) -> None:
    """The first start prints a key, which works; a later one does not; SIGTERM ends it with exit code 0."""
    with served(tmp_path) as (process, lines):
        text = "\n".join(lines)
        url = re.search(r"Listening on (http://127\.0\.0\.1:\d+)", text)
        shown = re.search(r"API key, which is not shown again: (rk_\S+)", text)
        assert url is not None
        assert shown is not None
        assert str(tmp_path.resolve()) in text
        headers = {"Authorization": f"Bearer {shown[1]}"}
        decisions = f"{url[1]}/v1/bandits/default/decisions"
        body = {"arms": ["a", "b"]}
        with httpx.Client(timeout=60) as client:  # the first answer waits for compilation
            answer = client.post(decisions, headers=headers, json=body)
            assert answer.status_code == 201, answer.text
            assert client.post(decisions, json=body).status_code == 401
            Keys(tmp_path).create("other", ["read"])
            assert "server" not in answer.headers
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert out == "Stopped.\n"
        assert shown[1] not in err
    with served(tmp_path) as (_, lines):
        assert not re.search("rk_", "\n".join(lines))


@pytest.mark.service
def test_the_key_of_the_environment_is_used(tmp_path: Path) -> None:
    """No key is created or shown; the environment's one is let in."""
    with served(tmp_path, ROLIN_API_KEY="0123456789abcdef") as (_, lines):
        assert "not shown again" not in "\n".join(lines)
        assert "0123456789abcdef" not in "\n".join(lines)
        headers = {"Authorization": "Bearer 0123456789abcdef"}
        url = lines[0].removeprefix("Listening on ")
        answer = httpx.get(f"{url}/v1/bandits", headers=headers, timeout=60)
        assert answer.status_code == 200
    assert not (tmp_path / "keys.json").exists()


@pytest.mark.service
def test_https(tmp_path: Path) -> None:
    """A certificate by flags: decisions over https for those who trust it, and none over plain http."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    for i, part in enumerate(issued.cert_chain_pems):
        part.write_to_path(certificate, append=i > 0)
    issued.private_key_pem.write_to_path(key)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    options = ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    with served(tmp_path / "data", *options, ROLIN_API_KEY="0123456789abcdef") as (_, lines):
        url = lines[0].removeprefix("Listening on ")
        assert url.startswith("https://127.0.0.1:")
        with httpx.Client(
            headers={"Authorization": "Bearer 0123456789abcdef"}, timeout=60, verify=trusting
        ) as http:
            made = http.post(f"{url}/v1/bandits/default/decisions", json={"arms": ["a", "b"]})
            assert made.status_code == 201, made.text
            assert made.json()["arm"] in ("a", "b")
            with pytest.raises(httpx.RemoteProtocolError):
                http.get(f"http{url.removeprefix('https')}/healthz")
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{url}/healthz", timeout=60)  # it is known to this test only


def test_a_failed_start_creates_no_key(tmp_path: Path) -> None:
    """A port in use, or a bad certificate, is one readable line; the first key is still to come."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        busy = invoked("serve", "--port", port, "--data", tmp_path)
    assert isinstance(busy.exception, DataError)
    assert f"cannot listen on 127.0.0.1, port {port}" in str(busy.exception)
    (tmp_path / "bad.pem").write_text("no certificate")
    tls = ["--tls-certificate", tmp_path / "bad.pem", "--tls-key", tmp_path / "bad.pem"]
    bad = invoked("serve", "--port", 0, "--data", tmp_path, *tls)
    assert isinstance(bad.exception, DataError)
    assert "cannot be used" in str(bad.exception)
    assert not (tmp_path / "keys.json").exists()


def test_a_mistake_in_a_file_is_one_sentence(tmp_path: Path) -> None:
    """A bandit that cannot be changed: exit code 2, as for other errors, and no traceback of Python."""
    file, command = (
        tmp_path / "bandits.toml",
        [*ROLIN, "serve", "--port", "0", "--data", str(tmp_path)],
    )
    file.write_text("[shop]\n")
    asyncio.run(_started(tmp_path))
    file.write_text('[shop]\npolicy = "LinTS"\n')
    failed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert failed.returncode == 2
    assert "Traceback" not in failed.stderr
    assert failed.stderr.splitlines()[-1] == (
        "rolin: bandit 'shop' was created with policy = 'RoLinTS', but bandits.toml has 'LinTS': it cannot be changed, so "
        "create a bandit with another name"
    )


async def _started(folder: Path) -> None:
    async with client(folder):
        pass


@pytest.mark.parametrize("below", ["", "folder"])
def test_the_data_folder_is_no_file(tmp_path: Path, below: str) -> None:
    """Neither is one above it; the message says what --data must be."""
    (tmp_path / "log.csv").write_text("")
    error = invoked("serve", "--port", 0, "--data", tmp_path / "log.csv" / below).exception
    assert isinstance(error, DataError)
    assert "there is a file in its place, expected a folder" in str(error)


def test_bad_flags_are_named(tmp_path: Path) -> None:
    """Flags are checked as all settings are."""
    assert str(invoked("serve", "--port", "x").exception).startswith("--port 'x', expected")
    (tmp_path / "c.toml").write_text("prot = 1")
    unknown = invoked("serve", "--config", tmp_path / "c.toml").exception
    assert str(unknown).endswith("c.toml is not a setting; did you mean port?")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without uvicorn, the command says what to install."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    error = invoked("serve").exception
    assert isinstance(error, MissingExtra)
    assert "python -m pip install 'rolin[service]'" in str(error)
