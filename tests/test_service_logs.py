"""What the service logs: one record per request, in one format, and never a key or a feature."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rolin.service.logs import JsonFormatter, TextFormatter
from support.server import V1, connected, served
from support.service import KEY, client

SECRET = "a-feature-that-nobody-may-see"
QUESTION = {"id": "visit\n1", "situation": {"x": SECRET}, "arms": ["a", {"id": "b", "features": {SECRET: 1}}]}  # fmt: skip


@contextmanager
def logged(formatter: logging.Formatter) -> Iterator[io.StringIO]:
    """Give what is logged in a format, at the lowest level."""
    text, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(text), root.level
    handler.setFormatter(formatter)
    handler.addFilter(lambda record: record.name != "httpx")  # the client, not the service
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield text
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def visit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask, fail, ask for nothing, and let the service fail."""

    def fail(*_: Any) -> str:
        raise RuntimeError("it is broken")

    async def ask() -> None:
        async with client(folder, access_log=True) as http:
            assert (await http.post(f"{V1}/decisions", json=QUESTION)).status_code == 201
            await http.post(f"{V1}/decisions/visit-2/reward", json={"value": SECRET})
            wrong = {**QUESTION, "arms": [{"id": "b", "features": SECRET}]}
            assert (await http.post(f"{V1}/decisions", json=wrong)).status_code == 400
            assert (await http.get("/nothing", params={"key": SECRET})).status_code == 404
            assert (await http.get("/v1/bandits", headers={"Authorization": "Bearer x"})).is_error
            await http.get("/docs")
            monkeypatch.setattr(http.service, "metrics_text", fail)  # type: ignore[attr-defined]
            assert (await http.get("/metrics")).status_code == 500

    asyncio.run(ask())


def test_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line is an object; a request is one record, and an error has its traceback in one field."""
    with logged(JsonFormatter()) as text:
        visit(tmp_path, monkeypatch)
    lines = [json.loads(line) for line in text.getvalue().splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    assert all(line["time"].endswith("Z") for line in lines)
    requests = [line for line in lines if line["logger"] == "rolin.access"]
    assert [(r["method"], r["route"], r["status"]) for r in requests] == [
        ("POST", "/v1/bandits/{name}/decisions", 201),
        ("POST", "/v1/bandits/{name}/decisions/{id:id}/reward", 400),
        ("POST", "/v1/bandits/{name}/decisions", 400),
        ("GET", "other", 404),
        ("GET", "/v1/bandits", 401),
        ("GET", "/docs", 200),
        ("GET", "/metrics", 500),
    ]
    first, second, *_ = requests
    assert (first["bandit"], first["decision"]) == ("default", "visit\n1")
    assert second["decision"] == "visit-2"
    assert 0 < first["seconds"] < 60
    (error,) = [line for line in lines if line["level"] == "error"]
    assert "RuntimeError: it is broken" in error["traceback"]
    assert (error["message"], error["status"]) == ("GET /metrics failed", 500)
    assert SECRET not in text.getvalue()
    assert KEY not in text.getvalue()


def test_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in lines; an id with a line break does not make another one."""
    with logged(TextFormatter()) as text:
        visit(tmp_path, monkeypatch)
    lines = text.getvalue().splitlines()
    (first, *_) = [line for line in lines if "rolin.access" in line]
    assert first.startswith(
        'INFO: rolin.access: answered method="POST" route="/v1/bandits/{name}/decisions" status=201'
    )
    assert first.endswith('bandit="default" decision="visit\\n1"')
    assert "RuntimeError: it is broken" in lines
    assert SECRET not in text.getvalue()
    assert KEY not in text.getvalue()


@pytest.mark.service
def test_warnings_of_an_evaluation_are_in_its_answer(tmp_path: Path) -> None:
    """And not in the log, with lines of the source."""

    async def ask(port: int) -> Any:
        async with connected(port) as connection:
            for i in range(4):
                question = {"id": str(i), "arms": ["a", "b"]}
                await connection.call("POST", f"{V1}/decisions", question)
                await connection.call("POST", f"{V1}/decisions/{i}/reward", {"value": i % 2})
            found = await connection.call("POST", f"{V1}/evaluations", {"policy": "Uniform"})
            assert found.status == 200
            return found.json()

    with served(tmp_path) as server:
        answer = asyncio.run(ask(server.port))
        _, log = server.stop()
    assert answer["notes"]
    assert "Warning" not in log


@pytest.mark.service
@pytest.mark.parametrize("access", [True, False])
def test_a_real_service_logs_json_only(tmp_path: Path, access: bool) -> None:
    """Lines of the server itself have the same format; without `access_log`, requests are not logged."""

    async def ask(port: int) -> None:
        async with connected(port) as connection:
            assert (await connection.call("POST", f"{V1}/decisions", QUESTION)).status == 201

    options = ["--log-format", "json", "--log-level", "debug"]
    with served(tmp_path, *options, *(["--access-log"] if access else [])) as server:
        asyncio.run(ask(server.port))
        code, log = server.stop()
    assert code == 0
    records = [json.loads(line) for line in log.splitlines()]
    assert "uvicorn.error" in {record["logger"] for record in records}
    requests = [r for r in records if r["logger"] == "rolin.access"]
    assert len(requests) == int(access)
    assert SECRET not in log
    assert KEY not in log
