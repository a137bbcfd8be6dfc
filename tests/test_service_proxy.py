"""The example configuration of nginx, in front of a real service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.nginx import IS_AVAILABLE, STRANGE, proxied, quoted
from support.server import V1, question, served

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(not IS_AVAILABLE, reason="needs nginx and openssl"),
]
CERTIFICATE = "/etc/ssl/certs/decisions.example.com.pem"
KEY = "/etc/ssl/private/decisions.example.com.key"


def test_requests_through_nginx(tmp_path: Path) -> None:
    """Ids arrive as they were sent, large bodies and exports pass, and limits are those of the service."""
    folder = tmp_path / "nginx"
    with (
        served(tmp_path / "data") as server,
        proxied(
            folder,
            "nginx.conf",
            [("127.0.0.1:8000", f"127.0.0.1:{server.port}")],
            CERTIFICATE,
            KEY,
        ) as http,
    ):
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
