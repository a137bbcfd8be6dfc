"""Binary rewards: each outcome becomes a weighted Gaussian observation of the logit.

Integrals are computed by the trapezoid rule. For smooth functions that vanish at both ends, its error falls faster than
any power of the step.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, Rows, compiled
from rolin.model.kernels.layout import (
    AGEING,
    ARM_VARIANCE,
    CONTEXT,
    NOISE_VARIANCE,
    REWARD,
    WEIGHT,
    WEIGHT_OF_NEW,
    Tails,
)
from rolin.model.kernels.observe import age, fold_weighted, is_within

__all__ = ["observe_outcome", "observe_outcomes", "outcome_site", "sigmoid_moments"]

# Nodes of an integral: at least _NODES, more if the steps would be longer than _STEP, at most _MAX_NODES.
_NODES, _MAX_NODES, _STEP = 64, 4096, 0.25
_REACH = 8.0  # the normal distribution is cut off at this many standard deviations
_DROP = 32.0  # densities smaller than the maximum by a factor e^-32 are cut off
# Smallest precision of a site, relative to that of the prior. A very unlikely outcome may have no precision, and
# still move the mean.
_LEAST = 1e-9


@compiled(reorder=False)
def _node_count(wanted: float) -> int:
    """Return a number of nodes within the limits; the lower limit for NaN, which is rejected later."""
    if not wanted > _NODES:
        return _NODES
    return _MAX_NODES if wanted >= _MAX_NODES else int(wanted)


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
def _log_product(eta: float, mean: float, variance: float, sign: float, weight: float) -> float:
    """Return log of N(η; m, v) σ(±η)^weight, up to a constant."""
    t = sign * eta
    log_p = t - math.log1p(math.exp(t)) if t < 0.0 else -math.log1p(math.exp(-t))
    apart = eta - mean
    return weight * log_p - 0.5 * apart * apart / variance


@compiled(reorder=True)
def _sigmoid(t: float) -> float:
    """Return 1/(1 + e^(-t)), without overflow."""
    if t < 0.0:
        e = math.exp(t)
        return e / (1.0 + e)
    return 1.0 / (1.0 + math.exp(-t))


@compiled(reorder=True)
def _mode(mean: float, variance: float, sign: float, weight: float) -> float:
    """Return the maximum of the product, by Newton's method with bisection as a safeguard."""
    near, far = mean, mean + sign * variance * weight  # the slope changes its sign between these
    eta = mean
    for _ in range(100):
        p = _sigmoid(sign * eta)
        slope = sign * weight * (1.0 - p) - (eta - mean) / variance
        if sign * slope > 0.0:
            near = eta
        else:
            far = eta
        step = slope / (weight * p * (1.0 - p) + 1.0 / variance)
        new = eta + step
        if not (min(near, far) < new < max(near, far)):
            new = 0.5 * (near + far)
        if abs(new - eta) <= 1e-8 * (1.0 + abs(eta)):
            return new
        eta = new
    return eta


@compiled(reorder=True)
def _edge(
    mode: float,
    top: float,
    outside: float,
    mean: float,
    variance: float,
    sign: float,
    weight: float,
) -> float:
    """Return about where the log product has dropped by `_DROP`, between the mode and `outside`."""
    inside = mode
    for _ in range(30):
        middle = 0.5 * (inside + outside)
        if top - _log_product(middle, mean, variance, sign, weight) > _DROP:
            outside = middle
        else:
            inside = middle
        if abs(outside - inside) < 0.05 * abs(outside - mode):
            break
    return outside


@compiled(reorder=True)
def _site(mean: float, variance: float, yes: bool, weight: float) -> tuple[float, float]:
    """Return value r and precision h of the normal observation of η that has the same effect as the outcome.

    The outcome turns N(m, v) into the product N(η; m, v) σ(±η)^weight. Let Z be its integral, and g and -c the
    derivatives of log Z. The product has mean m + v g and variance v' = v (1 - v c). An observation r = m + g/c of
    precision h = c v/v' gives the same mean and variance (docs/explanation/maths.md, "Binary rewards"). Under the product, with
    p = σ(±η), g is the mean of ±weight (1 - p), and c the mean of weight p (1 - p) minus the variance of
    weight (1 - p). These formulas do not cancel if the outcome was almost certain.
    """
    sign = 1.0 if yes else -1.0
    mode = _mode(mean, variance, sign, weight)
    top = _log_product(mode, mean, variance, sign, weight)
    # The product falls at least as fast as the normal distribution.
    reach = math.sqrt(2.0 * _DROP * variance)
    low = _edge(mode, top, mode - reach, mean, variance, sign, weight)
    high = _edge(mode, top, mode + reach, mean, variance, sign, weight)
    n = _node_count((high - low) / _STEP)
    step = (high - low) / n
    middle = weight * (1.0 - _sigmoid(sign * mode))
    z, first, second, slope, slopes, bend = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n + 1):
        apart = low + i * step - mode
        w = math.exp(_log_product(mode + apart, mean, variance, sign, weight) - top)
        p = _sigmoid(sign * (mode + apart))
        s = weight * (1.0 - p) - middle
        z += w
        first += w * apart
        second += w * apart * apart
        slope += w * s
        slopes += w * s * s
        bend += w * weight * p * (1.0 - p)
    slope /= z
    first /= z
    g = middle + slope
    c = bend / z - (slopes / z - slope * slope)
    h = max(c * variance / (second / z - first * first), _LEAST / variance)
    # The site must move the mean by v g.
    return mean + sign * g * (1.0 + variance * h) / h, h


@compiled(reorder=True)
def sigmoid_moments(mean: Floats, std: Floats, out: Floats) -> None:
    """Write mean and standard deviation of σ(η), η ~ N(mean, std²), to the rows of `out`."""
    for k in range(mean.shape[0]):
        n = _node_count(2.0 * _REACH * std[k] / _STEP)
        middle = _sigmoid(mean[k])
        total, first, second = 0.0, 0.0, 0.0
        for i in range(n + 1):
            z = _REACH * (2.0 * i / n - 1.0)
            w = math.exp(-0.5 * z * z)
            apart = _sigmoid(mean[k] + std[k] * z) - middle
            total += w
            first += w * apart
            second += w * apart * apart
        first /= total
        out[0, k] = middle + first
        out[1, k] = math.sqrt(max(second / total - first * first, 0.0))


@compiled(reorder=False)
def outcome_site(
    context: Floats, reward: float, weight: float, row: int, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, numbers: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Return the observation that stands for an outcome in the current state: r and h, or NaN."""
    if not is_within(row, context, arms, tails):
        return math.nan, math.nan
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
    grown = numbers[WEIGHT_OF_NEW] * numbers[AGEING]
    r, h = outcome_site(context, reward, weight * grown, row, arms, tails, coef, factor, numbers)
    if not h > 0.0:
        return False
    folded = fold_weighted(context, r, h, row, arms, tails, coef, factor, scatter, numbers)
    if folded:
        age(weight, grown, numbers)
    return folded


@compiled(reorder=False)
def observe_outcomes(
    contexts: Floats, rewards: Floats, weights: Floats, rows: Rows, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, scatter: Floats, numbers: Floats,
) -> int:  # fmt: skip
    """Fold n outcomes one by one, up to the first that is not finite; return the number folded."""
    for t in range(rows.shape[0]):
        if not observe_outcome(
            contexts[t], rewards[t], weights[t], rows[t],
            arms, tails, coef, factor, scatter, numbers,
        ):  # fmt: skip
            return t
    return len(rows)
