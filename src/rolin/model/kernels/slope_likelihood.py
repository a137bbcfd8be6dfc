"""Rows of arms with slopes in a form in which every other scale costs O(K q) rows of a regression.

Given θ, the q rows of an arm have the covariance σ²(I + φ Z_S Z_S' + ρ H e₁e₁') (`rolin.model.kernels.slope_rows`). An
orthogonal transformation that keeps the first row makes Z_S Z_S' tridiagonal. The Cholesky factor is then bidiagonal,
and if it begins with the last row, ρ is in the first pivot alone. So for a given φ, the rows from the second one on are
rows of an ordinary regression, and the first ones are those of arms without slopes.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, compiled

__all__ = ["shrink", "tridiagonal"]

_NEGLIGIBLE = 1e-30  # of the largest diagonal element, for a column of the reduction
_SMALLEST_NORM = 1e-150  # its square is a normal number


@compiled(reorder=True)
def tridiagonal(
    entries: Floats,  # (K, q, q - 1): Z_S, zero below the diagonal of its rows from the second one on
    outputs: Floats,  # (K, q, m), changed: multiplied by the same orthogonal matrix
    out: Floats,  # (K, 2, q), written: diagonal and subdiagonal (from 1) of the reduced Z_S Z_S'
) -> None:
    """Reduce Z_S Z_S' of every arm to tridiagonal form. Householder reflections: Golub & Van Loan, Algorithm 8.3.1."""
    n_arms, q, m = outputs.shape
    a, p, v, along = np.empty((q, q)), np.empty(q), np.empty(q), np.empty(m)
    for arm in range(n_arms):
        z = entries[arm]
        largest = 0.0
        for i in range(q):
            for j in range(i + 1):
                total = 0.0
                for c in range(max(i - 1, 0), q - 1):
                    total += z[i, c] * z[j, c]
                a[i, j] = a[j, i] = total
            largest = max(largest, a[i, i])
        least = max(_NEGLIGIBLE * largest, _SMALLEST_NORM)
        for k in range(q - 1):
            out[arm, 0, k] = a[k, k]
            norm = 0.0
            for i in range(k + 1, q):
                norm += a[i, k] * a[i, k]
            norm = math.sqrt(norm)
            if norm <= least:
                out[arm, 1, k + 1] = 0.0
                continue
            if k == q - 2:
                out[arm, 1, k + 1] = a[k + 1, k]
                continue
            out[arm, 1, k + 1] = -norm if a[k + 1, k] > 0.0 else norm
            length = 0.0
            for i in range(k + 1, q):
                v[i] = a[i, k] - (out[arm, 1, k + 1] if i == k + 1 else 0.0)
                length += v[i] * v[i]
            beta, half = 2.0 / length, 0.0
            for i in range(k + 1, q):
                dot = 0.0
                for j in range(k + 1, q):
                    dot += a[i, j] * v[j]
                p[i] = beta * dot
                half += p[i] * v[i]
            half *= 0.5 * beta
            for i in range(k + 1, q):
                p[i] -= half * v[i]
            for i in range(k + 1, q):
                for j in range(k + 1, q):
                    a[i, j] -= v[i] * p[j] + p[i] * v[j]
            along[:] = 0.0
            for i in range(k + 1, q):
                for c in range(m):
                    along[c] += v[i] * outputs[arm, i, c]
            for i in range(k + 1, q):
                t = beta * v[i]
                for c in range(m):
                    outputs[arm, i, c] -= t * along[c]
        out[arm, 0, q - 1] = a[q - 1, q - 1]


@compiled(reorder=True)
def shrink(
    reduced: Floats,  # (K, 2, q), written by `tridiagonal`
    slope: float,  # φ
    outputs: Floats,  # (K, q, m)
    rows: Floats,  # (K, q - 1, m), written: the rows from the second one on, divided by the root of their covariance
    first: Floats,  # (K, m), written: the first rows, without what the others explain
    pivots: Floats,  # (K,), written: variance of the first rows, in units of σ², without arm effects
) -> float:
    """Divide the rows of each arm by the root of their covariance for one φ; return the log determinant."""
    n_arms, q, m = outputs.shape
    log_det, product = 0.0, 1.0
    for k in range(n_arms):
        back, pivot = 0.0, 1.0
        for i in range(q - 1, -1, -1):
            # Row i has the covariance φ off[i + 1] with row i + 1, and none with those below it.
            back = slope * reduced[k, 1, i + 1] / math.sqrt(pivot) if i < q - 1 else 0.0
            pivot = max(1.0 + slope * reduced[k, 0, i] - back * back, 1.0)
            product *= pivot
            if not product < 1e150:  # one logarithm for many pivots
                log_det += math.log(product)
                product = 1.0
            if i == 0:
                pivots[k] = pivot
                for c in range(m):
                    first[k, c] = outputs[k, 0, c] - (back * rows[k, 0, c] if q > 1 else 0.0)
                break
            scale = 1.0 / math.sqrt(pivot)
            for c in range(m):
                above = back * rows[k, i, c] if i < q - 1 else 0.0
                rows[k, i - 1, c] = scale * (outputs[k, i, c] - above)
    return log_det + math.log(product)
