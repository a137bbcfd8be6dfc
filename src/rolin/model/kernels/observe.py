"""Update the posterior with a reward."""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, Rows, compiled
from rolin.model.kernels.layout import (
    AGEING,
    ARM_VARIANCE,
    CONTEXT,
    COUNT,
    LATEST,
    LOG_DETERMINANTS,
    NOISE_VARIANCE,
    QUADRATIC,
    REWARD,
    SEEN,
    SQUARED_WEIGHTS,
    SUM_LOG_WEIGHT,
    TOTAL_WEIGHT,
    WEIGHT,
    WEIGHT_OF_NEW,
    Tails,
)

__all__ = [
    "age",
    "differences",
    "dot",
    "fold_weighted",
    "is_within",
    "observe",
    "observe_many",
    "observe_mixture",
    "times",
    "update_coefficients",
    "update_moments",
]

# Number of scatter terms that are added plainly before their sum is carried over with compensation. Few enough that
# the plain sum stays accurate, many enough that carrying over costs little.
_CARRY = 256
# Larger rounding errors do not fit into single precision.
_LARGEST_TAIL = 1e38


@compiled(reorder=False)
def _two_sum(a: float, b: float) -> tuple[float, float]:
    """Return s and e with s + e = a + b exactly and s the rounded sum (Knuth 1969, 4.2.2)."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


@compiled(reorder=True)
def dot(a: Floats, b: Floats) -> float:
    """Return a'b."""
    total = 0.0
    for i in range(b.shape[0]):
        total += a[i] * b[i]
    return total


@compiled(reorder=True)
def times(factor: Floats, u: Floats, f: Floats) -> None:
    """Write f = T u."""
    for j in range(factor.shape[0]):
        total = 0.0
        for i in range(j + 1):
            total += factor[j, i] * u[i]
        f[j] = total


@compiled(reorder=False, inline=True)
def is_within(row: int, context: Floats, arms: Floats, tails: Tails) -> bool:
    """Return whether the arrays have this row and these features.

    They do, unless threads change the state without a lock. That must not write outside of the arrays.
    """
    d = context.shape[0]
    if row < 0 or row >= arms.shape[0] or row >= tails.shape[0]:
        return False
    return bool(arms.shape[1] == CONTEXT + d and tails.shape[1] == 1 + d)


@compiled(reorder=False, inline=True)
def differences(
    context: Floats, reward: float, weight: float, row: int,
    arms: Floats, tails: Tails, scatter: Floats, step: Floats,
) -> bool:  # fmt: skip
    """Write (r, x) minus the arm's means; return whether the scatter stays finite."""
    d = context.shape[0]
    before = arms[row, WEIGHT]
    gain = before * (weight / (before + weight))  # H h / (H + h), the weight of the new scatter
    step[0] = (reward - arms[row, REWARD]) - tails[row, 0]
    for j in range(d):
        step[1 + j] = (context[j] - arms[row, CONTEXT + j]) - tails[row, 1 + j]
    finite = True
    for j in range(1 + d):
        # false for NaN and infinity too
        finite &= scatter[0, j, j] + scatter[2, j, j] + gain * step[j] * step[j] < np.inf
    return finite


@compiled(reorder=False, inline=True)
def _predict(
    weight: float, row: int, arms: Floats, coef: Floats, factor: Floats, numbers: Floats,
    step: Floats, u: Floats, f: Floats, alpha: Floats,
) -> tuple[bool, float]:  # fmt: skip
    """Write u, T u and α; return whether the state stays finite, and (y - u'θ̂)/(c + u'M⁻¹u).

    u = x - w x̄ is computed as (x - x̄) + (1 - w) x̄, which does not cancel if w is near 1.
    """
    d, size = step.shape[0] - 1, factor.shape[0]
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    before = arms[row, WEIGHT]
    unshrunk = noise / (noise + before * arm_variance)  # 1 - w
    c = noise / weight + arm_variance * unshrunk
    for j in range(d):
        u[j] = step[1 + j] + unshrunk * arms[row, CONTEXT + j]
    if size > d:
        u[d] = unshrunk
    error = step[0] + unshrunk * arms[row, REWARD] - dot(u, coef)
    times(factor, u, f)
    total = c
    alpha[0] = math.sqrt(c)
    for j in range(size):
        total += f[j] * f[j]
        alpha[1 + j] = math.sqrt(total)
    scaled = error / total
    finite = 0.0 < c < np.inf and total < np.inf and 1.0 / total < np.inf
    finite &= (before + weight) * max(arm_variance, 1.0) < np.inf and abs(scaled) < np.inf
    finite &= numbers[QUADRATIC] + scaled * scaled * total < np.inf
    return finite, scaled


@compiled(reorder=False, inline=True)
def update_coefficients(
    weight: float, scaled: float, coef: Floats, factor: Floats, numbers: Floats,
    f: Floats, alpha: Floats, gain: Floats,
) -> None:  # fmt: skip
    """Update θ̂ and T by the gain M⁻¹u, and the evidence by the predictive density of the reward.

    Carlson (1973): row j of T shrinks by the part that the gain of the first j rows explains.
    """
    size = factor.shape[0]
    total = alpha[size] * alpha[size]
    # The squared error over its variance; `_predict` has checked that it is finite.
    square = scaled * scaled * total
    numbers[COUNT] += 1.0
    numbers[SUM_LOG_WEIGHT] += math.log(weight)
    # log N(y; u'θ̂, c + u'M⁻¹u): the product of the one-step predictive densities is the evidence. Its two parts are
    # added up separately: if rewards are very small, one part would be lost beside the other.
    numbers[LOG_DETERMINANTS] += math.log(total)
    numbers[QUADRATIC] += square
    gain[:size] = 0.0
    for j in range(size):
        fj = f[j]
        keep = alpha[j] / alpha[1 + j]
        take = fj / (alpha[j] * alpha[1 + j])
        for i in range(j + 1):
            t = factor[j, i]
            factor[j, i] = keep * t - take * gain[i]
            gain[i] += fj * t
    for i in range(size):
        coef[i] += gain[i] * scaled


@compiled(reorder=False, inline=True)
def update_moments(
    weight: float, row: int, arms: Floats, tails: Tails, scatter: Floats, numbers: Floats,
    step: Floats,
) -> None:  # fmt: skip
    """Update the moments: weight and means of the arm, and the scatter within arms."""
    before = arms[row, WEIGHT]
    after = before + weight
    pull = weight / after
    gain = before * pull
    for i in range(step.shape[0]):
        t = gain * step[i]
        for j in range(i + 1):
            scatter[2, i, j] += t * step[j]
    numbers[LATEST] += 1.0
    if numbers[LATEST] == _CARRY:
        numbers[LATEST] = 0.0
        for i in range(step.shape[0]):
            for j in range(i + 1):
                value, tail = _two_sum(scatter[0, i, j], scatter[1, i, j] + scatter[2, i, j])
                scatter[0, i, j] = value
                scatter[1, i, j] = tail
                scatter[2, i, j] = 0.0
    arms[row, WEIGHT] = after
    numbers[TOTAL_WEIGHT] += weight
    numbers[SQUARED_WEIGHTS] += weight * (before + after)  # (H + h)² - H²
    for j in range(step.shape[0]):
        mean, tail = _two_sum(arms[row, REWARD + j], tails[row, j] + step[j] * pull)
        arms[row, REWARD + j] = mean
        # beyond the range of float32, a tail would not improve the mean
        tails[row, j] = tail if abs(tail) < _LARGEST_TAIL else 0.0


@compiled(reorder=False, inline=True)
def fold_weighted(
    context: Floats, reward: float, weight: float, row: int, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, scatter: Floats, numbers: Floats,
) -> bool:  # fmt: skip
    """Fold one observation of this weight into the state, or return False and change nothing.

    The exact positive rank-one update (docs/explanation/maths.md, "One pull"), with the values of the arm before it:

        u = x - w x̄,  y = r - w r̄,  c = σ²/h + s₀²(1 - w),  M += u u'/c,  b += u y/c

    The factor T of M⁻¹ = T'T is updated by Carlson's method, θ̂ by the gain M⁻¹u. O(D²).
    """
    size = factor.shape[0]
    work = np.empty((5, size + 1))
    u, f, alpha, gain = work[0, :size], work[1], work[2], work[3]
    step = work[4, : 1 + context.shape[0]]
    finite = is_within(row, context, arms, tails)
    scaled = 0.0
    if finite:
        finite = differences(context, reward, weight, row, arms, tails, scatter, step)
    if finite:
        finite, scaled = _predict(weight, row, arms, coef, factor, numbers, step, u, f, alpha)
    if finite:
        update_coefficients(weight, scaled, coef, factor, numbers, f, alpha, gain)
        update_moments(weight, row, arms, tails, scatter, numbers, step)
    return finite


@compiled(reorder=False, inline=True)
def age(weight: float, grown: float, numbers: Floats) -> None:
    """Count a reward that was just folded with `grown` times its weight.

    It counts as `grown` observations, not as one heavier observation. Later, all evidence is scaled back.
    """
    numbers[SEEN] += 1.0
    if grown != 1.0:
        numbers[COUNT] += grown - 1.0
        numbers[SUM_LOG_WEIGHT] += (grown - 1.0) * math.log(weight) - math.log(grown)
        numbers[WEIGHT_OF_NEW] = grown


@compiled(reorder=False)
def observe(
    context: Floats,  # (d,)
    reward: float,
    weight: float,
    row: int,
    arms: Floats,
    tails: Tails,
    coef: Floats,
    factor: Floats,
    scatter: Floats,
    numbers: Floats,
) -> bool:
    """Fold one weighted observation into the state, or return False and change nothing."""
    grown = numbers[WEIGHT_OF_NEW] * numbers[AGEING]
    folded = fold_weighted(
        context, reward, weight * grown, row, arms, tails, coef, factor, scatter, numbers
    )
    if folded:
        age(weight, grown, numbers)
    return folded


@compiled(reorder=False)
def observe_mixture(
    context: Floats,  # (d,)
    reward: float,
    weight: float,
    row: int,
    arms: Floats,
    tails: Tails,
    coef: Floats,  # (G, D)
    factor: Floats,  # (G, D, D)
    scatter: Floats,
    numbers: Floats,  # (G, 12)
) -> bool:
    """Fold one observation into G models that share their moments, or return False and change nothing."""
    n, size = coef.shape
    work = np.empty((n, 3, size + 1))
    step, gain, scaled = np.empty(1 + context.shape[0]), np.empty(size + 1), np.empty(n)
    if not is_within(row, context, arms, tails):
        return False
    finite = differences(context, reward, weight, row, arms, tails, scatter, step)
    for g in range(n):
        good, scaled[g] = _predict(
            weight, row, arms, coef[g], factor[g], numbers[g], step,
            work[g, 0, :size], work[g, 1], work[g, 2],
        )  # fmt: skip
        finite &= good
    if not finite:
        return False
    for g in range(n):
        update_coefficients(
            weight, scaled[g], coef[g], factor[g], numbers[g], work[g, 1], work[g, 2], gain
        )
    update_moments(weight, row, arms, tails, scatter, numbers[0], step)
    numbers[0, SEEN] += 1.0
    return True


@compiled(reorder=False)
def observe_many(
    contexts: Floats,  # (n, d)
    rewards: Floats,  # (n,)
    weights: Floats,  # (n,)
    rows: Rows,  # (n,)
    arms: Floats,
    tails: Tails,
    coef: Floats,
    factor: Floats,
    scatter: Floats,
    numbers: Floats,
) -> int:
    """Fold n observations one by one, up to the first that is not finite; return the number folded."""
    for t in range(rows.shape[0]):
        if not observe(
            contexts[t], rewards[t], weights[t], rows[t],
            arms, tails, coef, factor, scatter, numbers,
        ):  # fmt: skip
            return t
    return len(rows)
