"""The example configuration of nginx, in front of a real service."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.server import V1, question, served
from support.service import HEADERS

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]

SITE = Path(__file__).parent.parent / "deploy" / "nginx.conf"
MAIN = """
{user}daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""
STRANGE = ["a/b", "a%2Fb", "with space", "grün/日本", "..", "x?y#z", "a//b", "50%"]
"""Ids of decisions that a proxy could change."""


@contextmanager
def proxied(folder: Path, port: int) -> Iterator[httpx.Client]:
    """Give a client of nginx in front of a service."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    key = ["-newkey", "rsa:2048", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    name = ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]  # fmt: skip
    subprocess.run(["openssl", "req", "-x509", *key, *name], check=True, capture_output=True)
    site = SITE.read_text()
    for old, new in [
        ("listen 443 ssl", f"listen 127.0.0.1:{own} ssl"),
        ("127.0.0.1:8000", f"127.0.0.1:{port}"),
        ("/etc/ssl/certs/decisions.example.com.pem", f"{folder}/cert.pem"),
        ("/etc/ssl/private/decisions.example.com.key", f"{folder}/key.pem"),
    ]:
        assert old in site
        site = site.replace(old, new)
    # Its workers would be another user, who cannot write to the folder.
    user = "user root;\n" if os.getuid() == 0 else ""
    (folder / "site.conf").write_text(site)
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, user=user))
    command = ["nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder)]
    trusted = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            give_up = time.monotonic() + 10.0
            while True:
                try:
                    socket.create_connection(("127.0.0.1", own), timeout=1.0).close()
                    break
                except OSError:
                    assert process.poll() is None, process.communicate()[1]
                    assert time.monotonic() < give_up
                    time.sleep(0.05)
            url = f"https://localhost:{own}"
            with httpx.Client(base_url=url, headers=HEADERS, verify=trusted, timeout=60) as client:
                yield client
        finally:
            process.terminate()


def quoted(id: str) -> str:
    """Return an id as clients send it in a path."""
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"%{b:02X}" for b in id.encode())


def test_requests_through_nginx(tmp_path: Path) -> None:
    """Ids arrive as they were sent, large bodies and exports pass, and limits are those of the service."""
    folder = tmp_path / "nginx"
    folder.mkdir()
    with served(tmp_path / "data") as server, proxied(folder, server.port) as http:
        assert http.get("/readyz").status_code == 200
        for id in STRANGE:
            made = http.post(f"{V1}/decisions", json=question(id))
            assert made.status_code == 201, (id, made.text)
            assert made.json()["id"] == id
            path = f"{V1}/decisions/{quoted(id)}"
            assert http.get(path).json() == made.json(), id
            assert http.post(f"{path}/reward", json={"value": 1}).status_code == 204, id
        large = {"arms": [f"arm-{k}-{'x' * 400}" for k in range(9000)]}  # 3.7 MB
        assert http.post(f"{V1}/decisions", json=large).status_code == 201
        assert http.post(f"{V1}/decisions", content=b" " * (9 << 20)).status_code == 413
        batch = {"decisions": [question(f"many-{i}") for i in range(1000)]}
        answers = http.post(f"{V1}/decisions/batch", content=json.dumps(batch)).json()["results"]
        assert {answer["status"] for answer in answers} == {201}
        with http.stream("GET", f"{V1}/log") as export:
            assert export.headers["transfer-encoding"] == "chunked"
            text = b"".join(export.iter_bytes()).decode()
        assert text.count("many-") >= 1000
        assert 'rolin_events{bandit="default"}' in http.get("/metrics").text
        assert http.get("/v1/bandits", headers={"Authorization": "Bearer x"}).status_code == 401
        for _ in range(50):  # over connections that are kept
            assert http.get("/healthz").status_code == 200
        (line,) = (folder / "error.log").read_text().splitlines()
        assert "client intended to send too large body" in line
