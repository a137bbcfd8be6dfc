"""Predict and score arms that have slopes of their own; `rolin.model.kernels.slopes` describes their arrays."""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import NOT_FINITE, Floats, Rows, compiled
from rolin.model.kernels.predict import best_of
from rolin.model.kernels.slopes import (
    column,
    has_parts,
    invert_stds,
    own_products,
    scaled_entries,
    without_own,
)

__all__ = ["entries_of_arms", "score_drawn", "share_of_slopes", "spread_products"]


@compiled(reorder=True, inline=True)
def _by_entries(vector: Floats, prior: Floats, inverse: Floats, out: Floats) -> None:
    """Write a vector v such that its product with an arm's entries is v'u, with u = x - B'z; see `entries_of_arms`."""
    q, d = inverse.shape[0], prior.shape[1] - 1
    out[0] = inverse[0] * vector[d] if vector.shape[0] > d else 0.0
    for j in range(d):
        scale = inverse[j + 1] if j + 1 < q else 1.0
        out[j + 1] = scale * vector[column(prior, j)]


@compiled(reorder=True)
def entries_of_arms(
    contexts: Floats,  # (K, d), or (1, d) for one context that all arms share
    rows: Rows,  # (K,)
    coef: Floats,
    factor: Floats,
    own: Floats,
    parts: Floats,
    entries: Floats,  # (K, d + 1), written: (Δ⁻¹V z, x_N - B_N'z)
    vectors: Floats,  # (1 + D, d + 1), written: θ̂ and the rows of T
    out: Floats,  # (≥ 2, K), written: z'a, and the arm's own variance z'V z
) -> None:
    """Prepare a prediction. The products of entries and vectors are u'θ̂ and T u, with u = x - B'z.

    So u, which is a permutation of scaled entries, is not needed.
    """
    n_arms, q, size = rows.shape[0], own.shape[1], coef.shape[0]
    # The arrays fit together, unless threads change the state without a lock.
    fits = has_parts(0, contexts.shape[1], own, parts) and factor.shape[0] == size
    if not (fits and factor.shape[1] == size and vectors.shape[0] == 1 + size >= entries.shape[1]):
        entries[:], vectors[:], out[:] = np.nan, np.nan, np.nan
        return
    last, shared = own.shape[0] - 1, contexts.shape[0] < n_arms
    z, f, inverse, prior = np.empty(q), np.empty(q), np.empty(q), parts[0]
    invert_stds(prior, inverse)
    _by_entries(coef, prior, inverse, vectors[0])
    for j in range(size):
        _by_entries(factor[j], prior, inverse, vectors[1 + j])
    if shared:
        scaled_entries(contexts[0], prior, z)
    for k in range(n_arms):
        mine, e, context = own[min(rows[k], last)], entries[k], contexts[0 if shared else k]
        if not shared:
            scaled_entries(context, prior, z)
        out[1, k], out[0, k] = own_products(mine, z, f, e[:q])
        for j in range(e.shape[0] - q):
            e[q + j] = without_own(context[column(prior, q - 1 + j)], z, mine, q + 1 + j)


@compiled(reorder=True)
def spread_products(
    products: Floats,  # (K, 1 + D): of the entries and vectors of `entries_of_arms`
    draws: Floats,  # (K,)
    out: Floats,  # (3, K), as left by `entries_of_arms`
) -> int:
    """Complete what `entries_of_arms` began: means, standard deviations, scores, and `best_of` the scores."""
    for k in range(products.shape[0]):
        variance = out[1, k]
        for j in range(1, products.shape[1]):
            variance += products[k, j] * products[k, j]
        std = math.sqrt(variance)
        out[0, k] += products[k, 0]
        out[1, k] = std
        out[2, k] = out[0, k] + draws[k] * std
    return best_of(out[2])


@compiled(reorder=True, inline=True)
def _drawn_mean(own: Floats, z: Floats, w: Floats) -> tuple[float, float]:
    """Return the own variance z'V z = |f|² with f = T Δz, and z'a + f'T w, where w are the coefficients by entries.

    Because p = T'f, its product with w is f'T w. So one pass over T is enough.
    """
    q = z.shape[0]
    variance, mean = 0.0, 0.0
    whole = q - q % 4
    for k in range(0, whole, 4):
        f0, f1, f2, f3 = 0.0, 0.0, 0.0, 0.0
        g0, g1, g2, g3 = 0.0, 0.0, 0.0, 0.0
        for i in range(k + 4):
            f0 += own[k, i] * z[i]
            f1 += own[k + 1, i] * z[i]
            f2 += own[k + 2, i] * z[i]
            f3 += own[k + 3, i] * z[i]
            g0 += own[k, i] * w[i]
            g1 += own[k + 1, i] * w[i]
            g2 += own[k + 2, i] * w[i]
            g3 += own[k + 3, i] * w[i]
        variance += f0 * f0 + f1 * f1 + f2 * f2 + f3 * f3
        mean += f0 * g0 + f1 * g1 + f2 * g2 + f3 * g3
        for i in range(k, k + 4):
            mean += own[i, q] * z[i]
    for k in range(whole, q):
        f0, g0 = 0.0, 0.0
        for i in range(k + 1):
            f0 += own[k, i] * z[i]
            g0 += own[k, i] * w[i]
        variance += f0 * f0
        mean += f0 * g0 + own[k, q] * z[k]
    return variance, mean


@compiled(reorder=True)
def score_drawn(
    contexts: Floats,  # (K, d), or (1, d) for one context that all arms share
    rows: Rows,  # (K,)
    theta: Floats,  # (D,): drawn coefficients
    draws: Floats,  # (K,)
    own: Floats,
    parts: Floats,
    out: Floats,  # (3, K), written: the mean given θ, the own variance z'V z, and the score
) -> int:
    """Score arms by a joint draw: given θ, add the draw of every arm's own coefficients; return `best_of` the scores."""
    n_arms, q, d = rows.shape[0], own.shape[1], contexts.shape[1]
    # The arrays fit together, unless threads change the state without a lock.
    if not has_parts(0, d, own, parts) or theta.shape[0] < d:
        return NOT_FINITE
    last, shared = own.shape[0] - 1, contexts.shape[0] < n_arms
    z, w, inverse, prior = np.empty(q), np.empty(d + 1), np.empty(q), parts[0]
    invert_stds(prior, inverse)
    _by_entries(theta, prior, inverse, w)
    if shared:
        scaled_entries(contexts[0], prior, z)
    for k in range(n_arms):
        mine, context = own[min(rows[k], last)], contexts[0 if shared else k]
        if not shared:
            scaled_entries(context, prior, z)
        variance, mean = _drawn_mean(mine, z, w[:q])
        for j in range(q, d + 1):
            mean += without_own(context[column(prior, j - 1)], z, mine, j + 1) * w[j]
        out[0, k], out[1, k] = mean, variance
        out[2, k] = mean + draws[k] * math.sqrt(variance)
    return best_of(out[2])


@compiled(reorder=False)
def share_of_slopes(
    context: Floats,  # (d,)
    parts: Floats,
) -> float:
    """Return the share of the slopes in the prior variance of an arm's own part z'u_i, from 0 to 1."""
    prior, d = parts[0], context.shape[0]
    squares = 0.0  # relative to the variance of the arm effect; may be infinite
    for j in range(1, prior.shape[0]):
        squares += (prior[j, d] * context[column(prior, j - 1)] / prior[0, d]) ** 2
    return 1.0 - 1.0 / (1.0 + squares)
