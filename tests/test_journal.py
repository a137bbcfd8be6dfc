"""Journals: one set of laws for all, and what is special about a file."""

from __future__ import annotations

import itertools
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolin._support.arms import PastArm
from rolin.errors import JournalError, ParameterError
from rolin.journal import Journal, SQLiteJournal, open_journal
from rolin.journal.base import Header, OutOfDate, Removal
from rolin.journal.codec import event_of, row_of
from rolin.journal.events import (
    Activated,
    ArmRemoved,
    ArmRestored,
    Decayed,
    EarlyReward,
    Event,
    HeldReward,
    IgnoredReward,
    LoggedDecision,
    Outcome,
    Proposal,
    ScalesLearned,
    SettingsChanged,
    ShadowStarted,
    ShadowStopped,
)
from rolin.journal.group_commit import GroupCommit
from rolin.journal.question_digest import QuestionDigest
from rolin.journal.schema import event_checksum
from rolin.model.scales import Scales
from support.journals import decided, same

Make = Callable[[], Journal]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def journal(
    request: pytest.FixtureRequest, new_journal: Callable[[str], Journal]
) -> Iterator[Journal]:
    """A journal that has begun, of every kind."""
    with new_journal(request.param) as made:
        made.begin(b"origin", "digest")
        yield made


def rewarded(id: str, rank: int = 0, time: float = 2.0, value: float = 1.0) -> Outcome:
    """A reward of it."""
    return Outcome(id, time, rank, "c", np.array([4.0, 5.0]), value)


EVENTS: list[Event] = [
    decided("x", n_ranks=3, person="ann", control=True),
    decided("y", propensities=None, version=None),
    LoggedDecision("no features", 1.5, (7,), np.empty((1, 0)), (0,), np.ones(1), 3),
    rewarded("x"),
    Outcome("x", 3.0, 1, PastArm("a", 2), np.array([0.1, 1 / 3]), None, expired=True),
    Outcome("x", 3.0, 2, 2, np.array([2.0, 3.0]), -0.0, 2.0, expired=True),
    Decayed(4.0, 1 / 3),
    ScalesLearned(4.0, Scales(noise_std=1 / 7, coef_std=(0.1, 0.2))),
    ScalesLearned(4.5, None),
    ArmRemoved(5.0, 2),
    ArmRestored(6.0, "2", with_past=False),
    SettingsChanged(7.0, 0.1, 1 / 3, propensities=False),
    decided(
        "early", n_ranks=2, digest=QuestionDigest(bytes(range(16))), active=False, mode="stopped"
    ),
    HeldReward("early", 8.0, 1, 1 / 3, 2.0),
    HeldReward("early", 8.0, 1, -0.0, 1.0, "click ü"),
    HeldReward("early", 8.0, 1, 1.0, 1.0, "other"),
    HeldReward("early", 8.0, 0, 1e-300),
    Activated("early", 9.0),
    Outcome("early", 9.0, 1, "a", np.array([0.0, 1.0]), 2.0, learned=False),
    decided(
        "apprentice",
        mode="apprentice",
        proposal=Proposal((1, 0), np.array([0.1, 1 / 3, 1e-300])),
    ),
    decided("unknown", mode="apprentice", proposal=Proposal((1,), None)),
    SettingsChanged(9.0, mode="stopped", exploration=0.5),
    SettingsChanged(9.5, share=1 / 3),
    decided("outside", outside_share=True, proposal=Proposal((1,), None)),
    ShadowStarted(10.0, bytes(range(256))),
    decided("shadow", shadow=Proposal((1, 0), np.array([0.1, 1 / 3, 1e-300]))),
    ScalesLearned(10.5, Scales(noise_std=1 / 7), shadow=True),
    ShadowStopped(11.0),
    EarlyReward("not yet", 10.0, 0, None, 1 / 3),
    EarlyReward("not yet", 10.0, 1, "ü", -0.0, 2.0),
    EarlyReward("not yet", 10.0, 2, 7, 1.0, 1.0, "click ü"),
    IgnoredReward("not yet", 10.0, 1, "ü", -0.0, 2.0, None, "unknown"),
    IgnoredReward("x", 11.0, 0, "c", 1 / 3, 1.0, "click ü", "late"),
    IgnoredReward("x", 11.0, 1, "c", 1 / 3, 2.0, None, "conflicting"),
]


def test_what_is_written_is_read(journal: Journal) -> None:
    """Every kind of event comes back as it was, numbered in order, from any event on."""
    assert journal.append(EVENTS, after=0) == len(EVENTS)
    read = list(journal.read())
    assert [seq for seq, _ in read] == list(range(1, len(EVENTS) + 1))
    assert all(same(event, EVENTS[seq - 1]) for seq, event in read)
    assert [seq for seq, _ in journal.read(after=4, upto=7)] == [5, 6, 7]
    others = [i for i, e in enumerate(EVENTS, start=1) if not isinstance(e, LoggedDecision)]
    assert [seq for seq, _ in journal.read(decisions=False)] == others
    assert journal.header() == Header(len(EVENTS), 0, "digest")


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    st.integers(-(2**70), 2**70),
)
def test_rows_lose_nothing(value: float, text: str, number: int) -> None:
    """Numbers to the bit, names of any length, texts in any writing."""
    x = np.array([[value, -value], [0.0, value]])
    for event in (
        LoggedDecision(text, value, (text, number), x, (1,), x[:, 0], None, text),
        Outcome(text, value, 0, number, x[0], value, abs(value) + 1e-300),
        HeldReward(text, value, 3, value, abs(value) + 1e-300, text),
        Activated(text, value),
        EarlyReward(text, value, 3, number, value, abs(value) + 1e-300, text),
        IgnoredReward(text, value, 3, text, value, abs(value) + 1e-300, text, "late"),
        IgnoredReward(text, value, 3, None, value, abs(value) + 1e-300, None, "unknown"),
    ):
        assert same(event_of(row_of(event), {}), event)


def test_decisions_are_found_by_id(journal: Journal) -> None:
    """With what became of them."""
    journal.append(EVENTS, after=0)
    assert same(journal.decision("x"), EVENTS[0])
    assert journal.decision("z") is None
    outcomes = journal.outcomes("x")
    assert sorted(outcomes) == [0, 1, 2]
    assert same(outcomes[0], EVENTS[3])
    assert journal.outcomes("y") == journal.outcomes("z") == {}
    early = [event for event in EVENTS[12:] if getattr(event, "id", "") == "early"]
    assert len(early) == 7
    assert same(journal.following("early"), early[1:])
    assert list(journal.outcomes("early")) == [1]
    assert journal.following("y") == journal.following("z") == []


def test_what_waits_is_known_oldest_first(journal: Journal) -> None:
    """An arm of a decision waits until it has a reward or expires."""
    journal.append(
        [decided("b", 2.0, n_ranks=2), decided("a", 1.0), decided("c", 3.0), rewarded("b")], after=0
    )
    assert [arm[1:] for arm in journal.waiting(10.0, 9)] == [("a", 0), ("b", 1), ("c", 0)]
    assert [arm[1:] for arm in journal.waiting(3.0, 9)] == [("a", 0), ("b", 1)]
    assert [arm[1:] for arm in journal.waiting(10.0, 1)] == [("a", 0)]
    journal.append([Outcome("a", 5.0, 0, "c", np.ones(2), None, expired=True)], after=4)
    assert [arm[1:] for arm in journal.waiting(3.0, 9)] == [("b", 1)]


def test_whoever_is_behind_writes_nothing(journal: Journal) -> None:
    """A number that was given out since is noticed."""
    journal.append([decided("x")], after=0)
    for after in (0, 2):
        with pytest.raises(OutOfDate):
            journal.append([decided("y")], after=after)
        with pytest.raises(OutOfDate):
            journal.remove(Removal(ids=["x"]), after=after, state=b"")
    assert journal.decision("y") is None
    assert journal.append([], after=1) == 1


def test_states_are_kept(journal: Journal) -> None:
    """The first, and the last ones; the last up to an event can be asked for."""
    assert journal.latest_snapshot() == (0, b"origin")
    journal.append(EVENTS, after=0)
    for seq in (3, 5, 8):
        journal.save_snapshot(seq, b"%d" % seq)
    assert journal.latest_snapshot() == (8, b"8")
    assert journal.latest_snapshot(upto=7) == (5, b"5")
    assert journal.latest_snapshot(upto=0) == (0, b"origin")


def test_a_journal_begins_once(journal: Journal) -> None:
    """A second beginning changes nothing."""
    journal.append([decided("x")], after=0)
    journal.begin(b"other", "other")
    assert journal.header() == Header(1, 0, "digest")
    assert journal.latest_snapshot() == (0, b"origin")


@pytest.mark.parametrize(
    ("what", "left", "removed"),
    [
        (Removal(ids=["x", "z"]), [2, 3, 4, 6, 7], 1),
        (Removal(people=["ann"]), [2, 3, 4, 6, 7], 1),
        (Removal(before=2.5), [4, 7], 2),
        (Removal(ids=["w"], before=0.5), [1, 2, 3, 4, 5, 6, 7], 0),
    ],
)
def test_removing(journal: Journal, what: Removal, left: list[int], removed: int) -> None:
    """A decision goes with its outcomes; other events go only by age; the state stays."""
    journal.append(
        [
            decided("x", 1.0, person="ann"),
            Decayed(1.5, 0.5),
            decided("y", 2.0, person="bob"),
            decided("late", 3.0),
            rewarded("x", time=9.0),
            rewarded("y", time=9.0),
            rewarded("late", time=9.0),
        ],
        after=0,
    )
    journal.save_snapshot(3, b"three")
    changed = removed > 0
    last = 8 if changed else 7  # removing takes a number
    assert journal.remove(what, after=7, state=b"now") == (removed, last)
    assert [seq for seq, _ in journal.read()] == left
    assert journal.latest_snapshot() == ((8, b"now") if changed else (3, b"three"))
    assert journal.latest_snapshot(upto=7) == (None if changed else (3, b"three"))
    assert journal.header() == Header(last, 8 if changed else 0, "digest")
    assert (journal.decision("x") is None) == (1 not in left)
    journal.save_snapshot(5, b"of before")  # by somebody who has not noticed
    assert journal.latest_snapshot(upto=6) == (None if changed else (5, b"of before"))
    with pytest.raises(OutOfDate):
        journal.append([decided("new", 9.0)], after=last - 1)
    assert journal.append([decided("new", 9.0)], after=last) == last + 1


def test_removed_decisions_no_longer_wait(journal: Journal) -> None:
    """Nobody waits for the reward of what was erased."""
    came_back, changed = ArmRestored(0.5, "a", with_past=False), SettingsChanged(0.5)
    journal.append([came_back, decided("x"), decided("y"), changed], after=0)
    assert journal.permanent_events() == [(1, came_back), (4, changed)]
    # They are never removed.
    assert journal.remove(Removal(before=0.9), after=4, state=b"") == (0, 4)
    journal.remove(Removal(ids=["x"]), after=4, state=b"")
    assert [arm[1:] for arm in journal.waiting(9.0, 9)] == [("y", 0)]


def test_threads_share_a_journal(journal: Journal) -> None:
    """Writers that are behind try again; nobody's event is lost or doubled."""

    def write(name: str) -> None:
        for i in range(25):
            while True:
                header = journal.header()
                assert header is not None
                try:
                    journal.append([decided(f"{name}{i}")], after=header.last)
                    break
                except OutOfDate:
                    continue

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [event.id for _, event in journal.read() if isinstance(event, LoggedDecision)]
    assert len(ids) == len(set(ids)) == 100


# -- a file ----------------------------------------------------------------------------------


def test_a_file_is_durable_and_erases(tmp_path: Path) -> None:
    """Every commit is synced, and no byte of what was erased stays in the files."""
    path = tmp_path / "j.db"
    journal = SQLiteJournal(path)
    assert journal._file.writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal._file.writer.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    journal.begin(b"origin", "digest")
    secret = "Margarethe-von-Soest"
    journal.append(
        [decided(f"visit-{secret}-{i}", person=secret) for i in range(50)] + [decided("other")],
        after=0,
    )
    bytes_of = lambda: b"".join(file.read_bytes() for file in tmp_path.iterdir())  # noqa: E731
    assert secret.encode() in bytes_of()
    assert journal.remove(Removal(people=[secret]), after=51, state=b"state") == (50, 52)
    assert secret.encode() not in bytes_of()
    assert b"other" in bytes_of()
    journal.close()


def test_a_file_comes_back(tmp_path: Path) -> None:
    """Closed and opened again, also only to be read, it holds what it held."""
    path = tmp_path / "a b?c#d%.db"  # letters that mean something in an address
    with SQLiteJournal(path) as journal:
        journal.begin(b"origin", "digest")
        journal.append(EVENTS, after=0)
    assert path.exists()
    with SQLiteJournal(path, readonly=True) as journal:
        assert len(list(journal.read())) == len(EVENTS)
        with pytest.raises(JournalError, match="opened with readonly=True"):
            journal.append([decided("new")], after=len(EVENTS))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b"not a database at all" * 99), "not a journal"),
        (lambda path: path.mkdir(), "is a folder"),
        (
            lambda path: sqlite3.connect(path).execute("CREATE TABLE t (x)"),
            "not a journal of rolin",
        ),
        (lambda path: sqlite3.connect(path).execute("PRAGMA user_version = 7"), None),
        (
            lambda path: sqlite3.connect(path).executescript(
                "PRAGMA application_id = 1919904878; PRAGMA user_version = 99"
            ),
            "format version 99, expected at most 2",
        ),
    ],
)
def test_other_files_are_refused(
    make: Callable[[Path], object], message: str | None, tmp_path: Path
) -> None:
    """With a message that says what they are, and without a byte of them changed."""
    path = tmp_path / "j.db"
    made = make(path)
    if isinstance(made, sqlite3.Connection):
        made.close()
    elif isinstance(made, sqlite3.Cursor):
        made.connection.close()
    before = path.read_bytes() if path.is_file() else b""
    if message is None:  # an empty database is as good as no file
        SQLiteJournal(path).close()
        return
    with pytest.raises(JournalError, match=message):
        SQLiteJournal(path)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_places_that_are_not_there(tmp_path: Path) -> None:
    """No folder, no file to read, and no path at all."""
    with pytest.raises(JournalError, match="there is no folder"):
        SQLiteJournal(tmp_path / "nowhere" / "j.db")
    with pytest.raises(JournalError, match="there is no journal"):
        SQLiteJournal(tmp_path / "j.db", readonly=True)
    with pytest.raises(ParameterError, match="expected the path"):
        open_journal(7)  # type: ignore[arg-type]


def test_a_locked_file_says_so(tmp_path: Path) -> None:
    """Nothing is written; when the lock is gone, everything works."""
    path = tmp_path / "j.db"
    with SQLiteJournal(path, lock_timeout=0.1) as journal:
        journal.begin(b"origin", "digest")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match=r"locked by another process, also after 0\.1 s"):
            journal.append([decided("x")], after=0)
        assert journal.header() == Header(0, 0, "digest")  # readers do not wait
        other.execute("ROLLBACK")
        other.close()
        assert journal.append([decided("x")], after=0) == 1


def test_a_read_only_file_says_so(tmp_path: Path) -> None:
    """Nothing is written; reading goes on."""
    with SQLiteJournal(tmp_path / "j.db") as journal:
        journal.begin(b"origin", "digest")
        # As of a file that may not be written.
        journal._file.writer.execute("PRAGMA query_only = ON")
        with pytest.raises(JournalError, match="it is read-only; nothing was written"):
            journal.append([decided("x")], after=0)
        assert journal.header() == Header(0, 0, "digest")


def test_an_interruption_leaves_no_transaction(tmp_path: Path) -> None:
    """Ctrl-C while SQLite begins is raised when it has begun; everybody can write afterwards."""
    with SQLiteJournal(tmp_path / "j.db") as journal:
        journal.begin(b"origin", "digest")
        real: Any = journal._file.writer

        class Interrupted:
            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            def execute(self, statement: str, *values: Any) -> Any:
                done = real.execute(statement, *values)
                if statement == "BEGIN IMMEDIATE":
                    raise KeyboardInterrupt
                return done

        journal._file.writer = Interrupted()  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            journal.append([decided("x")], after=0)
        journal._file.writer = real
        assert not real.in_transaction
        assert journal.append([decided("x")], after=0) == 1


def test_erasing_while_somebody_reads(tmp_path: Path) -> None:
    """The bytes may still be in the log beside the file, and that is said; later they are gone."""
    with SQLiteJournal(tmp_path / "j.db", lock_timeout=0.1) as journal:
        journal.begin(b"origin", "digest")
        journal.append([decided("x", person="somebody-in-person")], after=0)
        reader = sqlite3.connect(tmp_path / "j.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        with pytest.raises(JournalError, match="are erased, but another process is reading"):
            journal.remove(Removal(people=["somebody-in-person"]), after=1, state=b"")
        reader.close()
        assert journal.remove(Removal(people=["somebody-in-person"]), after=2, state=b"") == (0, 2)
        for file in tmp_path.iterdir():
            assert b"somebody-in-person" not in file.read_bytes()


def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    """One of them makes the tables, and nobody is told a lie."""
    errors: list[BaseException] = []

    def open_it(path: Path) -> None:
        try:
            SQLiteJournal(path).close()
        except BaseException as error:
            errors.append(error)

    for i in range(10):
        threads = [threading.Thread(target=open_it, args=(tmp_path / f"{i}.db",)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_reader_without_the_right_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sees what is in the log beside the file, too."""
    with SQLiteJournal(tmp_path / "j.db") as journal:
        journal.begin(b"origin", "digest")
        journal.append([decided("x")], after=0)
        monkeypatch.setattr("os.access", lambda *_: False)
        with SQLiteJournal(tmp_path / "j.db", readonly=True) as reader:
            assert reader.header() == Header(1, 0, "digest")
    with SQLiteJournal(tmp_path / "j.db", readonly=True) as reader:  # nothing beside it any more
        assert reader.header() == Header(1, 0, "digest")


def test_odd_paths(tmp_path: Path) -> None:
    """Bytes that are no letters are a path; too long a name, or a zero in it, is none."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.db"))
    SQLiteJournal(path).close()
    assert path.exists()
    for wrong in ("x" * 300, "a\0b"):
        with pytest.raises(JournalError, match="is not a valid path for a journal"):
            SQLiteJournal(tmp_path / wrong)


def test_nothing_is_acknowledged_that_nobody_wrote() -> None:
    """If whoever took a request from the queue was interrupted, the one who waits is told."""
    silent: GroupCommit[int] = GroupCommit(lambda batch: None)
    with pytest.raises(JournalError, match="writing was interrupted; repeat the call"):
        silent.submit(1)


def test_a_full_disk_says_so(tmp_path: Path) -> None:
    """What does not fit is not there at all; with room again, everything works."""
    with SQLiteJournal(tmp_path / "j.db") as journal:
        journal.begin(b"origin", "digest")
        (pages,) = journal._file.writer.execute("PRAGMA page_count").fetchone()
        journal._file.writer.execute(f"PRAGMA max_page_count = {pages + 3}")
        many: list[Event] = [decided(f"{i}", person="p" * 400) for i in range(100)]
        with pytest.raises(JournalError, match="the disk is full; nothing was written"):
            journal.append(many, after=0)
        assert list(journal.read()) == []
        journal._file.writer.execute("PRAGMA max_page_count = 100000")
        assert journal.append(many, after=0) == 100
        (pages,) = journal._file.writer.execute("PRAGMA page_count").fetchone()
        journal._file.writer.execute(f"PRAGMA max_page_count = {pages}")
        some = Removal(ids=["1"])
        with pytest.raises(JournalError, match="the disk is full; nothing was written"):
            journal.remove(some, after=100, state=b"x" * 100_000)
        journal._file.writer.execute("PRAGMA max_page_count = 100000")
        assert journal.remove(some, after=100, state=b"x" * 100_000) == (1, 101)


def test_a_file_that_may_grow_no_more(tmp_path: Path) -> None:
    """The same with a limit of the operating system's, in a process of its own."""
    code = """
import resource, signal, sys
sys.path.insert(0, sys.argv[2])
from rolin.errors import JournalError
from rolin.journal import SQLiteJournal
from support.journals import decided
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = SQLiteJournal(sys.argv[1])
journal.begin(b"origin", "digest")
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
n = 0
try:
    while True:
        n = journal.append([decided(str(n), person="p" * 400)], after=n)
except JournalError as error:
    assert len(list(journal.read())) == n > 10
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert journal.append([decided("again")], after=n) == n + 1
    print(n, error)
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "j.db"), str(Path(__file__).parent)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "nothing was written" in run.stdout
    written = int(run.stdout.split()[0])
    with SQLiteJournal(tmp_path / "j.db", readonly=True) as journal:
        assert len(list(journal.read())) == written + 1


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    """Rather than read as something else."""
    with SQLiteJournal(tmp_path / "j.db") as journal:
        journal.begin(b"origin", "digest")
        journal.append([decided("x"), Decayed(1.0, 0.5)], after=0)
        journal._file.writer.execute("UPDATE events SET body = '{}' WHERE seq = 1")
        with pytest.raises(JournalError, match=r"j.db: event 1 is damaged: its checksum does not"):
            journal.decision("x")
        row = row_of(Decayed(1.0, 0.5))._replace(kind="dream")
        journal._file.writer.execute(
            "UPDATE events SET kind = 'dream', checksum = ? WHERE seq = 2",
            (event_checksum(2, row),),
        )
        with pytest.raises(JournalError, match=r"event 2: .* the kind 'dream', which this version"):
            list(journal.read(after=1))


def test_an_outcome_does_not_read_all_that_waits(tmp_path: Path) -> None:
    """The work of writing a batch depends little on how many decisions wait."""
    steps = []
    for n in (100, 10_000):
        with SQLiteJournal(tmp_path / f"{n}.db") as journal:
            journal.begin(b"origin", "digest")
            journal.append([decided(str(i)) for i in range(n)], after=0)
            count = itertools.count()
            with journal._file.write() as db:
                db.set_progress_handler(lambda count=count: next(count) < 0, 10)  # type: ignore[misc]
            new = [decided(f"new {i}") for i in range(64)]
            journal.append([*new, *(rewarded(str(i)) for i in range(64))], after=n)
            steps.append(next(count))
    assert steps[0] > 10
    assert steps[1] < 1.5 * steps[0]
