"""Score the candidates of a decision.

A row that the arrays do not have is read as their last one. It can only come from threads without a lock.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import NOT_FINITE, TIE, TIED, Floats, Rows, compiled
from rolin.model.kernels.layout import ARM_VARIANCE, BLOCK, CONTEXT, NOISE_VARIANCE, REWARD, WEIGHT

__all__ = [
    "best_of",
    "best_of_each",
    "predict_fused",
    "residuals",
    "score_joint",
    "score_joint_sparse",
    "shrinkage",
    "spread",
]


# Not reordered: the compiler must not turn w r̄ into (H s₀² r̄)/…, which may overflow.
@compiled(reorder=False)
def shrinkage(weight: float, noise: float, arm_variance: float) -> tuple[float, float]:
    """Return w and 1 - w, both without subtraction."""
    evidence = weight * arm_variance
    scale = 1.0 / (noise + evidence)
    return evidence * scale, noise * scale


@compiled(reorder=True)
def best_of(scores: Floats) -> int:
    """Return the index of the highest score, TIED or NOT_FINITE.

    Scores that differ by no more than rounding errors count as tied. Which of two equal arms has the higher score
    depends on its index in the array, but chance must decide between them.
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


@compiled(reorder=True)
def best_of_each(scores: Floats, ends: Rows) -> Rows:
    """Return `best_of` for each of several decisions, given the end of each in the scores."""
    best = np.empty_like(ends)
    start = 0
    for i in range(ends.shape[0]):
        best[i] = best_of(scores[start : ends[i]])
        start = ends[i]
    return best


@compiled(reorder=True)
def predict_fused(
    contexts: Floats,  # (K, d)
    rows: Rows,  # (K,)
    draws: Floats,  # (K,)
    arms: Floats,
    coef: Floats,
    factor: Floats,
    numbers: Floats,
    out: Floats,  # (3, K)
) -> int:
    """Predict all arms, score each by mean + draw * std, and return `best_of` the scores.

    Eq. (implement-mu) and (implement-tau):  μ = w r̄ + u'θ̂,  τ² = s₀²(1 - w) + |T u|².
    Mean, standard deviation and score of every arm are written to the rows of `out`.
    Arms are processed in transposed blocks, so that vector registers run across arms.
    """
    n_arms, d = contexts.shape
    size = factor.shape[0]
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    last = arms.shape[0] - 1
    width = min(n_arms, BLOCK)
    block = np.empty((size + 2, width))
    variance, f = block[size], block[size + 1]
    for start in range(0, n_arms, width):
        n = min(width, n_arms - start)
        for b in range(n):
            row = min(rows[start + b], last)
            w, unshrunk = shrinkage(arms[row, WEIGHT], noise, arm_variance)
            mean = arms[row, REWARD] * w
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
            # Four columns of T at a time: f is read and written a quarter as often.
            for i in range(0, j - 2, 4):
                t0, t1, t2, t3 = factor[j, i], factor[j, i + 1], factor[j, i + 2], factor[j, i + 3]
                u0, u1, u2, u3 = block[i], block[i + 1], block[i + 2], block[i + 3]
                for b in range(n):
                    f[b] += (t0 * u0[b] + t1 * u1[b]) + (t2 * u2[b] + t3 * u3[b])
            for i in range(j + 1 - (j + 1) % 4, j + 1):
                t0, u0 = factor[j, i], block[i]
                for b in range(n):
                    f[b] += t0 * u0[b]
            for b in range(n):
                variance[b] += f[b] * f[b]
        for b in range(n):
            std = math.sqrt(variance[b])
            out[1, start + b] = std
            # A NaN or an infinity in the context makes the mean, and so the score, not finite.
            out[2, start + b] = out[0, start + b] + draws[start + b] * std
    return best_of(out[2])


@compiled(reorder=True)
def residuals(
    contexts: Floats,  # (K, d)
    rows: Rows,  # (K,)
    arms: Floats,
    coef: Floats,
    numbers: Floats,
    u: Floats,  # (K, D), written: u = x - w x̄
    out: Floats,  # (3, K), written: mean, and the arm's own variance s₀²(1 - w)
) -> None:
    """Prepare a prediction; BLAS then computes the product U T', and `spread` completes it."""
    n_arms, d = contexts.shape
    size = u.shape[1]
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    last = arms.shape[0] - 1
    for k in range(n_arms):
        row = min(rows[k], last)
        w, unshrunk = shrinkage(arms[row, WEIGHT], noise, arm_variance)
        mean = arms[row, REWARD] * w
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


@compiled(reorder=True)
def spread(
    f: Floats,  # (K, D): U T'
    draws: Floats,  # (K,)
    out: Floats,  # (3, K), as left by `residuals`
) -> int:
    """Complete what `residuals` began: standard deviations, scores, and `best_of` the scores."""
    for k in range(f.shape[0]):
        variance = out[1, k]
        for j in range(f.shape[1]):
            variance += f[k, j] * f[k, j]
        std = math.sqrt(variance)
        out[1, k] = std
        out[2, k] = out[0, k] + draws[k] * std
    return best_of(out[2])


@compiled(reorder=True, inline=True)
def _drawn(coef: Floats, factor: Floats, draws: Floats) -> Floats:
    """Return θ = θ̂ + T'z."""
    theta = coef.copy()
    for j in range(len(coef)):
        for i in range(j + 1):
            theta[i] += factor[j, i] * draws[j]
    return theta


@compiled(reorder=True)
def score_joint_sparse(
    ends: Rows,  # (K + 1,): the non-zeros of arm k are ends[k] … ends[k + 1] - 1
    columns: Rows,
    values: Floats,
    rows: Rows,  # (K,)
    draws: Floats,  # (D + K,)
    arms: Floats,
    coef: Floats,
    factor: Floats,
    numbers: Floats,
    out: Floats,  # (1, K), written: the scores
) -> int:
    """Do what `score_joint` does for sparse contexts, in O(non-zeros + K' d + D²) for K' seen arms."""
    n_arms, size, d = len(rows), factor.shape[0], arms.shape[1] - CONTEXT
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    theta = _drawn(coef, factor, draws)
    last = arms.shape[0] - 1
    for k in range(n_arms):
        row = min(rows[k], last)
        w, unshrunk = shrinkage(arms[row, WEIGHT], noise, arm_variance)
        score = 0.0
        for i in range(ends[k], ends[k + 1]):
            score += values[i] * theta[columns[i]]
        if w > 0.0:
            level = 0.0
            for j in range(d):
                level += arms[row, CONTEXT + j] * theta[j]
            score += w * (arms[row, REWARD] - level)
        if size > d:
            score += unshrunk * theta[d]
        out[0, k] = score + draws[size + k] * math.sqrt(arm_variance * unshrunk)
    return best_of(out[0])


@compiled(reorder=True)
def score_joint(
    contexts: Floats,  # (K, d)
    rows: Rows,  # (K,)
    draws: Floats,  # (D + K,)
    arms: Floats,
    coef: Floats,
    factor: Floats,
    numbers: Floats,
    out: Floats,  # (1, K), written: the scores
) -> int:
    """Draw θ = θ̂ + T'z, then the effect of every arm given θ; return `best_of` the scores. O(K d + D²).

    v_i | θ ~ N(w (r̄ - x̄'θ), s₀²(1 - w)), independent over the arms (docs/explanation/maths.md).
    """
    n_arms, d = contexts.shape
    size = factor.shape[0]
    noise, arm_variance = numbers[NOISE_VARIANCE], numbers[ARM_VARIANCE]
    theta = _drawn(coef, factor, draws)
    last = arms.shape[0] - 1
    for k in range(n_arms):
        row = min(rows[k], last)
        w, unshrunk = shrinkage(arms[row, WEIGHT], noise, arm_variance)
        score = arms[row, REWARD] * w
        for j in range(d):
            xbar = arms[row, CONTEXT + j]
            score += ((contexts[k, j] - xbar) + unshrunk * xbar) * theta[j]
        if size > d:
            score += unshrunk * theta[d]
        out[0, k] = score + draws[size + k] * math.sqrt(arm_variance * unshrunk)
    return best_of(out[0])
