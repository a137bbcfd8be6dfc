"""The probability that an arm is chosen: integrals, policies, and how often they do choose it."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2, norm

import rolin
from rolin.policies.naive import DensePosterior
from rolin.policies.propensity import highest_of_normals, noise_nodes
from support.oracles import random_history
from support.policies import fixed


def trained(kind: Any, rng: np.random.Generator, **options: Any) -> Any:
    """A policy that has seen 40 rewards of 6 arms."""
    policy = fixed(kind, n_features=2, seed=0, **options)
    history = random_history(rng, 40, 6, 2)
    r = (history.r > 0) * 1.0 if policy.binary else history.r
    policy.update_many(history.arms.tolist(), history.x, r)
    return policy


@pytest.mark.parametrize("kind", [rolin.RoLinTS, rolin.LinTS, rolin.LogisticRoLinTS])
@pytest.mark.parametrize("millions", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_marginal_sampling_against_millions_of_draws(
    kind: Any, millions: int, rng: np.random.Generator
) -> None:
    """Eight arms, two of them never seen: shares of 10⁶ or 10⁷ draws are within 5 standard errors of each."""
    policy = trained(kind, rng)
    x = rng.normal(size=(8, 2))
    p, error = policy.probabilities_with_error(x)
    _, table = policy.posterior.score(x, policy.posterior.candidates(x, None).rows, np.zeros(8))
    counts = np.zeros(8)
    n = millions * 10**6
    for _ in range(millions):
        draws = table[0] + table[1] * rng.standard_normal((10**6, 8))
        counts += np.bincount(draws.argmax(axis=1), minlength=8)
    # One draw of an arm that is expected less than 1/25 times is already more than 5 standard errors.
    slack = 1e-9 if millions == 10 else 1 / n
    assert (np.abs(counts / n - p) <= 5 * np.sqrt(p * (1 - p) / n) + slack).all()
    assert (error == 0.0).all()


@pytest.mark.parametrize("arm_std", [0.5, 0.0])
def test_joint_sampling_against_the_dense_model(arm_std: float, rng: np.random.Generator) -> None:
    """Draws from the dense joint covariance: within 5 standard errors of both."""
    policy = trained(rolin.RoLinTS, rng, sampling="joint", arm_std=arm_std)
    x = rng.normal(size=(8, 2))
    p, error = policy.probabilities_with_error(x)
    dense = DensePosterior.of(policy.scales, policy.moments)
    mean, z, product, unseen = dense._joint(x, policy.posterior.candidates(x, None).rows)
    covariance = product @ z.T + np.diag(unseen)
    draws = rng.multivariate_normal(mean, covariance, size=400_000, method="eigh")
    shares = np.bincount(draws.argmax(axis=1), minlength=8) / 400_000
    # 256 pairs do not see what is rarer than one in 512
    allowed = 5 * np.hypot(error, np.sqrt(p * (1 - p) / 400_000)) + 2 / 512
    assert (np.abs(shares - p) <= allowed).all()
    assert error.max() < 0.02
    np.testing.assert_array_equal(p, policy.probabilities(x))


def test_rules_that_draw_nothing_share_ties() -> None:
    """Of UCB and greedy, the best have it all; equal ones share."""
    hidden = functools.partial(rolin.HLinUCB, initial="zero")
    for kind in (rolin.RoLinUCB, rolin.LinUCB, rolin.Greedy, hidden):
        policy = fixed(kind, n_features=1, seed=0)
        policy.update("a", [1.0], 5.0)
        x = np.array([[1.0], [-1.0], [-1.0]])
        assert policy.probabilities(x, ["a", "b", "c"]).tolist() == [1.0, 0.0, 0.0]
        new = fixed(kind, n_features=1, seed=0)
        assert new.probabilities(np.ones((4, 1))).tolist() == [0.25] * 4
    assert rolin.Uniform(n_features=1).probabilities(np.ones((3, 1))).tolist() == [1 / 3] * 3


def test_asking_changes_nothing_and_bad_questions_are_refused(rng: np.random.Generator) -> None:
    """As `decide`: the same errors, and not even the number of decisions moves."""
    for kind in (rolin.RoLinTS, rolin.BayesRoLinTS, rolin.RoLinUCB, rolin.Uniform):
        policy = trained(kind, rng)
        before = policy.n_decisions
        for bad in ([[np.nan, 1.0]], [[1.0]], np.empty((0, 2))):
            with pytest.raises(rolin.RolinError):
                policy.probabilities(bad)
        policy.probabilities({"a": [1.0, 2.0], "b": [0.0, 1.0]})
        assert policy.n_decisions == before


def test_a_policy_that_does_not_know_says_so() -> None:
    """Probabilities are a capability."""

    class Mine(rolin.LinTS):
        first_probabilities = rolin.Policy.first_probabilities

    with pytest.raises(rolin.errors.Unsupported, match="Mine does not know its probabilities"):
        Mine(n_features=1).probabilities([[1.0]])


# -- one-dimensional integrals ----------------------------------------------------------------


def test_two_arms_have_a_closed_form(rng: np.random.Generator) -> None:
    """P(first) = Φ((μ₁ - μ₂)/√(τ₁² + τ₂²)), for widths up to a thousand times apart."""
    for _ in range(200):
        mean, std = rng.normal(size=2), 10.0 ** rng.uniform(-3, 0, size=2)
        p = highest_of_normals(mean, std)
        expected = norm.cdf((mean[0] - mean[1]) / np.hypot(*std))
        assert p[0] == pytest.approx(expected, abs=1e-10)


def by_quadrature(mean: Any, std: Any, i: int) -> float:
    """∫ φ_i Π Φ_j, adaptively between marks around every arm."""

    def integrand(u: float) -> float:
        z = (u - mean) / std
        rest = math.prod(0.5 * math.erfc(-z[j] / math.sqrt(2)) for j in range(len(z)) if j != i)
        return math.exp(-0.5 * z[i] ** 2) / (math.sqrt(2 * math.pi) * std[i]) * rest

    marks = np.unique(np.concatenate([mean + c * std for c in (-8, -4, -2, 0, 2, 4, 8)]))
    pieces = itertools.pairwise(marks)
    return float(sum(quad(integrand, a, b, epsabs=1e-11)[0] for a, b in pieces))


def test_many_arms_agree_with_adaptive_quadrature(rng: np.random.Generator) -> None:
    """Six arms of widths up to a thousand times apart, each integral by another method, to 1e-8."""
    for _ in range(4):
        mean, std = rng.normal(size=6), 10.0 ** rng.uniform(-3, 0, size=6)
        p = highest_of_normals(mean, std)
        for i in range(6):
            assert p[i] == pytest.approx(by_quadrature(mean, std, i), abs=1e-8)
        assert p.sum() == pytest.approx(1.0, abs=1e-12)


def test_arms_that_are_known_exactly() -> None:
    """A standard deviation of zero is a number; equal ones share."""
    assert highest_of_normals(np.array([1.0, 1.0, 0.0]), np.zeros(3)).tolist() == [0.5, 0.5, 0.0]
    p = highest_of_normals(np.array([0.0, 0.0, -1.0]), np.array([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(p, [0.5, 0.5, 0.0], atol=1e-12)


def test_extreme_means_and_widths() -> None:
    """Nothing is too far, too narrow or too wide: probabilities are numbers that sum to one."""
    for mean, std in (
        ([1e10, 1e10, 2e10], [1e-10] * 3), ([0.0, 100.0], [1.0, 1e-300]), ([0.0, 0.0], [1e-320] * 2),
        ([0.0, 0.0], [1e300, 1e308]), ([1e300, -1e300], [1e-300, 1.0]), ([1e15, 1e15 + 1], [1.0, 1.0]),
    ):  # fmt: skip
        p = highest_of_normals(np.array(mean), np.array(std))
        assert p.sum() == pytest.approx(1.0, abs=1e-9)
    assert p[1] == pytest.approx(norm.cdf(1 / 2**0.5), abs=1e-9)


@pytest.mark.parametrize("freedom", [3.0, 10.0, 3003.0])
def test_the_nodes_of_the_noise_integrate_over_it(freedom: float) -> None:
    """P(σ z < 1/3) by nodes is that by quadrature over χ², to 1e-8."""
    sigma, weight = noise_nodes(freedom)
    by_nodes = weight @ norm.cdf(1 / (3 * sigma))
    low, high = chi2.ppf([1e-14, 1 - 1e-14], freedom)
    exact = quad(
        lambda c: chi2.pdf(c, freedom) * norm.cdf((c / freedom) ** 0.5 / 3), low, high, limit=500,
        epsabs=1e-12,
    )[0]  # fmt: skip
    assert by_nodes == pytest.approx(exact, abs=1e-8)


def test_stated_errors_of_joint_sampling_hold_for_rare_arms(seed: int) -> None:
    """In 40 states, the averages are within 4.5 stated errors of 40 000 draws of the coefficients, for every arm.

    Among the arms are some that none of the averaged draws has chosen: their stated error was 0.
    """
    worst, never = 0.0, 0
    for state in range(40):
        rng = np.random.default_rng([seed, state])
        policy = fixed(rolin.LinTS, n_features=3, sampling="joint", seed=state)
        policy.update_many(
            rng.integers(0, 6, 20).tolist(), rng.normal(size=(20, 3)), rng.normal(size=20)
        )
        x = rng.normal(size=(6, 3))
        p, error = policy.probabilities_with_error(x)
        mean, covariance = policy.posterior.coefficients
        best = (rng.multivariate_normal(mean, covariance, 40_000) @ x.T).argmax(axis=1)
        exact = np.bincount(best, minlength=6) / len(best)
        own = np.sqrt(exact * (1 - exact) / len(best))
        worst = max(worst, float((np.abs(p - exact) / np.hypot(error, own)).max()))
        never += int(((p == 0.0) & (exact > 0.0)).sum())
    assert never > 0
    assert worst < 4.5


@pytest.mark.parametrize("p", [1e-3, 3e-3, 1e-2, 0.2])
def test_the_stated_error_of_joint_probabilities_is_honest(p: float, seed: int) -> None:
    """200 independent estimates of a probability that is known: unbiased, and their errors cover it.

    Of arms e₁, -e₁ and tan(πp) e₂, with two coefficients from N(0, 1), the third is the best with probability p.
    """
    x, n = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, math.tan(math.pi * p)]]), 200
    found = [
        fixed(
            rolin.LinTS, n_features=2, sampling="joint", seed=1000 * seed + i
        ).probabilities_with_error(x)
        for i in range(n)
    ]
    values, errors = (np.array([getattr(f, name)[2] for f in found]) for name in found[0]._fields)
    spread = values.std(ddof=1)
    assert abs(values.mean() - p) < 5 * max(spread, math.sqrt(p / 512)) / math.sqrt(n)
    z = (values - p) / errors
    # The mean of n squares of standard normals has a standard error of √(2/n); errors may be too large for rare arms.
    assert (z**2).mean() < 1 + 4 * math.sqrt(2 / n)
    assert np.abs(z).max() < 5
    assert errors.max() < 3 * max(math.sqrt(p * (1 - p) / 256), 1 / 256)
