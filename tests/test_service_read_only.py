"""A read-only service follows a PostgreSQL database, answers decisions, and writes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from rolin.errors import ParameterError
from rolin.service.routes import ENDPOINTS
from rolin.service.settings import Settings
from support.postgres import PostgresServer
from support.service import client

V1 = "/v1/bandits/fixed"
FIXED = {"name": "fixed", "options": {"arm_std": 1.0, "noise_std": 1.0, "coef_std": 1.0}}
ARMS = [{"id": "a", "features": {"x": 1.0}}, {"id": "b", "features": {"x": 2.0}}]


def test_it_needs_a_database() -> None:
    """There is nothing to follow in a folder."""
    with pytest.raises(ParameterError, match="read_only=True without a database"):
        Settings(read_only=True)


async def settled_version(http: httpx.AsyncClient) -> int:
    """Return the version of a service that learns in the background, when it has not changed for a second."""
    found = -1
    while found != (found := (await http.get(V1)).json()["version"]):
        await asyncio.sleep(1.0)
    return int(found)


async def until_version(http: httpx.AsyncClient, version: int) -> None:
    """Wait until a service knows as many events; fail after ten seconds."""
    for _ in range(200):
        found = (await http.get(V1)).json()["version"]
        if found == version:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"it has version {found}, expected {version}")


def tables(dsn: str) -> dict[str, list[Any]]:
    """Return all rows of the tables of the default bandit and of the service."""
    with psycopg.connect(dsn) as connection:
        names = connection.execute(
            "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname LIKE 'rolin%' ORDER BY 1"
        ).fetchall()
        return {
            name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()
            for (name,) in names
        }


@pytest.mark.service
def test_it_follows_and_writes_nothing(tmp_path: Path, postgres: PostgresServer) -> None:
    """It decides as the writer would, learns what the writer learns, and refuses everything that writes."""
    dsn = postgres.new_database()

    async def play() -> None:
        async with (
            client(tmp_path / "1", database=dsn) as writer,
            client(tmp_path / "2", database=dsn, read_only=True) as reader,
        ):
            assert (await writer.post("/v1/bandits", json=FIXED)).status_code == 201
            for i in range(20):
                made = await writer.post(f"{V1}/decisions", json={"id": f"{i}", "arms": ARMS})
                told = {"value": float(made.json()["arm"] == "b")}
                assert (await writer.post(f"{V1}/decisions/{i}/reward", json=told)).is_success
            await until_version(reader, await settled_version(writer))
            before = tables(dsn)
            asked = {"id": "next", "arms": ARMS, "top_k": 2}
            shown = await reader.post(f"{V1}/decisions", json=asked)
            assert shown.status_code == 201, shown.text
            preview = shown.json()
            assert preview.pop("recorded") is False
            assert preview.pop("id").startswith("unrecorded-")
            batch = {"decisions": [asked, {"arms": []}]}
            results = (await reader.post(f"{V1}/decisions/batch", json=batch)).json()["results"]
            assert [each["status"] for each in results] == [201, 400]
            assert results[0]["recorded"] is False
            for each in ENDPOINTS:
                path = each.path.replace("{name}", "fixed").replace("{id:id}", "0")
                path = path.replace("{arm:id}", "a")
                if each.scope in ("reward", "admin") or path.endswith("/activate"):
                    refused = await reader.request(each.method, path, json={})
                    assert refused.status_code == 403, (each.method, path, refused.text)
                    assert "read-only" in refused.json()["error"]["message"]
            assert (await reader.get(f"{V1}/decisions/3")).json()["recorded"] is True
            assert (await reader.get(f"{V1}/summary")).status_code == 200
            metrics = (await reader.get("/metrics")).text
            assert 'rolin_unfolded_events{bandit="fixed"} 0' in metrics
            stale = next(
                float(line.split()[1])
                for line in metrics.splitlines()
                if line.startswith("rolin_stale_seconds ")
            )
            assert 0.0 <= stale < 10.0
            assert 'rolin_journal_bytes{bandit="fixed"}' in metrics
            assert 'rolin_commits_flushed{bandit="fixed"}' in metrics
            assert tables(dsn) == before
            recorded = (await writer.post(f"{V1}/decisions", json=asked)).json()
            assert recorded.pop("recorded") is True
            assert recorded.pop("id") == "next"
            assert recorded == preview
            # A bandit that another process creates is followed, too.
            assert (await writer.post("/v1/bandits", json={"name": "new"})).status_code == 201
            made = await reader.post("/v1/bandits/new/decisions", json={"arms": ["x", "y"]})
            assert (made.status_code, made.json()["recorded"]) == (201, False)

    asyncio.run(play())


@pytest.mark.service
def test_it_says_when_it_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the database it still decides; it is not ready any more when it has seen nothing for too long."""
    from support.postgres import postgres_server

    monkeypatch.setattr("rolin.service.service._MOST_STALE", 1.0)

    async def play(server: PostgresServer) -> None:
        dsn = server.new_database()
        async with client(tmp_path / "1", database=dsn) as http:
            assert (await http.post("/v1/bandits", json=FIXED)).status_code == 201
        async with client(
            tmp_path / "2", database=dsn, read_only=True, request_timeout=2.0
        ) as http:
            assert (await http.get("/readyz")).status_code == 200
            server.stop("immediate")
            await asyncio.sleep(1.5)
            unready = await http.get("/readyz")
            assert unready.status_code == 503
            assert "has not seen the database for" in unready.json()["error"]["message"]
            made = await http.post(f"{V1}/decisions", json={"arms": ARMS})
            assert (made.status_code, made.json()["recorded"]) == (201, False)
            server.start()
            for _ in range(200):
                if (await http.get("/readyz")).status_code == 200:
                    return
                await asyncio.sleep(0.05)
            raise AssertionError("it did not become ready again")

    with postgres_server() as server:
        asyncio.run(play(server))
