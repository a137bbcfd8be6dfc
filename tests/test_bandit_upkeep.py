"""What a bandit does in the background: learn scales, store snapshots, write back the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit
from rolin.errors import JournalError
from rolin.features import Number
from rolin.journal import SQLiteJournal, load_policy
from rolin.journal.events import ScalesLearned
from rolin.journal.folding import state_bytes
from rolin.model.estimation_task import EstimationTask

QUESTION = {"a": [1.0, 0.0], "b": [0.0, 1.0]}


def play(bandit: Bandit[Any], n: int, *, start: int = 0) -> None:
    """Decide and reward."""
    rng = np.random.default_rng(start)
    for t in range(start, start + n):
        bandit.decide(QUESTION, id=f"visit-{t}")
        bandit.reward(f"visit-{t}", float(rng.normal()))


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for at most ten seconds."""
    end = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def learned(bandit: Bandit[Any]) -> list[ScalesLearned]:
    """The estimates that the journal holds."""
    return [event for _, event in bandit.journal.read() if isinstance(event, ScalesLearned)]


def test_rewards_do_not_wait_for_an_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one runs, the bandit decides and learns; then its scales are used, and a restart knows them."""
    running, go_on = threading.Event(), threading.Event()
    run = EstimationTask.run

    def slow(task: EstimationTask) -> Any:
        running.set()
        assert go_on.wait(10.0)
        return run(task)

    monkeypatch.setattr(EstimationTask, "run", slow)
    with Bandit(
        rolin.RoLinTS(n_features=2, seed=1), journal=tmp_path / "j.db", background=True
    ) as bandit:
        play(bandit, 10)
        assert running.wait(10.0)
        play(bandit, 15, start=10)
        assert learned(bandit) == []
        go_on.set()
        wait_until(lambda: bool(learned(bandit)))
        assert bandit.policy.scales == learned(bandit)[-1].scales
        wait_until(lambda: not bandit.policy.posterior.is_due)
        state = state_bytes(bandit.policy)
    with SQLiteJournal(tmp_path / "j.db") as journal:
        assert state_bytes(load_policy(journal, from_start=True).policy) == state


def test_an_estimate_that_no_longer_fits_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map got a field while it ran: it is made again."""
    features = rolin.FeatureMap(arm={"x": Number()})
    sizes: list[int] = []
    run = EstimationTask.run

    def grow(task: EstimationTask) -> Any:
        assert task.moments is not None
        sizes.append(task.moments.n_features)
        if len(sizes) == 1:
            bandit.change_feature_map(features.with_fields(arm={"y": Number()}))
        return run(task)

    monkeypatch.setattr(EstimationTask, "run", grow)
    policy = rolin.RoLinTS(n_features=features.n_features, seed=1)
    with Bandit(policy, feature_map=features, journal=tmp_path / "j.db", background=True) as bandit:
        rng = np.random.default_rng(1)
        for t in range(10):
            bandit.decide({"a": {"x": 1.0}, "b": {"x": -1.0}}, id=str(t))
            bandit.reward(str(t), float(rng.normal()))
        wait_until(lambda: bool(learned(bandit)))
        assert sizes == [features.n_features, features.n_features + 1]
        assert len(learned(bandit)) == 1


def test_a_failure_is_not_repeated_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that cannot be stored is tried again after the next event, not before."""
    tries: list[int] = []
    policy = rolin.RoLinTS(n_features=2, noise_std=1.0, arm_std=1.0, coef_std=1.0, seed=1)
    journal = SQLiteJournal(tmp_path / "j.db")

    def full(version: int, state: bytes) -> None:
        tries.append(version)
        raise JournalError("the disk is full")

    monkeypatch.setattr(journal, "save_snapshot", full)
    with journal, Bandit(policy, journal=journal, snapshot_every=2, background=True) as bandit:
        play(bandit, 1)
        wait_until(lambda: len(tries) == 1)
        time.sleep(0.05)
        assert len(tries) == 1
        play(bandit, 1, start=1)
        wait_until(lambda: len(tries) > 1)


def test_snapshots_are_stored_in_the_background(tmp_path: Path) -> None:
    """And closing waits for them."""
    policy = rolin.RoLinTS(n_features=2, noise_std=1.0, arm_std=1.0, coef_std=1.0, seed=1)
    with Bandit(policy, journal=tmp_path / "j.db", snapshot_every=10, background=True) as bandit:
        play(bandit, 30)
    state = state_bytes(bandit.policy)  # the intercept's scale may have been learned last
    with SQLiteJournal(tmp_path / "j.db") as journal:
        assert max(journal.snapshot_versions()) >= 20
        assert state_bytes(load_policy(journal).policy) == state


def test_the_log_is_written_back_while_events_are_appended(tmp_path: Path) -> None:
    """It stays below a few times 16 MB, although nobody pauses; without background SQLite does it at 4 MB."""
    log = tmp_path / "j.db-wal"
    policy = rolin.RoLinTS(n_features=100, noise_std=1.0, arm_std=1.0, coef_std=1.0, seed=1)
    contexts = np.random.default_rng(1).normal(size=(400, 100))  # 320 KB per decision
    largest = 0
    with Bandit(policy, journal=tmp_path / "j.db", background=True, propensities=False) as bandit:
        for t in range(300):
            bandit.decide(contexts, id=str(t))
            largest = max(largest, log.stat().st_size)
        assert (4 << 20) < largest < (64 << 20)
        assert len(bandit.journal.find(map(str, range(300)))) == 300


def test_a_closed_journal_is_not_opened_again(tmp_path: Path) -> None:
    """Not even by a checkpoint that was about to begin: the file may have been deleted."""
    journal = SQLiteJournal(tmp_path / "j.db")
    journal.defer_upkeep()
    journal.close()
    (tmp_path / "j.db").unlink()
    with pytest.raises(JournalError, match="it was closed"):
        journal.do_upkeep()
    assert not (tmp_path / "j.db").exists()


@pytest.mark.parametrize("background", [False, True])
def test_an_estimate_survives_events_of_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, background: bool
) -> None:
    """They are folded first, and then it is recorded."""
    run = EstimationTask.run

    def disturbed(task: EstimationTask) -> Any:
        other.decide(QUESTION)
        return run(task)

    policy = rolin.RoLinTS(n_features=2, seed=1)
    path = tmp_path / "j.db"
    with (
        Bandit(policy, journal=path, background=background) as bandit,
        Bandit(journal=path) as other,
    ):
        monkeypatch.setattr(EstimationTask, "run", disturbed)
        monkeypatch.setattr(other._writer.upkeep, "after_write", lambda: None)
        play(bandit, 10)
        bandit._writer.upkeep.wait()
        assert learned(bandit)
        assert bandit.policy.scales == learned(bandit)[-1].scales
        state = state_bytes(bandit.policy)
    with SQLiteJournal(path) as journal:
        assert state_bytes(load_policy(journal, from_start=True).policy) == state


@pytest.mark.parametrize("background", [False, True])
def test_an_unexpected_error_does_not_fail_the_call(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    background: bool,
) -> None:
    """It is logged, other work is still done, and a hundred events later it is tried again."""
    tries: list[int] = []

    def singular(task: EstimationTask) -> Any:
        tries.append(bandit.version)
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(EstimationTask, "run", singular)
    policy = rolin.RoLinTS(n_features=2, seed=1)
    with Bandit(
        policy, journal=tmp_path / "j.db", background=background, snapshot_every=1
    ) as bandit:
        for t in range(80):
            play(bandit, 1, start=t)
            bandit._writer.upkeep.wait()
        assert len(tries) == 2
        assert tries[1] >= tries[0] + 100
        assert max(bandit.journal.snapshot_versions()) >= tries[1]
    assert [record.name for record in caplog.records] == ["rolin", "rolin"]
    assert "singular" in caplog.text


def test_a_thread_that_cannot_start_does_not_fail_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The decision is recorded and answered, and closing does not wait for the thread."""

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    policy = rolin.RoLinTS(n_features=2, seed=1)
    with Bandit(policy, journal=tmp_path / "j.db", background=True, snapshot_every=1) as bandit:
        monkeypatch.setattr(threading.Thread, "start", start)
        assert bandit.decide(QUESTION, id="visit-1").id == "visit-1"
        monkeypatch.undo()
        assert "can't start new thread" in caplog.text
        play(bandit, 60, start=2)
        bandit._writer.upkeep.wait()
        assert max(bandit.journal.snapshot_versions()) > 100


def test_an_interrupt_of_upkeep_reaches_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken for a failure."""

    def interrupted(task: EstimationTask) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(EstimationTask, "run", interrupted)
    with Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=tmp_path / "j.db") as bandit:
        with pytest.raises(KeyboardInterrupt):
            play(bandit, 10)
        monkeypatch.undo()
        play(bandit, 10, start=10)
        assert learned(bandit)


def test_a_log_that_was_deferred_once_is_still_written_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a bandit that does nothing in the background."""
    monkeypatch.setattr("rolin.journal.sqlite_file._LOG", 1 << 16)
    policy = rolin.RoLinTS(n_features=2, noise_std=1.0, arm_std=1.0, coef_std=1.0, seed=1)
    with SQLiteJournal(tmp_path / "j.db") as journal:
        Bandit(policy, journal=journal, background=True).close()
        bandit = Bandit(journal=journal)
        sizes = []
        for t in range(50):
            bandit.decide(QUESTION, id=str(t))
            sizes.append((tmp_path / "j.db-wal").stat().st_size)
        assert (1 << 16) < max(sizes) < (1 << 18)  # all of them together need 1 MB


def test_a_snapshot_that_ends_late_is_not_taken_for_the_latest(tmp_path: Path) -> None:
    """Two may be stored at once."""
    policy = rolin.RoLinTS(n_features=2, seed=1)
    with Bandit(policy, journal=tmp_path / "j.db") as bandit:
        bandit._state.note_snapshot(7, 0.0)
        bandit._state.note_snapshot(5, 0.0)
        assert bandit._state.snapshot_version == 7


def test_snapshots_alone_do_not_let_the_log_grow(tmp_path: Path) -> None:
    """The log is written back after a snapshot, too: in the background, so that many in a row may be faster."""
    policy = rolin.RoLinTS(n_features=300, noise_std=1.0, arm_std=1.0, coef_std=1.0, seed=1)
    policy.update("a", np.ones(300), 1.0)
    with Bandit(policy, journal=tmp_path / "j.db", background=True) as bandit:
        for _ in range(60):  # of about 2 MB each
            bandit.snapshot()
        for _ in range(100):
            time.sleep(0.05)
            bandit.snapshot()
            if (tmp_path / "j.db-wal").stat().st_size < (16 << 20):
                return
    pytest.fail("the log only grows")
