"""The commands `rolin serve` and `rolin keys`."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from rolin.cli.app import app
from rolin.errors import DataError, MissingExtra, ParameterError
from rolin.service.keys import Keys

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
