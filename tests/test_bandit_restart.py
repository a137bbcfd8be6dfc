"""Decisions with ids: late rewards, repeats, contradictions, replay, erasure."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    RolinError,
    ShapeError,
    UnknownDecision,
    Unsupported,
)
from rolin.journal import Journal, LoggedDecision, MemoryJournal, SQLiteJournal, load_policy
from rolin.journal.events import Outcome, ScalesLearned
from rolin.journal.folding import adaptive_of, digest_of, state_bytes
from rolin.journal.group_commit import Request
from rolin.policies.base import Policy
from support.bandits import POLICIES, QUESTION, Clock, play


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """A journal of every kind."""
    made = MemoryJournal() if request.param == "memory" else SQLiteJournal(tmp_path / "j.db")
    with made:
        yield made


@pytest.fixture
def bandit(journal: Journal) -> Bandit:
    """A new bandit with a clock that stands still."""
    return Bandit(rolin.RoLinTS(n_features=2, seed=7), journal=journal, clock=Clock())


def test_the_loop(bandit: Bandit) -> None:
    """A decision has an id, its probability and a version; its reward teaches."""
    decision = bandit.decide(QUESTION)
    assert decision.arm in QUESTION
    assert decision.context.tolist() == QUESTION[decision.arm]
    assert decision.version == 0
    assert decision.propensities is not None
    np.testing.assert_array_equal(decision.propensities, bandit.policy.probabilities(QUESTION))
    assert decision.propensity == decision.propensities[list(QUESTION).index(decision.arm)]
    again = bandit.policy.decide(QUESTION, key=decision.id)
    assert (again.arm, again.ranking) == (decision.arm, decision.ranking)
    bandit.reward(decision.id, 1.5)
    own = rolin.RoLinTS(n_features=2, seed=7)
    own.update(decision.arm, decision.context, 1.5)
    assert state_bytes(own) == state_bytes(bandit.policy)
    assert bandit.decide(QUESTION).version == bandit.version - 1 == 2


def test_a_bandit_leaves_the_given_policy_alone(bandit: Bandit) -> None:
    """It works on a copy, so that nobody changes its state but the journal."""
    policy = rolin.RoLinTS(n_features=2, seed=7)
    mine = Bandit(policy)
    mine.reward(mine.decide(QUESTION).id, 1.0)
    assert policy.arms == []
    assert policy.n_decisions == 0


def test_the_same_id_is_the_same_answer(bandit: Bandit) -> None:
    """Whatever was learned since, and whatever else is asked."""
    first = bandit.decide(QUESTION, id="visit", person="ann", top_k=2)
    for i in range(20):
        bandit.reward(bandit.decide(QUESTION).id, float(i))
    before = bandit.version
    again = bandit.decide({"other": [0.0, 0.0]}, id="visit")
    assert repr(again) == repr(first)
    assert bandit.version == before
    assert bandit.decide_many([QUESTION] * 2, ids=["visit", "visit"])[1].arm == first.arm
    two = bandit.decide_many([QUESTION] * 2, ids=["twice", "twice"])
    assert repr(two[0]) == repr(two[1])
    assert bandit.version == before + 1


def test_own_ids_never_meet(journal: Journal) -> None:
    """Neither those of two bandits on one journal, nor those that a caller has given."""
    seen: set[str] = set()
    for _ in range(3):
        bandit = Bandit(rolin.RoLinTS(n_features=2, seed=7), journal=journal)
        bandit.decide(QUESTION, id="7-4")
        ids = {bandit.decide(QUESTION).id for _ in range(5)}
        assert len(ids) == 5
        assert not ids & seen
        seen |= ids
    header = journal.header()
    assert header is not None
    assert header.last == 16


def test_trials_in_memory_are_repeatable() -> None:
    """The same seed decides the same, without ids from the caller."""
    runs = [Bandit(rolin.RoLinTS(n_features=2, seed=11)) for _ in range(2)]
    chosen = [[bandit.decide(QUESTION) for _ in range(30)] for bandit in runs]
    assert [d.id for d in chosen[0]] == [d.id for d in chosen[1]]
    assert [d.arm for d in chosen[0]] == [d.arm for d in chosen[1]]
    assert len({d.arm for d in chosen[0]}) == 3


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
    bandit.reward("visit-1", 0.0)  # what was assumed
    with pytest.raises(
        RewardConflict, match=r"has expired with a reward of 0\.0, but now has a reward of 1\.0"
    ):
        bandit.reward("visit-1", 1.0)
    bandit.reward("visit-3", 1.0)
    arm = bandit.decide(QUESTION, id="visit-0").ranking[1]
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
    bandit.reward("b", 1.0, arm=bandit.decide(QUESTION, id="b").ranking[1])
    assert bandit.waiting() == ["a", "c"]
    assert bandit.waiting(limit=2) == ["a"]  # of two arms


def test_expiry_goes_on_until_nothing_waits(bandit: Bandit) -> None:
    """Also when more has expired than fits in one transaction."""
    bandit.decide_many(np.zeros((2500, 3, 2)))
    clock: Any = bandit._clock
    clock.now += 1.0
    assert bandit.expire(0.5, default_reward=1.0) == 2500
    assert bandit.expire(0.5) == 0


@pytest.mark.parametrize("name", POLICIES)
def test_replay_gives_the_same_state(name: str, journal: Journal) -> None:
    """From the start, and from every state that was kept: to the bit, for every policy."""
    bandit = Bandit(POLICIES[name](), journal=journal, snapshot_every=None)
    play(bandit, 40)
    kept = bandit.snapshot()
    play(bandit, 40, start=40)
    live = state_bytes(bandit.policy)
    for from_start in (False, True):
        policy, version = load_policy(journal, from_start=from_start)
        assert version == bandit.version > kept
        assert state_bytes(policy) == live
    again = Bandit(POLICIES[name](), journal=journal)
    assert state_bytes(again.policy) == live
    question = np.eye(2)
    for one in (bandit, again):
        decision = one.decide(question, id="after")  # the second is a stored one
        assert decision.arm == again.policy.decide(question, key="after").arm
    if bandit.policy.learns_scales and adaptive_of(bandit.policy):
        assert sum(isinstance(event, ScalesLearned) for _, event in journal.read()) >= 2


@pytest.mark.parametrize("name", ["learned scales", "learned logistic", "half-life", "SafeFALCON"])
def test_any_earlier_state_can_be_had(name: str) -> None:
    """The state after every event is what the bandit was then."""
    bandit = Bandit(POLICIES[name](), journal=MemoryJournal())
    states = {0: state_bytes(bandit.policy)}
    for t in range(25):
        play(bandit, 1, start=t)
        states[bandit.version] = state_bytes(bandit.policy)
    for version, state in states.items():
        assert state_bytes(load_policy(bandit.journal, upto=version)[0]) == state


def test_a_bandit_learns_as_its_policy_would() -> None:
    """Scales are learned at the same rewards, with the same values, as without a journal."""
    bandit, alone = (POLICIES["learned scales"]() for _ in range(2))
    live = Bandit(bandit)
    rng = np.random.default_rng(3)
    for _ in range(60):
        decision = live.decide(rng.normal(size=(4, 2)))
        reward = float(decision.context[0] + rng.normal())
        live.reward(decision.id, reward)
        alone.update(decision.arm, decision.context, reward)
    assert state_bytes(live.policy) == state_bytes(alone)


def test_scales_are_taken_from_the_journal() -> None:
    """Replay does not estimate them: values that nobody would estimate come back."""
    bandit = Bandit(POLICIES["learned scales"]())
    for i in range(10):
        bandit.reward(bandit.decide(QUESTION).id, float(i % 3))
    journal: Any = bandit.journal
    seq, event = next((s, e) for s, e in journal._events.items() if isinstance(e, ScalesLearned))
    journal._events[seq] = event._replace(scales=rolin.Scales(noise_std=0.123))
    policy, _ = load_policy(journal)
    assert isinstance(policy, rolin.RoLinTS)
    assert policy.scales.noise_std == 0.123
    bandit.learn_scales()
    assert load_policy(journal)[0].scales == bandit.policy.scales  # type: ignore[attr-defined]
    with pytest.raises(ParameterError, match="given as numbers"):
        Bandit(rolin.RoLinTS(n_features=2)).learn_scales()


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


# -- propensities ----------------------------------------------------------------------------


def test_the_floor_is_part_of_the_draw(seed: int) -> None:
    """Propensities are those of the mixture, and arms are chosen that often, within 5 s.e."""
    policy = rolin.RoLinTS(n_features=2, noise_std=0.1, seed=seed)
    for _ in range(50):
        policy.update("red", [1.0, 0.2], 5.0)
    bandit = Bandit(policy, floor=0.04)
    p = bandit.decide(QUESTION).propensities
    assert p is not None
    np.testing.assert_allclose(p, 0.88 * policy.probabilities(QUESTION) + 0.04, rtol=1e-12)
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    n = 4000
    decisions = bandit.decide_many([QUESTION] * n, top_k=2)
    for arm, share in zip(QUESTION, p, strict=True):
        chosen = sum(decision.arm == arm for decision in decisions)
        assert abs(chosen - n * share) < 5 * (n * share * (1 - share)) ** 0.5
    assert all(len(set(d.ranking)) == 2 for d in decisions)
    assert min(d.propensity or 0.0 for d in decisions) >= 0.04
    with pytest.raises(ParameterError, match=r"floor=0.04 with 26 arms, expected at most 1/26"):
        bandit.decide(np.zeros((26, 2)))
    assert bandit.decide(np.zeros((25, 2))).propensity == pytest.approx(0.04)


def test_greedy_with_a_floor_explores() -> None:
    """A rule that draws nothing has propensities away from zero too."""
    bandit = Bandit(rolin.Greedy(n_features=0, seed=1), floor=0.1)
    bandit.reward(bandit.decide({"a": []}).id, 1.0)
    decisions = bandit.decide_many([{"a": [], "b": [], "c": []}] * 300)
    assert decisions[0].propensities is not None
    np.testing.assert_allclose(decisions[0].propensities, [0.8, 0.1, 0.1])
    assert {d.arm for d in decisions} == {"a", "b", "c"}


@pytest.mark.parametrize("n", [300, pytest.param(1500, marks=pytest.mark.slow)])
def test_joint_sampling_draws_from_what_it_logs(seed: int, n: int) -> None:
    """Its probabilities are averages over draws, and exactly those the arms are drawn with: 5 s.e. of n."""
    policy = rolin.RoLinTS(n_features=2, arm_std=1e-3, sampling="joint", seed=seed)
    bandit = Bandit(policy)
    x = np.random.default_rng(seed).normal(size=(12, 2))
    decisions = bandit.decide_many([x] * n, top_k=2)
    p = decisions[0].propensities
    assert p is not None
    chosen = np.bincount([d.arm for d in decisions], minlength=12)
    assert (np.abs(chosen - n * p) <= 5 * np.sqrt(n * p * (1 - p))).all()
    assert min(d.propensity or 0.0 for d in decisions) > 0.0
    assert all(len(set(d.ranking)) == 2 for d in decisions)


class Silent(rolin.Greedy):
    """A policy that does not know its probabilities."""

    def first_probabilities(self, question: Any) -> Any:
        """Refuse, as the base class does."""
        return Policy.first_probabilities(self, question)


def test_unknown_propensities_are_recorded_as_such(journal: Journal) -> None:
    """By a policy that cannot tell, and by one that is not asked."""
    silent = Bandit(Silent(n_features=2), journal=journal)
    decision = silent.decide(QUESTION)
    assert decision.propensity is decision.propensities is None
    stored = journal.decision(decision.id)
    assert stored is not None
    assert stored.propensities is None
    assert type(Bandit(Silent(n_features=2), journal=journal).policy) is Silent
    with pytest.raises(RolinError, match="Silent, which is not a policy of rolin: pass a policy"):
        Bandit(journal=journal)
    with pytest.raises(Unsupported, match="Silent does not know"):
        Bandit(Silent(n_features=2), floor=0.1).decide(QUESTION)
    quick = Bandit(rolin.RoLinTS(n_features=2), propensities=False)
    assert quick.decide(QUESTION).propensity is None
    with pytest.raises(ParameterError, match="expected propensities=True"):
        Bandit(rolin.RoLinTS(n_features=2), propensities=False, floor=0.1)


def test_the_control_group_is_random_and_stays(seed: int) -> None:
    """A fifth of the people, always the same, get uniform arms, and the log says so."""
    bandit = Bandit(rolin.Greedy(n_features=0, seed=seed), control_share=0.2)
    people = [f"person-{i}" for i in range(2000)]
    question = {"a": [], "b": [], "c": []}
    first = bandit.decide_many([question] * 2000, people=people, top_k=2)
    control = [d.control for d in first]
    assert abs(sum(control) - 400) < 5 * (2000 * 0.2 * 0.8) ** 0.5
    assert [d.control for d in bandit.decide_many([question] * 2000, people=people)] == control
    more = Bandit(rolin.Greedy(n_features=0, seed=seed), control_share=0.5)
    grown = [d.control for d in more.decide_many([question] * 2000, people=people)]
    assert all(now for now, then in zip(grown, control, strict=True) if then)
    chosen = [d for d in first if d.control]
    for place in range(2):
        for arm in "abc":
            n = sum(d.ranking[place] == arm for d in chosen)
            assert abs(n - len(chosen) / 3) < 5 * (len(chosen) * 2 / 9) ** 0.5
    assert all(d.propensity == pytest.approx(1 / 3) for d in chosen)
    nobody = bandit.decide_many([question] * 500)
    assert 50 < sum(d.control for d in nobody) < 160


# -- journals of others, erasure -------------------------------------------------------------


def test_a_journal_of_another_policy_is_refused(tmp_path: Path) -> None:
    """By kind, by setting, and by what was learned; nothing is changed."""
    path = tmp_path / "j.db"
    with Bandit(rolin.RoLinTS(n_features=2, arm_std=0.5, seed=1), journal=path) as bandit:
        play(bandit, 10)
        version, state = bandit.version, state_bytes(bandit.policy)
    wrong = {
        "belongs to a RoLinTS, but a RoLinUCB was given": rolin.RoLinUCB(n_features=2),
        r"arm_std=0.5, but one with arm_std=0.25 was given": rolin.RoLinTS(
            n_features=2, arm_std=0.25
        ),
        "n_features=2, but one with n_features=3 was given": rolin.RoLinTS(n_features=3),
    }
    learned = rolin.RoLinTS(n_features=2, arm_std=0.5, seed=1)
    learned.update("red", [0.0, 1.0], 1.0)
    wrong["has learned something that is not in the journal"] = learned
    for message, policy in wrong.items():
        with pytest.raises(JournalError, match=message):
            Bandit(policy, journal=path)
    with Bandit(rolin.RoLinTS(n_features=2, arm_std=0.5, seed=2), journal=path) as bandit:
        assert (bandit.version, state_bytes(bandit.policy)) == (version, state)
        assert bandit.policy.seed == 1
    with pytest.raises(JournalError, match=r"there is no journal .*new\.db"):
        Bandit(journal=tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()
    with pytest.raises(JournalError, match="expected a policy to begin it with"):
        Bandit()
    with pytest.raises(ParameterError, match="expected a policy of rolin"):
        Bandit("RoLinTS")  # type: ignore[arg-type]


def test_settings_are_those_of_the_journal(tmp_path: Path) -> None:
    """A bandit that is opened again goes on with its floor and its control group, erased or not."""
    path = tmp_path / "j.db"
    with Bandit(
        rolin.Greedy(n_features=0, seed=1), journal=path, floor=0.1, control_share=0.3
    ) as bandit:
        assert "floor=0.1, control_share=0.3, propensities=True" in repr(bandit)
        for _ in range(5):
            bandit.decide({"a": [], "b": []})
    with Bandit(journal=path) as bandit:
        version = bandit.version
        decisions = bandit.decide_many([{"a": [], "b": []}] * 200)
        assert 30 < sum(d.control for d in decisions) < 95
        assert min(d.propensity or 0.0 for d in decisions) >= 0.1
        bandit.erase(older_than=0.0)
        other = Bandit(
            journal=path, floor=0.25
        )  # another process, another opinion: the last one counts
        assert other.version == version + 200 + 2
        assert "floor=0.25, control_share=0.3" in repr(other)
        bandit.refresh()
        assert bandit.decide({"a": [], "b": []}, person="not in control 3").propensities is not None
        assert "floor=0.25" in repr(bandit)
        other.close()
    assert Bandit(journal=path).version == version + 203


def test_a_policy_with_a_past_begins_a_journal(tmp_path: Path) -> None:
    """What it knew is part of the journal; the script that began it can run again."""
    warm = rolin.RoLinTS(n_features=2, seed=1)
    warm.update("red", [0.0, 1.0], 1.0)
    warm.remove_arm("red")
    for _ in range(2):
        with Bandit(copy.deepcopy(warm), journal=tmp_path / "j.db") as bandit:
            play(bandit, 5, start=10 * bandit.version)
            assert bandit.policy.removed_arms == ["red"]
            state = state_bytes(bandit.policy)
    with Bandit(journal=tmp_path / "j.db") as bandit:
        assert state_bytes(bandit.policy) == state
        bandit.erase(person="person-0")
    with Bandit(copy.deepcopy(warm), journal=tmp_path / "j.db") as bandit:
        assert state_bytes(bandit.policy) == state


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
    assert (state_bytes(bandit.policy), bandit.version) == (
        state,
        version + 3,
    )  # erasing takes a number
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
    """Not even for somebody who asked for it again at that very moment."""
    journal = SQLiteJournal(tmp_path / "j.db")
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=journal)
    first = bandit.decide(QUESTION, id="visit", person="ann")
    find = journal.decision

    def late(id: str) -> Any:
        found = find(id)
        journal.decision = find  # type: ignore[method-assign]
        bandit.erase(person="ann")
        return found

    journal.decision = late  # type: ignore[method-assign]
    assert bandit.decide(QUESTION, id="visit").arm == first.arm
    assert list(journal.read()) == []
    journal.close()


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


def test_a_journal_with_past_lives_can_be_imported(tmp_path: Path) -> None:
    """There they are the arm itself, and the new journal can be opened again, whatever follows."""
    source = Bandit(rolin.RoLinTS(n_features=0, seed=1))
    source.decide({"a": []}, id="late")
    source.reward(source.decide({"a": []}).id, 1.0)
    source.remove_arm("a")
    source.restore_arm("a", with_past=False)
    source.reward("late", 2.0)
    bandit = Bandit(rolin.RoLinTS(n_features=0, seed=1), journal=tmp_path / "j.db")
    bandit.import_log(source.journal)  # type: ignore[arg-type]
    assert bandit.policy._model.names == ["a"]
    bandit.remove_arm("a")
    bandit.restore_arm("a", with_past=False)
    bandit.snapshot()
    bandit.close()
    assert Bandit(journal=tmp_path / "j.db").policy._model.names == [PastArm("a", 1)]


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
        others, own = Request(rewards), Request(request)
        writer._write([others, own])
        return own.answer

    monkeypatch.setattr(writer, "submit", together)
    assert bandit.expire(0.0) == 20
    assert bandit.waiting() == []


def test_a_process_that_often_starts_again_keeps_its_state(tmp_path: Path) -> None:
    """Also if it never writes many events in one life."""
    for i in range(12):
        with Bandit(
            rolin.RoLinTS(n_features=2, seed=1), journal=tmp_path / "j.db", snapshot_every=20
        ) as bandit:
            play(bandit, 5, start=5 * i)
            kept = bandit.journal.latest_snapshot()
            assert kept is not None
            assert bandit.version - kept[0] < 30


def test_imported_decisions_belong_to_a_life(journal: Journal) -> None:
    """An open decision that was imported before an arm came back anew is the old arm's."""
    bandit = Bandit(rolin.RoLinTS(n_features=0, seed=1), journal=journal)
    source = Bandit(rolin.RoLinTS(n_features=0, seed=1))
    source.decide({"a": []}, id="imported")
    bandit.import_log(source.journal)  # type: ignore[arg-type]
    bandit.reward(bandit.decide({"a": []}).id, 1.0)
    bandit.remove_arm("a")
    bandit.restore_arm("a", with_past=False)
    bandit.reward("imported", 1.0)
    assert bandit.journal.outcomes("imported")[0].arm == PastArm("a", 1)


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


def test_states_are_kept_by_themselves(tmp_path: Path) -> None:
    """So that starting again folds only what came after the last one."""
    with Bandit(
        rolin.RoLinTS(n_features=2, seed=1), journal=tmp_path / "j.db", snapshot_every=20
    ) as bandit:
        play(bandit, 60)
        kept = bandit.journal.latest_snapshot()
        assert kept is not None
        assert bandit.version - 25 < kept[0] <= bandit.version


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
    (pages,) = journal._writer.execute("PRAGMA page_count").fetchone()
    journal._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(JournalError, match="full"):
        bandit.decide_many(np.zeros((300, 3, 2)))
    assert state_bytes(bandit.policy) == state
    journal._writer.execute("PRAGMA max_page_count = 100000")
    bandit.reward(id, 1.0)
    assert state_bytes(load_policy(journal, from_start=True)[0]) == state_bytes(bandit.policy)
    bandit.close()


# -- bad input -------------------------------------------------------------------------------


def test_bad_calls_change_nothing(bandit: Bandit) -> None:
    """Every one is refused with an error of ours; journal and state stay as they are."""
    play(bandit, 9)
    id = bandit.decide(QUESTION).id
    before = state_bytes(bandit.policy), bandit.version
    calls: list[Callable[[], object]] = [
        lambda: bandit.decide({}),
        lambda: bandit.decide({"a": [1.0]}),
        lambda: bandit.decide({"a": [1.0, np.nan]}),
        lambda: bandit.decide({("a", 1): [1.0, 2.0]}),
        lambda: bandit.decide({1.5: [1.0, 2.0]}),
        lambda: bandit.decide(QUESTION, top_k=4),
        lambda: bandit.decide(QUESTION, id=""),
        lambda: bandit.decide(QUESTION, id="x" * 501),
        lambda: bandit.decide(QUESTION, id="\ud800"),
        lambda: bandit.decide(QUESTION, id="a\0b"),
        lambda: bandit.decide(QUESTION, id=7),  # type: ignore[arg-type]
        lambda: bandit.decide(QUESTION, person=7),  # type: ignore[arg-type]
        lambda: bandit.decide_many([QUESTION, {"a": [np.inf, 0.0]}]),
        lambda: bandit.decide_many([QUESTION], ids=["a", "b"]),
        lambda: bandit.decide_many([QUESTION], people=[]),
        lambda: bandit.decide_many([QUESTION, QUESTION], ids="ab"),
        lambda: bandit.decide_many(None),  # type: ignore[arg-type]
        lambda: bandit.decide_many(QUESTION),
        lambda: bandit.decide_many([np.eye(2)], arms=5),  # type: ignore[arg-type]
        lambda: bandit.reward_many([id]),  # type: ignore[arg-type]
        lambda: bandit.erase(ids=5),  # type: ignore[arg-type]
        lambda: bandit.erase(older_than=datetime.min),
        lambda: bandit.erase(older_than=timedelta(days=-1)),
        lambda: bandit.erase(person="person-1", older_than=0.0),
        lambda: bandit.import_log(None),  # type: ignore[arg-type]
        lambda: bandit.import_log([1]),  # type: ignore[list-item]
        lambda: bandit.expire(timedelta(days=-1)),
        lambda: bandit.reward(id, np.nan),
        lambda: bandit.reward(id, "1"),  # type: ignore[arg-type]
        lambda: bandit.reward(id, 1.0, weight=0.0),
        lambda: bandit.reward(id, 1.0, weight=np.inf),
        lambda: bandit.reward(None, 1.0),  # type: ignore[arg-type]
        lambda: bandit.expire(-1.0),
        lambda: bandit.expire(np.nan),
        lambda: bandit.expire("1d"),  # type: ignore[arg-type]
        lambda: bandit.expire(1.0, default_reward=np.inf),
        lambda: bandit.remove_arm("never seen"),
        lambda: bandit.restore_arm("blue"),
        lambda: bandit.restore_arm("blue", with_past=1),  # type: ignore[arg-type]
        lambda: bandit.decay(0.0),
        lambda: bandit.decay(1.5),
        lambda: bandit.erase(),
        lambda: bandit.erase(ids="visit-1"),
        lambda: bandit.erase(ids=[3]),  # type: ignore[list-item]
        lambda: bandit.erase(older_than=np.nan),
        lambda: bandit.waiting(limit=0),
    ]
    for call in calls:
        with pytest.raises(RolinError):
            call()
    assert (state_bytes(bandit.policy), bandit.version) == before


@pytest.mark.parametrize(
    "options",
    [
        {"floor": -0.1}, {"floor": 1.1}, {"floor": "0.1"}, {"control_share": 2}, {"control_share": "all"},
        {"snapshot_every": 0}, {"snapshot_every": 1.5}, {"journal": 3}, {"floor": float("nan")},
    ],
)  # fmt: skip
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    """With the option's name."""
    with pytest.raises(ParameterError, match=next(iter(options))):
        Bandit(rolin.RoLinTS(n_features=2), **options)


@pytest.mark.parametrize("time", [np.nan, np.inf, -1.0, None, "now", 1.7e15])
def test_clocks_that_are_wrong(time: Any) -> None:
    """Nothing is recorded with a time that no calendar knows."""
    bandit = Bandit(rolin.RoLinTS(n_features=2), clock=lambda: time)
    with pytest.raises(ParameterError, match="clock"):
        bandit.decide(QUESTION)
    numpy = Bandit(rolin.RoLinTS(n_features=2), clock=lambda: np.int64(100))  # type: ignore[return-value,arg-type]
    assert type(numpy.decide(QUESTION).time) is float


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


def test_policies_that_cannot_forget(bandit: Bandit) -> None:
    """Say so."""
    with pytest.raises(Unsupported, match="SafeFALCON cannot forget"):
        Bandit(rolin.SafeFALCON(n_features=2)).decay(0.5)
    with pytest.raises(ShapeError):
        bandit.decide([1.0, 2.0])


def test_records_cannot_be_changed(bandit: Bandit) -> None:
    """A caller who writes to a decision's arrays does not change the journal."""
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    decision = bandit.decide(x, id="mine")
    x[:] = 9.0
    stored = bandit.journal.decision("mine")
    assert stored is not None
    assert stored.offered_contexts.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(ValueError, match="read-only"):
        decision.context[0] = 7.0


@given(st.lists(st.sampled_from(["decide", "reward", "repeat", "expire", "decay"]), max_size=30))
def test_any_order_of_calls_replays(steps: list[str]) -> None:
    """Whatever happens in whatever order, the journal gives the state."""
    clock = Clock()
    bandit = Bandit(POLICIES["half-life"](), clock=clock)
    ids: list[str] = []
    for i, step in enumerate(steps):
        clock.now += 1.0
        if step == "decide":
            ids.append(bandit.decide(QUESTION).id)
        elif step in ("reward", "repeat") and ids:
            try:
                bandit.reward(ids[0 if step == "repeat" else -1], 1.0)
            except RewardConflict:
                assert "expire" in steps[:i]
        elif step == "expire":
            bandit.expire(2.0, default_reward=0.0)
        elif step == "decay":
            bandit.decay(0.5)
    assert state_bytes(load_policy(bandit.journal)[0]) == state_bytes(bandit.policy)


def test_a_journal_read_by_another_process(tmp_path: Path) -> None:
    """A fresh process comes to the same state."""
    with Bandit(POLICIES["learned scales"](), journal=tmp_path / "j.db") as bandit:
        play(bandit, 30)
        code = (
            "import sys, rolin; from rolin.journal.folding import state_bytes, digest_of; "
            "print(digest_of(state_bytes(rolin.Bandit(journal=sys.argv[1]).policy)))"
        )
        run = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "j.db")],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert run.stdout.strip() == digest_of(state_bytes(bandit.policy))


@pytest.mark.parametrize(
    "name", ["learned scales", pytest.param("learned logistic", marks=pytest.mark.slow)]
)
def test_another_machine_comes_within_1e_9(name: str, tmp_path: Path) -> None:
    """Kernels compiled for another processor, and another BLAS, lead to the same state but for rounding."""
    code = (
        "import sys, numpy as np, rolin; "
        "policy = rolin.Bandit(journal=sys.argv[1]).policy; "
        "print(*np.concatenate(policy.predict(np.eye(2), ['red', 'blue'])).tolist())"
    )
    with Bandit(POLICIES[name](), journal=tmp_path / "j.db") as bandit:
        play(bandit, 60)
        if "red" in bandit.policy.removed_arms:
            bandit.restore_arm("red")
        here = np.concatenate(bandit.policy.predict(np.eye(2), ["red", "blue"]))  # type: ignore[attr-defined]
        run = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "j.db")],
            env={**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "",
                 "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "OPENBLAS_CORETYPE": "Prescott"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    np.testing.assert_allclose([float(x) for x in run.stdout.split()], here, rtol=1e-9)


def test_predictions_are_those_of_the_policy(bandit: Bandit[Any]) -> None:
    """`predict` takes what `decide` takes, and says what the policy says."""
    for value in (1.0, 0.0, 0.5):
        bandit.reward(bandit.decide(QUESTION).id, value)
    mean, std = bandit.predict(QUESTION)
    expected = bandit.policy.predict(QUESTION)
    np.testing.assert_array_equal(mean, expected.mean)
    np.testing.assert_array_equal(std, expected.std)
    with pytest.raises(ParameterError, match="no feature map"):
        bandit.predict(QUESTION, situation={"hour": 3})
    with pytest.raises(Unsupported, match="HLinUCB does not predict"):
        Bandit(rolin.HLinUCB(n_features=2)).predict(QUESTION)


def test_a_bandit_reports_what_its_features_miss(rng: np.random.Generator) -> None:
    """`diagnose` is the policy's report."""
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=1))
    for _ in range(40):
        bandit.reward(bandit.decide(rng.normal(size=(3, 2))).id, float(rng.normal()))
    assert str(bandit.diagnose()) == str(bandit.policy.diagnose())
    with pytest.raises(Unsupported, match="SafeFALCON has no moments"):
        Bandit(rolin.SafeFALCON(n_features=2)).diagnose()


def test_decisions_as_a_table(bandit: Bandit[Any]) -> None:
    """`to_frame` has one row per decision, with its reward."""
    bandit.reward(bandit.decide(QUESTION, id="a").id, 1.5)
    bandit.decide(QUESTION, id="b")
    frame = bandit.to_frame()
    assert frame["id"].tolist() == ["a", "b"]
    assert frame["reward"].iloc[0] == 1.5
