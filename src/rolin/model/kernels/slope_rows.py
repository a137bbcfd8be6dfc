"""All rewards of an arm with slopes as q rows of a regression, and what follows from them for any scales.

The moments of an arm are those of q weighted observations: one at its means, and s that have its scatter. With their
entries z = (1, x_S) in the rows of Z, the covariance of their rewards given θ is σ²(I + Z D Z'/σ²). Dividing by its root
gives rows of an ordinary least-squares problem for θ (docs/explanation/maths.md, "Slopes per arm").
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, Rows, compiled

__all__ = ["arm_rows", "own_states", "whiten"]

# Pivots below this share of the diagonal are rounding errors of zero.
_NO_PIVOT = 1e-14


@compiled(reorder=True)
def arm_rows(
    weight: Floats,  # (K,)
    mean_reward: Floats,  # (K,)
    mean_context: Floats,  # (K, d)
    arm_scatter: Floats,  # (K, s, 1 + d)
    columns: Rows,  # (d,): the features with slopes, then the others
    rows: Floats,  # (K, q, q + 1 + n), written: (z, r, x_N) of q observations
    rest: Floats,  # (1 + n, 1 + n), changed: the scatter of (r, x_N) that is not in these rows
) -> None:
    """Write the rows of every arm: √H times its means, then the root of its scatter.

    `rest` is at first the scatter of rewards and other features around the means of their arm, over all arms. What
    x_S explains of it, arm by arm, is subtracted; this is a Cholesky factorization of the whole scatter.
    """
    n_arms, s, d = arm_scatter.shape[0], arm_scatter.shape[1], mean_context.shape[1]
    q, n = s + 1, d - s
    for k in range(n_arms):
        out = rows[k]
        out[:] = 0.0
        root = math.sqrt(weight[k])
        out[0, 0], out[0, q] = root, root * mean_reward[k]
        for j in range(s):
            out[0, 1 + j] = root * mean_context[k, columns[j]]
        for j in range(n):
            out[0, q + 1 + j] = root * mean_context[k, columns[s + j]]
        for i in range(s):
            # Row 1 + i: the root of the scatter of x_S, upper triangle, and its products with (r, x_N).
            square = arm_scatter[k, i, 1 + columns[i]]
            pivot = square
            for m in range(1, 1 + i):
                pivot -= out[m, 1 + i] * out[m, 1 + i]
            if not pivot > _NO_PIVOT * square:
                continue
            root = math.sqrt(pivot)
            out[1 + i, 1 + i] = root
            for j in range(i + 1, d + 1):
                # the columns after z[i]: the other entries of z, r, and x_N
                at = 1 + j if j < s else (q if j == s else q + j - s)
                source = 1 + columns[j] if j < s else (0 if j == s else 1 + columns[j - 1])
                total = arm_scatter[k, i, source]
                for m in range(1, 1 + i):
                    total -= out[m, 1 + i] * out[m, at]
                out[1 + i, at] = total / root
        for m in range(1, q):
            for i in range(1 + n):
                for j in range(1 + n):
                    rest[i, j] -= out[m, q + i] * out[m, q + j]
    for i in range(1 + n):
        rest[i, i] = max(rest[i, i], 0.0)


@compiled(reorder=True)
def whiten(
    entries: Floats,  # (K, q, q): Z
    ratios: Floats,  # (q,): Δ²/σ²
    outputs: Floats,  # (K, q, m)
    out: Floats,  # (K, q, m), written: the outputs, divided by the root of I + Z D Z'/σ²
) -> float:
    """Divide the outputs of each arm by the root of the covariance of its rows; return Σ log det(I + Z D Z'/σ²)."""
    n_arms, q, m = outputs.shape
    root = np.empty((q, q))
    log_det, product = 0.0, 1.0
    for k in range(n_arms):
        z = entries[k]
        for i in range(q):
            for j in range(i + 1):
                total = 1.0 if i == j else 0.0
                # Z is an upper triangle: row i begins at entry i, and row 0 is full.
                for p in range(i, q):
                    total += z[i, p] * ratios[p] * z[j, p]
                for p in range(j):
                    total -= root[i, p] * root[j, p]
                root[i, j] = math.sqrt(max(total, 1.0)) if i == j else total / root[j, j]
            scale = 1.0 / root[i, i]
            product *= root[i, i]
            for c in range(m):
                out[k, i, c] = outputs[k, i, c]
            for p in range(i):
                t = root[i, p]
                for c in range(m):
                    out[k, i, c] -= t * out[k, p, c]
            for c in range(m):
                out[k, i, c] *= scale
            if not product < 1e100:  # one logarithm for many pivots
                log_det += 2.0 * math.log(product)
                product = 1.0
    return log_det + 2.0 * math.log(product)


@compiled(reorder=True)
def own_states(
    rows: Floats,  # (K, q, q + 1 + n): see `arm_rows`
    stds: Floats,  # (q,): Δ
    noise: float,  # σ
    own: Floats,  # (K, q, q + 1 + n), written: see `rolin.model.kernels.slopes`
) -> None:
    """Write the posterior of the own coefficients of every arm, given θ.

    It solves the least-squares problem |ũ|² + |Y - Z̃ũ|²/σ² with Z̃ = ZΔ, for every output Y. The rows are rotated into the
    triangle of the prior one by one (Givens rotations), which does not square their condition number.
    """
    n_arms, q, width = rows.shape
    r, row = np.empty((q, width)), np.empty(width)
    for k in range(n_arms):
        r[:] = 0.0
        for j in range(q):
            r[j, j] = 1.0
        for i in range(q):
            for j in range(width):
                row[j] = rows[k, i, j] * (stds[j] if j < q else 1.0) / noise
            for j in range(q):
                if row[j] != 0.0:
                    length = math.hypot(r[j, j], row[j])
                    c, s = r[j, j] / length, row[j] / length
                    r[j, j] = length
                    for p in range(j + 1, width):
                        t = r[j, p]
                        r[j, p] = c * t + s * row[p]
                        row[p] = c * row[p] - s * t
        out = own[k]
        # T = R⁻ᵀ: its column j solves R'y = e_j.
        for j in range(q):
            for i in range(j):
                out[i, j] = 0.0
            out[j, j] = 1.0 / r[j, j]
            for i in range(j + 1, q):
                total = 0.0
                for p in range(j, i):
                    total -= r[p, i] * out[p, j]
                out[i, j] = total / r[i, i]
        for c in range(q, width):
            for i in range(q - 1, -1, -1):
                total = r[i, c]
                for p in range(i + 1, q):
                    total -= r[i, p] * out[p, c]
                out[i, c] = total / r[i, i]
