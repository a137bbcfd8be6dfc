"""BayesRoLinTS against the dense model: weights, predictions and probabilities of the mixture."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_t

import rolin
from rolin.model.mixture import Mixture
from support.oracles import random_history

GUESS = rolin.Scales(noise_std=2.0, arm_std=0.6, coef_std=(1.0, 3.0), coef_mean=0.3)


def dense(mixture: Mixture, g: int, history: Any, x: Any, arm: int) -> tuple[float, float, float]:
    """Log evidence of ratio g, and mean and scale² of the arm's mean reward, from n × n matrices.

    Rewards are jointly Student's t with 3 degrees of freedom: normal, with a common variance σ² whose
    inverse is χ²_3/(3 guess²). Conditioning is the formula of the multivariate t.
    """
    ratio, nu, scale = mixture.ratio[g], 3.0, GUESS.noise_std**2
    kappa = np.array(GUESS.coef_std) / GUESS.noise_std
    z = np.eye(10)[history.arms]
    shape = (history.x * kappa**2) @ history.x.T + ratio**2 * z @ z.T + np.diag(1 / history.h)
    mean = history.x @ [0.3, 0.3]
    log_evidence = multivariate_t.logpdf(history.r, mean, scale * shape, df=nu)
    cross = (x * kappa**2) @ history.x.T + ratio**2 * z[:, arm]
    own = (x * kappa**2) @ x + ratio**2
    inverse = np.linalg.inv(shape)
    apart = history.r - mean
    n = len(apart)
    square = (nu * scale + apart @ inverse @ apart) / (nu + n)
    return (
        float(log_evidence),
        float(x @ [0.3, 0.3] + cross @ inverse @ apart),
        float(square * (own - cross @ inverse @ cross)),
    )


def test_the_mixture_is_the_dense_one(rng: np.random.Generator) -> None:
    """Weights from multivariate t densities, mean and variance from the mixture of t's."""
    history = random_history(rng, 40, 6, 2)
    mixture = Mixture(GUESS, 2)
    mixture.observe_many(history.arms, history.x, history.r, history.h)
    x = rng.normal(size=2)
    for arm in (0, 3, 9):  # the last was never seen
        parts = [dense(mixture, g, history, x, arm) for g in range(8)]
        log_weight = mixture._log_prior + [p[0] for p in parts]
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        np.testing.assert_allclose(mixture.beliefs.weight, weight, rtol=1e-8, atol=1e-12)
        means, squares = np.array([p[1] for p in parts]), np.array([p[2] for p in parts])
        mean = weight @ means
        variance = weight @ (squares * 43 / 41 + (means - mean) ** 2)
        found = mixture.predict(x[None], [arm])
        np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(found.std, variance**0.5, rtol=1e-9)


def test_the_running_state_is_what_the_moments_rebuild(rng: np.random.Generator) -> None:
    """Weights and predictions, with and without an intercept."""
    for scales in (GUESS, rolin.Scales(intercept_std=1.5, intercept_mean=-1.0)):
        history = random_history(rng, 300, 12, 2)
        one = Mixture(scales, 2)
        one.observe_many(history.arms.tolist(), history.x, history.r, history.h)
        again = Mixture(scales, 2)
        again.fill(one.moments)
        x = rng.normal(size=(12, 2))
        np.testing.assert_allclose(one.beliefs.weight, again.beliefs.weight, rtol=1e-7, atol=1e-12)
        for a, b in zip(one.predict(x), again.predict(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("unit", [1e-6, 1e8])
def test_units_do_not_matter(unit: float, rng: np.random.Generator) -> None:
    """Rewards, noise, arms and coefficients in other units give the same weights, to 1e-6."""
    weights = []
    arms, x, noise = rng.integers(20, size=1000), rng.normal(size=(1000, 2)), rng.normal(size=1000)
    r = x @ [1.0, -1.0] + 0.5 * rng.normal(size=20)[arms] + noise
    for u in (1.0, unit):
        mixture = Mixture(rolin.Scales(noise_std=u, arm_std=0.5 * u, coef_std=u), 2)
        mixture.observe_many(arms, x, u * r)
        weights.append(mixture.beliefs.weight)
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-6)


@pytest.mark.parametrize("how", ["copied", "pickled", "refused"])
def test_a_copy_goes_on_learning(how: str, rng: np.random.Generator) -> None:
    """A copy, one from a pickle, and one that refused a batch learn on as the original does."""
    arms, x, r = rng.integers(3, size=60).tolist(), rng.normal(size=(60, 2)), rng.normal(size=60)
    one = rolin.BayesRoLinTS(n_features=2, seed=0)
    one.update_many(arms[:30], x[:30], r[:30])
    other = {
        "copied": copy.deepcopy, "pickled": lambda p: pickle.loads(pickle.dumps(p)),
        "refused": copy.deepcopy,
    }[how](one)  # fmt: skip
    if how == "refused":
        with pytest.raises(rolin.RolinError):
            other.update_many([0, 1], x[:2], [1.0, 1e300])
    for policy in (one, other):
        for i in range(30, 60):
            policy.update(arms[i], x[i], float(r[i]))
    for a, b in zip(one.predict(x[:3]), other.predict(x[:3]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_scales_are_found(seed: int) -> None:
    """With 5000 rewards the right ratio has the most weight, and the noise is known to 3 %."""
    for ratio in (0.0, 0.25, 1.0):
        rng = np.random.default_rng([seed, int(8 * ratio)])
        arms, x = rng.integers(80, size=5000), rng.normal(size=(5000, 3))
        r = x @ [1.0, 2.0, 3.0] + 2.0 * (ratio * rng.normal(size=80)[arms] + rng.normal(size=5000))
        policy = rolin.BayesRoLinTS(n_features=3, arm_std=0.5, noise_std=1.0, seed=0)
        policy.update_many(arms.tolist(), x, r)
        beliefs = policy.beliefs
        likely = beliefs.ratio[beliefs.weight.argmax()]
        assert likely == ratio or (ratio == 0.0 and likely < 0.07)
        assert beliefs.weight @ beliefs.noise_std == pytest.approx(2.0, rel=0.03)


def test_probabilities_are_those_of_the_mixture(rng: np.random.Generator) -> None:
    """Against 400 000 draws of scales and arms, within 5 standard errors."""
    policy = rolin.BayesRoLinTS(n_features=2, seed=0)
    history = random_history(rng, 12, 4, 2)
    policy.update_many(history.arms.tolist(), history.x, history.r)
    x = rng.normal(size=(5, 2))
    p = policy.probabilities(x)
    beliefs = policy.beliefs
    means, stds = policy._model.predict_each(x, policy._model.candidates(x, None).rows)
    n = 400_000
    g = rng.choice(8, size=n, p=beliefs.weight)
    noise = beliefs.noise_std[g] * np.sqrt(beliefs.freedom / rng.chisquare(beliefs.freedom, n))
    draws = means[g] + noise[:, None] * stds[g] * rng.normal(size=(n, 5))
    shares = np.bincount(draws.argmax(axis=1), minlength=5) / n
    assert (np.abs(shares - p) <= 5 * np.sqrt(p * (1 - p) / n) + 1e-9).all()
