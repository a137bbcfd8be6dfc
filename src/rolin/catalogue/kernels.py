"""Compiled loops that score all arms of a catalogue in one pass over their features.

If an arm was only seen in its own context, x̄ = x and u = x - w x̄ = (1 - w) x. Two numbers of the posterior then
determine its mean and variance: x'θ̂ and q = x'M⁻¹x. Rewards reduce M⁻¹ by a few rank-one steps ee', and q by
(x'e)² for each step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.compile import NOT_FINITE, TIE, TIED, Floats, Rows, compiled
from rolin.catalogue.products import products
from rolin.model.kernels.layout import ARM_VARIANCE, CONTEXT, NOISE_VARIANCE, REWARD, WEIGHT
from rolin.model.kernels.predict import shrinkage

__all__ = [
    "add_probabilities",
    "best_offered",
    "compare_contexts",
    "covariance",
    "decompose_difference",
    "highest",
    "own_stds",
    "score_given_coefficients",
    "score_unseen",
    "sum_scaled",
    "update_predictions",
]

Features = NDArray[Any]  # (K, d), float32 or float64
Rows32 = NDArray[np.int32]
Flags = NDArray[np.bool_]
# Arms per block: all vectors are multiplied with a block while its features are in the cache.
_BLOCK = 256


@compiled(reorder=True)
def covariance(factor: Floats, out: Floats) -> None:
    """Write M⁻¹ = T'T."""
    # Not by BLAS: its threads would keep the cores busy for a while afterwards.
    size = factor.shape[0]
    out[:] = 0.0
    for j in range(size):
        for a in range(j + 1):
            t = factor[j, a]
            for b in range(j + 1):
                out[a, b] += t * factor[j, b]


@compiled(reorder=False)
def compare_contexts(
    features: Features,  # (n, d): of the slots from `start` on
    start: int,
    slots: Rows,  # (R,): the slot of each row of the posterior, -1 if it has none
    weights: Floats,  # (R,)
    contexts: Floats,  # (R, d): x̄
    compared: Floats,  # (R,), changed: the weights when `moved` was written
    moved: Flags,  # written: whether x̄ differs from x, for each slot
) -> None:
    """Compare the mean contexts of arms with their features, in the precision of the features.

    Only rows whose weight has changed since the last comparison are looked at.
    """
    rounded = np.empty(1, features.dtype)
    for row in range(len(slots)):
        own = slots[row] - start
        if own < 0 or own >= features.shape[0] or weights[row] == compared[row]:
            continue
        compared[row] = weights[row]
        differs = False
        for j in range(features.shape[1]):
            rounded[0] = contexts[row, j]
            differs |= rounded[0] != features[own, j]
        moved[slots[row]] = differs


@compiled(reorder=True)
def decompose_difference(
    before: Floats,  # (D, D), changed: reduced by the steps
    now: Floats,  # (D, D)
    tolerance: float,  # relative to the diagonal
    steps: Floats,  # (most, D), written: e
) -> int:
    """Decompose `before - now` into rank-one steps ee'. Return their number, or -1 if `most` are not enough.

    Pivoted Cholesky decomposition (Higham 2002, section 10.3). It ends when the remainder is rounding error.
    The matrices are divided by the diagonal, so that coefficients of any scale count alike.
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
                return -1  # some direction has become less certain
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
def _write_offered(values: Floats, offered: Flags, otherwise: float, out: Floats) -> int:
    """Write the values of offered arms, and another one for the rest; return the first that is not finite, or -1."""
    n_wrong = 0  # a count, not an index, so that the loop runs in vector registers
    for k in range(values.shape[0]):
        n_wrong += offered[k] & (not abs(values[k]) < np.inf)
        out[k] = values[k] if offered[k] else otherwise
    if n_wrong > 0:
        for k in range(values.shape[0]):
            if offered[k] and not abs(out[k]) < np.inf:
                return k
    return -1


@compiled(reorder=True, inline=True)
def _has_seen(rows: Rows32) -> bool:
    """Return whether the row of some arm is not 0."""
    # As wide as a row, unlike a count, so that the loop runs in vector registers.
    bits = np.int32(0)
    for k in range(rows.shape[0]):
        bits |= rows[k]
    return bool(bits != 0)


@compiled(reorder=True)
def update_predictions(
    x: Features,  # (K, d)
    rows: Rows32,  # (K,): rows of the posterior; 0 for an arm that was never seen
    offered: Flags,  # (K,)
    arms: Floats,
    numbers: Floats,
    vectors: Floats,  # (1 + m, 1 + d): θ̂ and every e; their first number belongs to the constant feature 1
    sign: float,
    q: Floats,  # (K,), changed: ± (x'e)² is added
    mean: Floats,  # (K,), written; -∞ for an arm that is not offered
    std: Floats,  # (K,), written
) -> int:
    """Update mean and standard deviation of every arm; return the index of an arm that overflows, or -1."""
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    w0, unshrunk0 = shrinkage(arms[0, WEIGHT], noise, arm_variance)
    base, reward0 = arm_variance * unshrunk0, w0 * arms[0, REWARD]
    along = np.empty((vectors.shape[0], _BLOCK))
    for start in range(0, x.shape[0], _BLOCK):
        n = min(_BLOCK, x.shape[0] - start)
        part = slice(start, start + n)
        products(x[part], vectors, along)
        levels, some_q, some_mean, some_std = along[0], q[part], mean[part], std[part]
        for m in range(1, vectors.shape[0]):
            step = along[m]
            for k in range(n):
                some_q[k] += sign * step[k] * step[k]
        # First as if no arm had been seen: without rows to look up, the loop runs in vector registers.
        for k in range(n):
            some_std[k] = math.sqrt(base + unshrunk0 * unshrunk0 * max(some_q[k], 0.0))
            some_mean[k] = reward0 + unshrunk0 * levels[k]
        some_rows = rows[part]
        for k in range(n if _has_seen(some_rows) else 0):
            row = some_rows[k]
            if row > 0:
                w, unshrunk = shrinkage(arms[row, WEIGHT], noise, arm_variance)
                variance = arm_variance * unshrunk + unshrunk * unshrunk * max(some_q[k], 0.0)
                some_std[k] = math.sqrt(variance)
                some_mean[k] = w * arms[row, REWARD] + unshrunk * levels[k]
        wrong = max(
            _write_offered(some_mean, offered[part], -np.inf, some_mean),
            _write_offered(some_std, offered[part], 0.0, some_std),
        )
        if wrong >= 0:
            return start + wrong
    return -1


@compiled(reorder=True)
def score_given_coefficients(
    rows: Rows32,  # (K,)
    offered: Flags,  # (K,)
    arms: Floats,
    numbers: Floats,
    theta: Floats,  # (D,): the drawn coefficients
    moved: bool,  # whether x̄ may differ from x
    draws: Floats,  # (K,)
    levels: Floats,  # (K,): x'θ
    out: Floats,  # (K,), written
) -> int:
    """Score every arm by x'θ plus a draw of its effect: v | θ ~ N(w (r̄ - x̄'θ), s₀²(1 - w)).

    Return the index of an arm whose score overflows, or -1.
    """
    d = arms.shape[1] - CONTEXT
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    _, unshrunk0 = shrinkage(arms[0, WEIGHT], noise, arm_variance)
    std0 = math.sqrt(arm_variance * unshrunk0)
    scores = np.empty(_BLOCK)  # apart, because `out` may be the array of the draws
    for start in range(0, rows.shape[0], _BLOCK):
        n = min(_BLOCK, rows.shape[0] - start)
        part = slice(start, start + n)
        some_draws, some_levels = draws[part], levels[part]
        for k in range(n):  # as if no arm had been seen, as in `update_predictions`
            scores[k] = some_levels[k] + some_draws[k] * std0
        some_rows = rows[part]
        for k in range(n if _has_seen(some_rows) else 0):
            row = some_rows[k]
            if row > 0:
                w, unshrunk = shrinkage(arms[row, WEIGHT], noise, arm_variance)
                past = some_levels[k]  # x̄ = x
                if moved:
                    past = theta[d] if theta.shape[0] > d else 0.0
                    for j in range(d):
                        past += arms[row, CONTEXT + j] * theta[j]
                own = some_draws[k] * math.sqrt(arm_variance * unshrunk)
                scores[k] = some_levels[k] - w * past + w * arms[row, REWARD] + own
        wrong = _write_offered(scores[:n], offered[part], -np.inf, out[part])
        if wrong >= 0:
            return start + wrong
    return -1


@compiled(reorder=True)
def own_stds(
    x: Features,  # (K, p)
    weights: Floats,  # (1 + p,): prior variances of the arm effect, and of what multiplies each feature
    out: Floats,  # (K,), written
) -> None:
    """Compute the standard deviation of the own part of arms that have slopes and were never seen: √(z'D z)."""
    for k in range(x.shape[0]):
        total = weights[0]
        for j in range(x.shape[1]):
            value = np.float64(x[k, j])
            total += weights[1 + j] * value * value
        out[k] = math.sqrt(total)


@compiled(reorder=True)
def score_unseen(
    offered: Flags,  # (K,)
    stds: Floats,  # (K,): of the arms' own part
    draws: Floats,  # (K,)
    levels: Floats,  # (K,): x'θ
    out: Floats,  # (K,), written
) -> int:
    """Score every arm like one that was never seen, given θ; return the index of an arm that overflows, or -1."""
    for k in range(levels.shape[0]):
        out[k] = levels[k] + draws[k] * stds[k]
    return _write_offered(out, offered, -np.inf, out)


@compiled(reorder=True)
def sum_scaled(mean: Floats, std: Floats, draws: Floats, out: Floats) -> None:
    """Score arms by mean + draw * std."""
    for k in range(mean.shape[0]):
        out[k] = mean[k] + draws[k] * std[k]


@compiled(reorder=True)
def best_offered(scores: Floats) -> int:
    """Return the index of the highest score, TIED or NOT_FINITE; arms with -∞ are not offered."""
    n, best, highest = scores.shape[0], -1, -np.inf
    for start in range(0, n, _BLOCK):
        some = scores[start : start + _BLOCK]
        # Few blocks have a score above all before them. Counting such scores runs in vector registers.
        n_above = 0
        for k in range(some.shape[0]):
            n_above += not some[k] <= highest
        if n_above == 0:
            continue
        for k in range(some.shape[0]):
            if not some[k] < np.inf:
                return NOT_FINITE
            if some[k] > highest:
                best, highest = start + k, some[k]
    close, n_close = highest - TIE * abs(highest), 0
    for k in range(n):
        n_close += scores[k] >= close
    return best if n_close == 1 else TIED


@compiled(reorder=True)
def highest(scores: Floats, n: int) -> Rows:
    """Return the indices of the n highest scores, in any order, in one pass with a heap."""
    indices, heap = np.empty(n, np.int64), np.empty(n)
    filled = 0
    for k in range(scores.shape[0]):
        score = scores[k]
        if filled == n:
            if not score > heap[0]:
                continue
            i = 0  # replace the lowest of the heap, and sift down
            while True:
                child = 2 * i + 1
                if child >= n:
                    break
                if child + 1 < n and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= score:
                    break
                heap[i], indices[i] = heap[child], indices[child]
                i = child
            heap[i], indices[i] = score, k
        else:
            i = filled
            filled += 1
            while i > 0 and heap[(i - 1) // 2] > score:
                heap[i], indices[i] = heap[(i - 1) // 2], indices[(i - 1) // 2]
                i = (i - 1) // 2
            heap[i], indices[i] = score, k
    return indices


@compiled(reorder=True)
def add_probabilities(
    mean: Floats,  # (K,); -∞ for an arm that is not offered
    std: Floats,  # (K,)
    scores: Floats,  # (K,): one draw of all arms
    sums: Floats,  # (2, K), changed: probabilities and their squares are added
) -> None:
    """Add each arm's probability of having the highest score, given this draw of all other arms.

    P(i) = E[1 - Φ((max of the others - μ_i)/τ_i)]. This has far less variance than counting the highest draws.
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
