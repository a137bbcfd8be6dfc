"""After a restart, statistics go on where they were, and are those of a fold from the first event."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit, RoLinTS
from rolin.errors import JournalError
from rolin.journal import Journal, MemoryJournal, PostgresJournal, SQLiteJournal
from rolin.journal.events import Event
from rolin.service.statistics import stored, watch
from rolin.service.statistics.fold import Statistics
from rolin.service.statistics.watch import Watch
from support.postgres import PostgresServer

Open = Callable[[], Journal]
ARMS = ["red", "green", "blue"]


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens one journal, again and again."""
    if request.param == "sqlite":
        return lambda: SQLiteJournal(tmp_path / "journal.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    name = f"test-{uuid.uuid4().hex}"
    return lambda: PostgresJournal(server.dsn, name)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few events are worth storing, and a part holds few of them."""
    monkeypatch.setattr(watch, "_SAVE_EVENTS", 1)
    monkeypatch.setattr(stored, "_JOINED", 1000)


def visit(journal: Journal, start: int, n: int) -> None:
    """Let people decide and report rewards; some never do, some twice, and the shares change in the middle."""
    rng = np.random.default_rng(start)
    first = None if start else RoLinTS(n_features=1, seed=0)
    with Bandit(first, journal=journal, clock=lambda: 1e9 + 40.0 * start) as bandit:
        for i in range(start, start + n):
            bandit.decide({arm: [1.0] for arm in ARMS}, id=f"d{i}", person=f"p{i % 17}")
            if rng.random() < 0.8:
                bandit.record_reward(f"d{i - i % 2}", float(rng.random()))  # some conflict
            if i == start + n // 2:
                bandit.change_settings(control_share=0.1 + 0.001 * start, share=0.9)


def looked_at(journal: Journal, **options: Any) -> tuple[dict[str, Any], int]:
    """Return everything that is counted, and how many events were read for it; the statistics are stored."""
    folded: list[Event] = []
    found: list[Any] = []
    fold = Statistics.fold

    def count(self: Statistics, event: Event) -> None:
        folded.append(event)
        fold(self, event)

    async def look() -> None:
        made = Watch(journal, "shop", **options)
        while True:
            reading = await made.answer(lambda statistics, reading: reading)
            if reading.read == reading.last:
                break
        found.extend(await made.answer(lambda statistics, reading: [*statistics.dump()]))
        made.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Statistics, "fold", count)
        asyncio.run(look())
    return {str(n): part for n, part in enumerate(found)}, len(folded)


def from_scratch(journal: Journal) -> dict[str, Any]:
    """Return what a fold of all events counts."""
    statistics = Statistics()
    for _, event in journal.read():
        statistics.fold(event)
    return {str(n): part for n, part in enumerate(statistics.dump())}


def test_only_the_tail_is_read(opened: Open) -> None:
    """Three times: what was stored, and what came since, is what all events lead to, to the last bit."""
    total = 0
    for start in (0, 60, 120):
        with opened() as journal:
            visit(journal, start, 60)
        with opened() as journal:
            found, read = looked_at(journal)
            header = journal.header()
            assert header is not None
            total += read
            assert total == header.last
            assert found == from_scratch(journal)
    with opened() as journal:
        assert looked_at(journal)[1] == 0


def test_decisions_that_wait_get_their_reward_after_a_restart(opened: Open) -> None:
    """Also in the list of the latest decisions."""
    with opened() as journal:
        with Bandit(RoLinTS(n_features=1, seed=0), journal=journal) as bandit:
            bandit.decide({"a": [1.0]}, id="x", person="p")
        looked_at(journal)
    with opened() as journal:
        with Bandit(journal=journal) as bandit:
            bandit.reward("x", 0.5)
        found, read = looked_at(journal)
        assert (found, read) == (from_scratch(journal), 1)
        kind, recent = found[str(len(found) - 1)]
        assert kind == "recent"
        assert recent[0][8:10] == ("reward", 0.5)


def test_erased_people_are_not_stored(
    opened: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was stored is deleted with their decisions, and everything is read again."""
    with opened() as journal:
        visit(journal, 0, 50)
        looked_at(journal)
        assert b"p3" in (journal.derived() or b"")
        with Bandit(journal=journal) as bandit:
            assert bandit.erase(person="p3") > 0
        assert journal.derived() is None
        assert not (tmp_path / "journal.db-derived").exists()
    with opened() as journal, caplog.at_level(logging.WARNING):
        found, read = looked_at(journal)
        assert read > 50
        assert found == from_scratch(journal)
        assert b"p3" not in (journal.derived() or b"p3")
    assert not caplog.records  # an erasure is nothing to warn of


def test_an_erasure_while_they_are_stored(opened: Open) -> None:
    """What holds erased decisions is not stored after their erasure."""
    with opened() as journal:
        visit(journal, 0, 50)
        header = journal.header()
        assert header is not None

        def parts() -> Any:
            yield b"p3"
            with opened() as other, Bandit(journal=other) as bandit:
                assert bandit.erase(person="p3") > 0
            yield b"more"

        assert not journal.save_derived(parts(), first=header.first)
        assert journal.derived() is None


def test_a_memory_has_nothing_to_store() -> None:
    """It ends with the process, so there is no restart."""
    journal = MemoryJournal()
    visit(journal, 0, 20)
    assert looked_at(journal)[0] == from_scratch(journal)
    assert journal.derived() is None


def test_a_process_that_must_not_write(opened: Open) -> None:
    """It uses what others have stored, and stores nothing."""
    with opened() as journal:
        visit(journal, 0, 50)
        looked_at(journal, stores=False)
        assert journal.derived() is None
        looked_at(journal)
        content = journal.derived()
        visit(journal, 50, 50)
        assert looked_at(journal, stores=False)[0] == from_scratch(journal)
        assert journal.derived() == content


DAMAGES: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda content: content[: len(content) // 2], "the checksum does not match"),
    (lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:], "the checksum"),
    (lambda content: b"", "the checksum does not match"),
    (lambda content: stored_again(b"\x04\0\0\0abcd"), "they are damaged: "),
    (lambda content: stored_again(b""), "they were stored by rolin None, in format None"),
]


def stored_again(content: bytes) -> bytes:
    """Return content with a checksum that matches."""
    return content + stored.hashlib.blake2b(content, digest_size=16).digest()


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_damage_is_noticed(
    tmp_path: Path, damage: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The journal is read again, and a line of the log says why."""
    path = tmp_path / "journal.db-derived"
    with SQLiteJournal(tmp_path / "journal.db") as journal:
        visit(journal, 0, 60)
        looked_at(journal)
        assert path.stat().st_mode & 0o777 == 0o600
        path.write_bytes(damage(path.read_bytes()))
        with caplog.at_level(logging.WARNING):
            found, read = looked_at(journal)
        assert read > 60
        assert found == from_scratch(journal)
        (line,) = caplog.messages
        assert line.startswith("bandit shop: its stored statistics are not used, and the journal")
        assert message in line
        caplog.clear()
        assert looked_at(journal)[1] == 0  # they were stored again
        assert not caplog.records


def test_another_version_begins_again(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    """It may count something else."""
    with opened() as journal:
        visit(journal, 0, 60)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rolin, "__version__", "0.0.1")
            looked_at(journal)
        found, read = looked_at(journal)
        assert read > 60
        assert found == from_scratch(journal)
        assert "they were stored by rolin 0.0.1, in format 1" in caplog.text


@pytest.mark.parametrize(
    ("later", "message"), [(20, "they know"), (60, "event"), (0, "another journal")]
)
def test_an_earlier_journal_that_was_restored(
    tmp_path: Path, later: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Statistics that are ahead of it are not used, nor those of events that it does not have."""
    path, copy = tmp_path / "journal.db", tmp_path / "copy.db"
    with SQLiteJournal(path) as journal:
        visit(journal, 0, 40)
        journal.copy_to(copy)
        visit(journal, 40, 40)
        looked_at(journal)
    path.unlink()
    if later:
        copy.rename(path)
    with SQLiteJournal(path) as journal:
        if later:
            visit(journal, 80, later)
        else:
            with Bandit(RoLinTS(n_features=1, seed=1), journal=journal) as bandit:
                bandit.decide({"a": [1.0]})
        found, _ = looked_at(journal)
        assert found == from_scratch(journal)
        assert message in caplog.text


def test_a_file_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Is no reason to answer with an error."""
    (tmp_path / "journal.db-derived").mkdir()
    with SQLiteJournal(tmp_path / "journal.db") as journal:
        visit(journal, 0, 60)
        assert looked_at(journal)[0] == from_scratch(journal)
        assert "bandit shop: its stored statistics are not used" in caplog.text
        assert "bandit shop: its statistics cannot be stored" in caplog.text
        with (
            Bandit(journal=journal) as bandit,
            pytest.raises(JournalError, match=r"cannot be deleted: .*; it may hold what should be"),
        ):
            bandit.erase(person="p3")
        assert journal.decision("d3") is not None


def test_they_are_stored_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a process that is killed does not begin again, either."""
    monkeypatch.setattr(watch, "_SAVE_EVERY", 0.0)
    monkeypatch.setattr(watch, "_SAVE_SHARE", 1e9)
    monkeypatch.setattr(watch, "_SLICE", 0.0)
    monkeypatch.setattr(watch, "_READ", 10)

    async def look(journal: Journal) -> int:
        made = Watch(journal, "shop")  # which is never closed
        return (await made.answer(lambda statistics, reading: reading)).read

    with SQLiteJournal(tmp_path / "journal.db") as journal:
        visit(journal, 0, 100)
        read = asyncio.run(look(journal))
        assert read > 0
        header = journal.header()
        assert header is not None
        found, left = looked_at(journal)
        assert left <= header.last - read + 10
        assert left < header.last
        assert found == from_scratch(journal)


PROGRAM = """
import asyncio, sys, threading
from rolin import Bandit, RoLinTS
from rolin.journal import PostgresJournal, SQLiteJournal
from rolin.service.statistics import watch

watch._SAVE_EVERY, watch._SAVE_SHARE, watch._SAVE_EVENTS = 0.0, 1e9, 1
where, name = sys.argv[1:]
journal = PostgresJournal(where, name) if name else SQLiteJournal(where)
bandit = Bandit(RoLinTS(n_features=1, seed=0), journal=journal)

def decide():
    for i in range(10**9):
        bandit.decide({"a": [1.0], "b": [2.0]}, id=str(i), person=f"p{i % 17}")
        bandit.reward(str(i), i % 3)

async def look():
    made = watch.Watch(journal, "shop")
    while True:
        await made.answer(lambda statistics, reading: None)
        if made._saved > 20:
            print(made._saved, flush=True)

threading.Thread(target=decide, daemon=True).start()
asyncio.run(look())
"""


@pytest.mark.service
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_process_that_is_killed(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, seed: int
) -> None:
    """At any moment, while it decides and stores its statistics: what was stored last is whole, and is used."""
    rng = np.random.default_rng(seed)
    for n in range(2):
        where, name = str(tmp_path / f"{n}.db"), ""
        if kind == "postgres":
            where, name = request.getfixturevalue("postgres").dsn, f"test-{uuid.uuid4().hex}"
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, where, name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            saved = int(process.stdout.readline())
            sleep(0.3 * rng.random())
            process.kill()
        with PostgresJournal(where, name) if name else SQLiteJournal(where) as journal:
            found, read = looked_at(journal)
            header = journal.header()
            assert header is not None
            assert read <= header.last - saved
            assert found == from_scratch(journal)
