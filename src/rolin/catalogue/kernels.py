"""Scoring arms by the million: one pass over their features, which do not change.

With x̄ = x, u = x - w x̄ is (1 - w) x, so that an arm takes two numbers of the posterior: x'θ̂ and
q = x'M⁻¹x. What is learned takes M⁻¹ down by a few steps ee', and q by (x'e)² each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.compile import NOT_FINITE, TIE, TIED, Floats, Rows, compiled
from rolin.model.kernels.layout import ARM_VARIANCE, CONTEXT, NOISE_VARIANCE, REWARD, WEIGHT
from rolin.model.kernels.predict import shrinkage

__all__ = [
    "best_offered",
    "chances",
    "covariance",
    "highest",
    "levels",
    "renew",
    "score_given",
    "steps_down",
    "sum_scaled",
]

BaseFeatureMap = NDArray[Any]  # (K, d), float32 or float64
Places = NDArray[np.int32]
Flags = NDArray[np.bool_]
# Arms that all vectors are multiplied with before the next: their features stay in the cache.
_BLOCK = 256


@compiled(reorder=True)
def covariance(factor: Floats, out: Floats) -> None:
    """Write M⁻¹ = T'T. BLAS would do it with threads, which then keep the cores busy for a while."""
    size = factor.shape[0]
    out[:] = 0.0
    for j in range(size):
        for a in range(j + 1):
            t = factor[j, a]
            for b in range(j + 1):
                out[a, b] += t * factor[j, b]


@compiled(reorder=True)
def steps_down(
    before: Floats,  # (D, D), changed: that many steps lower
    now: Floats,  # (D, D)
    tolerance: float,  # relative to the diagonal
    steps: Floats,  # (most, D), written: e
) -> int:
    """Take a difference apart into steps ee', and return how many; -1 if it is not a few of them.

    Cholesky's decomposition, with the largest diagonal element next (Higham 2002, section 10.3): it ends when what is
    left is rounding. All is in units of the diagonal, so that coefficients of any scale count alike.
    """
    size, most = before.shape[0], steps.shape[0]
    unit, rest = np.empty(size), np.empty((size, size))
    for i in range(size):
        unit[i] = math.sqrt(before[i, i]) if before[i, i] > 0.0 else 1.0
    for i in range(size):
        for j in range(size):
            rest[i, j] = (before[i, j] - now[i, j]) / (unit[i] * unit[j])
    found = 0
    while True:
        pivot, largest, smallest, farthest = 0, -np.inf, np.inf, 0.0
        for i in range(size):
            smallest = min(smallest, rest[i, i])
            if rest[i, i] > largest:
                pivot, largest = i, rest[i, i]
        if largest <= tolerance or smallest < -tolerance:
            for i in range(size):
                for j in range(size):
                    farthest = max(farthest, abs(rest[i, j]))
            if farthest > 4.0 * tolerance:
                return -1  # something has become less certain
            break
        if found == most:
            return -1
        step = steps[found]
        root = math.sqrt(largest)
        for i in range(size):
            step[i] = rest[i, pivot] / root
        for i in range(size):
            for j in range(size):
                rest[i, j] -= step[i] * step[j]
        found += 1
    for m in range(found):
        for i in range(size):
            steps[m, i] *= unit[i]
        for i in range(size):
            for j in range(size):
                before[i, j] -= steps[m, i] * steps[m, j]
    return found


@compiled(reorder=True, inline=True)
def _products(x: BaseFeatureMap, vectors: Floats, out: Floats) -> None:
    """Write x'v of all arms, for some vectors whose first number stands for a constant 1.

    Four vectors at a time, then two: a row is read, and made into double precision, a quarter as often.
    """
    n, (size, p) = vectors.shape[0], x.shape
    v = 0
    while v + 4 <= n:
        v0, v1, v2, v3 = vectors[v, 1:], vectors[v + 1, 1:], vectors[v + 2, 1:], vectors[v + 3, 1:]
        for k in range(size):
            a, b, c, d = vectors[v, 0], vectors[v + 1, 0], vectors[v + 2, 0], vectors[v + 3, 0]
            for j in range(p):
                value = np.float64(x[k, j])
                a += value * v0[j]
                b += value * v1[j]
                c += value * v2[j]
                d += value * v3[j]
            out[v, k], out[v + 1, k], out[v + 2, k], out[v + 3, k] = a, b, c, d
        v += 4
    if v + 2 <= n:
        v0, v1 = vectors[v, 1:], vectors[v + 1, 1:]
        for k in range(size):
            a, b = vectors[v, 0], vectors[v + 1, 0]
            for j in range(p):
                value = np.float64(x[k, j])
                a += value * v0[j]
                b += value * v1[j]
            out[v, k], out[v + 1, k] = a, b
        v += 2
    if v < n:
        v0 = vectors[v, 1:]
        for k in range(size):
            a = vectors[v, 0]
            for j in range(p):
                a += np.float64(x[k, j]) * v0[j]
            out[v, k] = a


@compiled(reorder=True)
def renew(
    x: BaseFeatureMap,  # (K, d)
    rows: Places,  # (K,): of the posterior; 0 of an arm that was never seen
    offered: Flags,  # (K,)
    arms: Floats,
    numbers: Floats,
    vectors: Floats,  # (1 + m, 1 + d): θ̂, and every e; first what a constant 1 is multiplied with
    sign: float,
    q: Floats,  # (K,), added to: ± (x'e)²
    mean: Floats,  # (K,), written; -∞ of an arm that is not offered
    std: Floats,  # (K,), written
) -> int:
    """Bring every arm's mean and standard deviation up to date; return where they overflow, or -1."""
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    products = np.empty((vectors.shape[0], _BLOCK))
    wrong = -1
    for start in range(0, x.shape[0], _BLOCK):
        n = min(_BLOCK, x.shape[0] - start)
        part = slice(start, start + n)
        _products(x[part], vectors, products)
        for m in range(1, vectors.shape[0]):
            along = products[m]
            for k in range(n):
                q[start + k] += sign * along[k] * along[k]
        for k in range(n):
            at = start + k
            w, unshrunk = shrinkage(arms[rows[at], WEIGHT], noise, arm_variance)
            variance = arm_variance * unshrunk + unshrunk * unshrunk * max(q[at], 0.0)
            level = w * arms[rows[at], REWARD] + unshrunk * products[0, k]
            mean[at] = level if offered[at] else -np.inf
            std[at] = math.sqrt(variance) if offered[at] else 0.0
            if offered[at] and not (abs(level) < np.inf and variance < np.inf):
                wrong = at
    return wrong


@compiled(reorder=True)
def levels(
    x: BaseFeatureMap,  # (K, p)
    vectors: Floats,  # (B, 1 + p): θ; first what a constant 1 is multiplied with
    out: Floats,  # (B, K), written: x'θ
) -> None:
    """Multiply the features of all arms with some vectors, in one pass over the memory."""
    for start in range(0, x.shape[0], _BLOCK):
        part = slice(start, min(x.shape[0], start + _BLOCK))
        _products(x[part], vectors, out[:, part])


@compiled(reorder=True)
def score_given(
    rows: Places,  # (K,)
    offered: Flags,  # (K,)
    arms: Floats,
    numbers: Floats,
    theta: Floats,  # (D,): the coefficients that were drawn
    crossed: bool,  # whether the arms' contexts differ from one decision to the next
    draws: Floats,  # (K,)
    levels: Floats,  # (K,): x'θ
    out: Floats,  # (K,), written
) -> int:
    """Draw every arm's effect given θ: v | θ ~ N(w (r̄ - x̄'θ), s₀²(1 - w)); return where it overflows, or -1."""
    wrong = -1
    d = arms.shape[1] - CONTEXT
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    for k in range(rows.shape[0]):
        row = rows[k]
        w, unshrunk = shrinkage(arms[row, WEIGHT], noise, arm_variance)
        score = levels[k]
        if row > 0:
            past = levels[k]  # where x̄ = x
            if crossed:
                past = theta[d] if theta.shape[0] > d else 0.0
                for j in range(d):
                    past += arms[row, CONTEXT + j] * theta[j]
            score = score - w * past + w * arms[row, REWARD]
        score += draws[k] * math.sqrt(arm_variance * unshrunk)
        out[k] = score if offered[k] else -np.inf
        if offered[k] and not abs(score) < np.inf:
            wrong = k
    return wrong


@compiled(reorder=True)
def sum_scaled(mean: Floats, std: Floats, draws: Floats, out: Floats) -> None:
    """Score arms by mean + draw * std."""
    for k in range(mean.shape[0]):
        out[k] = mean[k] + draws[k] * std[k]


@compiled(reorder=True)
def best_offered(scores: Floats) -> int:
    """Return the index of the one highest score, TIED or NOT_FINITE; -∞ is not offered."""
    best, highest = -1, -np.inf
    for k in range(scores.shape[0]):
        if not scores[k] < np.inf:
            return NOT_FINITE
        if scores[k] > highest:
            best, highest = k, scores[k]
    close = highest - TIE * abs(highest)
    for k in range(scores.shape[0]):
        if scores[k] >= close and k != best:
            return TIED
    return best


@compiled(reorder=True)
def highest(scores: Floats, n: int) -> Rows:
    """Return the places of the n highest scores, in any order: one pass, and a heap."""
    places, heap = np.empty(n, np.int64), np.empty(n)
    filled = 0
    for k in range(scores.shape[0]):
        score = scores[k]
        if filled == n:
            if not score > heap[0]:
                continue
            i = 0  # the lowest leaves, and the gap sinks
            while True:
                child = 2 * i + 1
                if child >= n:
                    break
                if child + 1 < n and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= score:
                    break
                heap[i], places[i] = heap[child], places[child]
                i = child
            heap[i], places[i] = score, k
        else:
            i = filled
            filled += 1
            while i > 0 and heap[(i - 1) // 2] > score:
                heap[i], places[i] = heap[(i - 1) // 2], places[(i - 1) // 2]
                i = (i - 1) // 2
            heap[i], places[i] = score, k
    return places


@compiled(reorder=True)
def chances(
    mean: Floats,  # (K,); -∞ of an arm that is not offered
    std: Floats,  # (K,)
    scores: Floats,  # (K,): one draw of all arms
    sums: Floats,  # (2, K), added to: probabilities and their squares
) -> None:
    """Add the probability of each arm to be the highest, given this draw of all others.

    P(i) = E[1 - Φ((max of the others - μ_i)/τ_i)]: far less random than whether it was the highest.
    """
    best, first, second = -1, -np.inf, -np.inf
    for k in range(scores.shape[0]):
        if scores[k] > first:
            best, first, second = k, scores[k], first
        elif scores[k] > second:
            second = scores[k]
    for k in range(scores.shape[0]):
        if mean[k] == -np.inf:
            continue
        others = second if k == best else first
        gap = others - mean[k]
        if gap > 9.0 * std[k]:
            continue  # less than 1e-19
        p = 1.0 if gap < 0.0 else (0.5 if gap == 0.0 else 0.0)
        if std[k] > 0.0:
            p = 0.5 * math.erfc(gap / (std[k] * math.sqrt(2.0)))
        sums[0, k] += p
        sums[1, k] += p * p
