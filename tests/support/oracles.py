"""Slow answers to compare the fast ones with.

`Dense` shares no formula with the library. `Exact` has the formulas of the model, on exact sums of
the raw data and in extended precision: it is there for rounding, not for the algebra.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from rolin import Posterior, Scales

Array = NDArray[np.float64]
LONG = np.longdouble  # 64 bits of mantissa on x86


@dataclass
class History:
    """Observations: arms as integers from 0, contexts, rewards, weights."""

    arms: NDArray[np.int64]
    x: Array
    r: Array
    h: Array

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.arms.max(initial=-1)) + 1


def random_history(
    rng: np.random.Generator, n: int, n_arms: int, d: int, weighted: bool = True
) -> History:
    """Observations without structure; laws must hold for any."""
    return History(
        rng.integers(0, n_arms, n),
        rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, d) + rng.normal(size=d),
        rng.normal(size=n) * 3 + 1,
        rng.uniform(0.2, 3.0, n) if weighted else np.ones(n),
    )


class Dense:
    """The posterior of γ = (θ, intercept?, u_1 … u_K) by conditioning one big Gaussian.

    u_i is the effect of an arm, followed by its slopes if the scales have any.

    The rewards are r = Zγ + ε, so (γ, r) is jointly Gaussian; the posterior is the textbook
    conditional, with the n × n covariance of the rewards.
    """

    def __init__(self, scales: Scales, history: History, n_arms: int) -> None:
        d = history.x.shape[1]
        mean, std = scales.prior(d)
        self.size = len(mean)
        self.scales = scales
        self.slopes = list(scales.slope_indices(d)) if scales.has_slopes else []
        own = [scales.arm_std, *np.broadcast_to(scales.slope_std, len(self.slopes))]
        prior_mean = np.concatenate([mean, np.zeros(n_arms * len(own))])
        prior = np.diag(np.concatenate([std, np.tile(own, n_arms)]) ** 2)
        z = self.z(history.x, history.arms, n_arms)
        noise = np.diag(scales.noise_std**2 / history.h)
        self.reward_mean = z @ prior_mean
        self.reward_covariance = z @ prior @ z.T + noise
        gain = np.linalg.solve(self.reward_covariance, z @ prior).T
        self.mean = prior_mean + gain @ (history.r - self.reward_mean)
        self.covariance = prior - gain @ z @ prior
        self.log_evidence = (
            multivariate_normal(self.reward_mean, self.reward_covariance).logpdf(history.r)
            if len(history.r)
            else 0.0
        )
        self.n_arms = n_arms

    def z(self, x: Array, arms: NDArray[np.int64], n_arms: int) -> Array:
        """Return the augmented features (x, 1?, e_i ⊗ (1, x_S))."""
        ones = np.ones((len(x), self.size - x.shape[1]))
        own = [
            np.kron(np.eye(n_arms)[a], [1.0, *v[self.slopes]]) for a, v in zip(arms, x, strict=True)
        ]
        return np.column_stack(
            [x, ones, np.reshape(own, (len(x), n_arms * (1 + len(self.slopes))))]
        )

    def predict(self, x: Array, arms: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return mean and joint covariance of the arms' mean rewards."""
        z = self.z(x, arms, self.n_arms)
        return z @ self.mean, z @ self.covariance @ z.T


class Exact:
    """The posterior of θ from raw data in extended precision.

    Features, rewards and weights must be dyadic: integers times powers of two, and their
    products small enough that BLAS adds them without rounding. So all sums are exact, and only
    the algebra after them rounds, in long double.
    """

    def __init__(self, scales: Scales, history: Iterable[History], n_arms: int) -> None:
        """Add up the parts of a history (which may be too long to hold) and solve."""
        grams, pulls = None, np.zeros(n_arms)
        for part in history:
            # (x, r, 1) measured from an exact offset, which keeps the products small
            z = np.column_stack([part.x, part.r, np.ones(len(part.r))])
            if grams is None:
                grams = np.zeros((n_arms, z.shape[1], z.shape[1]))
                shift = np.append(part.x[0], [0.0, 0.0])
            z -= shift
            pulls += np.bincount(part.arms, minlength=n_arms)
            for arm in np.unique(part.arms):
                own = part.arms == arm
                assert_exact(z[own], part.h[own], pulls[arm])
                grams[arm] += (part.h[own, None] * z[own]).T @ z[own]
        assert grams is not None
        d = len(shift) - 2
        noise, arm_variance = LONG(scales.noise_std) ** 2, LONG(scales.arm_std) ** 2
        prior_mean, prior_std = scales.prior(d)
        m = np.diag(LONG(1) / prior_std.astype(LONG) ** 2)
        b = prior_mean / prior_std.astype(LONG) ** 2
        self.w, self.xbar, self.rbar = [], [], []
        for gram in grams:
            total = LONG(gram[-1, -1])
            sums = gram[-1].astype(LONG)
            centred = gram.astype(LONG) - np.outer(sums, sums) / total
            xbar, rbar = sums[:d] / total + shift[:d], sums[d] / total
            keep = noise / (noise + total * arm_variance)  # 1 - w
            m = m + (centred[:d, :d] + total * keep * np.outer(xbar, xbar)) / noise
            b = b + (centred[:d, d] + total * keep * xbar * rbar) / noise
            self.w.append(1 - keep)
            self.xbar.append(xbar)
            self.rbar.append(rbar)
        self.noise, self.arm_variance = noise, arm_variance
        self.left = cholesky(m)
        self.coef = back_solve(self.left.T, forward_solve(self.left, b))

    def predict(self, x: Array, arms: NDArray[np.int64]) -> tuple[NDArray[LONG], NDArray[LONG]]:
        """Return mean and standard deviation of each arm's mean reward."""
        w = np.array([self.w[i] for i in arms])
        u = x - w[:, None] * np.array([self.xbar[i] for i in arms])
        mean = w * np.array([self.rbar[i] for i in arms]) + u @ self.coef
        half = forward_solve(self.left, u.T)
        return mean, np.sqrt(self.arm_variance * (1 - w) + (half**2).sum(axis=0))

    def error_of(self, posterior: Posterior, contexts: Array) -> float:
        """Return the largest relative error of coefficients, means and standard deviations."""
        coef = posterior.coefficients.mean
        worst = [_norm(coef - self.coef) / _norm(self.coef)]
        for k, x in enumerate(contexts):
            arm = k % len(self.w)
            (mean,), (std,) = self.predict(x[None], np.array([arm]))
            (got_mean,), (got_std,) = posterior.predict(x[None], [arm])
            # a mean near zero is known to its standard deviation, not to its own digits
            worst += [abs(got_mean - mean) / (abs(mean) + std), abs(got_std / std - 1)]
        return float(max(worst))


def _norm(values: NDArray[LONG]) -> float:
    return float(np.sqrt((values**2).sum()))


def whole_numbers(values: Array) -> float:
    """Return the largest magnitude of the values, counted in their common last bit."""
    values = values[values != 0]
    if not len(values):
        return 0.0
    mantissa, exponent = np.frexp(values)
    whole = (mantissa * 2.0**53).astype(np.int64)
    last_bit = np.ldexp((whole & -whole).astype(np.float64), exponent - 53).min()
    return float(np.abs(values).max() / last_bit)


def assert_exact(z: Array, h: Array, n: float) -> None:
    """Assert that no sum of n products h z z' needs more than 53 bits."""
    assert max(whole_numbers(column) for column in z.T) ** 2 * whole_numbers(h) * n < 2.0**53


def cholesky(m: NDArray[LONG]) -> NDArray[LONG]:
    """Lower-triangular L with L L' = m, in extended precision."""
    left = np.zeros_like(m)
    for i in range(len(m)):
        left[i, i] = np.sqrt(m[i, i] - (left[i, :i] ** 2).sum())
        left[i + 1 :, i] = (m[i + 1 :, i] - left[i + 1 :, :i] @ left[i, :i]) / left[i, i]
    return left


def forward_solve(left: NDArray[LONG], right: NDArray[LONG]) -> NDArray[LONG]:
    """Solve L y = right."""
    y = np.zeros(right.shape, LONG)
    for i in range(len(left)):
        y[i] = (right[i] - left[i, :i] @ y[:i]) / left[i, i]
    return y


def back_solve(upper: NDArray[LONG], right: NDArray[LONG]) -> NDArray[LONG]:
    """Solve U y = right."""
    y = np.zeros(right.shape, LONG)
    for i in reversed(range(len(upper))):
        y[i] = (right[i] - upper[i, i + 1 :] @ y[i + 1 :]) / upper[i, i]
    return y
