"""Bandits shared by threads and processes, interrupted calls and failed writes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit
from rolin._support.arms import PastArm
from rolin.errors import JournalError, NotFiniteError, ParameterError, RewardConflict
from rolin.journal import Journal, LoggedDecision, SQLiteJournal, load_policy
from rolin.journal.events import Outcome
from rolin.journal.folding import state_bytes
from support.bandits import POLICIES, QUESTION, play

# -- processes -------------------------------------------------------------------------------


def test_loading_while_another_process_writes(tmp_path: Path) -> None:
    """What comes between two readings is noted once; what cannot be read changes no setting."""
    path = tmp_path / "j.db"
    one = Bandit(rolin.RoLinTS(n_features=0, seed=1), journal=path, floor=0.1)
    one.reward(one.decide({"a": []}).id, 1.0)
    one.decide({"a": []}, id="late")
    one.remove_arm("a")
    journal = SQLiteJournal(path)
    lasting = journal.permanent_events

    def slow() -> Any:
        journal.permanent_events = lasting  # type: ignore[method-assign]
        one.restore_arm("a", with_past=False)
        return lasting()

    journal.permanent_events = slow  # type: ignore[method-assign]
    two = Bandit(journal=journal)
    two.reward("late", 1.0)
    assert journal.outcomes("late")[0].arm == PastArm("a", 1)
    one.refresh()
    assert state_bytes(one.policy) == state_bytes(two.policy)

    def broken() -> Any:
        journal.permanent_events = lasting  # type: ignore[method-assign]
        raise JournalError("for a moment")

    journal.permanent_events = broken  # type: ignore[method-assign]
    one.erase(older_than=0.0)
    with pytest.raises(JournalError, match="for a moment"):
        two.refresh()
    assert two.decide({"a": [], "b": []}).propensity == pytest.approx(0.5)
    assert "floor=0.1" in repr(two)
    one.close()
    journal.close()


def test_settings_of_two_processes_add_up(tmp_path: Path) -> None:
    """Each changes what it was given, and nothing else."""
    path = tmp_path / "j.db"
    one = Bandit(rolin.Greedy(n_features=0, seed=1), journal=path)
    two = Bandit(journal=path, floor=0.1)
    three = Bandit(journal=path, control_share=0.2)
    one.refresh()
    for bandit in (one, three):
        assert "floor=0.1, control_share=0.2" in repr(bandit)
    with pytest.raises(ParameterError, match="expected propensities=True"):
        Bandit(journal=path, propensities=False)
    for bandit in (one, two, three):
        bandit.close()


def test_two_bandits_share_a_file(tmp_path: Path) -> None:
    """Each folds what the other wrote, in the order of the journal."""
    bandits = [
        Bandit(rolin.RoLinTS(n_features=2, arm_std="learn", seed=1), journal=tmp_path / "j.db")
        for _ in range(2)
    ]
    for t in range(40):
        decision = bandits[t % 2].decide(QUESTION, id=f"visit-{t}")
        bandits[(t + t // 3) % 2].reward(decision.id, float(t % 5))
        assert bandits[(t + 1) % 2].decide(QUESTION, id=f"visit-{t}").arm == decision.arm
    assert bandits[0].refresh() == bandits[1].refresh()
    assert state_bytes(bandits[0].policy) == state_bytes(bandits[1].policy)
    assert state_bytes(load_policy(bandits[0].journal, from_start=True)[0]) == state_bytes(
        bandits[0].policy
    )
    with pytest.raises(RewardConflict):
        bandits[0].reward("visit-0", 99.0)
    for bandit in bandits:
        bandit.close()


# -- threads, interruptions ------------------------------------------------------------------


def test_threads_share_a_bandit(journal: Journal) -> None:
    """Every acknowledged decision and reward is there once, and replay gives the state."""
    bandit = Bandit(POLICIES["learned scales"](), journal=journal)
    answers: dict[str, list[str]] = {}
    errors: list[BaseException] = []

    def work(name: int) -> None:
        try:
            rng = np.random.default_rng(name)
            for i in range(30):
                mine = bandit.decide(rng.normal(size=(3, 2)), list(QUESTION))
                shared = bandit.decide(QUESTION, id=f"shared-{i}")
                answers.setdefault(shared.id, []).append(str(shared.arm))
                bandit.reward(mine.id, float(rng.normal()))
                bandit.reward(shared.id, float(i))  # all four say the same
                if i % 10 == name:
                    bandit.decay(0.9)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert all(len(set(arms)) == 1 and len(arms) == 4 for arms in answers.values())
    events = [event for _, event in journal.read()]
    assert sum(isinstance(event, LoggedDecision) for event in events) == 4 * 30 + 30
    assert sum(isinstance(event, Outcome) for event in events) == 4 * 30 + 30
    assert state_bytes(load_policy(journal, from_start=True)[0]) == state_bytes(bandit.policy)


def test_callers_that_wait_are_written_together(tmp_path: Path) -> None:
    """While one transaction is on its way to the disk, the next one fills up."""
    journal = SQLiteJournal(tmp_path / "j.db")
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=journal)
    sizes: list[int] = []
    append = journal.append
    held, waiting = threading.Event(), threading.Semaphore(0)

    def slow(events: Any, *, after: int) -> int:
        events = list(events)
        sizes.append(len(events))
        if len(sizes) == 1:
            waiting.release()
            held.wait(10)
        return append(events, after=after)

    journal.append = slow  # type: ignore[method-assign]
    threads = [threading.Thread(target=bandit.decide, args=(QUESTION,)) for _ in range(12)]
    threads[0].start()
    waiting.acquire()
    for thread in threads[1:]:
        thread.start()
    while len(bandit._writer._commits._queue) < 11:
        pass
    held.set()
    for thread in threads:
        thread.join()
    assert sizes == [1, 11]
    bandit.close()


@pytest.mark.parametrize("step", ["fold", "append"])
def test_an_interruption_loses_nothing(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between writing and learning, or before: afterwards the state is the journal's."""
    bandit = Bandit(POLICIES["learned scales"]())
    play(bandit, 9)
    id = bandit.decide(QUESTION).id

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "fold":
            patch.setattr(bandit.policy, "update", interrupted)
        else:
            patch.setattr(bandit.journal, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bandit.reward(id, 1.0)
    assert bool(bandit.journal.outcomes(id)) == (step == "fold")
    bandit.reward(id, 1.0)
    assert len(bandit.journal.outcomes(id)) == 1
    assert state_bytes(load_policy(bandit.journal, from_start=True)[0]) == state_bytes(
        bandit.policy
    )


def test_a_half_folded_state_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interruption, a snapshot and a decision are of the journal's state."""
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=1))
    ids = [bandit.decide(QUESTION).id for _ in range(4)]
    update, calls = bandit.policy.update, []

    def interrupted(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        update(*given)

    with monkeypatch.context() as patch:
        patch.setattr(bandit.policy, "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bandit.reward_many(dict.fromkeys(ids, 1.0))
    assert bandit.snapshot() == 8
    kept = bandit.journal.latest_snapshot()
    assert kept is not None
    assert kept[1] == state_bytes(load_policy(bandit.journal, from_start=True)[0])
    assert bandit.decide(QUESTION).version == 8


def test_a_change_that_cannot_be_made_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the journal could never be read again."""
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=1))
    play(bandit, 5)
    before = bandit.version

    def refuse(self: Any, factor: float) -> None:
        raise NotFiniteError("too far apart")

    with monkeypatch.context() as patch:
        patch.setattr(rolin.RoLinTS, "decay", refuse)
        with pytest.raises(NotFiniteError):
            bandit.decay(0.5)
    assert bandit.version == before


def test_ids_of_many_threads() -> None:
    """All are new, however often threads take turns."""
    bandit = Bandit(rolin.Uniform(n_features=0, seed=1))
    found: list[str] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            found.extend(bandit.decide({"a": [], "b": []}).id for _ in range(200))
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
    assert len(set(found)) == 1600


def test_a_forked_bandit_says_so() -> None:
    """Its ids and its connection belong to another process."""
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=1))
    bandit._writer._process += 1
    calls: list[Callable[[], object]] = [
        lambda: bandit.decide(QUESTION), lambda: bandit.decay(0.5), bandit.snapshot, bandit.refresh,
        lambda: bandit.erase(older_than=0.0),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(JournalError, match="open one in each process"):
            call()


def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    """On a full disk callers get the error, the state stays, and later all works again."""
    journal = SQLiteJournal(tmp_path / "j.db")
    bandit = Bandit(POLICIES["learned scales"](), journal=journal)
    play(bandit, 20)
    id = bandit.decide(QUESTION).id
    state = state_bytes(bandit.policy)
    (pages,) = journal._file.writer.execute("PRAGMA page_count").fetchone()
    journal._file.writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(JournalError, match="full"):
        bandit.decide_many(np.zeros((300, 3, 2)))
    assert state_bytes(bandit.policy) == state
    journal._file.writer.execute("PRAGMA max_page_count = 100000")
    bandit.reward(id, 1.0)
    assert state_bytes(load_policy(journal, from_start=True)[0]) == state_bytes(bandit.policy)
    bandit.close()


def test_decisions_do_not_wait_for_a_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    """It works on a copy, so it sees the state of the moment when it began."""
    running, go_on = threading.Event(), threading.Event()
    bandit = rolin.Bandit(rolin.RoLinTS(n_features=2, seed=1))
    diagnose = rolin.RoLinTS.diagnose
    counts: list[int] = []

    def slow(self: rolin.RoLinTS, **options: Any) -> Any:
        running.set()
        assert go_on.wait(10.0)
        counts.append(self.posterior.count)
        return diagnose(self, **options)

    def reward(id: str, value: float) -> None:
        bandit.decide({"a": [1.0, 0.0], "b": [0.0, 1.0]}, id=id)
        bandit.reward(id, value)

    for t in range(8):
        reward(str(t), float(t % 3))
    monkeypatch.setattr(rolin.RoLinTS, "diagnose", slow)
    thread = threading.Thread(target=bandit.diagnose)
    thread.start()
    assert running.wait(10.0)
    deciding = threading.Thread(target=reward, args=("8", 1.0))
    deciding.start()
    deciding.join(5.0)
    proceeded = not deciding.is_alive()
    go_on.set()
    thread.join()
    deciding.join()
    assert proceeded
    assert counts == [8]
    assert bandit.policy.posterior.count == 9
