"""Decisions with ids: repeats, propensities, floor, control group, and calls that are rejected."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolin
from rolin import Bandit
from rolin.errors import (
    InputError,
    ParameterError,
    RolinError,
    ShapeError,
    UnknownDecision,
    Unsupported,
)
from rolin.journal import Journal
from rolin.journal.folding import state_bytes
from rolin.model.posterior import Posterior
from rolin.policies.base import Policy
from support.bandits import QUESTION, play
from support.policies import fixed


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
    """Whatever was learned since."""
    first = bandit.decide(QUESTION, id="visit", person="ann", top_k=2)
    for i in range(20):
        bandit.reward(bandit.decide(QUESTION).id, float(i))
    before = bandit.version
    again = bandit.decide(QUESTION, id="visit", person="ann", top_k=2)
    assert repr(again) == repr(first)
    assert bandit.version == before
    many = bandit.decide_many(
        [QUESTION] * 2, ids=["visit", "visit"], people=["ann", "ann"], top_k=2
    )
    assert many[1].arm == first.arm
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


# -- propensities ----------------------------------------------------------------------------


def test_the_floor_is_part_of_the_draw(seed: int) -> None:
    """Propensities are those of the mixture, and arms are chosen that often, within 5 s.e."""
    policy = fixed(rolin.RoLinTS, n_features=2, noise_std=0.1, seed=seed)
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
    bandit = Bandit(fixed(rolin.Greedy, n_features=0, seed=1), floor=0.1)
    bandit.reward(bandit.decide({"a": []}).id, 1.0)
    decisions = bandit.decide_many([{"a": [], "b": [], "c": []}] * 300)
    assert decisions[0].propensities is not None
    np.testing.assert_allclose(decisions[0].propensities, [0.8, 0.1, 0.1])
    assert {d.arm for d in decisions} == {"a", "b", "c"}


@pytest.mark.parametrize("n", [300, pytest.param(1500, marks=pytest.mark.slow)])
def test_joint_sampling_draws_from_what_it_logs(seed: int, n: int) -> None:
    """Its probabilities are averages over draws of each decision, and arms are drawn with exactly these: 5 s.e. of n."""
    policy = fixed(rolin.RoLinTS, n_features=2, arm_std=1e-3, sampling="joint", seed=seed)
    bandit = Bandit(policy)
    x = np.random.default_rng(seed).normal(size=(12, 2))
    decisions = bandit.decide_many([x] * n, top_k=2)
    p = np.array([d.propensities for d in decisions])
    assert np.ptp(p, axis=0).max() > 0.0
    chosen = np.bincount([d.arm for d in decisions], minlength=12)
    variance = (p * (1 - p)).sum(axis=0)
    assert (np.abs(chosen - p.sum(axis=0)) <= 5 * np.sqrt(variance)).all()
    assert min(d.propensity or 0.0 for d in decisions) > 0.0
    assert all(len(set(d.ranking)) == 2 for d in decisions)


@pytest.mark.parametrize("kind", [rolin.RoLinTS, rolin.RoLinUCB, rolin.Greedy])
def test_a_decision_predicts_once(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores and propensities come from one prediction, with and without a floor."""
    calls, score = [], Posterior.score

    def counted(self: Posterior, *arguments: Any) -> Any:
        calls.append(arguments)
        return score(self, *arguments)

    monkeypatch.setattr(Posterior, "score", counted)
    for floor in (0.0, 0.1):
        bandit = Bandit(fixed(kind, n_features=2, seed=0), floor=floor)
        calls.clear()
        for top_k in (1, 2):
            assert bandit.decide(QUESTION, top_k=top_k).propensities is not None
        assert len(calls) == 2


JOINT = {
    f"{kind.__name__}, joint": functools.partial(kind, sampling="joint")
    for kind in (rolin.RoLinTS, rolin.LinTS, rolin.LogisticRoLinTS)
}


@pytest.mark.parametrize("name", [*rolin.policies.find(), *JOINT])
def test_no_chosen_arm_has_a_propensity_of_zero(name: str, seed: int) -> None:
    """Not even in states in which all draws agree: arms are drawn from what is logged."""
    options = {"n_arms": 8} if name == "SafeFALCON" else {}
    make: Any = {**rolin.policies.find(), **JOINT}[name]
    bandit = Bandit(make(n_features=2, seed=seed, **options))
    rng = np.random.default_rng(seed)
    for n in (5, 100, 300):
        for decision in bandit.decide_many(rng.uniform(-1, 1, (n, 8, 2)), top_k=1):
            assert decision.propensity is not None
            assert decision.propensity > 0.0
            bandit.reward(decision.id, float(rng.random() < 0.1 + 0.1 * decision.arm))


def test_an_arm_that_is_too_unlikely_to_be_logged_is_not_chosen() -> None:
    """If the computed probability of the policy's own choice is 0, the arm is drawn from the probabilities."""

    class Odd(rolin.Greedy):
        def first_probabilities(self, candidates: Any) -> Any:
            return rolin.policies.Probabilities(np.array([0.0, 0.25, 0.75]), np.zeros(3))

    policy = fixed(Odd, n_features=1, seed=1)
    policy.update(0, [1.0], 1.0)  # so that it prefers the largest context
    bandit = Bandit(policy)
    decisions = bandit.decide_many([np.array([[3.0], [2.0], [1.0]])] * 400, top_k=2)
    shares = np.bincount([d.arm for d in decisions], minlength=3) / 400
    np.testing.assert_allclose(shares, [0.0, 0.25, 0.75], atol=5 * (0.25 * 0.75 / 400) ** 0.5)
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
    for rank in range(2):
        for arm in "abc":
            n = sum(d.ranking[rank] == arm for d in chosen)
            assert abs(n - len(chosen) / 3) < 5 * (len(chosen) * 2 / 9) ** 0.5
    assert all(d.propensity == pytest.approx(1 / 3) for d in chosen)
    nobody = bandit.decide_many([question] * 500)
    assert 50 < sum(d.control for d in nobody) < 160


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


def test_rejected_calls_use_up_no_ids() -> None:
    """Ids are the keys of decisions, so a call that fails must not change later decisions."""
    undisturbed, disturbed = (Bandit(rolin.RoLinTS(n_features=2, seed=3)) for _ in range(2))
    for _ in range(5):
        with pytest.raises(ShapeError):
            disturbed.decide({"a": [1.0, 2.0, 3.0]})
        with pytest.raises(RolinError, match="question 2"):
            disturbed.decide_many([QUESTION, QUESTION, {"a": [1.0]}])
        one, other = undisturbed.decide(QUESTION), disturbed.decide(QUESTION)
        assert (one.id, one.arm) == (other.id, other.arm)


def test_misunderstandings_are_explained(tmp_path: Path) -> None:
    """Messages tell what to pass instead."""
    bandit = Bandit(rolin.RoLinTS(n_features=2, seed=3))
    decision = bandit.decide(QUESTION)
    with pytest.raises(InputError, match=r"pass decision\.id"):
        bandit.reward(decision, 1.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="decision=1, expected a decision or its id"):
        bandit.explain(1)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="needs a policy, or the journal"):
        Bandit()
    with pytest.raises(UnknownDecision, match="was never made, was erased, or belongs to another"):
        bandit.reward("nobody", 1.0)
    with Bandit(rolin.RoLinTS(n_features=2), journal=tmp_path / "j.db"):
        pass
    with pytest.raises(rolin.errors.StateFileError, match=r"rolin\.Bandit\(journal=…\) opens"):
        rolin.load(tmp_path / "j.db")
    with pytest.raises(ParameterError, match="expected a class such as"):
        rolin.load(tmp_path / "j.db", "RoLinTS")  # type: ignore[call-overload]
