"""Catalogues in a PostgreSQL database: all processes serve the same one, whole, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg
import pytest

from rolin.errors import JournalError
from rolin.service.settings import Settings
from rolin.service.storage import open_storage
from support.postgres import PostgresServer
from support.service import client

pytestmark = pytest.mark.service  # it starts whole services, which takes seconds

V1 = "/v1/bandits/vectors"
N = 300
MADE = {"name": "vectors", "options": {"seed": 1}, "features": {"kind": "vectors", "n_features": 3}}


@pytest.fixture
def dsn(postgres: PostgresServer) -> str:
    """A database of its own."""
    return postgres.new_database()


def lines(edition: int = 0, n: int = N, prefix: str = "arm") -> bytes:
    """A catalogue; the second feature of all arms is the number of its edition, and a third has names of its own."""
    names = [f"only-{edition}-{i}" if i % 3 == 2 else f"{prefix}-{i}" for i in range(n)]
    rows = [{"id": name, "features": [1.0, edition, i / N]} for i, name in enumerate(names)]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


class Services(NamedTuple):
    """Three services on one database."""

    one: Any
    other: Any
    reader: Any


@asynccontextmanager
async def three(tmp_path: Path, dsn: str, **settings: Any) -> AsyncIterator[Services]:
    """Give clients of two services that write and one that does not, with a bandit that takes vectors."""
    async with (
        client(tmp_path / "1", database=dsn, **settings) as one,
        client(tmp_path / "2", database=dsn, **settings) as other,
    ):
        assert (await one.post("/v1/bandits", json=MADE)).status_code == 201
        async with client(tmp_path / "3", database=dsn, read_only=True, **settings) as reader:
            yield Services(one, other, reader)


async def stored(http: httpx.AsyncClient, content: bytes, path: str = V1) -> dict[str, Any]:
    """Store a catalogue; return its description."""
    answer = await http.put(f"{path}/catalogue", content=content)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def until_described(http: httpx.AsyncClient, expected: dict[str, Any] | None) -> None:
    """Wait until a service has a catalogue; `None` for none."""
    for _ in range(200):
        answer = await http.get(f"{V1}/catalogue")
        if (answer.json() if answer.status_code == 200 else None) == expected:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{answer.text}, expected {expected}")


def counted(dsn: str, table: str) -> int:
    """Return the number of rows of a table of the service."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(f"SELECT count(*) FROM rolin.{table}").fetchone()  # type: ignore[call-overload]
    assert row is not None
    return int(row[0])


def test_all_processes_serve_the_same_catalogue(tmp_path: Path, dsn: str) -> None:
    """Whoever stores, replaces or deletes it; a new process begins with it, and a bandit takes it along."""

    async def play() -> None:
        async with three(tmp_path, dsn) as services:
            one, other, reader = services
            expected = await stored(one, lines())
            for http in services:
                await until_described(http, expected)
            for asked in ({"candidates": ["arm-7", "arm-0", "arm-298"]}, {"candidates": 20}):
                id = f"visit {asked['candidates']}"
                answers = [
                    await http.post(f"{V1}/decisions", json={"id": id, **asked})
                    for http in (reader, one, other)
                ]
                assert [each.status_code for each in answers] == [201] * 3, answers[0].text
                preview, made, again = (each.json() for each in answers)
                assert made == again
                assert (preview["arm"], preview["probabilities"]) == (
                    made["arm"],
                    made["probabilities"],
                )
            replaced = await stored(other, lines(1, 10))
            for http in services:
                await until_described(http, replaced)
            async with client(tmp_path / "4", database=dsn) as new:
                assert (await new.get(f"{V1}/catalogue")).json() == replaced
            assert counted(dsn, "catalogue_parts") == 1
            refused = await one.post(f"{V1}/decisions", json={"candidates": ["arm-10"]})
            assert refused.status_code == 400
            assert (await one.delete(f"{V1}/catalogue")).status_code == 204
            assert (await other.delete(f"{V1}/catalogue")).status_code == 404
            for http in services:
                await until_described(http, None)
                refused = await http.post(f"{V1}/decisions", json={"candidates": ["arm-1"]})
                assert (refused.status_code, refused.json()["error"]["field"]) == (
                    400,
                    "candidates",
                )
            await stored(one, lines())
            assert (await other.delete(V1)).status_code == 204
        assert counted(dsn, "catalogue_parts") == counted(dsn, "catalogues") == 0
        assert not list(tmp_path.glob("*/*catalogue*"))

    asyncio.run(play())


def test_what_was_acknowledged_is_known_at_once(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that does not know a name, or any catalogue, looks before it refuses, long before its next look."""
    monkeypatch.setattr("rolin.service.service._FOLLOW_EVERY", 3600.0)

    async def play() -> None:
        async with three(tmp_path, dsn) as services:
            await services.other.get(V1)
            for i, number in enumerate((5, None)):
                await stored(services.one, lines(i, prefix=f"new-{i}"))
                asked = {"candidates": number or [f"new-{i}-1", f"new-{i}-3"]}
                for http in services[1:]:
                    made = await http.post(f"{V1}/decisions", json=asked)
                    assert made.status_code == 201, made.text
                    assert made.json()["arm"].startswith((f"new-{i}-", f"only-{i}-"))

    asyncio.run(play())


def test_replacing_it_fails_no_request_and_mixes_nothing(tmp_path: Path, dsn: str) -> None:
    """Under load, each decision has all its arms from one edition, and a repeated id keeps its answer."""

    async def play() -> None:
        async with three(tmp_path, dsn) as services:
            await stored(services.one, lines())
            for http in services:
                made = await http.post(f"{V1}/decisions", json={"id": "first", "candidates": 9})
                assert made.status_code == 201, made.text
            ids, ended = [], False
            first = await services.one.post(
                f"{V1}/decisions", json={"id": "first", "candidates": 9}
            )

            async def load(http: httpx.AsyncClient, k: int) -> None:
                i = 0
                while not ended:
                    i += 1
                    id = f"load-{k}-{i}"
                    names = [f"arm-{3 * ((i * j) % 97)}" for j in range(1, 5)]
                    asked = {"id": id, "candidates": [*dict.fromkeys(names)] if i % 2 else 7}
                    made = await http.post(f"{V1}/decisions", json=asked)
                    assert made.status_code == 201, made.text
                    if made.json()["recorded"]:
                        ids.append(id)

            tasks = [asyncio.create_task(load(http, k)) for k, http in enumerate(services * 2)]
            for edition in range(1, 9):
                await stored(services[edition % 2], lines(edition))
                await asyncio.sleep(0.3)
            ended = True
            await asyncio.gather(*tasks)
            engine = await services.one.service.bandits.get("vectors")
            found = await engine.find(ids)
            editions = [set(found[id].offered_contexts[:, 1]) for id in ids]
            assert {len(each) for each in editions} == {1}
            assert len(set.union(*editions)) > 4
            for http in services[:2]:
                again = await http.post(f"{V1}/decisions", json={"id": "first", "candidates": 9})
                assert (again.status_code, again.json()) == (201, first.json())

    asyncio.run(play())


KILLED = """
import os, signal, sys
from pathlib import Path
from rolin.service.catalogue import StoredCatalogue
from rolin.service.settings import Settings
from rolin.service.storage import open_storage

class Dying:
    def __init__(self, file):
        self.file, self.left = file, 2
    def seek(self, place):
        self.file.seek(place)
    def read(self, size):
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.file.read(size)

storage = open_storage(Settings(database=sys.argv[1], data=Path(sys.argv[2])), 5.0)
with open(sys.argv[3], "rb") as file:
    found = StoredCatalogue(file)
    storage.catalogue("vectors", storage.read("vectors").version).put(Dying(file), found)
"""


def test_a_process_that_is_killed_leaves_the_old_catalogue(tmp_path: Path, dsn: str) -> None:
    """`kill -9` in the middle of the transaction, after two of more than four parts."""

    async def play() -> None:
        async with three(tmp_path, dsn) as services:
            expected = await stored(services.one, lines())
            file = tmp_path / "large.ndjson"
            file.write_bytes(lines(7, 100_000))
            assert file.stat().st_size > 4 << 20
            command = [sys.executable, "-c", KILLED, dsn, str(tmp_path), str(file)]
            ended = await asyncio.to_thread(subprocess.run, command)
            assert ended.returncode == -signal.SIGKILL
            for http in services:
                await until_described(http, expected)
            assert counted(dsn, "catalogue_parts") == 1
            # Its transaction holds up nobody.
            replaced = await stored(services.other, lines(8))
            for http in services:
                await until_described(http, replaced)

    asyncio.run(play())


def test_a_damaged_catalogue_is_reported(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Processes that know another one go on with it; a new process does not open the bandit until it is stored again."""
    monkeypatch.setattr("rolin.service.served_catalogue._AGAIN", 0.1)

    async def play() -> None:
        async with client(tmp_path / "1", database=dsn) as one:
            assert (await one.post("/v1/bandits", json=MADE)).status_code == 201
            expected = await stored(one, lines())
            with psycopg.connect(dsn) as connection:
                connection.execute("UPDATE rolin.catalogue_parts SET content = 'x', number = 1000")
                connection.execute("UPDATE rolin.catalogues SET number = 1000")
            for _ in range(100):
                if "the catalogue in the database is damaged" in caplog.text:
                    break
                await asyncio.sleep(0.05)
            assert (
                "bandit vectors: its catalogue: the catalogue in the database is damaged"
                in caplog.text
            )
            await until_described(one, expected)
            made = await one.post(f"{V1}/decisions", json={"candidates": ["arm-1"]})
            assert made.status_code == 201
            async with client(tmp_path / "2", database=dsn) as new:
                refused = await new.get(f"{V1}/catalogue")
                assert refused.status_code == 503
                assert (
                    "damaged: delete the rows with this number"
                    in refused.json()["error"]["message"]
                )
                again = await stored(one, lines())
                await until_described(new, again)

    asyncio.run(play())


def test_a_catalogue_of_a_bandit_that_was_deleted_meanwhile(tmp_path: Path, dsn: str) -> None:
    """It does not become that of a new bandit with the same name, which may have other features."""

    async def play() -> None:
        async with client(tmp_path, database=dsn) as http:
            assert (await http.post("/v1/bandits", json=MADE)).status_code == 201
            engine = await http.service.bandits.get("vectors")  # type: ignore[attr-defined]
            assert (await http.delete(V1)).status_code == 204
            assert (await http.post("/v1/bandits", json=MADE)).status_code == 201

            async def parts() -> AsyncIterator[bytes]:
                yield lines()

            with pytest.raises(Exception, match="the bandit was deleted meanwhile"):
                await engine.store_catalogue(parts())
            assert (await http.get(f"{V1}/catalogue")).status_code == 404
        assert counted(dsn, "catalogue_parts") == 0

    asyncio.run(play())


def test_tables_of_an_earlier_version(tmp_path: Path, dsn: str) -> None:
    """A service that writes adds those of catalogues; a read-only one says who does."""
    settings = Settings(database=dsn, data=tmp_path)
    open_storage(settings, 5.0).close()
    with psycopg.connect(dsn) as connection:
        connection.execute("DROP TABLE rolin.catalogues, rolin.catalogue_parts")
        connection.execute("DROP SEQUENCE rolin.catalogue_numbers")
    with pytest.raises(
        JournalError, match="has tables of an earlier version of rolin, and a read-only"
    ):
        open_storage(Settings(database=dsn, data=tmp_path, read_only=True), 5.0)
    open_storage(settings, 5.0).close()
    open_storage(Settings(database=dsn, data=tmp_path, read_only=True), 5.0).close()
    assert counted(dsn, "catalogues") == 0


def test_a_read_only_service_on_an_empty_database(
    tmp_path: Path, dsn: str, run_rolin: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It says that there are no tables, or no bandits, and what to do."""
    flags = ("serve", "--port", "0", "--data", tmp_path, "--database", dsn, "--read-only")
    ended = run_rolin(*flags)
    assert ended.returncode == 2
    message = " ".join(ended.stderr.split())
    assert "has no tables of a rolin service, and a read-only service creates none" in message
    assert "check the address, or start a service on it that is not read-only" in message
    open_storage(Settings(database=dsn, data=tmp_path), 5.0).close()

    async def play() -> None:
        async with client(tmp_path, database=dsn, read_only=True) as http:
            assert (await http.get("/v1/bandits")).json() == {"bandits": []}

    asyncio.run(play())
    assert "has no bandits, and a read-only service creates none: check the address" in caplog.text
