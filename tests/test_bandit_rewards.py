"""Rewards of decisions: repeats, contradictions, rankings, late and missing rewards."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rolin
from rolin import Bandit
from rolin._support.arms import PastArm
from rolin.bandit.requests import RecordRewards, Reward
from rolin.errors import (
    ArmError,
    InputError,
    JournalError,
    NotFiniteError,
    ParameterError,
    RewardConflict,
    UnknownDecision,
)
from rolin.journal import Journal, load_policy
from rolin.journal.folding import state_bytes
from rolin.journal.group_commit import Queued
from support.bandits import QUESTION


def test_a_repeat_is_harmless_a_contradiction_is_not(bandit: Bandit) -> None:
    """A reward counts once; the message says what there is and what came."""
    id = bandit.decide(QUESTION).id
    bandit.reward(id, 1.0)
    state, version = state_bytes(bandit.policy), bandit.version
    bandit.reward(id, 1)
    bandit.reward_many({id: 1.0})
    with pytest.raises(
        RewardConflict, match=f"'{id}' has a reward of 1.0, but now 2.0 was reported"
    ):
        bandit.reward(id, 2.0)
    with pytest.raises(RewardConflict, match="weight"):
        bandit.reward(id, 1.0, weight=2.0)
    assert (state_bytes(bandit.policy), bandit.version) == (state, version)


def test_unknown_ids_are_named(bandit: Bandit) -> None:
    """And in a batch nothing is learned at all."""
    known = bandit.decide(QUESTION).id
    with pytest.raises(UnknownDecision, match="no decision has the id 'visit-99'"):
        bandit.reward("visit-99", 1.0)
    with pytest.raises(KeyError):
        bandit.reward_many({known: 1.0, "visit-99": 1.0})
    assert bandit.policy.arms == []
    bandit.reward(known, 3.0)  # the failed batch has left nothing behind
    assert bandit.policy.arms != []


def test_rankings_are_rewarded_arm_by_arm(bandit: Bandit) -> None:
    """Each arm of a ranking has its own reward; the first is the default."""
    decision = bandit.decide(QUESTION, id="list", top_k=2)
    bandit.reward("list", 1.0, arm=decision.ranking[1])
    bandit.reward("list", 0.0)
    assert set(bandit.policy.arms) == set(decision.ranking)
    (left_out,) = set(QUESTION) - set(decision.ranking)
    with pytest.raises(ArmError, match="did not choose arm"):
        bandit.reward("list", 1.0, arm=left_out)
    with pytest.raises(ArmError, match="'3'"):
        bandit.reward("list", 1.0, arm="3")


def test_what_never_came_expires(bandit: Bandit) -> None:
    """With a default reward or with none; too late is then a contradiction."""
    clock: Any = bandit._clock
    for i in range(4):
        bandit.decide(QUESTION, id=f"visit-{i}", top_k=2 if i == 0 else None)
        clock.now += 10.0
    bandit.reward("visit-0", 1.0)
    assert bandit.expire(timedelta(seconds=35)) == 1  # of visit-0, the second arm
    assert len(bandit.policy.arms) == 1
    assert bandit.expire(15.0, default_reward=0.0) == 2
    assert bandit.expire(15.0, default_reward=0.0) == 0
    with pytest.raises(RewardConflict, match="has expired"):
        bandit.reward("visit-1", 0.0)  # what was assumed, but too late
    with pytest.raises(
        RewardConflict, match=r"has expired with a reward of 0\.0, but now has a reward of 1\.0"
    ):
        bandit.reward("visit-1", 1.0)
    bandit.reward("visit-3", 1.0)
    arm = bandit.decide(QUESTION, id="visit-0", top_k=2).ranking[1]
    with pytest.raises(RewardConflict, match="has expired with nothing"):
        bandit.reward("visit-0", 1.0, arm=arm)


def test_what_waits_is_known(bandit: Bandit) -> None:
    """By id, the oldest first, a ranking once."""
    clock: Any = bandit._clock
    for id in ("a", "b", "c"):
        bandit.decide(QUESTION, id=id, top_k=2)
        clock.now += 1.0
    bandit.reward("b", 1.0)
    assert bandit.waiting() == ["a", "b", "c"]
    bandit.reward("b", 1.0, arm=bandit.decide(QUESTION, id="b", top_k=2).ranking[1])
    assert bandit.waiting() == ["a", "c"]
    assert bandit.waiting(limit=2) == ["a"]  # of two arms


def test_expiry_goes_on_until_nothing_waits(bandit: Bandit) -> None:
    """Also when more has expired than fits in one transaction."""
    bandit.decide_many(np.zeros((2500, 3, 2)))
    clock: Any = bandit._clock
    clock.now += 1.0
    assert bandit.expire(0.5, default_reward=1.0) == 2500
    assert bandit.expire(0.5) == 0


def test_late_rewards_find_the_life_they_belong_to(journal: Journal) -> None:
    """An arm that came back without its past does not inherit rewards from before."""
    bandit = Bandit(rolin.RoLinTS(n_features=0, seed=7), journal=journal)
    for id in ("first", "late", "later"):
        bandit.decide({"a": []}, id=id)
    bandit.reward("first", 1.0)
    lives = 2
    for life in range(lives):
        bandit.remove_arm("a")
        bandit.restore_arm("a", with_past=False)
        bandit.decide({"a": []}, id=f"of-{life}")
        bandit.reward(f"of-{life}", 10.0 * (life + 1))
    bandit.reward("late", 1.0)
    again = Bandit(journal=journal)  # knows it from the journal alone
    again.reward("later", 1.0)
    weights = dict(zip(again.policy._model.names, again.policy.moments.weight, strict=True))  # type: ignore[attr-defined]
    assert weights == {PastArm("a", 1): 3.0, PastArm("a", 2): 1.0, "a": 1.0}
    assert state_bytes(load_policy(journal, from_start=True)[0]) == state_bytes(again.policy)


def test_expiry_is_not_stopped_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who finds that others have closed the oldest goes on with the next."""
    monkeypatch.setattr("rolin.bandit.bandit._EXPIRE_AT_ONCE", 10)
    bandit = Bandit(rolin.Uniform(n_features=0, seed=1))
    ids = [d.id for d in bandit.decide_many([{"a": [], "b": []}] * 30)]
    writer = bandit._writer
    submit = writer.submit
    rewards = RecordRewards([Reward(id, 1.0, None, 1.0) for id in ids[:10]], 0.0)

    def together(request: Any) -> Any:
        """Write the rewards of another thread and the first expiry in one batch."""
        monkeypatch.setattr(writer, "submit", submit)
        others, own = Queued(rewards), Queued(request)
        writer._write([others, own])
        return own.answer

    monkeypatch.setattr(writer, "submit", together)
    assert bandit.expire(0.0) == 20
    assert bandit.waiting() == []


# -- bad rewards -----------------------------------------------------------------------------


def test_arrays_of_ids() -> None:
    """Are lists of ids."""
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=1))
    ids = np.array(["a", "b"])
    made = bandit.decide_many([QUESTION] * 2, ids=ids, people=pd.Series(["x", "y"]))  # type: ignore[arg-type]
    assert [d.id for d in made] == ["a", "b"]
    assert bandit.version == 2
    with pytest.raises(ParameterError, match=r"floor=0\.3 with 5 arms"):
        Bandit(rolin.RoLinTS(n_features=2), control_share=1.0, floor=0.3).decide(np.zeros((5, 2)))


def test_yes_or_no_rewards() -> None:
    """Others are refused before they are written."""
    bandit = Bandit(rolin.LogisticRoLinTS(n_features=2, seed=1))
    id = bandit.decide(QUESTION).id
    with pytest.raises(InputError, match="expected 0 or 1"):
        bandit.reward(id, 0.5)
    with pytest.raises(InputError, match="expected 0 or 1"):
        bandit.expire(0.0, default_reward=0.5)
    bandit.reward(id, 1)


def test_what_is_too_large_to_learn_from(journal: Journal) -> None:
    """It is refused before it is recorded."""
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=journal)
    ids = [bandit.decide(QUESTION).id for _ in range(2)]
    with pytest.raises(InputError, match="expected at most"):
        bandit.reward(ids[0], 1e200)
    with pytest.raises(InputError, match="weight"):
        bandit.reward(ids[0], 1.0, weight=1e-300)
    with pytest.raises(NotFiniteError, match="contexts"):
        bandit.decide(np.full((2, 2), 1e60))
    assert journal.outcomes(ids[0]) == {}
    bandit.reward(ids[1], 1.0)
    assert len(bandit.policy.arms) == 1


class Moody(rolin.RoLinTS):
    """A policy that refuses some rewards for reasons of its own."""

    def update(self, arm: Any, context: Any, reward: Any, weight: Any = 1.0) -> None:
        """Learn, unless the reward is 13."""
        if reward == 13:
            raise InputError("thirteen")
        super().update(arm, context, reward, weight)


def test_a_reward_that_the_policy_refuses(journal: Journal) -> None:
    """It is recorded and teaches nothing, then and whenever the journal is replayed."""
    bandit = Bandit(Moody(n_features=2, seed=1), journal=journal)
    ids = [bandit.decide(QUESTION).id for _ in range(2)]
    with pytest.raises(JournalError, match="recorded, but not learned from: thirteen"):
        bandit.reward(ids[0], 13.0)
    bandit.reward(ids[0], 13.0)  # a repeat
    bandit.reward(ids[1], 1.0)
    assert len(bandit.policy.arms) == 1
    assert state_bytes(load_policy(journal, kind=Moody)[0]) == state_bytes(bandit.policy)


@pytest.mark.parametrize("weight", [1e50, 1e20, 1e10, 1e-10, 1e-50])
@pytest.mark.parametrize("kind", [rolin.RoLinTS, rolin.LogisticRoLinTS])
def test_a_weight_that_could_not_be_learned_from_is_refused(
    kind: type[rolin.RoLinTS], weight: float
) -> None:
    """Before it is recorded; the largest and the smallest that are recorded are learned from."""
    bandit = Bandit(kind(n_features=1, seed=0))
    first, *others = (bandit.decide([[1.0], [0.5]]) for _ in range(9))
    with pytest.raises(InputError, match="expected a number from 1e-09 to 1e"):
        bandit.reward(first.id, 1.0, weight=weight)
    for i, (decision, accepted) in enumerate(zip(others, 4 * [1e9, 1e-9], strict=True)):
        bandit.reward(decision.id, float(i % 3 == 0), weight=accepted)
    assert bandit.policy.posterior.count == 8
