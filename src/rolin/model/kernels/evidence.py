"""Reductions of the evidence of the scales: one for every ρ, so that all else costs O(d); or one for every κ, and O(K).

Reducing a symmetric matrix to tridiagonal form does not change its determinant and its quadratic forms, also after
adding a multiple of the identity. So each step of the search for the coefficients' scale costs O(d). Computing
eigenvalues instead would take three times as long.

With fewer arms than features, the roles are exchanged. For a given κ, the arms' means have the covariance
σ²(B + ρI) with B = diag(1/H) + X̄(C + I/κ)⁻¹X̄', and each step of the search for the arms' scale costs O(K).
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, compiled

__all__ = [
    "divide_by_root",
    "reduce",
    "reduce_arms",
    "shrink",
    "standardize",
    "tridiagonal",
]

_NEGLIGIBLE = 1e-30  # of the largest diagonal element, for a column of the reduction
_SMALLEST_NORM = 1e-150  # its square is a normal number


@compiled(reorder=True)
def standardize(
    moments: tuple[Floats, Floats, Floats, Floats, Floats],  # C, g, H, x̄ and r̄
    mean: Floats,  # (d,): the prior's
    relative: Floats,  # (d,): the prior's standard deviations, relative to their geometric mean
    new_scatter: Floats,  # (d, d), written: C, in units of the prior
    new_cross: Floats,  # (d,), written: g, also around the prior's mean
    new_x: Floats,  # (K, d), written: x̄
    new_r: Floats,  # (K,), written: r̄
) -> tuple[float, float, float, float]:
    """Standardize moments by the prior.

    Return by how much the scatter of the rewards changes; the weighted sums of squares of the new r̄, as they are and around their
    mean; and the largest square of a feature.
    """
    scatter, cross, weight, x, r = moments
    n, d = x.shape
    shift, largest = 0.0, 0.0
    size = np.zeros(d)
    for i in range(d):
        along = 0.0
        for j in range(d):
            along += scatter[i, j] * mean[j]
            new_scatter[i, j] = scatter[i, j] * (relative[i] * relative[j])
        new_cross[i] = (cross[i] - along) * relative[i]
        shift += mean[i] * (along - 2.0 * cross[i])
    total, level, square, apart = 0.0, 0.0, 0.0, 0.0
    for k in range(n):
        dot = 0.0
        for j in range(d):
            dot += x[k, j] * mean[j]
            new_x[k, j] = x[k, j] * relative[j]
            size[j] += weight[k] * new_x[k, j] * new_x[k, j]
        new_r[k] = r[k] - dot
        total += weight[k]
        level += weight[k] * new_r[k]
        square += weight[k] * new_r[k] * new_r[k]
    for k in range(n):
        error = new_r[k] - level / total
        apart += weight[k] * error * error
    for j in range(d):
        largest = max(largest, new_scatter[j, j] + size[j])
    return shift, square, apart, largest


@compiled(reorder=True)
def shrink(
    weight: Floats,  # (K,)
    x: Floats,  # (K, d)
    r: Floats,  # (K,)
    ratio: float,
    centered: bool,
    rows: Floats,  # (K, 1 + d), written: r̄ and x̄, times the root of H/(1 + Hρ)
) -> float:
    """Write the arms as rows of a regression with noise of variance σ²; return Σ log(1 + Hρ).

    If `centered`, they are taken around the weighted means, which integrates out an intercept with a flat prior.
    """
    n, d = x.shape
    mean, mean_r, total, log_arms = np.zeros(d), 0.0, 0.0, 0.0
    for k in range(n):
        shrunk = weight[k] / (1.0 + ratio * weight[k])
        log_arms += math.log1p(ratio * weight[k])
        total += shrunk
        if centered:
            mean_r += shrunk * r[k]
            for j in range(d):
                mean[j] += shrunk * x[k, j]
    if centered and total > 0.0:
        mean /= total
        mean_r /= total
        log_arms += math.log(total)
    for k in range(n):
        root = math.sqrt(weight[k] / (1.0 + ratio * weight[k]))
        rows[k, 0] = root * (r[k] - mean_r)
        for j in range(d):
            rows[k, 1 + j] = root * (x[k, j] - mean[j])
    return log_arms


@compiled(reorder=True)
def tridiagonal(
    a: Floats,  # (n, n), overwritten
    rows: Floats,  # (p, n), changed: multiplied by the same orthogonal matrix
    out: Floats,  # (2, n), written: diagonal, and subdiagonal from 1 on
) -> None:
    """Reduce a symmetric matrix to tridiagonal form. Householder reflections: Golub & Van Loan, Algorithm 8.3.1."""
    p, d = rows.shape
    largest = 0.0
    for i in range(d):
        largest = max(largest, a[i, i])
    # Beyond the rank of A, only rounding errors are left. Each reflection shrinks them again, until their squares
    # underflow and the reflection is not finite. A column this small changes no digit of the result.
    least = max(_NEGLIGIBLE * largest, _SMALLEST_NORM)
    w, v = np.empty(d), np.empty(d)  # v: the vector of the reflection
    for k in range(d - 2):
        norm = 0.0
        for i in range(k + 1, d):
            norm += a[i, k] * a[i, k]
        norm = math.sqrt(norm)
        out[0, k] = a[k, k]
        if norm <= least:
            out[1, k + 1] = 0.0
            continue
        out[1, k + 1] = -norm if a[k + 1, k] > 0.0 else norm
        length = 0.0
        for i in range(k + 1, d):
            v[i] = a[i, k] - (out[1, k + 1] if i == k + 1 else 0.0)
            length += v[i] * v[i]
        beta, half = 2.0 / length, 0.0
        for i in range(k + 1, d):
            dot = 0.0
            for j in range(k + 1, d):
                dot += a[i, j] * v[j]
            w[i] = beta * dot
            half += w[i] * v[i]
        half *= 0.5 * beta
        for i in range(k + 1, d):
            w[i] -= half * v[i]
        for i in range(k + 1, d):
            for j in range(k + 1, d):
                a[i, j] -= v[i] * w[j] + w[i] * v[j]
        for c in range(p):
            along = 0.0
            for i in range(k + 1, d):
                along += rows[c, i] * v[i]
            along *= beta
            for i in range(k + 1, d):
                rows[c, i] -= along * v[i]
    for k in range(max(d - 2, 0), d):
        out[0, k] = a[k, k]
    if d > 0:
        out[1, 0] = 0.0
    if d > 1:
        out[1, d - 1] = a[d - 1, d - 2]


@compiled(reorder=True)
def reduce(
    scatter: Floats,  # (d, d)
    cross: Floats,  # (d,)
    weight: Floats,  # (K,)
    x: Floats,  # (K, d)
    r: Floats,  # (K,)
    ratio: float,
    centered: bool,
    out: Floats,  # (3, d), written: diagonal, subdiagonal (from 1), and b along the new axes
) -> tuple[float, float]:
    """Reduce A to tridiagonal form; return Σ H/(1 + Hρ) r̄² and Σ log(1 + Hρ).

    A = C + Σ H/(1 + Hρ) x̄x̄' and b = g + Σ H/(1 + Hρ) x̄r̄. If `centered`, around the weighted means, which
    integrates out an intercept with a flat prior. For few features; otherwise BLAS and LAPACK are faster.
    """
    n, d = x.shape
    a, b, square = scatter.copy(), out[2], 0.0
    b[:] = cross
    rows = np.empty((n, 1 + d))
    log_arms = shrink(weight, x, r, ratio, centered, rows)
    for k in range(n):
        apart, row = rows[k, 0], rows[k, 1:]
        square += apart * apart
        for i in range(d):
            b[i] += apart * row[i]
            for j in range(i + 1):
                a[i, j] += row[i] * row[j]
    for i in range(d):
        for j in range(i):
            a[j, i] = a[i, j]
    tridiagonal(a, b.reshape((1, d)), out[:2])
    return square, log_arms


@compiled(reorder=True)
def divide_by_root(
    tri: Floats,  # (2, d): diagonal and subdiagonal (from 1) of C
    columns: Floats,  # (d, m)
    shift: float,  # 1/κ
    out: Floats,  # (d, m), written: columns w with w'w = columns'(C + shift)⁻¹ columns
) -> float:
    """Divide columns by the root of C + shift; return the log determinant of this matrix."""
    d, m = columns.shape
    product, log_det, pivot = 1.0, 0.0, 1.0
    for k in range(d):
        root = math.sqrt(pivot)
        back = tri[1, k] / root if k > 0 else 0.0
        pivot = max(tri[0, k] + shift - back * back, shift)
        scale = 1.0 / math.sqrt(pivot)
        for c in range(m):
            above = back * out[k - 1, c] if k > 0 else 0.0
            out[k, c] = scale * (columns[k, c] - above)
        product *= pivot
        if not 1e-150 < product < 1e150:  # one logarithm for many pivots
            log_det += math.log(product)
            product = 1.0
    return log_det + math.log(product)


@compiled(reorder=True)
def reduce_arms(
    tri: Floats,  # (2, d): diagonal and subdiagonal (from 1) of C
    columns: Floats,  # (d, K + 1): x̄ of each arm, then g
    shift: float,  # 1/κ
    r: Floats,  # (K,)
    inverse: Floats,  # (K,): 1/H
    out: Floats,  # (4, K), written: B in tridiagonal form; the arms' errors and ones, along the new axes
) -> tuple[float, float]:
    """Integrate out the coefficients; return log det(C + shift) and g'(C + shift)⁻¹g. For few arms and features."""
    d, k = columns.shape[0], len(r)
    divided, sums = np.empty((d, k + 1)), np.zeros((k + 1, k + 1))
    log_det = divide_by_root(tri, columns, shift, divided)
    for i in range(d):
        row = divided[i]
        for a in range(k + 1):
            for b in range(a + 1):
                sums[a, b] += row[a] * row[b]
    matrix = np.empty((k, k))
    for a in range(k):
        for b in range(a + 1):
            matrix[a, b] = matrix[b, a] = sums[a, b]
        matrix[a, a] += inverse[a]
        out[2, a], out[3, a] = r[a] - sums[k, a], 1.0
    tridiagonal(matrix, out[2:], out[:2])
    return log_det, sums[k, k]
