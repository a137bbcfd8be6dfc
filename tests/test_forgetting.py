"""Forgetting: all sums shrink, the prior does not."""

from __future__ import annotations

import copy
import itertools
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import rolin
from rolin.errors import MergeError, ParameterError
from rolin.model.moments import Moments
from support.policies import fixed

MAKERS: dict[str, Any] = {
    "RoLinTS": lambda **o: fixed(rolin.RoLinTS, n_features=3, seed=0, **o),
    "RoLinTS, intercept": lambda **o: fixed(
        rolin.RoLinTS, n_features=3, seed=0, intercept_std=1.0, **o
    ),
    "RoLinTS, learned": lambda **o: fixed(
        rolin.RoLinTS, n_features=3, seed=0, arm_std=("learn", 0.5), **o
    ),
    "RoLinTS, forgetting": lambda **o: fixed(
        rolin.RoLinTS, n_features=3, seed=0, half_life=30.0, **o
    ),
    "RoLinTS, defaults": lambda **o: rolin.RoLinTS(n_features=3, seed=0, **o),
    "NaiveRoLinTS": lambda **o: fixed(rolin.NaiveRoLinTS, n_features=3, seed=0, **o),
    "BayesRoLinTS": lambda **o: rolin.BayesRoLinTS(n_features=3, seed=0, **o),
    "LogisticRoLinTS": lambda **o: fixed(rolin.LogisticRoLinTS, n_features=3, seed=0, **o),
}


def history(rng: np.random.Generator, n: int = 60, binary: bool = False) -> tuple[Any, ...]:
    """Arms, contexts, rewards and weights."""
    r = rng.normal(size=n)
    return (
        rng.integers(5, size=n).tolist(), rng.normal(size=(n, 3)), (r > 0) * 1.0 if binary else r,
        rng.uniform(0.5, 2.0, n),
    )  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_a_factor_of_one_changes_nothing(name: str, rng: np.random.Generator) -> None:
    """Bit for bit."""
    policy = MAKERS[name]()
    policy.update_many(*history(rng, binary=policy.binary))
    before = {key: array.tobytes() for key, array in policy._model.arrays().items()}
    policy.decay(1.0)
    assert {key: array.tobytes() for key, array in policy._model.arrays().items()} == before


@pytest.mark.parametrize("name", ["RoLinTS", "RoLinTS, intercept", "NaiveRoLinTS"])
def test_decay_is_a_smaller_weight(name: str, rng: np.random.Generator) -> None:
    """What is decayed twice predicts as if its rewards had weighed as much less; new ones weigh 1."""
    old, new = history(rng), history(rng)
    policy, light = MAKERS[name](), MAKERS[name]()
    policy.update_many(*old)
    policy.decay(0.5)
    policy.decay(0.2)
    policy.update_many(*new)
    light.update_many(*old[:3], 0.1 * old[3])
    light.update_many(*new)
    x = rng.normal(size=(6, 3))
    for a, b in zip(policy.predict(x), light.predict(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert policy.moments.count == pytest.approx(60 * 0.1 + 60)


def test_the_evidence_decays_too(rng: np.random.Generator) -> None:
    """Sums of logarithms shrink as the sums do: a rebuild from the moments gives the same evidence."""
    policy = MAKERS["RoLinTS, intercept"]()
    policy.update_many(*history(rng))
    before = policy.moments
    policy.decay(0.3)
    after = policy.moments
    for field in ("count", "sum_log_weight", "reward_scatter", "scatter", "cross", "weight"):
        np.testing.assert_allclose(getattr(after, field), 0.3 * getattr(before, field), rtol=1e-12)
    again = rolin.Posterior.of(policy.scales, before.decayed(0.3))
    assert policy.posterior.log_evidence == pytest.approx(again.log_evidence, rel=1e-9)


@pytest.mark.parametrize("half_life", [3.0, 50.0, 5000.0])
def test_a_half_life_is_a_weight_that_halves(half_life: float, rng: np.random.Generator) -> None:
    """N rewards later a reward weighs 2^(-n/half_life), whenever the rebuilds come."""
    arms, x, r, h = history(rng, 200)
    policy = fixed(rolin.RoLinTS, n_features=3, half_life=half_life, seed=0)
    for i in range(200):
        policy.update(arms[i], x[i], float(r[i]), float(h[i]))
    age = 2.0 ** (-np.arange(199, -1, -1) / half_life)
    expected = Moments.of(arms, x, r, h * age)
    found = policy.moments
    assert found.count == pytest.approx(age.sum(), rel=1e-9)
    assert found.sum_log_weight == pytest.approx(float(age @ np.log(h)), rel=1e-9, abs=1e-9)
    order = [found.arms.index(arm) for arm in expected.arms]
    for field in ("weight", "mean_context", "mean_reward"):
        np.testing.assert_allclose(
            getattr(found, field)[order], getattr(expected, field), rtol=1e-9, atol=1e-12
        )
    for field in ("scatter", "cross", "reward_scatter"):
        np.testing.assert_allclose(
            getattr(found, field), getattr(expected, field), rtol=1e-9, atol=1e-12
        )
    # The running posterior is at most 1 % of the evidence ahead of that.
    exact = rolin.Posterior.of(policy.scales, expected)
    grid = rng.normal(size=(5, 3))
    np.testing.assert_allclose(policy.predict(grid).std, exact.predict(grid).std, rtol=6e-3)


@pytest.mark.parametrize("name", ["RoLinTS", "RoLinTS, learned", "BayesRoLinTS", "LogisticRoLinTS"])
def test_an_arm_that_nobody_pulls_drifts_back(name: str, rng: np.random.Generator) -> None:
    """After enough forgetting, a known arm is predicted as one that was never seen."""
    policy = MAKERS[name]()
    policy.update_many(*history(rng, binary=policy.binary))
    x = rng.normal(size=(1, 3))
    same = np.concatenate([x, x])
    apart = abs(np.subtract(*policy.predict(same, [0, "new"]).mean))
    for _ in range(40):
        policy.decay(0.5)
    mean, std = policy.predict(same, [0, "new"])
    assert apart > 1e-3
    np.testing.assert_allclose(mean[0], mean[1], atol=1e-6)
    np.testing.assert_allclose(std[0], std[1], rtol=1e-6)


def test_evidence_that_is_all_but_gone_can_be_merged(rng: np.random.Generator) -> None:
    """Two learners, or one and a new one, after so many decays that weights are zero."""
    for name, other in itertools.product(("RoLinTS", "RoLinTS, defaults"), (True, False)):
        a = MAKERS[name]()
        a.update_many(*history(rng))
        b = MAKERS[name]() if other else copy.deepcopy(a)
        for policy in {id(a): a, id(b): b}.values():
            for _ in range(5):
                policy.decay(1e-300)
        both = rolin.merge(a, b)
        np.testing.assert_allclose(both.predict(np.ones((1, 3)))[0], [0.0], atol=1e-9)


def test_updates_that_cannot_be_carried_out_are_refused_whole() -> None:
    """What is too large to rebuild from is learned or refused, never both."""
    scales = dict.fromkeys(("noise_std", "arm_std", "coef_std"), 1e-100)
    policy = fixed(rolin.RoLinTS, n_features=1, half_life=2.0, seed=0, **scales)  # type: ignore[arg-type]
    policy.update("a", [1e-150], 1e-50)
    for arm, x, r in (("a", 1e150, 1e-150), ("b", 1e-150, 1.0)):
        before = policy.moments.weight.tolist(), list(policy.arms)
        try:
            policy.update(arm, [x], r)
        except rolin.RolinError:
            assert (policy.moments.weight.tolist(), list(policy.arms)) == before


def test_removed_arms_and_names_survive(rng: np.random.Generator) -> None:
    """Forgetting changes what is known of arms, not which there are."""
    policy = MAKERS["RoLinTS"]()
    policy.update_many(*history(rng))
    policy.remove_arm(2)
    names = policy.posterior.names
    policy.decay(0.5)
    assert policy.posterior.names == names
    assert policy.removed_arms == [2]


@pytest.mark.parametrize("factor", [Decimal("0.5"), Fraction(1, 2), np.float32(0.5), np.array(0.5)])
def test_any_kind_of_number_is_a_factor(factor: Any, rng: np.random.Generator) -> None:
    """As long as it is one."""
    for name in ("RoLinTS", "RoLinTS, forgetting", "BayesRoLinTS", "NaiveRoLinTS"):
        policy = MAKERS[name]()
        policy.update_many(*history(rng))
        before = policy.moments.weight
        policy.decay(factor)
        np.testing.assert_allclose(policy.moments.weight, before / 2, rtol=1e-9)


@pytest.mark.parametrize("factor", [0.0, -0.5, 1.1, np.nan, "half", None])
def test_bad_factors_are_refused(factor: Any, rng: np.random.Generator) -> None:
    """A factor is above 0 and at most 1; anything else changes nothing."""
    for name in ("RoLinTS", "RoLinTS, forgetting", "BayesRoLinTS"):
        policy = MAKERS[name]()
        policy.update_many(*history(rng))
        before = policy.predict(np.ones((1, 3)))[0]
        with pytest.raises(ParameterError, match="factor="):
            policy.decay(factor)
        assert policy.predict(np.ones((1, 3)))[0] == before


def test_learners_that_forget_by_themselves_are_not_merged(rng: np.random.Generator) -> None:
    """Whose rewards came first is not known."""
    a, b = (MAKERS["RoLinTS, forgetting"]() for _ in range(2))
    with pytest.raises(MergeError, match="cannot be merged"):
        rolin.merge(a, b)


def test_forgetting_pays_where_tastes_change(seed: int) -> None:
    """In a world of half-life 500, forgetting at that pace beats remembering, in 12 paired runs.

    By more than 3 standard errors of the difference.
    """
    result = rolin.simulate(
        {
            "remembers": lambda seed: fixed(rolin.RoLinTS, n_features=10, seed=seed),
            "forgets": lambda seed: fixed(rolin.RoLinTS, n_features=10, half_life=500.0, seed=seed),
        },
        rolin.environments.Drifting(half_life=500.0),
        rounds=3000, runs=12, seed=seed, progress=False,
    )  # fmt: skip
    apart = result.regret["remembers"][:, -1] - result.regret["forgets"][:, -1]
    assert apart.mean() > 3 * apart.std(ddof=1) / 12**0.5
