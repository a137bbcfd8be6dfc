"""Compiled inner loops of the posterior: the two hot paths, decide and update.

Only [`posterior`][rolin.posterior] imports this module. Every kernel works on the packed
arrays described here, because each further array argument costs a compiled call about 0.1 µs.

======== ==================== ================================================================
array    shape                content
======== ==================== ================================================================
arms     (rows, 2 + d)        one row per arm: weight H, mean reward r̄, mean context x̄;
                              row 0 is the prior row (all zero), shared by every unseen arm
tails    (rows, 1 + d)        what rounding dropped from r̄ and x̄
coef     (D,)                 coefficients θ̂
root     (D, D)               S with S S' = M⁻¹
scatter  (3, 1 + d, 1 + d)    within-arm scatter of (r, x), lower triangle: q, c and C in one;
                              a sum, what rounding dropped from it, and the latest terms
numbers  (6,)                 σ², s₀², N, Σ log h, log evidence, number of latest terms
======== ==================== ================================================================

D is d, or d + 1 with an intercept: its column of ones is implied, never stored.

Means and scatter are kept in twice the working precision. With plain sums, 10⁶ observations
of nearly collinear features left an error of 3e-8 in a posterior rebuilt from them, and of
features offset by 10⁶ an error of 3e-9 in the running one. It costs O(d) per observation:
scatter is added up plainly for a while and carried over with compensation then.

Symbols are those of the paper and of `docs/maths.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ARM_VARIANCE",
    "BLOCK",
    "CONTEXT",
    "COUNT",
    "LATEST",
    "LOG_EVIDENCE",
    "NOISE_VARIANCE",
    "NOT_FINITE",
    "REWARD",
    "SUM_LOG_WEIGHT",
    "TIE",
    "TIED",
    "WEIGHT",
    "best_of",
    "observe",
    "observe_many",
    "predict_fused",
    "residuals",
    "score_joint",
    "spread",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Columns of `arms`; `tails` has the columns of `arms` without the weight.
WEIGHT, REWARD, CONTEXT = 0, 1, 2
# Entries of `numbers`.
NOISE_VARIANCE, ARM_VARIANCE, COUNT, SUM_LOG_WEIGHT, LOG_EVIDENCE, LATEST = range(6)

# What a kernel returns in place of the index of the best arm.
TIED, NOT_FINITE = -1, -2
# Scores this close, relative to the highest, count as equal: about 1000 roundings, far above
# what a sum over d features loses, far below any difference that matters.
TIE = 1e-13
# Arms predicted at a time by the fused loop: a block's residuals fit the first-level cache.
BLOCK = 64

# Terms of the scatter added up plainly before they are carried over with compensation: few
# enough to lose nothing that counts, many enough to cost nothing that counts.
_CARRY = 256

_LOG_2PI = math.log(2.0 * math.pi)

# Everything that lets reductions run in vector registers, but neither `nnan` nor `ninf`: with
# those the compiler may delete the very tests that reject NaN and infinity.
_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}

_F = TypeVar("_F", bound=Callable[..., Any])


def _can_cache() -> bool:
    """Whether there is a place to keep compiled code: beside this file, or the user's cache."""
    try:
        numba.njit(cache=True)(_can_cache)
    except RuntimeError:
        return False
    return True


_CAN_CACHE = _can_cache()


def _compiled(function: _F) -> _F:
    """Compile on first use, and keep the result on disk where there is a place to write."""
    compiled: _F = numba.njit(
        cache=_CAN_CACHE, fastmath=_FASTMATH, nogil=True, error_model="numpy"
    )(function)
    return compiled


# Compiled here and now, for the one signature it is used with: a function compiled on the way,
# from inside a kernel, would inherit the kernel's fastmath, and reassociation turns the error
# term into zero.
@numba.njit("UniTuple(float64, 2)(float64, float64)", cache=_CAN_CACHE)
def _two_sum(a: float, b: float) -> tuple[float, float]:
    """Return s and e with s + e = a + b exactly and s the rounded sum (Knuth 1969, 4.2.2)."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


@_compiled
def observe(
    context: Floats,  # (d,)
    reward: float,
    weight: float,
    row: int,
    arms: Floats,
    tails: Floats,
    coef: Floats,
    root: Floats,
    scatter: Floats,
    numbers: Floats,
) -> bool:
    """Fold one weighted observation into the state, or return False and change nothing.

    The exact positive rank-one step (docs/maths.md, "One pull"), with the arm's values as
    they were before it:

        u = x - w x̄,  y = r - w r̄,  c = σ²/h + s₀²(1 - w),  M += u u'/c,  b += u y/c

    The root follows by Potter's update S -= β (S f) f', f = S'u, and θ̂ by the gain. O(D²).
    """
    d = context.shape[0]
    size = root.shape[0]
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    work = np.zeros((3, size + 1))
    u, f, step = work[0], work[1], work[2]
    before = arms[row, WEIGHT]
    unshrunk = noise / (noise + before * arm_variance)  # 1 - w
    c = noise / weight + arm_variance * unshrunk
    after = before + weight
    pull = weight / after
    gain = before * pull  # H h / (H + h), the weight of the new scatter
    # u is formed as (x - x̄) + (1 - w) x̄: no cancellation when w is near 1.
    finite = True
    step[0] = (reward - arms[row, REWARD]) - tails[row, 0]
    for j in range(d):
        mean = arms[row, CONTEXT + j]
        step[1 + j] = (context[j] - mean) - tails[row, 1 + j]
        u[j] = step[1 + j] + unshrunk * mean
    for j in range(1 + d):
        # NaN and infinity fail this test too
        finite &= scatter[0, j, j] + scatter[2, j, j] + gain * step[j] * step[j] < np.inf
    if size > d:
        u[d] = unshrunk
    error = step[0] + unshrunk * arms[row, REWARD]
    for i in range(size):
        error -= u[i] * coef[i]
    # f = S'u, four rows at a time, so that f is read and written a quarter as often
    for i in range(0, size - 3, 4):
        u0, u1, u2, u3 = u[i], u[i + 1], u[i + 2], u[i + 3]
        r0, r1, r2, r3 = root[i], root[i + 1], root[i + 2], root[i + 3]
        for j in range(size):
            f[j] += (u0 * r0[j] + u1 * r1[j]) + (u2 * r2[j] + u3 * r3[j])
    for i in range(size - size % 4, size):
        u0, r0 = u[i], root[i]
        for j in range(size):
            f[j] += u0 * r0[j]
    total = c
    for j in range(size):
        total += f[j] * f[j]
    scaled = error / total
    # All the ways to leave the range of doubles. Nothing has been written yet.
    finite &= 0.0 < c < np.inf and total < np.inf and 1.0 / total < np.inf
    finite &= after < np.inf and abs(scaled) < np.inf and error * scaled < np.inf
    if not finite:
        return False

    numbers[COUNT] += 1.0
    numbers[SUM_LOG_WEIGHT] += math.log(weight)
    # log N(y; u'θ̂, c + u'M⁻¹u): the one-step predictive densities multiply to the evidence.
    numbers[LOG_EVIDENCE] -= 0.5 * (_LOG_2PI + math.log(total) + error * scaled)
    beta = 1.0 / (total + math.sqrt(c * total))
    for i in range(size):
        s = 0.0
        for j in range(size):
            s += root[i, j] * f[j]
        coef[i] += s * scaled
        s *= beta
        for j in range(size):
            root[i, j] -= s * f[j]
    for i in range(1 + d):
        t = gain * step[i]
        for j in range(i + 1):
            scatter[2, i, j] += t * step[j]
    numbers[LATEST] += 1.0
    if numbers[LATEST] == _CARRY:
        numbers[LATEST] = 0.0
        for i in range(1 + d):
            for j in range(i + 1):
                value, tail = _two_sum(scatter[0, i, j], scatter[1, i, j] + scatter[2, i, j])
                scatter[0, i, j] = value
                scatter[1, i, j] = tail
                scatter[2, i, j] = 0.0
    arms[row, WEIGHT] = after
    for j in range(1 + d):
        mean, tail = _two_sum(arms[row, REWARD + j], tails[row, j] + step[j] * pull)
        arms[row, REWARD + j] = mean
        tails[row, j] = tail
    return True


@_compiled
def observe_many(
    contexts: Floats,  # (n, d)
    rewards: Floats,  # (n,)
    weights: Floats,  # (n,)
    rows: Rows,  # (n,)
    arms: Floats,
    tails: Floats,
    coef: Floats,
    root: Floats,
    scatter: Floats,
    numbers: Floats,
) -> int:
    """Fold n observations one by one; return how many went well before the first that did not."""
    for t in range(rows.shape[0]):
        if not observe(
            contexts[t], rewards[t], weights[t], rows[t],
            arms, tails, coef, root, scatter, numbers,
        ):  # fmt: skip
            return t
    return rows.shape[0]


@_compiled
def best_of(scores: Floats) -> int:
    """Return the index of the one highest score, TIED or NOT_FINITE.

    Scores closer than rounding can tell count as tied: which of two equal arms came out an
    ulp ahead depends on its place in the array, and chance, not place, must decide there.
    """
    best, highest = 0, -np.inf
    for k in range(scores.shape[0]):
        if not abs(scores[k]) < np.inf:
            return NOT_FINITE
        if scores[k] > highest:
            best, highest = k, scores[k]
    close = highest - TIE * abs(highest)
    for k in range(scores.shape[0]):
        if scores[k] >= close and k != best:
            return TIED
    return best


@_compiled
def predict_fused(
    contexts: Floats,  # (K, d)
    rows: Rows,  # (K,)
    draws: Floats,  # (K,)
    arms: Floats,
    coef: Floats,
    root: Floats,
    numbers: Floats,
    out: Floats,  # (3, K)
) -> int:
    """Predict all arms, score each by mean + draw * std, and return `best_of` of the scores.

    Eq. (implement-mu) and (implement-tau):  μ = w r̄ + u'θ̂,  τ² = s₀²(1 - w) + |S'u|².
    Mean, standard deviation and score of every arm are written to the rows of `out`.
    Arms are taken in transposed blocks, so that the vector registers run across arms.
    """
    n_arms, d = contexts.shape
    size = root.shape[0]
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    width = min(n_arms, BLOCK)
    block = np.empty((size + 2, width))
    variance, f = block[size], block[size + 1]
    for start in range(0, n_arms, width):
        n = min(width, n_arms - start)
        for b in range(n):
            row = rows[start + b]
            evidence = arms[row, WEIGHT] * arm_variance
            unshrunk = noise / (noise + evidence)
            mean = arms[row, REWARD] * (evidence / (noise + evidence))
            for j in range(d):
                xbar = arms[row, CONTEXT + j]
                u = (contexts[start + b, j] - xbar) + unshrunk * xbar
                block[j, b] = u
                mean += u * coef[j]
            if size > d:
                block[d, b] = unshrunk
                mean += unshrunk * coef[d]
            variance[b] = arm_variance * unshrunk
            out[0, start + b] = mean
        for j in range(size):
            f[:n] = 0.0
            # four rows of S at a time, so that f is read and written a quarter as often
            for i in range(0, size - 3, 4):
                s0, s1, s2, s3 = root[i, j], root[i + 1, j], root[i + 2, j], root[i + 3, j]
                u0, u1, u2, u3 = block[i], block[i + 1], block[i + 2], block[i + 3]
                for b in range(n):
                    f[b] += (s0 * u0[b] + s1 * u1[b]) + (s2 * u2[b] + s3 * u3[b])
            for i in range(size - size % 4, size):
                s0, u0 = root[i, j], block[i]
                for b in range(n):
                    f[b] += s0 * u0[b]
            for b in range(n):
                variance[b] += f[b] * f[b]
        for b in range(n):
            std = math.sqrt(variance[b])
            out[1, start + b] = std
            # A NaN or an infinity in the context has made the mean one, hence the score.
            out[2, start + b] = out[0, start + b] + draws[start + b] * std
    return best_of(out[2])


@_compiled
def residuals(
    contexts: Floats,  # (K, d)
    rows: Rows,  # (K,)
    arms: Floats,
    coef: Floats,
    numbers: Floats,
    u: Floats,  # (K, D), written: x - w x̄
    out: Floats,  # (3, K), written: mean, and the arm's own variance s₀²(1 - w)
) -> None:
    """Prepare a prediction whose product U S is left to BLAS (see `spread`)."""
    n_arms, d = contexts.shape
    size = u.shape[1]
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    for k in range(n_arms):
        row = rows[k]
        evidence = arms[row, WEIGHT] * arm_variance
        unshrunk = noise / (noise + evidence)
        mean = arms[row, REWARD] * (evidence / (noise + evidence))
        for j in range(d):
            xbar = arms[row, CONTEXT + j]
            value = (contexts[k, j] - xbar) + unshrunk * xbar
            u[k, j] = value
            mean += value * coef[j]
        if size > d:
            u[k, d] = unshrunk
            mean += unshrunk * coef[d]
        out[0, k] = mean
        out[1, k] = arm_variance * unshrunk


@_compiled
def spread(
    f: Floats,  # (K, D): U S
    draws: Floats,  # (K,)
    out: Floats,  # (3, K), as left by `residuals`
) -> int:
    """Finish what `residuals` began: standard deviations, scores, and `best_of` of them."""
    for k in range(f.shape[0]):
        variance = out[1, k]
        for j in range(f.shape[1]):
            variance += f[k, j] * f[k, j]
        std = math.sqrt(variance)
        out[1, k] = std
        out[2, k] = out[0, k] + draws[k] * std
    return best_of(out[2])


@_compiled
def score_joint(
    contexts: Floats,  # (K, d)
    rows: Rows,  # (K,)
    draws: Floats,  # (D + K,)
    arms: Floats,
    coef: Floats,
    root: Floats,
    numbers: Floats,
    scores: Floats,  # (K,)
) -> int:
    """Draw θ = θ̂ + S z, then every arm's effect given θ, and return `best_of`. O(K d + D²).

    v_i | θ ~ N(w (r̄ - x̄'θ), s₀²(1 - w)), independent over the arms (docs/maths.md).
    """
    n_arms, d = contexts.shape
    size = root.shape[0]
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    theta = np.empty(size)
    for i in range(size):
        value = coef[i]
        for j in range(size):
            value += root[i, j] * draws[j]
        theta[i] = value
    for k in range(n_arms):
        row = rows[k]
        evidence = arms[row, WEIGHT] * arm_variance
        unshrunk = noise / (noise + evidence)
        score = arms[row, REWARD] * (evidence / (noise + evidence))
        for j in range(d):
            xbar = arms[row, CONTEXT + j]
            score += ((contexts[k, j] - xbar) + unshrunk * xbar) * theta[j]
        if size > d:
            score += unshrunk * theta[d]
        scores[k] = score + draws[size + k] * math.sqrt(arm_variance * unshrunk)
    return best_of(scores)
