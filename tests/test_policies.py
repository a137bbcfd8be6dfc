"""Every policy of the package keeps the contract; a new file is tested by being there."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rolin
from rolin import policies, testing
from rolin.errors import Unsupported
from rolin.model.draws import Scores
from rolin.policies.candidates import Candidates
from rolin.policies.keyed_random import Key
from support.policies import fixed

MAKERS: dict[str, testing.MakePolicy] = dict(policies.find())
# Options that take other paths through the code.
MAKERS["RoLinTS, joint"] = functools.partial(policies.find()["RoLinTS"], sampling="joint")
MAKERS["NaiveRoLinTS, joint"] = functools.partial(policies.find()["NaiveRoLinTS"], sampling="joint")
MAKERS["RoLinTS, intercept"] = functools.partial(
    fixed, rolin.RoLinTS, intercept_std=2.0, intercept_mean=0.5, coef_std=[0.5, 1.0, 2.0]
)
for name, policy in policies.find().items():
    if issubclass(policy, rolin.LinearPolicy) and policy is not rolin.NaiveRoLinTS:
        MAKERS[f"{name}, known scales"] = functools.partial(fixed, policy)
MAKERS["RoLinTS, joint, known scales"] = functools.partial(fixed, rolin.RoLinTS, sampling="joint")
MAKERS["RoLinTS, forgetting, known scales"] = functools.partial(
    fixed, rolin.RoLinTS, half_life=50.0
)
for initial in ("zero", "one-hot", "normal"):
    MAKERS[f"HLinUCB, {initial}"] = functools.partial(policies.find()["HLinUCB"], initial=initial)
MAKERS["RoLinUCB, horizon"] = functools.partial(policies.find()["RoLinUCB"], horizon=1000)
MAKERS["NaiveRoLinTS, no arm effects"] = functools.partial(
    policies.find()["NaiveRoLinTS"], arm_std=0.0
)
LEARNED = {"noise_std": "learn", "arm_std": ("learn", 0.7), "coef_std": "learn"}
MAKERS["RoLinTS, learned"] = functools.partial(policies.find()["RoLinTS"], **LEARNED)
MAKERS["RoLinUCB, learned by reml"] = functools.partial(
    policies.find()["RoLinUCB"], learn_by="reml", **LEARNED
)
MAKERS["LinTS, learned"] = functools.partial(
    policies.find()["LinTS"], noise_std="learn", coef_std=("learn", [0.5, 1.0, 2.0])
)
MAKERS["RoLinTS, forgetting"] = functools.partial(policies.find()["RoLinTS"], half_life=50.0)
MAKERS["RoLinTS, learned and forgetting"] = functools.partial(
    policies.find()["RoLinTS"], half_life=20.0, **LEARNED
)
# Arms with slopes of their own.
SLOPES = {"slope_std": 0.7, "intercept_std": 2.0}
for name in ("RoLinTS", "RoLinUCB", "Greedy", "LogisticRoLinTS", "LogisticRoLinUCB"):
    kind = policies.find()[name]
    MAKERS[f"{name}, slopes, known scales"] = functools.partial(fixed, kind, **SLOPES)
    MAKERS[f"{name}, learned slopes"] = functools.partial(kind, slope_std="learn", slopes=[0, 2])
MAKERS["NaiveRoLinTS, slopes"] = functools.partial(policies.find()["NaiveRoLinTS"], **SLOPES)
MAKERS["RoLinTS, joint, slopes, known scales"] = functools.partial(
    fixed, rolin.RoLinTS, sampling="joint", slope_std=[0.3, 0.9], slopes=[2, 1]
)
MAKERS["RoLinTS, slopes, learned and forgetting"] = functools.partial(
    policies.find()["RoLinTS"], half_life=20.0, slope_std=("learn", 0.4), **LEARNED
)


@pytest.mark.parametrize(
    ("make", "check"),
    [
        pytest.param(make, check, id=f"{name}-{check.__name__}")
        for name, make in MAKERS.items()
        for check in testing.checks_for(make)
    ],
)
def test_contract(make: testing.MakePolicy, check: testing.Check) -> None:
    """The law named by the check holds for the policy."""
    check(make)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (rolin.RoLinTS, "marginal"),
        (functools.partial(rolin.RoLinTS, sampling="joint"), "joint"),
        (rolin.LinTS, "marginal"),
        (functools.partial(rolin.LinTS, sampling="joint"), "joint"),
        (rolin.LogisticRoLinTS, "marginal"),
        (functools.partial(rolin.LogisticRoLinTS, sampling="joint"), "joint"),
        (rolin.RoLinUCB, "bound"),
        (rolin.LinUCB, "bound"),
        (rolin.LogisticRoLinUCB, "bound"),
        (rolin.Greedy, "mean"),
        (rolin.Uniform, "own"),
        (rolin.NaiveRoLinTS, "own"),
        (functools.partial(rolin.NaiveRoLinTS, sampling="joint"), "own"),
    ],
)
def test_rules_describe_the_scores(make: Any, rule: str) -> None:
    """A policy's scores are those that its declared rule describes."""
    policy = make(n_features=3, seed=1)
    assert policy.rule == rule
    if rule == "own":
        return
    rng = np.random.default_rng(0)
    for t in range(20):
        policy.update(t % 4, rng.normal(size=3), float(rng.random() < 0.5))
    candidates = policy.candidates(rng.normal(size=(6, 3)))
    x, rows, size = candidates.contexts, candidates.rows, policy.posterior.size
    mean, std, _ = policy.posterior.score(x, rows, np.zeros(6)).table
    if rule == "joint":
        draws = policy.exploration * policy.normals(5, size + 6)
        draws[size:] += policy.optimism
        expected = policy.posterior.score_joint(x, rows, draws).values
    elif rule == "marginal":
        expected = mean + (policy.exploration * policy.normals(5, 6) + policy.optimism) * std
    else:
        width = policy.width if rule == "bound" else 0.0
        expected = mean + width * std
    np.testing.assert_allclose(policy.score(candidates, 5).values, expected, rtol=1e-12)


def test_a_subclass_with_another_rule_says_so() -> None:
    """Overriding the rule makes it "own", also by a mixin; `draws` of a new policy does not."""

    class Half(rolin.LinearPolicy):
        def draws(self, n_arms: int, key: Key) -> NDArray[np.float64]:
            return 0.5 * self.normals(key, n_arms)

    class Scored(rolin.RoLinTS):
        def score(self, candidates: Candidates, key: Key) -> Scores:
            return super().score(candidates, key)

    class Drawn(rolin.Greedy):
        def draws(self, n_arms: int, key: Key) -> NDArray[np.float64]:
            return self.normals(key, n_arms)

    class Mixin:
        def score(self, candidates: Candidates, key: Key) -> Scores:
            raise NotImplementedError

    class Mixed(Mixin, rolin.RoLinTS):  # type: ignore[misc]  # Mixin is not a policy
        pass

    class Declared(Scored):
        rule = "marginal"

    class Below(Scored):
        pass

    assert Half(n_features=1).rule == "draws"
    assert Declared(n_features=1).rule == "marginal"
    assert Declared(n_features=1, sampling="joint").rule == "joint"
    for policy in (Scored, Drawn, Mixed, Below):
        assert policy(n_features=1).rule == "own"
    assert Scored(n_features=1, sampling="joint").rule == "own"


def test_decisions_made_elsewhere_are_counted() -> None:
    """After `count_decisions(n)` the next decision has the key that n decisions would lead to."""
    policy = rolin.RoLinTS(n_features=1, seed=1)
    policy.count_decisions(3)
    assert policy.n_decisions == 3
    assert policy.decide([[1.0]]).key == 3
    with pytest.raises(rolin.errors.ParameterError, match="n=-1, expected a whole number"):
        policy.count_decisions(-1)


def test_normals_are_those_of_the_generator() -> None:
    """`normals` and `generator` give the same numbers for a key."""
    policy = rolin.RoLinTS(n_features=1, seed=1)
    for key in (0, "order-4711"):
        expected = policy.generator(key).standard_normal(5)
        np.testing.assert_array_equal(policy.normals(key, 5), expected)


class _Inverted(rolin.RoLinTS):
    """Prefers the arms that the draws speak against."""

    def draws(self, n_arms: int, key: int | str) -> np.ndarray:
        """Return the draws of Thompson sampling with the opposite sign."""
        return -super().draws(n_arms, key)


class _First(rolin.RoLinUCB):
    """Chooses the first arm."""

    def score(self, candidates: Candidates, key: int | str) -> Scores:
        """Prefer arms by their order."""
        return Scores(0, -np.arange(len(candidates.names), dtype=float)[None])


@pytest.mark.parametrize("kind", [_Inverted, _First])
def test_a_rule_of_ones_own_is_used_everywhere(kind: type[rolin.LinearPolicy]) -> None:
    """An overridden rule holds for many decisions too, and inherited probabilities are not claimed."""
    x = np.random.default_rng(5).normal(size=(20, 4, 2))
    one, many = kind(n_features=2, seed=1), kind(n_features=2, seed=1)
    assert [one.decide(rows).arm for rows in x] == [d.arm for d in many.decide_many(x)]
    with pytest.raises(Unsupported, match="does not know its probabilities"):
        one.probabilities(x[0])


def test_inverted_draws_change_decisions() -> None:
    """`RoLinTS` draws by `draws` once it is overridden."""
    x = np.random.default_rng(5).normal(size=(30, 4, 2))
    usual, inverted = (fixed(kind, n_features=2, seed=1) for kind in (rolin.RoLinTS, _Inverted))
    assert [usual.decide(r).arm for r in x] != [inverted.decide(r).arm for r in x]


def test_subclasses_that_pass_options_on_learn_scales_from_a_fit() -> None:
    """`from_fit` knows the scales of the class that takes the options in the end."""

    class Mine(rolin.RoLinTS):
        """Takes any option."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)

    x = np.random.default_rng(5).normal(size=(50, 2))
    moments = rolin.Moments.of(["a", "b"] * 25, x, x.sum(axis=1))
    assert Mine.from_fit(moments).learns_scales
