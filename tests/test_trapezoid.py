"""Probabilities of unknown scales: the trapezoid rule, the nodes of the noise, and the mixture as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import eigh_tridiagonal
from scipy.stats import chi2, norm
from scipy.stats import t as student

import rolin
from rolin.policies.kernels.noise import _diagonalize
from rolin.policies.kernels.trapezoid import SPACE, integrate_all
from rolin.policies.propensity import highest_of_normals, noise_nodes


def by_trapezoid(mean: Any, std: Any, error: float) -> Any:
    """The probabilities by the trapezoid rule, or `None` where it gives up."""
    reach = 7.5
    low = (mean - reach * std).max()
    can = mean + reach * std > low
    n, k = int(can.sum()), len(mean)
    work = np.zeros((5, k))
    work[0, :n], work[1, :n] = mean[can] - low, std[can]
    high = float((mean + reach * std).max() - low)
    if not integrate_all(work, n, high, np.empty((2, k + SPACE)), error):
        return None
    p = np.zeros(k)
    p[can] = work[2, :n]
    return p


@pytest.mark.parametrize("n_arms", [3, 50, 3000])
@pytest.mark.parametrize("error", [1e-10, 1e-7, 1e-5])
def test_arms_of_similar_width_need_no_panels(
    n_arms: int, error: float, rng: np.random.Generator
) -> None:
    """Whether their means are equal or far apart: as by panels, to the error that is asked for.

    With 3000 arms, one node does not fit into the space for one loop.
    """
    for spread in (0.0, 0.3, 1.0):
        std, mean = rng.uniform(0.5, 1.0, size=n_arms), spread * rng.normal(size=n_arms)
        p = by_trapezoid(mean, std / std.max(), error)
        assert p is not None
        np.testing.assert_allclose(p, highest_of_normals(mean, std / std.max()), rtol=0, atol=error)


@given(
    st.lists(st.tuples(st.floats(-3.0, 0.0), st.floats(-4.0, 0.0)), min_size=1, max_size=30),
    st.floats(-10.0, -5.0),
)
def test_what_is_not_refused_is_right(arms: list[tuple[float, float]], digits: float) -> None:
    """Widths up to 10 000 times apart: the rule gives up, or its error is near the one that is asked for.

    It estimates its error from two differences, so it can be wrong by a small factor: 2.8 in 21 000 problems.
    """
    mean = np.array([a[0] for a in arms])
    std = 10.0 ** np.array([a[1] for a in arms])
    unit = std.max()
    p = by_trapezoid((mean - mean.max()) / unit, std / unit, 10.0**digits)
    if p is not None:
        np.testing.assert_allclose(p, highest_of_normals(mean, std), rtol=0, atol=5 * 10.0**digits)


@pytest.mark.parametrize("n", [1, 2, 9, 30])
def test_eigenvalues_against_scipy(n: int, rng: np.random.Generator) -> None:
    """Of a tridiagonal matrix, with the first components of the eigenvectors."""
    diagonal, beside = rng.normal(size=n), rng.uniform(0.01, 1.0, size=n)
    values, vectors = eigh_tridiagonal(diagonal, beside[:-1])
    first = np.eye(n)[0]
    _diagonalize(diagonal, beside, first)
    order = np.argsort(diagonal)
    np.testing.assert_allclose(diagonal[order], values, rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.abs(first[order]), np.abs(vectors[0]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("freedom", [3.0, 3.01, 4.0, 7.5, 25.0, 400.0, 1e6, 1e15])
def test_nodes_have_the_moments_of_the_noise(freedom: float) -> None:
    """The mean of 1/σ² is 1 and its variance 2/ν, as those of χ²_ν/ν."""
    sigma, weight = noise_nodes(freedom)
    square = sigma**-2.0
    mean, variance = chi2.stats(freedom)
    assert weight @ square == pytest.approx(mean / freedom, rel=1e-8)
    spread = weight @ (square - 1.0) ** 2
    # 1/σ² is not a polynomial of the variable of the nodes, and three nodes have its variance to 1e-5. With 1e15, what
    # differs from 1 is close to the rounding error.
    assert spread == pytest.approx(variance / freedom**2, rel=1e-4 if freedom <= 1e6 else 1e-2)
    assert (weight > 0.0).all()


def test_there_are_enough_nodes_of_the_noise() -> None:
    """Of two arms at any distance, for 120 degrees of freedom: P is that of Student's t, to 6e-10."""
    distance = np.geomspace(1e-2, 1e4, 200)
    for freedom in np.geomspace(3.0, 4000.0, 120):
        sigma, weight = noise_nodes(float(freedom))
        found = norm.cdf(np.outer(distance, 1.0 / sigma)) @ weight
        np.testing.assert_allclose(found, student.cdf(distance, freedom), rtol=0, atol=6e-10)


def by_steps(policy: rolin.BayesRoLinTS, x: Any) -> Any:
    """The probabilities by panels for every model and every small step of log σ."""
    beliefs = policy.beliefs
    step = 0.25 / np.sqrt(2.0 * beliefs.freedom)
    log_sigma = step * np.arange(-60, 140 + int(30.0 / (beliefs.freedom * step)))
    log_density = -beliefs.freedom * (log_sigma + 0.5 * np.expm1(-2.0 * log_sigma))
    density = np.exp(log_density) / np.exp(log_density).sum()
    total = np.zeros(len(x))
    for g, part in enumerate(policy.posteriors):
        mean, std = part.predict(x)
        for sigma, share in zip(np.exp(log_sigma), density, strict=True):
            weight = beliefs.weight[g] * share
            if weight > 1e-14:
                noise = policy.exploration * beliefs.noise_std[g] * sigma
                total += weight * highest_of_normals(mean, std, noise)
    return total


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_the_first_rewards_of_fifty_arms(size: float, rng: np.random.Generator) -> None:
    """Probabilities of the mixture are those by panels and small steps, to 1e-9; coefficients are small or large."""
    policy = rolin.BayesRoLinTS(n_features=10, coef_std=1.0, coef_mean=0.2, seed=0)
    theta, effects = size * rng.normal(size=10), rng.normal(size=50)
    for n in range(31):
        x = rng.normal(size=(50, 10))
        if n in (0, 1, 2, 5, 12, 30):
            p = policy.probabilities(x)
            np.testing.assert_allclose(p, by_steps(policy, x), rtol=0, atol=1e-9)
        decision = policy.decide(x)
        reward = decision.context @ theta + effects[decision.arm] + rng.normal()
        policy.update(decision.arm, decision.context, float(reward))


def test_arms_of_very_different_widths(rng: np.random.Generator) -> None:
    """Contexts whose sizes differ by factors of 1000: the same, to 1e-9."""
    policy = rolin.BayesRoLinTS(n_features=3, coef_std=1.0, seed=0)
    x = rng.normal(size=(12, 3)) * 10.0 ** rng.uniform(-3, 0, size=(12, 1))
    for n in range(6):
        policy.update(n % 4, x[n], float(rng.normal()))
        p = policy.probabilities(x)
        np.testing.assert_allclose(p, by_steps(policy, x), rtol=0, atol=1e-9)
