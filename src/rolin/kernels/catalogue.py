"""Scoring arms by the million: one pass over their features, which do not change.

With x̄ = x, u = x - w x̄ is (1 - w) x, so that an arm takes two numbers of the posterior: x'θ̂ and
q = x'M⁻¹x. A few symmetric steps λ ee' change M⁻¹, and q by λ (x'e)² each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.kernels.layout import (
    ARM_VARIANCE,
    CONTEXT,
    NOISE_VARIANCE,
    NOT_FINITE,
    REWARD,
    TIE,
    TIED,
    WEIGHT,
    Floats,
    Rows,
    compiled,
)
from rolin.kernels.predict import shrinkage

__all__ = ["best_offered", "chances", "highest", "levels", "renew", "score_given", "sum_scaled"]

Features = NDArray[Any]  # (K, d), float32 or float64
Places = NDArray[np.int32]
Flags = NDArray[np.bool_]


@compiled(reorder=True)
def renew(
    x: Features,  # (K, d)
    rows: Places,  # (K,): of the posterior; 0 of an arm that was never seen
    offered: Flags,  # (K,)
    arms: Floats,
    numbers: Floats,
    coef: Floats,  # (D,)
    steps: Floats,  # (m, D): e
    sizes: Floats,  # (m,): λ
    q: Floats,  # (K,), added to: λ (x'e)²
    mean: Floats,  # (K,), written; -∞ of an arm that is not offered
    std: Floats,  # (K,), written
) -> None:
    """Bring every arm's mean and standard deviation up to date."""
    n, d = x.shape
    size = coef.shape[0]
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    for k in range(n):
        level = coef[d] if size > d else 0.0
        for j in range(d):
            level += x[k, j] * coef[j]
        for m in range(steps.shape[0]):
            along = steps[m, d] if size > d else 0.0
            for j in range(d):
                along += x[k, j] * steps[m, j]
            q[k] += sizes[m] * along * along
        w, unshrunk = shrinkage(arms[rows[k], WEIGHT], noise, arm_variance)
        variance = arm_variance * unshrunk + unshrunk * unshrunk * max(q[k], 0.0)
        mean[k] = w * arms[rows[k], REWARD] + unshrunk * level if offered[k] else -np.inf
        std[k] = math.sqrt(variance) if offered[k] else 0.0


@compiled(reorder=True)
def levels(
    x: Features,  # (K, p)
    thetas: Floats,  # (B, 1 + p): a constant, and one number per feature
    out: Floats,  # (B, K), written: x'θ
) -> None:
    """Multiply the features of all arms with some vectors, in one pass."""
    n, p = x.shape
    for k in range(n):
        for b in range(thetas.shape[0]):
            level = thetas[b, 0]
            for j in range(p):
                level += x[k, j] * thetas[b, 1 + j]
            out[b, k] = level


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
) -> None:
    """Draw every arm's effect given θ: v | θ ~ N(w (r̄ - x̄'θ), s₀²(1 - w))."""
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
