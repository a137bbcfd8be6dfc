"""nginx with one of our configurations, for tests."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from support.service import HEADERS

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
MAIN = """
{user}daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    log_format upstreams '$status|$upstream_addr|$upstream_status|$request';
    access_log {folder}/access.log upstreams;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""
IS_AVAILABLE = shutil.which("nginx") is not None and shutil.which("openssl") is not None
"""Whether tests can start nginx with TLS."""


@contextmanager
def proxied(
    folder: Path, site: str, changes: Sequence[tuple[str, str]], certificate: str, key: str
) -> Iterator[httpx.Client]:
    """Give a client of nginx with a site of `deploy`.

    Parameters
    ----------
    folder
        A new folder for its files; `access.log` has one line per request, with the processes that were asked.
    site
        Name of the configuration in `deploy`.
    changes
        Texts to replace in it, which must be there.
    certificate, key
        Files that it names; they become new ones in `folder`.
    """
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    made = ["-newkey", "rsa:2048", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    name = ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]  # fmt: skip
    subprocess.run(["openssl", "req", "-x509", *made, *name], check=True, capture_output=True)
    text = (DEPLOY / site).read_text()
    for old, new in [
        ("listen 443 ssl", f"listen 127.0.0.1:{own} ssl"),
        (f"ssl_certificate {certificate};", f"ssl_certificate {folder}/cert.pem;"),
        (f"ssl_certificate_key {key};", f"ssl_certificate_key {folder}/key.pem;"),
        *changes,
    ]:
        assert old in text
        text = text.replace(old, new)
    # Its workers would be another user, who cannot write to the folder.
    user = "user root;\n" if os.getuid() == 0 else ""
    (folder / "site.conf").write_text(text)
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


STRANGE = ["a/b", "a%2Fb", "with space", "grün/日本", "..", "x?y#z", "a//b", "50%"]
"""Ids of decisions that a proxy could change."""


def quoted(id: str) -> str:
    """Return an id as clients send it in a path."""
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"%{b:02X}" for b in id.encode())
