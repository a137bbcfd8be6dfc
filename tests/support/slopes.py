"""Data of arms with slopes, their moments, and their dense likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

import rolin
from rolin.model.moments import Moments
from rolin.model.slopes import SlopePosterior


def slope_moments(
    arms: Any, x: Any, r: Any, h: Any = None, slopes: Sequence[int] | None = None
) -> Moments:
    """The moments of a log, with the scatter of each arm for the features in `slopes`, by default all."""
    known = None if slopes is None else tuple(slopes)
    posterior = SlopePosterior(rolin.Scales(slope_std=1.0, slopes=known), np.shape(x)[1])
    posterior.observe_many(arms, x, r, h)
    return posterior.moments


def slope_data(
    rng: np.random.Generator,
    n: int = 120,
    k: int = 12,
    d: int = 3,
    *,
    arm_std: float = 0.7,
    slope_std: float = 0.5,
    noise_std: float = 1.5,
    slopes: Sequence[int] | None = None,
    weighted: bool = False,
) -> tuple[Any, ...]:
    """Arms, contexts, rewards and weights of arms that differ in level and in some slopes, by default all."""
    arms, x = rng.integers(k, size=n), rng.normal(size=(n, d)) + 0.5
    h = rng.uniform(0.5, 2.0, size=n) if weighted else np.ones(n)
    own = np.zeros((k, d))
    which = list(range(d) if slopes is None else slopes)
    own[:, which] = slope_std * rng.normal(size=(k, len(which)))
    effects, noise = arm_std * rng.normal(size=k), noise_std * rng.normal(size=n) / np.sqrt(h)
    return arms, x, x @ rng.normal(size=d) + effects[arms] + (x * own[arms]).sum(axis=1) + noise, h


def dense_log_likelihood(scales: rolin.Scales, arms: Any, x: Any, r: Any, h: Any) -> float:
    """Log density of all rewards, from their n × n covariance; an intercept has a flat prior."""
    mean, std = (part[: x.shape[1]] for part in scales.prior(x.shape[1]))
    z = np.column_stack([np.ones(len(x)), x[:, scales.slope_indices(x.shape[1])]])
    same = np.equal.outer(np.asarray(arms), np.asarray(arms))
    covariance = (x * std**2) @ x.T + np.diag(scales.noise_std**2 / h)
    covariance += same * ((z * scales.own_stds(x.shape[1]) ** 2) @ z.T)
    if not scales.has_intercept:
        return float(multivariate_normal.logpdf(r, x @ mean, covariance))
    # The integral over the level: its best value, and a normal density around it.
    weights = np.linalg.solve(covariance, np.ones(len(x)))
    level = weights @ (r - x @ mean) / weights.sum()
    best = multivariate_normal.logpdf(r, x @ mean + level, covariance)
    return float(best + 0.5 * np.log(2.0 * np.pi / weights.sum()))
