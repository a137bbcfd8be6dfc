"""Draws have the moments, correlations and choice frequencies that the posterior implies.

Tolerances are k = 6 standard errors: with about 1000 comparisons a run, one false alarm in two
million runs.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm

import rolin
from rolin import Posterior, Scales, policies
from rolin.errors import NotFiniteError, ShapeError
from rolin.model.draws import Sampling
from rolin.model.sparse import SparseContexts
from support.oracles import Dense, random_history
from support.policies import fixed

SE = 6.0
N = 40_000


def problem(rng: np.random.Generator) -> tuple[Posterior, Dense, np.ndarray, np.ndarray]:
    """A posterior after 30 rewards of four arms, a dense one, and a question of six arms."""
    scales = Scales(arm_std=0.7, noise_std=0.5, coef_std=(0.5, 1.0, 2.0), intercept_std=1.0)
    history = random_history(rng, 30, 4, 3)
    posterior = Posterior(scales, 3)
    posterior.observe_many(history.arms.tolist(), history.x, history.r, history.h)
    x, arms = rng.normal(size=(6, 3)), np.arange(6)
    return posterior, Dense(scales, history, 6), x, arms


@pytest.mark.parametrize("sampling", ["marginal", "joint"])
def test_draws_have_the_right_moments(sampling: Sampling, rng: np.random.Generator) -> None:
    """Means, variances and correlations of both kinds of draws."""
    posterior, dense, x, arms = problem(rng)
    mean, covariance = dense.predict(x, arms)
    if sampling == "marginal":
        covariance = np.diag(np.diag(covariance))
    draws = posterior.draw(x, arms, generator=rng, size=N, sampling=sampling)
    std = np.sqrt(np.diag(covariance))
    assert np.abs((draws.mean(axis=0) - mean) / std).max() < SE / np.sqrt(N)
    centred = draws - mean
    found = centred.T @ centred / N
    # Var of a sample covariance: (s_ii s_jj + s_ij²)/N
    error = np.sqrt((np.outer(std**2, std**2) + covariance**2) / N)
    assert (np.abs(found - covariance) < SE * error).all()


@pytest.mark.parametrize("sampling", ["marginal", "joint"])
def test_choices_have_the_right_frequencies(sampling: Sampling, rng: np.random.Generator) -> None:
    """Of two arms, one is chosen with probability Φ(Δμ / sd of the difference)."""
    policy = fixed(
        rolin.RoLinTS, n_features=3, arm_std=0.7, noise_std=1.0, sampling=sampling, seed=1
    )
    history = random_history(rng, 30, 2, 3)
    policy.update_many(history.arms.tolist(), history.x, history.r, history.h)
    dense = Dense(policy.scales, history, 2)
    x = rng.normal(size=(2, 3)) * 0.3
    mean, covariance = dense.predict(x, np.arange(2))
    if sampling == "marginal":
        covariance = np.diag(np.diag(covariance))
    contrast = np.array([1.0, -1.0])
    p = norm.cdf(mean @ contrast / np.sqrt(contrast @ covariance @ contrast))
    n = 20_000
    chosen = np.mean([policy.decide(x, key=key).arm == 0 for key in range(n)])
    assert abs(chosen - p) < SE * np.sqrt(p * (1 - p) / n) + 1e-12


def test_uniform_is_uniform() -> None:
    """Every arm has its share of 20 000 decisions, and also of every rank."""
    policy = rolin.Uniform(n_features=1, seed=3)
    n = 20_000
    rankings = np.array([policy.decide(np.ones((4, 1)), top_k=4).ranking for _ in range(n)])
    for rank in range(4):
        counts = np.bincount(rankings[:, rank], minlength=4)
        assert (np.abs(counts - n / 4) < SE * np.sqrt(n * 3 / 16)).all()


@pytest.mark.parametrize("arm_std", [0.0, 0.5])
@pytest.mark.parametrize("worlds", [1500, pytest.param(12_000, marks=pytest.mark.slow)])
def test_the_posterior_is_calibrated(arm_std: float, worlds: int, seed: int) -> None:
    """In worlds drawn from the prior, 90 % intervals cover 90 % ± 1 %, under adaptive pulls.

    12 000 worlds, three arms asked of each after 15 rounds of Thompson sampling. The standard error
    is 0.16 % if the three errors of a world were independent and 0.27 % if they were one, so 1 %
    is at least 3.6 of them. With 1500 worlds, they are 0.45 % and 0.77 %, and as many of them 2.8 %.
    """
    rounds, d, k = 15, 2, 5
    rng = np.random.default_rng(seed)
    half = norm.ppf(0.95)
    covered = []
    for world in range(worlds):
        theta, v = rng.normal(size=d), arm_std * rng.normal(size=k)
        policy = fixed(rolin.RoLinTS, n_features=d, arm_std=arm_std, noise_std=0.5, seed=world)
        contexts = rng.uniform(-1, 1, (rounds, k, d))
        noise = 0.5 * rng.normal(size=rounds)
        for t in range(rounds):
            decision = policy.decide(contexts[t])
            arm = int(decision.arm)
            policy.update(arm, decision.context, contexts[t, arm] @ theta + v[arm] + noise[t])
        x = rng.uniform(-1, 1, (3, d))
        mean, std = policy.predict(x, [0, 1, 2])
        covered += (np.abs(x @ theta + v[:3] - mean) < half * std).tolist()
    assert abs(np.mean(covered) - 0.9) < 0.01 * (12_000 / worlds) ** 0.5


def test_unseen_arms_have_the_right_prior(rng: np.random.Generator) -> None:
    """An unseen arm: mean x'θ̂, variance arm_std² + x'M⁻¹x."""
    posterior, _, x, _ = problem(rng)
    coef, covariance = posterior.coefficients
    z = np.column_stack([x, np.ones(6)])
    mean, std = posterior.predict(x, [f"new {k}" for k in range(6)])
    np.testing.assert_allclose(mean, z @ coef, rtol=1e-12)
    expected = 0.7**2 + np.einsum("ki,ij,kj->k", z, covariance, z)
    np.testing.assert_allclose(std**2, expected, rtol=1e-10)


@pytest.mark.parametrize("policy", [rolin.RoLinTS, rolin.LinTS])
@pytest.mark.parametrize("intercept", [None, 1.5])
def test_sparse_contexts_are_drawn_as_dense_ones(
    policy: type[rolin.RoLinTS], intercept: float | None, rng: np.random.Generator
) -> None:
    """Joint sampling by what is not zero: the same scores as with zeros, for seen and unseen arms."""
    joint = policy(n_features=12, sampling="joint", intercept_std=intercept, seed=3)
    x = rng.normal(size=(200, 12)) * (rng.random((200, 12)) < 0.2)
    joint.update_many(rng.integers(0, 5, 200), x, rng.normal(size=200))
    for key in range(20):
        contexts = rng.normal(size=(9, 12)) * (rng.random((9, 12)) < 0.2)
        for kind in (sparse.csr_array, sparse.coo_matrix, sparse.csc_array):
            given = kind(contexts)
            draws = rng.normal(size=joint.posterior.size + 9)
            rows = joint._model.candidates(contexts, None).rows
            _, dense = joint.posterior.score_joint(contexts, rows, draws)
            _, found = joint.posterior.score_joint(SparseContexts(given), rows, draws)
            assert found == pytest.approx(dense, rel=1e-12, abs=1e-12)
            one, two = joint.decide(contexts, key=key), joint.decide(given, key=key)
            assert one.arm == two.arm
            assert (one.context == two.context).all()
            ranked = joint.decide(given, top_k=3, exclude=[1], key=key)
            assert ranked.ranking == joint.decide(contexts, top_k=3, exclude=[1], key=key).ranking
            assert (ranked.contexts == contexts[list(ranked.ranking)]).all()  # type: ignore[arg-type]


def test_sparse_contexts_of_any_policy(rng: np.random.Generator) -> None:
    """Where zeros do not save anything, a sparse matrix is as good as an array; entries given twice add up."""
    contexts = np.array([[1.0, 0.0], [0.0, 2.0]])
    twice = sparse.coo_array(([0.5, 0.5, 2.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    for kind in policies.find().values():
        policy = kind(n_features=2, seed=3)
        assert (policy.decide(twice, key=1).context == policy.decide(contexts, key=1).context).all()
    for kind in (rolin.NaiveRoLinTS, rolin.RoLinTS):
        joint = kind(n_features=2, sampling="joint", seed=3)
        assert joint.decide(twice, key=1).arm == joint.decide(contexts, key=1).arm
    with pytest.raises(NotFiniteError):
        joint.decide(sparse.csr_array([[math.nan, 1.0]]))
    with pytest.raises(ShapeError, match=r"shape \(1, 3\), expected \(K, 2\)"):
        joint.decide(sparse.csr_array([[1.0, 1.0, 2.0]]))
    with pytest.raises(ShapeError, match="expected numbers"):
        joint.decide(sparse.csr_array([[1j, 1.0]]))
