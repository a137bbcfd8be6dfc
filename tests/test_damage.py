"""A damaged journal is noticed: it never opens with another state in silence."""

from __future__ import annotations

import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit
from rolin.errors import JournalError, RolinError
from rolin.journal import Journal, SQLiteJournal, check_journal, load_policy
from rolin.journal.folding import state_bytes
from rolin.journal.schema import state_checksum


def written(path: Path, n: int = 40, *, snapshot_every: int | None = 25) -> bytes:
    """Write a journal with every kind of event; return the bytes of its state."""
    policy = rolin.RoLinTS(n_features=2, noise_std="learn", arm_std="learn", seed=3)
    with Bandit(policy, journal=path, snapshot_every=snapshot_every, clock=lambda: 1.0) as bandit:
        rng = np.random.default_rng(0)
        for i in range(n):
            decision = bandit.decide(rng.normal(size=(3, 2)), id=f"visit-{i}", person=f"p{i % 3}")
            if i % 4:
                bandit.reward(decision.id, float(rng.normal()))
        bandit.decay(0.9)
        bandit.remove_arm(0)
        bandit.restore_arm(0, with_past=False)
        bandit.expire(0.0, default_reward=0.5)
        bandit.journal._file.checkpoint()
        return state_bytes(bandit.policy)


def change(path: Path, *statements: str) -> None:
    """Change the tables by hand."""
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


def outcome(path: Path, expected: bytes, answers: str) -> str:
    """Open a journal for writing and for reading: "same", "refused", or the state that it leads to.

    What is looked up by id is compared too.
    """
    found = []
    for opened in (
        lambda: state_bytes(load_policy(path, from_start=True).policy),
        lambda: _opened(path, answers, expected),
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state = opened()
        except RolinError:
            found.append("refused")
        else:
            found.append("same" if state == expected else "another state")
    return "another state" if "another state" in found else " ".join(found)


def _opened(path: Path, answers: str, expected: bytes) -> bytes:
    with Bandit(journal=path) as bandit:
        state = state_bytes(bandit.policy)
        return (
            state if looked_up(bandit.journal) == answers or state != expected else b"other answers"
        )


def looked_up(journal: Journal) -> str:
    """Return what a journal answers about every decision, by its id."""
    ids = [f"visit-{i}" for i in range(41)]
    found = [(journal.decision(id), journal.outcomes(id)) for id in ids]
    return f"{found} {journal.waiting(float('inf'), 1000)} {journal.permanent_events()}"


def flipped_bits(
    path: Path, expected: bytes, tmp_path: Path, flips: int, seed: int
) -> dict[str, int]:
    """Flip single bits of a journal at random; return how often each outcome was seen."""
    whole = path.read_bytes()
    with SQLiteJournal(path, readonly=True) as journal:
        answers = looked_up(journal)
    rng = np.random.default_rng(seed)
    counts: dict[str, int] = {}
    for i in range(flips):
        copy = tmp_path / f"flip-{i}.db"
        data = bytearray(whole)
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        copy.write_bytes(data)
        found = outcome(copy, expected, answers)
        counts[found] = counts.get(found, 0) + 1
        for file in tmp_path.glob(f"flip-{i}.db*"):
            file.unlink()
    return counts


def test_a_flipped_bit_never_gives_another_state(tmp_path: Path, seed: int) -> None:
    """Of 60 copies with one flipped bit, each is refused or has the right state."""
    expected = written(tmp_path / "j.db")
    counts = flipped_bits(tmp_path / "j.db", expected, tmp_path, 60, seed)
    assert "another state" not in counts
    assert counts.get("same same", 0) > 0  # most of the file is text that no state depends on


@pytest.mark.slow
def test_many_flipped_bits_never_give_another_state(tmp_path: Path, seed: int) -> None:
    """The same with 600 copies."""
    expected = written(tmp_path / "j.db")
    assert "another state" not in flipped_bits(tmp_path / "j.db", expected, tmp_path, 600, seed)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM events WHERE seq = 30", "event 30 is missing"),
        ("DELETE FROM events WHERE seq > 50", "are missing"),
        ("DELETE FROM events WHERE seq BETWEEN 3 AND 5", "events 3 to 5 are missing"),
        ("UPDATE events SET time = 7 WHERE seq = 4", "event 4 is damaged"),
        ("UPDATE events SET person = 'someone' WHERE seq = 1", "event 1 is damaged"),
        ("UPDATE events SET checksum = NULL WHERE seq = 4", "event 4 is damaged"),
        ("UPDATE events SET body = CAST(body AS BLOB) WHERE seq = 4", "event 4 is damaged"),
        ("UPDATE events SET decision = CAST(decision AS BLOB) WHERE seq = 4", "event 4 is damaged"),
        ("UPDATE events SET seq = 1000 + seq WHERE seq = 4", "event 1004 is damaged"),
        ("UPDATE journal SET last = last - 1", "the header is damaged"),
        ("UPDATE journal SET first = 3", "the header is damaged"),
        ("INSERT INTO journal SELECT * FROM journal", "the header is damaged"),
        ("UPDATE states SET seq = 26 WHERE seq = (SELECT max(seq) FROM states)", "snapshot 26 is"),
        ("DELETE FROM waiting", "wait for a reward is wrong"),
        ("INSERT INTO waiting VALUES ('nobody', 0, 1.0)", "wrong for 1 decisions, such as 'nobody'"),
        ("UPDATE events SET seq = -5 WHERE seq = 4", "event -5 has a number below 1"),
        ("INSERT INTO events (seq, time, kind, body) VALUES (-5, 0, 'decay', '{}')", "event -5 has"),
        ("DROP INDEX once", "the index 'once' is missing"),
        ("CREATE INDEX more ON events (time)", "the index 'more' was not made by rolin"),
        ("CREATE TABLE more (x)", "the table 'more' was not made"),
        ("ALTER TABLE states ADD COLUMN more", "the table 'states' is not as rolin made it"),
        ("CREATE TRIGGER more AFTER INSERT ON events BEGIN DELETE FROM events; END",
         "the trigger 'more' was not made"),
    ],
)  # fmt: skip
def test_damage_is_found_and_named(statement: str, problem: str, tmp_path: Path) -> None:
    """`check_journal` names the event, the header, the snapshot or the table that is damaged."""
    path = tmp_path / "j.db"
    policy = rolin.RoLinTS(n_features=2, seed=3)
    with Bandit(policy, journal=path, snapshot_every=25) as bandit:
        for i in range(40):
            bandit.decide(np.eye(2), id=str(i))
            if i % 2:
                bandit.reward(str(i), 1.0)
    assert check_journal(path).is_whole
    change(path, statement)
    found = check_journal(path)
    assert not found.is_whole
    assert any(problem in line for line in found.problems), found.problems


def test_a_damaged_index_is_noticed_when_a_file_is_opened(tmp_path: Path) -> None:
    """The state does not depend on the indexes, but what is found by an id does."""
    path = tmp_path / "j.db"
    expected = written(path)
    data = path.read_bytes()
    ids = [at for at in range(len(data)) if data.startswith(b"visit-11", at)]
    refused = 0
    for at in ids:
        for file in tmp_path.glob("flip.db*"):
            file.unlink()
        flipped = bytearray(data)
        flipped[at + 7] ^= 8  # visit-19
        (tmp_path / "flip.db").write_bytes(flipped)
        try:
            with Bandit(journal=tmp_path / "flip.db") as bandit:
                bandit.journal.decision("visit-11")
        except JournalError:
            refused += 1
        assert not check_journal(tmp_path / "flip.db").is_whole
    assert refused == len(ids) >= 4  # rows of the table, and their entries in indexes
    with SQLiteJournal(tmp_path / "flip.db", readonly=True, verify=False) as journal:
        assert state_bytes(load_policy(journal).policy) == expected


def test_an_entry_of_an_index_leads_to_its_own_event(tmp_path: Path) -> None:
    """If the file is too large to be checked when it is opened, another event is not returned as this one."""
    path = tmp_path / "j.db"
    written(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP INDEX once")
        db.execute("CREATE INDEX once ON events (replace(decision, '18', '19'), place)")
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "UPDATE sqlite_master SET sql = 'CREATE INDEX once ON events (decision, place)' WHERE name = 'once'"
        )
    with (
        SQLiteJournal(path, readonly=True, verify=False) as journal,
        pytest.raises(JournalError, match=r"event \d+ is damaged"),
    ):
        journal.decision("visit-19")
    with pytest.raises(JournalError, match="it is damaged"):
        Bandit(journal=path)


def test_a_trigger_is_not_run(tmp_path: Path) -> None:
    """A file with statements of somebody else is refused when it is opened."""
    path = tmp_path / "j.db"
    written(path)
    change(path, "CREATE TRIGGER more AFTER INSERT ON events BEGIN DELETE FROM events; END")
    with pytest.raises(JournalError, match="a trigger or a view 'more', which rolin did not make"):
        Bandit(journal=path)


def test_a_file_replaced_before_the_first_write_is_noticed(tmp_path: Path) -> None:
    """The file is the one that was opened, not the one that is there at the first write."""
    path = tmp_path / "j.db"
    written(path)
    bandit = Bandit(journal=path)
    for file in tmp_path.glob("j.db*"):
        file.unlink()
    other = Bandit(rolin.RoLinTS(n_features=2, seed=3), journal=path)
    other.decide(np.eye(2), id="other")
    with pytest.raises(JournalError, match="deleted or replaced while it was open"):
        bandit.decide(np.eye(2), id="lost")
    other.close()
    with Bandit(journal=path) as again:
        assert again.journal.decision("other") is not None


def test_missing_events_stop_a_replay(tmp_path: Path) -> None:
    """A state is never computed from what is left."""
    written(tmp_path / "j.db", snapshot_every=None)
    change(tmp_path / "j.db", "DELETE FROM events WHERE seq = 30")
    with pytest.raises(JournalError, match=r"1 of the events 1 to .* are missing"):
        load_policy(tmp_path / "j.db")
    with pytest.raises(JournalError, match="are missing"):
        Bandit(journal=tmp_path / "j.db")


def test_a_damaged_snapshot_is_replaced_by_an_earlier_one(tmp_path: Path) -> None:
    """With a warning; the state is the same."""
    path = tmp_path / "j.db"
    expected = written(path)
    change(path, "UPDATE states SET state = x'00' WHERE seq = (SELECT max(seq) FROM states)")
    with pytest.warns(UserWarning, match=r"snapshot \d+ is damaged; an earlier one is used"):
        assert state_bytes(load_policy(path).policy) == expected
    change(path, "UPDATE states SET state = x'00'")
    with (
        pytest.warns(UserWarning, match="an earlier one is used"),
        pytest.raises(JournalError, match=r"no snapshot can be read: .*snapshot 0 is damaged"),
    ):
        load_policy(path)


def test_a_snapshot_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """If events were removed and the state after them is gone, nothing can be rebuilt: no endless search."""
    path = tmp_path / "j.db"
    state = written(path)
    with Bandit(journal=path) as bandit:
        bandit.erase(ids=["visit-1"])
    change(path, "DELETE FROM states")
    with pytest.raises(JournalError, match="cannot be rebuilt"):
        load_policy(path)
    with closing(sqlite3.connect(path)) as db, db:  # a state from before the removal
        row = (1, state, state_checksum(1, state))
        db.execute("INSERT INTO states VALUES (?, ?, ?)", row)
    with pytest.raises(JournalError, match="cannot be rebuilt"):
        load_policy(path)


def test_expiry_ends_although_nothing_fits(tmp_path: Path) -> None:
    """A table of waiting decisions that names unknown ones does not make `expire` run for ever."""
    path = tmp_path / "j.db"
    with Bandit(rolin.RoLinTS(n_features=1, seed=1), journal=path) as bandit:
        bandit.decide(np.eye(1), id="a")
        change(path, "INSERT INTO waiting VALUES ('nobody', 0, 1.0)")
        for expired in (1, 0):
            with pytest.warns(UserWarning, match="'nobody' waits for a reward, but has no such"):
                assert bandit.expire(0.0) == expired
        change(path, "DELETE FROM waiting WHERE decision = 'nobody'")
        assert bandit.expire(0.0) == 0
        bandit.decide(np.eye(1), id="b")
        change(path, "UPDATE waiting SET place = 7 WHERE decision = 'b'")
        with pytest.raises(JournalError, match="disagrees with decision 'b'"):
            bandit.expire(0.0)


@pytest.mark.parametrize("which", ["j.db", "j.db-wal"])
@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_is_gone_is_noticed(which: str, how: str, tmp_path: Path) -> None:
    """No call succeeds once the file, or its log, is not the one that is written to."""
    path = tmp_path / "j.db"
    bandit = Bandit(rolin.RoLinTS(n_features=1, seed=1), journal=path)
    bandit.decide(np.eye(1), id="a")
    target = tmp_path / which
    if how == "replaced":
        shutil.copy(target, tmp_path / "copy")
    target.unlink()
    if how == "replaced":
        os.rename(tmp_path / "copy", target)
    with pytest.raises(JournalError, match="deleted or replaced while it was open"):
        bandit.decide(np.eye(1), id="b")
    with pytest.raises(JournalError, match="deleted or replaced"):
        bandit.reward("a", 1.0)


def test_rejected_events_are_recorded_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the policy rejects a reward that has been written, the journal says so, and a replay agrees."""
    from rolin.errors import NotFiniteError

    path = tmp_path / "j.db"
    real: Callable[..., Any] = rolin.RoLinTS.update

    def update(self: Any, arm: Any, context: Any, reward: float, *more: Any) -> None:
        if reward == 7.0:
            raise NotFiniteError("too large")
        real(self, arm, context, reward, *more)

    monkeypatch.setattr(rolin.RoLinTS, "update", update)
    with Bandit(rolin.RoLinTS(n_features=1, seed=1), journal=path) as bandit:
        for i, value in enumerate((1.0, 7.0, 2.0)):
            bandit.decide(np.eye(1), id=str(i))
            if value == 7.0:
                with pytest.raises(JournalError, match="recorded, but not learned from"):
                    bandit.reward(str(i), value)
            else:
                bandit.reward(str(i), value)
        rejected = [e for _, e in bandit.journal.read() if type(e).__name__ == "Rejected"]
        assert [(event.event, "too large" in event.reason) for event in rejected] == [(4, True)]
        expected = state_bytes(bandit.policy)
    assert state_bytes(load_policy(path, from_start=True).policy) == expected
    assert check_journal(path).is_whole


def test_the_command_says_whether_a_journal_is_whole(tmp_path: Path, run_rolin: Any) -> None:
    """Exit code 0 if it is, 1 with a list of problems if it is not."""
    path = tmp_path / "j.db"
    written(path)
    good = run_rolin("journal", "check", path)
    assert good.returncode == 0
    assert "The journal is whole." in good.stdout
    change(path, "DELETE FROM events WHERE seq = 30")
    bad = run_rolin("journal", "check", path)
    assert bad.returncode == 1
    assert "- event 30 is missing" in bad.stdout


def test_a_journal_of_the_first_format_is_upgraded(tmp_path: Path) -> None:
    """Reading does not change it; writing upgrades it, and only new events have checksums."""
    old = Path(__file__).parent / "data" / "format-1"
    for source in sorted(old.glob("**/*.db")):
        path = tmp_path / source.name
        shutil.copy(source, path)
        before = path.read_bytes()
        expected = state_bytes(load_policy(path).policy)
        report = check_journal(path)
        assert report.is_whole
        assert report.unchecked == report.events
        assert path.read_bytes() == before
        with Bandit(journal=path) as bandit:
            assert state_bytes(bandit.policy) == expected
            with SQLiteJournal(path, readonly=True) as opened:
                assert opened._file.format == 2
            bandit.snapshot()
            bandit.decay(1.0) if hasattr(bandit.policy, "decay") else None
        report = check_journal(path)
        assert report.is_whole, report.problems
        assert report.unchecked < report.events or not hasattr(bandit.policy, "decay")


def test_a_reader_notices_that_somebody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of a folder that it may not write to sees new events, although it found no writer at first."""
    path = tmp_path / "j.db"
    written(path)
    monkeypatch.setattr("rolin.journal.sqlite_file.os.access", lambda *_: False)
    with SQLiteJournal(path, readonly=True) as reader:
        before = reader.header()
        assert before is not None
        assert reader._file._immutable is not None
        with Bandit(journal=path) as bandit:
            bandit.decide(np.eye(2), id="new")
            assert reader.decision("new") is not None
            assert reader.header() == before._replace(last=before.last + 1)


def test_a_log_that_cannot_be_written_back_is_worth_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that reads for long makes the write-ahead log grow: whoever writes is told."""
    monkeypatch.setattr("rolin.journal.sqlite_file._LARGE_LOG", 100_000)
    path = tmp_path / "j.db"
    with (
        Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=path) as bandit,
        closing(sqlite3.connect(path, isolation_level=None)) as reader,
    ):
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        with pytest.warns(UserWarning, match="another process has been reading the file for long"):
            bandit.decide_many([np.ones((50, 2))] * 200)


def test_tables_of_litestream_are_no_damage(tmp_path: Path) -> None:
    """It adds two tables to a database that it replicates."""
    path = tmp_path / "j.db"
    with Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=path) as bandit:
        bandit.decide({"a": [1.0, 0.0], "b": [0.0, 1.0]})
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
        db.execute("CREATE TABLE _litestream_lock (id INTEGER)")
    assert check_journal(path).problems == ()
