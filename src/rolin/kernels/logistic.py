"""Yes/no rewards: each outcome as a weighted Gaussian observation of the logit.

Integrals over a normal distribution are taken by the trapezoid rule, whose error for a logistic curve
falls as exp(-2π²/(step · std)): 2e-7 for a standard deviation of 5, which is wider than any prior of
a logit should be.
"""

from __future__ import annotations

import math

import numpy as np

from rolin.kernels.layout import (
    ARM_VARIANCE,
    CONTEXT,
    NOISE_VARIANCE,
    REWARD,
    WEIGHT,
    Floats,
    Rows,
    Tails,
    compiled,
)
from rolin.kernels.observe import observe

__all__ = ["observe_outcome", "observe_outcomes", "outcome_site", "sigmoid_moments"]

_STEP = 0.25
_NODES = np.arange(-32, 33) * _STEP
_DENSITY = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
# Below this, an outcome was certain as far as floating-point numbers tell, and teaches nothing.
_LEAST = 1e-100


@compiled(reorder=True)
def _logit(
    context: Floats, row: int, arms: Floats, tails: Tails, coef: Floats, factor: Floats,
    numbers: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Return mean and variance of the arm's logit in its context."""
    d, size = context.shape[0], factor.shape[0]
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    unshrunk = noise / (noise + arms[row, WEIGHT] * arm_variance)
    u = np.empty(size)
    mean = (1.0 - unshrunk) * arms[row, REWARD]
    for j in range(d):
        xbar = arms[row, CONTEXT + j]
        u[j] = ((context[j] - xbar) - tails[row, 1 + j]) + unshrunk * xbar
        mean += u[j] * coef[j]
    if size > d:
        u[d] = unshrunk
        mean += unshrunk * coef[d]
    variance = arm_variance * unshrunk
    for j in range(size):
        f = 0.0
        for i in range(j + 1):
            f += factor[j, i] * u[i]
        variance += f * f
    return mean, variance


@compiled(reorder=True)
def _site(mean: float, variance: float, yes: bool, weight: float) -> tuple[float, float]:
    """Return r and h: what a normal observation of η must be, to do to it what the outcome does.

    The outcome makes N(m, v) the product N(η; m, v) σ(±η)^weight. With Z its integral, g and -c the
    derivatives of log Z, it has mean m + v g and variance v (1 - v c), which an observation
    r = m + g/c of precision h = c/(1 - v c) gives as well (docs/maths.md, "Yes/no rewards").
    """
    sign, std = 1.0 if yes else -1.0, math.sqrt(variance)
    z, first, second = 0.0, 0.0, 0.0
    for q in range(_NODES.shape[0]):
        p = 1.0 / (1.0 + math.exp(-sign * (mean + std * _NODES[q])))
        likelihood = _DENSITY[q] * (p if weight == 1.0 else p**weight)
        slope = weight * (1.0 - p)
        z += likelihood
        first += likelihood * slope
        second += likelihood * slope * (slope - p)
    g = first / z
    c = g * g - second / z
    if not c > _LEAST:
        return mean, _LEAST if c == c else math.nan
    return mean + sign * g / c, c / max(1.0 - variance * c, 1e-12)


@compiled(reorder=True)
def sigmoid_moments(mean: Floats, std: Floats, out: Floats) -> None:
    """Write mean and standard deviation of σ(η), η ~ N(mean, std²), to the rows of `out`."""
    for k in range(mean.shape[0]):
        total, square = 0.0, 0.0
        middle = 1.0 / (1.0 + math.exp(-mean[k]))
        for q in range(_NODES.shape[0]):
            apart = 1.0 / (1.0 + math.exp(-(mean[k] + std[k] * _NODES[q]))) - middle
            total += _DENSITY[q] * apart
            square += _DENSITY[q] * apart * apart
        out[0, k] = middle + total
        out[1, k] = math.sqrt(max(square - total * total, 0.0))


@compiled(reorder=False)
def outcome_site(
    context: Floats, reward: float, weight: float, row: int, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, numbers: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Return the observation that an outcome is worth now: r and h, or NaN."""
    mean, variance = _logit(context, row, arms, tails, coef, factor, numbers)
    if not (abs(mean) < np.inf and variance < np.inf):
        return math.nan, math.nan
    return _site(mean, variance, reward > 0.5, weight)


@compiled(reorder=False)
def observe_outcome(
    context: Floats, reward: float, weight: float, row: int, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, scatter: Floats, numbers: Floats,
) -> bool:  # fmt: skip
    """Fold one outcome, 0 or 1, into the state; or return False and change nothing."""
    r, h = outcome_site(context, reward, weight, row, arms, tails, coef, factor, numbers)
    if not h > 0.0:
        return False
    return observe(context, r, h, row, arms, tails, coef, factor, scatter, numbers)


@compiled(reorder=False)
def observe_outcomes(
    contexts: Floats, rewards: Floats, weights: Floats, rows: Rows, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, scatter: Floats, numbers: Floats,
) -> int:  # fmt: skip
    """Fold n outcomes one by one; return how many went well before the first that did not."""
    for t in range(rows.shape[0]):
        if not observe_outcome(
            contexts[t], rewards[t], weights[t], rows[t],
            arms, tails, coef, factor, scatter, numbers,
        ):  # fmt: skip
            return t
    return len(rows)
