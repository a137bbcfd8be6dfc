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
    CURVE,
    NO,
    NOISE_VARIANCE,
    REWARD,
    SEEN_NO,
    SEEN_YES,
    SHIFT,
    SPREAD,
    TOTAL,
    WEIGHT,
    WEIGHT_OF_NEW,
    YES,
    Tails,
)
from rolin.model.kernels.observe import age, fold_weighted, is_within

__all__ = [
    "observe_outcome",
    "observe_outcomes",
    "outcome_site",
    "sigmoid",
    "sigmoid_moments",
    "site_of",
]

# Nodes of an integral: at least _NODES, more if the steps would be longer than _STEP, at most _MAX_NODES.
_NODES, _MAX_NODES, _STEP = 64, 4096, 0.25
_REACH = 8.0  # the normal distribution is cut off at this many standard deviations
_DROP = 32.0  # densities smaller than the maximum by a factor e^-32 are cut off
# Smallest precision of a site, relative to that of the prior. A very unlikely outcome may have no precision, and
# still move the mean.
_LEAST = 1e-9
_FARTHEST = 50.0  # logits farther apart are treated as this far apart
_MOST_SPREAD = 1e300  # sums of squares are limited to this, because a state must be finite


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
def _log_product(eta: float, mean: float, variance: float, yes: float, no: float) -> float:
    """Return log of N(η; m, v) σ(η)^yes σ(-η)^no, up to a constant."""
    log_tail = math.log1p(math.exp(-abs(eta)))
    log_p = -(yes + no) * log_tail + (yes * eta if eta < 0.0 else -no * eta)
    apart = eta - mean
    return log_p - 0.5 * apart * apart / variance


@compiled(reorder=True)
def sigmoid(t: float) -> float:
    """Return 1/(1 + e^(-t)), without overflow."""
    if t < 0.0:
        e = math.exp(t)
        return e / (1.0 + e)
    return 1.0 / (1.0 + math.exp(-t))


@compiled(reorder=True)
def _mode(mean: float, variance: float, yes: float, no: float) -> float:
    """Return the maximum of the product, by Newton's method with bisection as a safeguard."""
    # The slope changes its sign between these.
    low, high = mean - variance * no, mean + variance * yes
    eta = mean
    for _ in range(100):
        p, q = sigmoid(eta), sigmoid(-eta)
        slope = yes * q - no * p - (eta - mean) / variance
        if slope > 0.0:
            low = eta
        else:
            high = eta
        new = eta + slope / ((yes + no) * p * q + 1.0 / variance)
        if not (low < new < high):
            new = 0.5 * (low + high)
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
    yes: float,
    no: float,
) -> float:
    """Return about where the log product has dropped by `_DROP`, between the mode and `outside`."""
    inside = mode
    for _ in range(30):
        middle = 0.5 * (inside + outside)
        if top - _log_product(middle, mean, variance, yes, no) > _DROP:
            outside = middle
        else:
            inside = middle
        if abs(outside - inside) < 0.05 * abs(outside - mode):
            break
    return outside


@compiled(reorder=True)
def site_of(mean: float, variance: float, yes: float, no: float) -> tuple[float, float]:
    """Return value r and precision h of the normal observation of η that has the same effect as these outcomes.

    The outcomes turn N(m, v) into the product N(η; m, v) σ(η)^yes σ(-η)^no. Let Z be its integral, and g and -c the
    derivatives of log Z by m. The product has mean m + v g and variance v' = v (1 - v c). An observation r = m + g/c of
    precision h = c v/v' gives the same mean and variance (docs/explanation/maths.md, "Binary rewards"). Under the product,
    with p = σ(η), g is the mean of s = yes (1 - p) - no p, and c the mean of (yes + no) p (1 - p) minus the
    variance of s. These formulas do not cancel if the outcomes were almost certain.
    """
    mode = _mode(mean, variance, yes, no)
    top = _log_product(mode, mean, variance, yes, no)
    # The product falls at least as fast as the normal distribution.
    reach = math.sqrt(2.0 * _DROP * variance)
    low = _edge(mode, top, mode - reach, mean, variance, yes, no)
    high = _edge(mode, top, mode + reach, mean, variance, yes, no)
    n = _node_count((high - low) / _STEP)
    step = (high - low) / n
    middle = yes * sigmoid(-mode) - no * sigmoid(mode)
    z, first, second, slope, slopes, bend = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n + 1):
        apart = low + i * step - mode
        w = math.exp(_log_product(mode + apart, mean, variance, yes, no) - top)
        p, q = sigmoid(mode + apart), sigmoid(-mode - apart)
        s = yes * q - no * p - middle
        z += w
        first += w * apart
        second += w * apart * apart
        slope += w * s
        slopes += w * s * s
        bend += w * (yes + no) * p * q
    slope /= z
    first /= z
    g = middle + slope
    after = second / z - first * first
    if after < 0.5 * variance:
        h = 1.0 / after - 1.0 / variance  # c would be a difference of large numbers
    else:
        h = (bend / z - (slopes / z - slope * slope)) * variance / after
    h = max(h, _LEAST / variance)
    # The site must move the mean by v g.
    return mean + g * (1.0 + variance * h) / h, h


@compiled(reorder=True)
def sigmoid_moments(mean: Floats, std: Floats, out: Floats) -> None:
    """Write mean and standard deviation of σ(η), η ~ N(mean, std²), to the rows of `out`."""
    for k in range(mean.shape[0]):
        n = _node_count(2.0 * _REACH * std[k] / _STEP)
        middle = sigmoid(mean[k])
        total, first, second = 0.0, 0.0, 0.0
        for i in range(n + 1):
            z = _REACH * (2.0 * i / n - 1.0)
            w = math.exp(-0.5 * z * z)
            apart = sigmoid(mean[k] + std[k] * z) - middle
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
) -> tuple[float, float, float]:  # fmt: skip
    """Return the observation that stands for an outcome in the current state, r and h, and the mean logit; or NaN."""
    if not is_within(row, context, arms, tails):
        return math.nan, math.nan, math.nan
    mean, variance = _logit(context, row, arms, tails, coef, factor, numbers)
    if not (abs(mean) < np.inf and variance < np.inf):
        return math.nan, math.nan, math.nan
    yes = weight if reward > 0.5 else 0.0
    r, h = site_of(mean, variance, yes, weight - yes)
    return r, h, mean


@compiled(reorder=True, inline=True)
def _relative(level: float, apart: float) -> tuple[float, float]:
    """Return (σ(m + a) - σ(m))/σ'(m) and σ'(m + a)/σ'(m), without cancellation."""
    sign = -1.0 if level > 0.0 else 1.0
    a = min(max(sign * apart, -_FARTHEST), _FARTHEST)
    e = math.exp(-abs(level))
    ratio = (1.0 + e) / (1.0 + e * math.exp(a))
    return sign * math.expm1(a) * ratio, math.exp(a) * ratio * ratio


@compiled(reorder=False)
def _count(
    weight: float, reward: float, mean: float, pull: float, apart: float, square: float, row: int,
    outcomes: Floats, coef: Floats, reference: Floats, schedule: Floats,
) -> None:  # fmt: skip
    """Count an outcome of an arm, whose context is `apart` from the arm's mean context before it, as a logit.

    SHIFT and CURVE describe how the arm's contexts differ from their weighted mean. With η = level + a in each of
    them, they are the sums of (σ(η) - σ(level))/σ'(level) and σ'(η)/σ'(level). Since the mean context moves by the share
    `pull`, the earlier a change by the same amount (to first order).
    """
    moved, beside = pull * apart, (1.0 - pull) * apart
    level = mean - beside
    shift, curve = _relative(level, beside)
    before = outcomes[row, CURVE]
    moved_before = pull * pull * (outcomes[row, YES] + outcomes[row, NO])
    spread = square * (weight * (1.0 - pull) * (1.0 - pull) + moved_before)
    outcomes[row, SPREAD] = min(outcomes[row, SPREAD] + spread, _MOST_SPREAD)
    outcomes[row, YES] += weight if reward > 0.5 else 0.0
    outcomes[row, NO] += 0.0 if reward > 0.5 else weight
    outcomes[row, SHIFT] += weight * shift - moved * before
    faded = math.exp(-min(max(moved * (1.0 - 2.0 * sigmoid(level)), -_FARTHEST), _FARTHEST))
    outcomes[row, CURVE] = faded * before + weight * curve
    schedule[TOTAL] += weight
    share = weight / schedule[TOTAL]
    for j in range(reference.shape[1]):
        step = coef[j] - reference[0, j]
        reference[0, j] += share * step
        reference[1, j] += share * ((1.0 - share) * step * step - reference[1, j])


@compiled(reorder=False)
def observe_outcome(
    context: Floats, reward: float, weight: float, row: int, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, scatter: Floats, numbers: Floats, outcomes: Floats,
    schedule: Floats, reference: Floats,
) -> bool:  # fmt: skip
    """Fold one outcome, 0 or 1, into the state; or return False and change nothing."""
    grown = numbers[WEIGHT_OF_NEW] * numbers[AGEING]
    r, h, mean = outcome_site(
        context, reward, weight * grown, row, arms, tails, coef, factor, numbers
    )
    if not h > 0.0:
        return False
    apart, square = 0.0, 0.0
    for j in range(context.shape[0]):
        step = context[j] - arms[row, CONTEXT + j]
        apart += step * coef[j]
        square += step * step
    pull = h / (arms[row, WEIGHT] + h)
    folded = fold_weighted(context, r, h, row, arms, tails, coef, factor, scatter, numbers)
    if folded:
        age(weight, grown, numbers)
        schedule[SEEN_YES if reward > 0.5 else SEEN_NO] += 1.0
        # They are as large as that, unless threads change the state without a lock.
        if row < outcomes.shape[0] and reference.shape[1] <= coef.shape[0]:
            _count(
                weight * grown,
                reward,
                mean,
                pull,
                apart,
                square,
                row,
                outcomes,
                coef,
                reference,
                schedule,
            )
    return folded


@compiled(reorder=False)
def observe_outcomes(
    contexts: Floats, rewards: Floats, weights: Floats, rows: Rows, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, scatter: Floats, numbers: Floats, outcomes: Floats,
    schedule: Floats, reference: Floats,
) -> int:  # fmt: skip
    """Fold outcomes one by one, up to the first that is not finite; return the number folded."""
    for t in range(rows.shape[0]):
        if not observe_outcome(
            contexts[t], rewards[t], weights[t], rows[t],
            arms, tails, coef, factor, scatter, numbers, outcomes, schedule, reference,
        ):  # fmt: skip
            return t
    return len(rows)
