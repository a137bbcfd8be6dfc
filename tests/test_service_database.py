"""Several services on one PostgreSQL database agree on bandits, their documents, and keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import httpx
import psycopg
import pytest

from rolin.errors import ParameterError
from rolin.journal.folding import state_bytes
from rolin.journal.postgres_database import PostgresDatabase
from rolin.service.database_keys import DatabaseKeys
from rolin.service.settings import Settings
from support.postgres import PostgresServer
from support.service import client

pytestmark = pytest.mark.service  # it starts whole services, which takes seconds

ARMS = [{"id": "a", "features": {"x": 1.0}}, {"id": "b", "features": {"x": 2.0}}]
V1 = "/v1/bandits"


@pytest.fixture
def dsn(postgres: PostgresServer) -> str:
    """A database of its own."""
    return postgres.new_database()


@asynccontextmanager
async def two(tmp_path: Path, dsn: str) -> AsyncIterator[tuple[Any, Any]]:
    """Give clients of two services on one database, each with a folder of its own."""
    async with (
        client(tmp_path / "1", database=dsn) as one,
        client(tmp_path / "2", database=dsn) as other,
    ):
        yield one, other


async def soon(http: httpx.AsyncClient, path: str, expected: Any, *members: str) -> None:
    """Wait until an answer has the expected value; fail after ten seconds."""
    for _ in range(200):
        found: Any = (await http.get(path)).json()
        for member in members:
            found = found.get(member)
        if found == expected:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{found!r}, expected {expected!r}")


def test_services_agree(tmp_path: Path, dsn: str) -> None:
    """Each sees the bandits, arms, rules, settings, decisions and rewards of the other."""

    async def play() -> None:
        async with two(tmp_path, dsn) as (one, other):
            for http in (one, other):
                assert (await http.get(V1)).json() == {"bandits": ["default"]}
            made = await one.post(V1, json={"name": "shop", "features": {"kind": "hashed"}})
            assert made.status_code == 201
            again = await other.post(V1, json={"name": "shop"})
            assert again.status_code == 409
            # At once: the names of bandits are looked up.
            asked = {"id": "x", "arms": ARMS}
            first = await one.post(f"{V1}/shop/decisions", json=asked)
            second = await other.post(f"{V1}/shop/decisions", json=asked)
            assert first.status_code == second.status_code == 201
            assert first.json() == second.json()
            told = await other.post(f"{V1}/shop/decisions/x/reward", json={"value": 1.0})
            assert told.status_code == 204
            await one.put(f"{V1}/shop/arms", json={"arms": ARMS})
            await one.patch(f"{V1}/shop", json={"rewards": {"window": 60.0}})
            await other.patch(f"{V1}/shop", json={"rewards": {"default": 0.5}})
            await other.patch(f"{V1}/shop", json={"settings": {"mode": "apprentice"}})
            rules = {"rule": "first", "window": 60.0, "default": 0.5}
            for http in (one, other):
                await soon(http, V1, ["default", "shop"], "bandits")
                await soon(http, f"{V1}/shop", rules, "config", "rewards")
                await soon(http, f"{V1}/shop", "apprentice", "settings", "mode")
                await soon(http, f"{V1}/shop/arms", ARMS, "arms")
                baseline = await http.post(f"{V1}/shop/decisions", json={"baseline": "b"})
                assert baseline.json()["arm"] == "b"
            engines = [await http.service.bandits.get("shop") for http in (one, other)]
            bandits = [engine.bandit.bandit for engine in engines]
            assert bandits[0].refresh() == bandits[1].refresh()
            assert state_bytes(bandits[0].policy) == state_bytes(bandits[1].policy)
        assert not (tmp_path / "1" / "bandits").exists()

    asyncio.run(play())


def test_a_bandit_that_is_deleted_and_created_again(tmp_path: Path, dsn: str) -> None:
    """The other service forgets the first one."""

    async def play() -> None:
        async with two(tmp_path, dsn) as (one, other):
            asked = {"id": "x", "arms": ARMS}
            for http in (one, other):
                assert (await http.post(f"{V1}/default/decisions", json=asked)).status_code == 201
            assert (await one.delete(f"{V1}/default")).status_code == 204
            refused = await other.post(f"{V1}/default/decisions", json={**asked, "id": "y"})
            assert refused.status_code in (404, 503)
            await soon(other, V1, [], "bandits")
            assert (await one.post(V1, json={"name": "default"})).status_code == 201
            for _ in range(200):
                made = await other.post(f"{V1}/default/decisions", json={**asked, "id": "new"})
                if made.status_code == 201:
                    break
                await asyncio.sleep(0.05)
            assert made.json()["version"] in (0, 1)
            assert (await other.get(f"{V1}/default/decisions/x")).status_code == 404

    asyncio.run(play())


def test_a_service_starts_where_another_one_ended(tmp_path: Path, dsn: str) -> None:
    """With nothing in its own folder."""

    async def visit(folder: str) -> dict[str, Any]:
        async with client(tmp_path / folder, database=dsn) as http:
            made = await http.post(f"{V1}/default/decisions", json={"id": "x", "arms": ARMS})
            found: dict[str, Any] = made.json()
            return found

    assert asyncio.run(visit("1")) == asyncio.run(visit("2"))


def test_keys_are_shared(dsn: str) -> None:
    """One that is created or revoked elsewhere counts after the next look."""
    one, other = DatabaseKeys(dsn), DatabaseKeys(dsn)
    text = one.create_first()
    assert text is not None
    assert other.create_first() is None
    assert other.find(text) == one.list()[0]
    made, key = other.create("shop", ["decide"])
    assert one.find(made) is None
    one.look()
    assert one.find(made) == key
    one.revoke(key.id)
    other.look()
    assert other.find(made) is None
    one.close()
    other.look()
    assert other.find(text) is not None
    one.look()  # which fails, and changes nothing
    assert one.find(text) is not None
    other.close()


def test_keys_on_the_command_line(dsn: str, run_rolin: Any) -> None:
    """The commands take the database of the service."""
    ended: CompletedProcess[str] = run_rolin("keys", "create", "shop", "--database", dsn)
    assert ended.returncode == 0, ended.stderr
    keys = DatabaseKeys(dsn)
    key = keys.find(ended.stdout.strip())
    assert key is not None
    keys.close()
    assert key.id in run_rolin("keys", "list", "--database", dsn).stdout
    assert run_rolin("keys", "revoke", key.id, "--database", dsn).returncode == 0
    assert key.id not in run_rolin("keys", "list", "--database", dsn).stdout


def test_callers_do_not_see_the_address(
    tmp_path: Path, dsn: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a message of the settings show the password."""

    def lost(*_: Any) -> None:
        raise psycopg.OperationalError(f'connection to socket "{postgres.folder}" failed (gone)')

    async def play() -> None:
        async with client(tmp_path, database=dsn, request_timeout=2.0) as http:
            await http.service.bandits.get("default")  # type: ignore[attr-defined]
            monkeypatch.setattr(PostgresDatabase, "_patiently", lost)
            made = await http.post(f"{V1}/default/decisions", json={"arms": ARMS})
            assert made.status_code == 503
            ready = await http.get("/readyz")
            monkeypatch.undo()
            for answer in (made, ready):
                assert "the database: cannot connect" in answer.text
                assert str(postgres.folder) not in answer.text

    asyncio.run(play())
    with pytest.raises(ParameterError, match=r"database=\*\*\*, expected an address that begins"):
        Settings(database="mysql://me:secret@db/x")
    assert "secret" not in repr(Settings(database="postgresql://me:secret@db/x"))


def test_a_database_that_cannot_be_reached(tmp_path: Path, run_rolin: Any) -> None:
    """The service does not start, and says why, without the password."""
    dsn = "postgresql://me:secret@127.0.0.1:1/x"
    ended = run_rolin("serve", "--port", "0", "--data", tmp_path, "--database", dsn)
    assert ended.returncode == 2
    assert "database 'x' at 127.0.0.1:1: " in ended.stderr.replace("\n", " ")
    assert "secret" not in ended.stderr
