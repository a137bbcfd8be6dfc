"""Rewards with ids add up; their sum is learned once, when the arm expires."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin import Bandit
from rolin.errors import InputError, RewardConflict, UnknownDecision
from rolin.journal import Journal, check_journal, load_policy
from rolin.journal.events import HeldReward, LoggedDecision, Outcome
from rolin.journal.folding import state_bytes
from support.bandits import QUESTION, Clock, known_scales


@pytest.fixture
def bandit(journal: Journal) -> Bandit:
    """A bandit with scales that are known, and a clock that stands still."""
    return Bandit(known_scales(), journal=journal, clock=Clock())


def learned(decision: LoggedDecision, *values: float) -> bytes:
    """Return the state of a policy that was updated with one value per arm of the ranking."""
    policy = known_scales()
    for rank, value in enumerate(values):
        policy.update(decision.ranking[rank], decision.contexts[rank].copy(), value)
    return state_bytes(policy)


def test_the_sum_is_learned_once(bandit: Bandit) -> None:
    """When the window of the decision ends, and not before."""
    made = bandit.decide(QUESTION, id="visit")
    origin = state_bytes(bandit.policy)
    for i, value in enumerate([0.1, 0.2, 0.3, -0.5]):
        bandit.reward("visit", value, reward_id=f"click-{i}")
    assert state_bytes(bandit.policy) == origin
    assert bandit.waiting() == ["visit"]
    assert bandit.expire(1.0) == 0
    assert bandit.expire(0.0, default_reward=7.0) == 1
    total = math.fsum([0.1, 0.2, 0.3, -0.5])
    assert state_bytes(bandit.policy) == learned(made, total)
    (outcome,) = bandit.journal.outcomes("visit").values()
    assert (outcome.value, outcome.weight, outcome.expired) == (total, 1.0, False)
    assert bandit.expire(0.0, default_reward=7.0) == 0
    assert bandit.to_frame()["reward"].tolist() == [total]
    assert bandit.to_frame()["outcome"].tolist() == ["reward"]
    assert state_bytes(load_policy(bandit.journal, from_start=True)[0]) == learned(made, total)


@given(st.permutations([1e16, 1.0, -1e16, 1e-3, 0.1]))
def test_the_order_does_not_matter(values: list[float]) -> None:
    """The sum is rounded once, so it is the same to the bit."""
    bandit = Bandit(known_scales(), clock=Clock())
    made = bandit.decide(QUESTION, id="visit")
    for value in values:
        bandit.reward("visit", value, reward_id=str(value))
    bandit.expire(0.0)
    assert state_bytes(bandit.policy) == learned(made, 1.101)


def test_each_arm_has_its_own_sum(bandit: Bandit) -> None:
    """Of a ranking, one arm may have a sum, another one reward, and a third none."""
    made = bandit.decide(QUESTION, id="list", top_k=3)
    first, second, third = made.ranking
    bandit.reward("list", 1.0, reward_id="x", arm=first)
    bandit.reward("list", 2.0, reward_id="x", arm=third)  # the same id for another arm
    bandit.reward("list", 3.0, reward_id="y", arm=third)
    bandit.reward("list", 4.0, arm=second)
    bandit.expire(0.0)
    values = {made.ranking[rank]: o.value for rank, o in bandit.journal.outcomes("list").items()}
    assert values == {first: 1.0, second: 4.0, third: 5.0}


def test_a_repeated_id_is_harmless(bandit: Bandit) -> None:
    """With the same value, also after the end; with another value it is a conflict."""
    bandit.decide(QUESTION, id="visit")
    bandit.reward("visit", 1.0, reward_id="x")
    for _ in range(2):
        before = bandit.version
        bandit.reward("visit", 1.0, reward_id="x")
        with pytest.raises(RewardConflict, match=r"reward 'x' of decision 'visit' is 1\.0, but now 2\.0"):  # fmt: skip
            bandit.reward("visit", 2.0, reward_id="x")
        with pytest.raises(RewardConflict, match="has the reward 'x', which others are added to"):
            bandit.reward("visit", 1.0)
        assert bandit.version == before
        bandit.expire(0.0)
    with pytest.raises(RewardConflict, match=r"ended with a sum of 1\.0"):
        bandit.reward("visit", 1.0, reward_id="y")
    assert [type(e) for _, e in bandit.journal.read()] == [LoggedDecision, HeldReward, Outcome]


def test_one_reward_cannot_be_added_to(bandit: Bandit) -> None:
    """It was learned already, or will be, or came too late."""
    bandit.decide_many([QUESTION] * 3, ids=["a", "b", "c"], active=False)
    bandit.activate("a")
    bandit.reward("a", 1.0)
    bandit.reward("b", 1.0)
    for id in ("a", "b"):
        with pytest.raises(RewardConflict, match=r"has a reward of 1\.0 without reward_id"):
            bandit.reward(id, 1.0, reward_id="x")
    bandit.activate("c")
    bandit.expire(0.0)
    with pytest.raises(RewardConflict, match="has expired with nothing"):
        bandit.reward("c", 1.0, reward_id="x")


def test_parts_before_the_activation(bandit: Bandit) -> None:
    """They count like all others, if the decision is activated at all."""
    made = bandit.decide(QUESTION, id="a", active=False)
    bandit.decide(QUESTION, id="b", active=False)
    bandit.reward("a", 1.0, reward_id="x")
    bandit.reward("b", 1.0, reward_id="x")
    bandit.activate("a")
    bandit.reward("a", 2.0, reward_id="y")
    assert bandit.expire(0.0, default_reward=0.0) == 2
    assert state_bytes(bandit.policy) == learned(made, 3.0)
    with pytest.raises(RewardConflict, match="'b' has expired with nothing"):
        bandit.reward("b", 1.0, reward_id="y")


def test_rejected_calls_change_nothing(bandit: Bandit) -> None:
    """Wrong ids, weights, and sums that no policy can learn from."""
    bandit.decide(QUESTION, id="visit")
    bandit.reward("visit", 9e49, reward_id="x")
    before = bandit.version
    with pytest.raises(UnknownDecision):
        bandit.reward("other", 1.0, reward_id="x")
    for reward_id in ("", 7, "a\0b", "x" * 501):
        with pytest.raises(InputError, match="reward_id"):
            bandit.reward("visit", 1.0, reward_id=reward_id)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"weight=2\.0 with reward_id, expected 1"):
        bandit.reward("visit", 1.0, weight=2.0, reward_id="y")
    with pytest.raises(
        InputError, match=r"the sum of the rewards of decision 'visit' is 1\.8e\+50"
    ):
        bandit.reward("visit", 9e49, reward_id="y")
    assert bandit.version == before


def test_binary_rewards() -> None:
    """A sum must be 0 or 1, too."""
    bandit = Bandit(rolin.LogisticRoLinTS(n_features=2, seed=7))
    bandit.decide(QUESTION, id="visit")
    bandit.reward("visit", 0.0, reward_id="x")
    bandit.reward("visit", 1.0, reward_id="y")
    with pytest.raises(InputError, match=r"the sum of the rewards of decision 'visit'=2\.0"):
        bandit.reward("visit", 1.0, reward_id="z")
    bandit.expire(0.0)
    assert bandit.journal.outcomes("visit")[0].value == 1.0


def test_several_processes_and_a_restart(tmp_path: Path) -> None:
    """Parts of several processes add up, and the same part from two of them counts once."""
    path = tmp_path / "j.db"
    with Bandit(known_scales(), journal=path) as one, Bandit(journal=path) as two:
        made = one.decide(QUESTION, id="visit")
        one.reward("visit", 0.1, reward_id="x")
        two.reward("visit", 0.2, reward_id="y")
        two.reward("visit", 0.1, reward_id="x")
        with pytest.raises(RewardConflict):
            one.reward("visit", 0.1, reward_id="y")
    with Bandit(journal=path) as again:
        again.reward("visit", 0.3, reward_id="z")
        again.expire(0.0)
        assert state_bytes(again.policy) == learned(made, math.fsum([0.1, 0.2, 0.3]))
    assert state_bytes(load_policy(path, from_start=True)[0]) == state_bytes(again.policy)
    assert check_journal(path).is_whole


def test_many_rewards_of_one_decision_need_bounded_memory(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision with many rewards is read from the journal instead; the sum is the same."""
    monkeypatch.setattr("rolin.bandit.recent._MAX_BYTES", 10_000)
    bandit = Bandit(rolin.RoLinTS(n_features=1, seed=1), journal=journal, clock=Clock())
    recent = bandit._state._recent
    for id in ("before", "many", "after"):
        bandit.decide({"a": [1.0]}, id=id)
    for i in range(100):
        bandit.reward("many", 1.0, reward_id=str(i))
        assert recent._bytes <= 10_000
    assert recent.get("many") is None
    bandit.reward("after", 2.0)
    assert recent._bytes == sum(each.bytes for each in recent._by_id.values())
    bandit.expire(0.0)
    (learned,) = journal.outcomes("many").values()
    assert learned.value == 100.0
    assert bandit.policy.posterior.count == 2
