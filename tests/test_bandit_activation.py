"""Decisions that are made in advance: they count from their activation on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolin import Bandit, offline
from rolin.errors import (
    DecisionConflict,
    InputError,
    RewardConflict,
    RolinError,
    ShapeError,
    UnknownDecision,
)
from rolin.journal import Journal, SQLiteJournal, check_journal, load_policy
from rolin.journal.events import Activated, HeldReward, LoggedDecision, Outcome
from rolin.journal.folding import state_bytes
from support.bandits import QUESTION, Clock, known_scales
from support.journals import forged


@pytest.fixture
def bandit(journal: Journal) -> Bandit:
    """A bandit with scales that are known, and a clock that stands still."""
    return Bandit(known_scales(), journal=journal, clock=Clock())


def learned(bandit: Bandit, rewards: list[tuple[str, Any, float]]) -> bytes:
    """Return the state of a policy that was updated with these rewards, in this order."""
    policy = known_scales()
    for id, arm, value in rewards:
        decision = bandit.journal.decision(id)
        assert decision is not None
        index = decision.offered.index(arm)
        policy.update(arm, decision.context_of(index).copy(), value)
    return state_bytes(policy)


def kinds(bandit: Bandit) -> list[type]:
    """Return the types of all events."""
    return [type(event) for _, event in bandit.journal.read()]


def test_an_early_reward_is_learned_at_activation(bandit: Bandit) -> None:
    """In the order in which the rewards were recorded, and not before."""
    made = bandit.decide(QUESTION, id="early", top_k=2, active=False)
    assert not made.active
    first, second = made.ranking
    origin = state_bytes(bandit.policy)
    bandit.reward("early", 2.0, arm=second)
    bandit.decide(QUESTION, id="usual")
    bandit.reward("early", 1.0)
    assert state_bytes(bandit.policy) == origin
    assert bandit.waiting() == ["early", "usual"]
    bandit.reward("usual", 0.5)
    usual = bandit.journal.decision("usual")
    assert usual is not None
    bandit.activate("early")
    expected = [("usual", usual.arm, 0.5), ("early", second, 2.0), ("early", first, 1.0)]
    assert state_bytes(bandit.policy) == learned(bandit, expected)
    assert kinds(bandit) == [LoggedDecision, HeldReward, LoggedDecision, HeldReward, Outcome, Activated, Outcome, Outcome]  # fmt: skip
    assert bandit.waiting() == []
    assert state_bytes(load_policy(bandit.journal, from_start=True)[0]) == state_bytes(bandit.policy)  # fmt: skip


def test_it_is_the_same_as_a_usual_decision(bandit: Bandit) -> None:
    """The same arm by the same draws, and after the activation the same rewards."""
    usual = bandit.decide(QUESTION, id="visit")
    other = Bandit(known_scales(), clock=Clock())
    made = other.decide(QUESTION, id="visit", active=False)
    assert (made.arm, made.propensities.tolist()) == (usual.arm, usual.propensities.tolist())  # type: ignore[union-attr]
    other.activate("visit")
    for one in (bandit, other):
        one.reward("visit", 1.0)
    assert state_bytes(bandit.policy) == state_bytes(other.policy)


def test_activation_can_be_repeated(bandit: Bandit) -> None:
    """Also that of a decision that was active from the start."""
    bandit.decide(QUESTION, id="visit", active=False)
    bandit.reward("visit", 1.0)
    bandit.activate("visit")
    bandit.decide(QUESTION, id="usual")
    before = bandit.version, state_bytes(bandit.policy)
    for _ in range(2):
        bandit.activate("visit")
        bandit.activate("usual")
    assert (bandit.version, state_bytes(bandit.policy)) == before
    assert bandit.decide(QUESTION, id="visit", active=False).id == "visit"


def test_early_rewards_can_be_repeated(bandit: Bandit) -> None:
    """But not with another value, before or after the activation."""
    bandit.decide(QUESTION, id="visit", active=False)
    bandit.reward("visit", 1.0, weight=2.0)
    for _ in range(2):
        bandit.reward("visit", 1.0, weight=2.0)
        with pytest.raises(RewardConflict, match=r"has a reward of 1\.0, but now 0\.0"):
            bandit.reward("visit", 0.0)
        with pytest.raises(RewardConflict, match="weight 1"):
            bandit.reward("visit", 1.0)
        bandit.activate("visit")
    assert kinds(bandit) == [LoggedDecision, HeldReward, Activated, Outcome]
    (outcome,) = bandit.journal.outcomes("visit").values()
    assert (outcome.value, outcome.weight) == (1.0, 2.0)


def test_never_activated_teaches_nothing(bandit: Bandit) -> None:
    """Neither its early reward nor the default reward; too late is an error."""
    origin = state_bytes(bandit.policy)
    bandit.decide(QUESTION, id="visit", top_k=2, active=False)
    bandit.reward("visit", 1.0)
    bandit.reward("visit", 1.0, reward_id="part", arm=bandit.journal.decision("visit").ranking[1])  # type: ignore[union-attr]
    assert bandit.expire(0.0, default_reward=5.0) == 2
    assert state_bytes(bandit.policy) == origin
    assert [o.value for o in bandit.journal.outcomes("visit").values()] == [None, None]
    before = bandit.version
    with pytest.raises(DecisionConflict, match="'visit' has expired before it was activated"):
        bandit.activate("visit")
    with pytest.raises(RewardConflict, match="has expired with nothing"):
        bandit.reward("visit", 1.0)
    assert bandit.version == before
    assert bandit.waiting() == []


def test_logs_hold_only_what_was_shown(bandit: Bandit, tmp_path: Path) -> None:
    """Tables, files and evaluations leave out what was never activated."""
    for id in ("a", "b", "c", "d"):
        bandit.decide(QUESTION, id=id, active=id in "ab")
        bandit.reward(id, 1.0)
    bandit.activate("c")
    assert list(bandit.to_frame()["id"]) == ["a", "b", "c"]
    assert bandit.to_frame()["outcome"].tolist() == ["reward"] * 3
    assert bandit.export_log(tmp_path / "log.csv") == 3
    assert offline.read(bandit).ids == ["a", "b", "c"]
    other = Bandit(known_scales())
    assert other.import_log(bandit.journal) == 3
    stored = other.journal.decision("c")
    assert stored is not None
    assert stored.active
    assert state_bytes(other.policy) == state_bytes(bandit.policy)


def test_rejected_calls_change_nothing(bandit: Bandit) -> None:
    """Unknown ids and wrong arguments."""
    made = bandit.decide(QUESTION, id="visit", active=False)
    before = bandit.version
    with pytest.raises(UnknownDecision, match="no decision has the id 'other'"):
        bandit.activate("other")
    with pytest.raises(InputError, match=r"pass decision\.id"):
        bandit.activate(made)  # type: ignore[arg-type]
    for id in ("", 7, None, "a\0b"):
        with pytest.raises(InputError):
            bandit.activate(id)  # type: ignore[arg-type]
    for active in ("no", None, 2):
        with pytest.raises(RolinError, match="active"):
            bandit.decide(QUESTION, id="new", active=active)  # type: ignore[arg-type]
    with pytest.raises(ShapeError):
        bandit.decide({"a": [1.0]}, id="new", active=False)
    assert bandit.version == before
    assert bandit.journal.decision("new") is None


def test_several_processes_and_a_restart(tmp_path: Path) -> None:
    """One decides, another is rewarded, a third activates; each has the same state to the bit."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path) as one, Bandit(journal=path) as two:
        one.decide_many([QUESTION] * 3, ids=["a", "b", "c"], active=False)
        two.reward_many({"a": 1.0, "b": 2.0})
        two.activate("b")
        with Bandit(journal=path, snapshot_every=1) as three:
            three.activate("a")
            three.reward("c", 3.0)
            assert three.snapshot() == three.version
        one.activate("c")
        one.activate("a")
        two.refresh()
        assert state_bytes(one.policy) == state_bytes(two.policy)
        expected = [(id, one.journal.decision(id).arm, value) for id, value in (("b", 2.0), ("a", 1.0), ("c", 3.0))]  # type: ignore[union-attr] # fmt: skip
        assert state_bytes(one.policy) == learned(one, expected)
    with Bandit(journal=path) as again:
        assert state_bytes(again.policy) == learned(again, expected)
    assert state_bytes(load_policy(path, from_start=True)[0]) == state_bytes(again.policy)
    assert check_journal(path).is_whole


def test_erased_with_the_decision(bandit: Bandit) -> None:
    """Held rewards and activations belong to the person, too."""
    bandit.decide(QUESTION, id="a", person="ann", active=False)
    bandit.reward("a", 1.0)
    bandit.reward("a", 1.0)
    bandit.decide(QUESTION, id="b", person="ann", active=False)
    bandit.activate("b")
    bandit.decide(QUESTION, id="c", person="bob", active=False)
    assert bandit.erase(person="ann") == 2
    assert [event.id for _, event in bandit.journal.read()] == ["c"]  # type: ignore[union-attr]
    assert bandit.journal.following("a") == bandit.journal.following("b") == []
    bandit.activate("c")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("UPDATE events SET decision = 'b' WHERE kind = 'activation'", "did not wait for activation"),
        ("UPDATE events SET decision = 'x' WHERE kind = 'held'", "did not wait for this reward"),
        ("UPDATE events SET body = replace(body, ',\"active\":false', '') WHERE decision = 'a'", "did not wait for activation"),
        ("UPDATE events SET place = 3 WHERE kind = 'held'", "damaged"),
        ("UPDATE events SET place = -3 WHERE kind = 'reward' AND decision = 'b'", "damaged"),
        ("UPDATE events SET digest = x'00' WHERE decision = 'b' AND place = -1", "digest"),
    ],
)  # fmt: skip
def test_a_check_finds_contradictions(change: str, problem: str, tmp_path: Path) -> None:
    """Events that do not fit the decision, although their checksums match."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path) as bandit:
        bandit.decide(QUESTION, id="a", active=False)
        bandit.reward("a", 1.0)
        bandit.decide(QUESTION, id="b")
        bandit.reward("b", 1.0)
        bandit.activate("a")
    assert check_journal(path).is_whole
    forged(path, change)
    report = check_journal(path)
    assert any(problem in found for found in report.problems), report.problems


def test_a_reward_that_was_never_activated_is_a_contradiction(tmp_path: Path) -> None:
    """Nothing may be learned from what nobody has seen."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path) as bandit:
        made = bandit.decide(QUESTION, id="a", active=False)
    with SQLiteJournal(path) as journal:
        journal.append([Outcome("a", 2.0, 0, made.arm, made.context.copy(), 1.0)], after=1)
    assert "event 2: decision 'a' was never activated" in check_journal(path).problems
