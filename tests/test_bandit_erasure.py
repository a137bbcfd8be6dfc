"""Erasing a person: the state stays, and erased decisions do not come back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import rolin
from rolin import Bandit
from rolin.errors import JournalError, UnknownDecision
from rolin.features import Number
from rolin.journal import Journal, LoggedDecision, SQLiteJournal, load_policy
from rolin.journal.events import PermanentEvent
from rolin.journal.folding import state_bytes
from support.bandits import POLICIES, QUESTION, Clock, play


def test_erasing_keeps_the_state(journal: Journal) -> None:
    """What was learned stays; what it was learned from is gone; and the law says from where on."""
    clock = Clock()
    bandit = Bandit(POLICIES["learned scales"](), journal=journal, clock=clock)
    play(bandit, 30)
    clock.now += 100.0
    play(bandit, 15, start=30)
    state, version = state_bytes(bandit.policy), bandit.version
    assert bandit.erase(person="person-1") == 9
    assert bandit.erase(person="person-1") == 0
    assert bandit.erase(ids=["visit-2", "visit-3", "nobody"]) == 2
    assert bandit.erase(older_than=timedelta(seconds=50)) == 22
    # Erasing takes a number.
    assert (state_bytes(bandit.policy), bandit.version) == (state, version + 3)
    left = [event for _, event in journal.read() if isinstance(event, LoggedDecision)]
    assert {d.id for d in left} == {f"visit-{t}" for t in range(30, 45) if t % 5 != 1}
    with pytest.raises(UnknownDecision, match="visit-2"):
        bandit.reward("visit-2", 1.0)
    with pytest.raises(JournalError, match=f"events up to {version + 3} have been removed"):
        load_policy(journal, from_start=True)
    with pytest.raises(JournalError, match="have been removed"):
        load_policy(journal, upto=version)
    play(bandit, 15, start=45)
    again = Bandit(journal=journal)
    assert state_bytes(again.policy) == state_bytes(bandit.policy)
    assert bandit.erase(older_than=datetime.fromtimestamp(clock.now + 1, UTC)) > 0
    assert bandit.erase(older_than=0.0) == 0


def test_a_second_process_learns_what_was_erased(tmp_path: Path) -> None:
    """Events that were written and removed while it looked away are in the state that was kept."""
    one = Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=tmp_path / "j.db")
    two = Bandit(journal=tmp_path / "j.db")
    play(one, 12)
    one.erase(older_than=0.0)
    assert two.refresh() == one.version
    assert state_bytes(two.policy) == state_bytes(one.policy)
    one.close()
    two.close()


@pytest.mark.parametrize("when", ["refresh", "load"])
def test_erasing_while_another_process_reads(when: str, tmp_path: Path) -> None:
    """Half of the events are gone when they are read: then the state that was kept counts."""
    path = tmp_path / "j.db"
    one = Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=path)
    journal = SQLiteJournal(path)
    two = Bandit(journal=journal) if when == "refresh" else None
    play(one, 40)
    read = journal.read

    def slow(**options: Any) -> Iterator[Any]:
        for i, event in enumerate(read(**options)):
            if i == 3:
                journal.read = read  # type: ignore[method-assign]
                one.erase(older_than=0.0)
                return  # as if the rest were read afterwards
            yield event

    journal.read = slow  # type: ignore[method-assign]
    if two is None:
        two = Bandit(journal=journal)
    two.refresh()
    assert two.version == one.version
    assert state_bytes(two.policy) == state_bytes(one.policy)
    one.close()
    journal.close()


def test_a_reward_for_what_is_being_erased(tmp_path: Path) -> None:
    """Nothing of the erased decision comes back with it."""
    journal = SQLiteJournal(tmp_path / "j.db")
    one = Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=journal)
    two = Bandit(journal=tmp_path / "j.db")
    one.decide(QUESTION, id="secret", person="ann")
    append = journal.append

    def late(events: Any, *, after: int) -> int:
        journal.append = append  # type: ignore[method-assign]
        two.erase(person="ann")
        return append(events, after=after)

    journal.append = late  # type: ignore[method-assign]
    with pytest.raises(UnknownDecision):
        one.reward("secret", 1.0)
    assert list(journal.read()) == []
    assert state_bytes(one.policy) == state_bytes(two.policy)
    two.close()
    journal.close()


def test_an_erased_decision_does_not_come_back(tmp_path: Path) -> None:
    """Another process erases it while it is asked for again: the answer is a new decision, made after the erasure."""
    journal = SQLiteJournal(tmp_path / "j.db")
    one = Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=journal)
    two = Bandit(journal=tmp_path / "j.db")
    one.decide(QUESTION, id="visit", person="ann")
    header = journal.header

    def late() -> Any:
        journal.header = header  # type: ignore[method-assign]
        two.erase(person="ann")
        return header()

    journal.header = late  # type: ignore[method-assign]
    again = one.decide(QUESTION, id="visit", person="ann")
    assert again.version == 2  # the erasure
    assert [seq for seq, _ in journal.read()] == [3]
    journal.close()
    two.close()


def raw_bandit(path: Path) -> Bandit[rolin.RoLinTS]:
    """A bandit with raw features, which remembers its recent decisions."""
    features = rolin.FeatureMap(arm={"price": Number()}, intercept=False)
    policy = rolin.RoLinTS(n_features=features.n_features, seed=1)
    return Bandit(policy, feature_map=features, journal=path)


def test_erased_decisions_are_not_remembered(tmp_path: Path) -> None:
    """Raw features of a decision leave the memory, whichever process erases it."""
    one, two = raw_bandit(tmp_path / "j.db"), raw_bandit(tmp_path / "j.db")
    arms = {"a": {"price": 1.0}, "b": {"price": 2.0}}
    one.decide(arms, id="first", person="ann")
    two.erase(person="ann")
    for call in (lambda: one.reward("first", 1.0), lambda: one.explain("first")):
        with pytest.raises(UnknownDecision):
            call()
    one.decide(arms, id="second", person="ann")
    one.erase(person="ann")
    with pytest.raises(UnknownDecision):
        one.reward("second", 1.0)
    one.close()
    two.close()


def test_an_id_that_was_erased_and_used_again(tmp_path: Path) -> None:
    """The first process knows the features of the erased decision, but uses those of the new one."""
    one, two = raw_bandit(tmp_path / "j.db"), raw_bandit(tmp_path / "j.db")
    one.decide({"a": {"price": 1.0}}, id="visit")
    two.erase(ids=["visit"])
    two.decide({"a": {"price": 5.0}}, id="visit")
    one.reward("visit", 1.0)
    assert one.journal.outcomes("visit")[0].context.tolist() == [5.0]
    one.close()
    two.close()


def test_a_reward_for_raw_features_that_are_being_erased(tmp_path: Path) -> None:
    """Another process erases between the look into the memory and the write: nothing comes back."""
    one, two = raw_bandit(tmp_path / "j.db"), raw_bandit(tmp_path / "j.db")
    one.decide({"a": {"price": 1.0}}, id="visit", person="ann")
    append = one.journal.append

    def late(*args: Any, **options: Any) -> int:
        one.journal.append = append  # type: ignore[method-assign]
        two.erase(person="ann")
        return append(*args, **options)

    one.journal.append = late  # type: ignore[method-assign]
    with pytest.raises(UnknownDecision):
        one.reward("visit", 1.0)
    assert not [e for _, e in one.journal.read() if not isinstance(e, PermanentEvent)]
    one.close()
    two.close()
