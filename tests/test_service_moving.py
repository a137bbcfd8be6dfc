"""`rolin move`: a service goes on in a database as it was in its folder, or nothing is moved."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from rolin import Bandit, RoLinTS
from rolin.cli.app import app
from rolin.errors import DataError, JournalError, RolinError
from rolin.journal import PostgresJournal, SQLiteJournal, check_journal
from rolin.journal.copying import copy_to_sqlite
from rolin.journal.folding import load_with_snapshot, state_bytes
from rolin.service.backup import backup
from rolin.service.keys import Keys
from rolin.service.moving import move_to_database, move_to_folder
from support.journals import forged, same
from support.postgres import PostgresServer
from support.server import V1, question
from support.service import client

pytestmark = pytest.mark.service  # most of them start whole services, which takes seconds
OTHER = "/v1/bandits/other"
DATA = Path(__file__).parent / "data"


@pytest.fixture
def dsn(postgres: PostgresServer) -> str:
    """An empty database."""
    return postgres.new_database()


async def filled(data: Path) -> None:
    """Make a data folder with two bandits: learned, waiting, early and erased decisions, arms, and settings."""
    async with client(data) as http:
        new = {"name": "other", "rewards": {"window": 3600.0}, "settings": {"control_share": 0.2}}
        assert (await http.post("/v1/bandits", json=new)).status_code == 201
        assert (await http.put(f"{V1}/arms", json={"arms": ["a", "b"]})).status_code == 204
        lines = b"".join(b'{"id":"arm-%d","features":{"price":%d}}\n' % (i, i) for i in range(3000))
        assert (await http.put(f"{OTHER}/catalogue", content=lines)).status_code == 200
        for path in (V1, OTHER):
            for i in range(20):
                await http.post(f"{path}/decisions", json={**question(f"v-{i}"), "person": f"p{i}"})
                if i % 3:
                    await http.post(f"{path}/decisions/v-{i}/reward", json={"value": i % 2})
            await http.post(f"{path}/decisions/early/reward", json={"value": 0.5})
            await http.post(f"{path}/snapshots")
        erased = await http.post(f"{OTHER}/erasures", json={"person": "p4"})
        assert erased.json()["decisions"] == 1, erased.text
        await http.post(f"{OTHER}/decisions", json=question("late"))


async def answered(http: Any) -> list[Any]:
    """Return what a service says of its bandits."""
    found = [(await http.get("/v1/bandits")).json()]
    for path in (V1, OTHER):
        found.append((await http.get(path)).json())
        found += [(await http.get(f"{path}/decisions/v-{i}")).json() for i in range(20)]
    found.append((await http.get(f"{OTHER}/catalogue")).json()["sha256"])
    assert (await http.get(f"{V1}/catalogue")).status_code == 404
    return [*found, (await http.get(f"{V1}/arms")).json()]


def contents(journal: Any) -> list[Any]:
    """Return all rows of a journal, but the header of its kind."""
    query = journal._query
    return [
        journal.header(),
        *([tuple(row) for row in query(f"SELECT * FROM {table} ORDER BY 1, 2")] for table in ("events", "waiting", "states")),
    ]  # fmt: skip


def test_there_and_back(tmp_path: Path, dsn: str) -> None:
    """Rows, states, answers and keys are the same; the service goes on in the database, and again in a folder."""
    data, again = tmp_path / "data", tmp_path / "again"
    asyncio.run(filled(data))
    key, _ = Keys(data).create("shop", ["decide"])

    async def play() -> None:
        async with client(data) as http:
            before = await answered(http)
        counted: list[int] = []
        moved = await asyncio.to_thread(move_to_database, data, dsn, progress=counted.append)
        assert list(moved.bandits) == ["default", "other"]
        assert moved.keys == 1
        assert sum(counted) == 2 * sum(each.events for each in moved.bandits.values())
        for name in moved.bandits:
            with (
                SQLiteJournal(data / "bandits" / name / "journal.db") as one,
                PostgresJournal(dsn, name) as two,
            ):
                assert contents(one) == contents(two)
                states = [load_with_snapshot(each) for each in (one, two)]
                assert state_bytes(states[0].policy) == state_bytes(states[1].policy)
                assert check_journal(two).is_whole
        async with client(tmp_path / "folder", database=dsn) as http:
            assert await answered(http) == before
            assert http.service.keys.find(key).name == "shop"
            # What waited gets its reward, and what came early its decision.
            asked = {"id": "named", "candidates": ["arm-7", "arm-2999"], "situation": {}}
            made = await http.post(f"{OTHER}/decisions", json=asked)
            assert made.json()["arm"] in asked["candidates"], made.text
            told = await http.post(f"{V1}/decisions/v-0/reward", json={"value": 1.0})
            assert told.status_code == 204
            await http.post(f"{V1}/decisions", json=question("early"))
            with pytest.raises(DataError, match=r"in use by .* other connections of rolin: stop"):
                await asyncio.to_thread(move_to_folder, dsn, again)
            before = await answered(http)
        with pytest.raises(DataError, match=r"were moved to database .*: start the service with"):
            async with client(data):
                pass
        with pytest.raises(DataError, match=r"were moved to database .* and back it up with pg_d"):
            backup(data, tmp_path / "backup")
        moved = await asyncio.to_thread(move_to_folder, dsn, again)
        assert sorted(path.name for path in again.iterdir()) == [
            "bandits", "keys.json", "service.lock", "version.json"
        ]  # fmt: skip
        for name in moved.bandits:
            with (
                SQLiteJournal(again / "bandits" / name / "journal.db") as one,
                PostgresJournal(dsn, name) as two,
            ):
                assert contents(one) == contents(two)
                assert check_journal(one).is_whole
        async with client(again) as http:
            assert await answered(http) == before
            assert http.service.keys.find(key).name == "shop"
        with pytest.raises(DataError, match=r"again has bandits already, expected a folder with"):
            await asyncio.to_thread(move_to_folder, dsn, again)

    asyncio.run(play())


def test_the_command(tmp_path: Path, dsn: str) -> None:
    """It prints what it moved, and one line if it cannot."""
    data = tmp_path / "data"
    asyncio.run(filled(data))
    done = CliRunner().invoke(app, ["move", "--data", str(data), "--database", dsn])
    assert done.exit_code == 0, done.output
    lines = [line for line in done.output.splitlines() if "moving" not in line]
    with SQLiteJournal(data / "bandits/default/journal.db") as journal:
        header = journal.header()
        assert header is not None
    assert lines[0].startswith(f"default  {header.last} events, 8 waiting, ")
    assert lines[1].startswith("other  ")
    assert "Moved 2 bandits and 0 keys from" in lines[2]
    assert lines[2].endswith("; the states are the same, to the bit")
    assert lines[3] == f"Start the service with --database. Delete {data}/bandits when you are sure"
    back = ["move", "--back", "--data", str(tmp_path / "new"), "--database", dsn]
    done = CliRunner().invoke(app, back)
    assert done.exit_code == 0, done.output
    assert "Start the service without --database" in done.output


def tables(dsn: str) -> list[Any]:
    """Return all tables of a database that hold a row, and all schemas of journals."""
    with psycopg.connect(dsn) as own:
        found = own.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'rolin\\_%'")
        filled = []
        for table in ("bandits", "keys"):
            exists = own.execute("SELECT to_regclass(%s) IS NOT NULL", (f"rolin.{table}",))
            if exists.fetchone() == (True,):
                filled += own.execute(f"SELECT * FROM rolin.{table}").fetchall()
        return [*found.fetchall(), *filled]


def test_what_cannot_be_moved(tmp_path: Path, dsn: str) -> None:
    """Nothing is moved then, and the message says why."""
    data = tmp_path / "data"
    asyncio.run(filled(data))
    bandits = data / "bandits"

    def refused(message: str) -> None:
        with pytest.raises(RolinError, match=message):
            move_to_database(data, dsn)
        assert tables(dsn) == []
        assert not (data / "moved.json").exists()

    (bandits / "other" / "catalogue.ndjson").write_text('{"id": 3}\n')
    refused("bandit 'other' cannot be moved: bandit 'other' cannot be opened: catalogue.ndjson: ")
    (bandits / "other" / "catalogue.ndjson").rename(bandits / "other" / "notes.txt")
    refused(r"bandit 'other' cannot be moved: .*notes.txt is not a file of rolin")
    (bandits / "other" / "notes.txt").unlink()
    shutil.copytree(bandits / "other", bandits / ("x" * 60))
    refused("its name has 60 characters, expected at most 57 in a database")
    shutil.rmtree(bandits / ("x" * 60))
    (bandits / "empty").mkdir()
    refused(r"bandit 'empty' cannot be moved: there is no .*journal.db")
    shutil.rmtree(bandits / "empty")
    (bandits / "other" / "arms.json").write_text("{")
    refused("bandit 'other' cannot be opened: arms.json")
    (bandits / "other" / "arms.json").unlink()
    with closing(sqlite3.connect(bandits / "other" / "journal.db")) as db, db:
        db.execute("UPDATE events SET person = 'forged' WHERE seq = 20")
    refused(r"row 20 of the table events is damaged: its checksum does not match")
    shutil.rmtree(bandits / "other")
    with pytest.raises(DataError, match="is not the data folder of a service"):
        move_to_database(tmp_path, dsn)
    move_to_database(data, dsn)


def test_missing_events(tmp_path: Path, dsn: str) -> None:
    """A journal that lacks events is not moved, although each of its rows is whole."""
    data = tmp_path / "data"
    asyncio.run(filled(data))
    forged(data / "bandits/default/journal.db", "DELETE FROM events WHERE seq = 7")
    with pytest.raises(JournalError, match=r"it has \d+ events after event 0, expected \d+"):
        move_to_database(data, dsn)
    assert tables(dsn) == []


def test_a_running_service(tmp_path: Path, dsn: str) -> None:
    """Nothing is moved while it runs, and none can start meanwhile."""

    async def play() -> None:
        async with client(tmp_path):
            with pytest.raises(DataError, match="is in use: a service is running on it: stop it"):
                await asyncio.to_thread(move_to_database, tmp_path, dsn)

        def start(_: int) -> None:
            async def run() -> None:
                async with client(tmp_path):
                    pass

            with pytest.raises(DataError, match="is in use: it is being moved: wait"):
                asyncio.run(run())

        await asyncio.to_thread(move_to_database, tmp_path, dsn, progress=start)

    asyncio.run(play())


@pytest.mark.parametrize("what", ["bandits", "keys", "schema"])
def test_a_database_that_is_not_empty(tmp_path: Path, dsn: str, what: str) -> None:
    """It stays as it was."""
    data = tmp_path / "data"
    asyncio.run(filled(data))
    runner = CliRunner()
    if what == "keys":
        assert runner.invoke(app, ["keys", "create", "x", "--database", dsn]).exit_code == 0
    elif what == "schema":
        with (
            PostgresJournal(dsn, "other") as journal,
            Bandit(RoLinTS(n_features=1), journal=journal),
        ):
            pass
    else:
        move_to_database(data, dsn)
        (data / "moved.json").unlink()
    before = tables(dsn)
    words = {"bandits": "the bandit 'default'", "keys": "API keys", "schema": "schema 'rolin_oth"}
    with pytest.raises(DataError, match=f"is not empty: it has .*{words[what]}.*Nothing was moved"):
        move_to_database(data, dsn)
    assert tables(dsn) == before


PROGRAM = """
import os, signal, sys
from rolin.service import moving

calls = 0
def stop(_):
    global calls
    calls += 1
    if calls == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[1] == "there":
    moving.move_to_database(sys.argv[2], sys.argv[3], progress=stop)
else:
    moving.move_to_folder(sys.argv[3], sys.argv[2], progress=stop)
"""


def killed(way: str, data: Path, dsn: str, at: int) -> None:
    """Kill a process that moves a service, when it has copied or compared some events."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, way, str(data), dsn, str(at)]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_a_move_that_is_killed(tmp_path: Path, dsn: str) -> None:
    """Nothing was moved, in either direction, and the same command does it."""
    data, back = tmp_path / "data", tmp_path / "back"
    asyncio.run(filled(data))
    for at in (1, 50, 100, 140):
        killed("there", data, dsn, at)
        assert tables(dsn) == []
    moved = move_to_database(data, dsn)
    for at in (1, 100, 140):
        killed("back", back, dsn, at)
        assert not (back / "bandits").exists()
        assert not (back / "keys.json").exists()
    again = move_to_folder(dsn, back)
    assert {name: each.events for name, each in again.bandits.items()} == {
        name: each.events for name, each in moved.bandits.items()
    }
    assert not list(back.glob(".move-*"))


def test_what_a_folder_cannot_hold(tmp_path: Path, dsn: str) -> None:
    """Tables of the service that this version does not know are not lost in silence."""
    asyncio.run(filled(tmp_path / "data"))
    move_to_database(tmp_path / "data", dsn)
    with psycopg.connect(dsn) as own:
        own.execute("CREATE TABLE rolin.something (x int)")
        own.execute("INSERT INTO rolin.something VALUES (1)")
    with pytest.raises(DataError, match=r"its table rolin.something have no place in a folder"):
        move_to_folder(dsn, tmp_path / "back")
    (tmp_path / "back").mkdir(exist_ok=True)
    (tmp_path / "back" / "keys.json").write_text("{}")
    with psycopg.connect(dsn) as own:
        own.execute("DELETE FROM rolin.something")
    with pytest.raises(DataError, match=r"back has API keys already: .*keys.json; nothing was"):
        move_to_folder(dsn, tmp_path / "back")


def test_rows_of_the_first_format(tmp_path: Path, dsn: str) -> None:
    """They have no checksums, and get those that they lack; a later row without one is damaged."""
    data = tmp_path / "data"
    asyncio.run(filled(data))
    path = data / "bandits/default/journal.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE events SET checksum = NULL WHERE seq = 3")
    with pytest.raises(JournalError, match="row 3 of the table events is damaged"):
        move_to_database(data, dsn)
    for ending in ("", "-wal", "-shm"):
        path.with_name(f"journal.db{ending}").unlink(missing_ok=True)
    shutil.copy(next((DATA / "format-1/journals").glob("*.db")), path)
    with SQLiteJournal(path) as journal:
        assert journal.last_unchecked > 0
        expected = [event for _, event in journal.read()]
    move_to_database(data, dsn)
    with PostgresJournal(dsn, "default") as journal:
        assert same([event for _, event in journal.read()], expected)
        assert check_journal(journal).is_whole


def test_a_journal_that_has_not_begun(tmp_path: Path, dsn: str) -> None:
    """There is nothing to copy."""
    with (
        PostgresJournal(dsn, "new") as journal,
        pytest.raises(JournalError, match="it has not begun, so there is nothing to copy"),
    ):
        copy_to_sqlite(journal, tmp_path / "j.db", lambda n: None)
