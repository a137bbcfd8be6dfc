"""Solve for the posterior of the coefficients in one compiled loop, for few arms and features.

The calls of LAPACK would take longer than the work itself.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, compiled
from rolin.model.kernels.layout import CONTEXT, COUNT, REWARD, SUM_LOG_WEIGHT, WEIGHT

__all__ = ["solve_coefficients"]


@compiled(reorder=True)
def _root(matrix: Floats) -> bool:
    """Replace the lower triangle by the Cholesky factor; return False if the matrix is not positive definite."""
    for j in range(matrix.shape[0]):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= matrix[j, k] * matrix[j, k]
        if not pivot > 0.0:
            return False
        root = math.sqrt(pivot)
        matrix[j, j] = root
        for i in range(j + 1, matrix.shape[0]):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = total / root
    return True


@compiled(reorder=True)
def solve_coefficients(
    age: float,
    noise: float,
    arm_variance: float,
    prior_mean: Floats,  # (D,)
    prior_std: Floats,  # (D,)
    arms: Floats,
    scatter: Floats,
    numbers: Floats,
    last_row: int,
    coef: Floats,  # (D,), written: θ̂
    factor: Floats,  # (D, D), written: T with T'T = M⁻¹
) -> tuple[float, float]:
    """Write the posterior for all evidence times `age`; return the log determinants and the quadratic form.

    The formulas are those of `rolin.model.solve`, but the rows of the arms are rotated into the triangle one by one
    (Givens rotations). Returns NaN if rounding errors have made the scatter indefinite.
    """
    size, d = prior_mean.shape[0], scatter.shape[1] - 1
    moments = np.empty((1 + d, 1 + d))  # lower triangle: q, g and C
    for i in range(1 + d):
        for j in range(i + 1):
            moments[i, j] = age * (scatter[0, i, j] + (scatter[1, i, j] + scatter[2, i, j]))
    left = np.zeros((size, size))
    for i in range(size):
        if i < d:
            for j in range(i + 1):
                left[i, j] = moments[1 + i, 1 + j] / noise
        left[i, i] += 1.0 / (prior_std[i] * prior_std[i])
    if not _root(left):
        return math.nan, math.nan
    # R with R'R = M so far, and a last column for the right-hand side.
    r = np.zeros((size, size + 1))
    for i in range(size):
        total = prior_mean[i] / (prior_std[i] * prior_std[i])
        if i < d:
            total += moments[1 + i, 0] / noise
        for j in range(i):
            total -= left[i, j] * r[j, size]
        r[i, size] = total / left[i, i]
        for j in range(i + 1):
            r[j, i] = left[i, j]
    row = np.empty(size + 1)
    log_arms = 0.0
    for k in range(1, last_row + 1):
        weight = age * arms[k, WEIGHT]
        odds = weight * (arm_variance / noise)
        log_arms += math.log1p(odds)
        scale = math.sqrt(weight / (noise * (1.0 + odds)))
        for j in range(d):
            row[j] = scale * arms[k, CONTEXT + j]
        if size > d:
            row[d] = scale
        row[size] = scale * arms[k, REWARD]
        for j in range(size):
            if row[j] != 0.0:
                length = math.hypot(r[j, j], row[j])
                c, s = r[j, j] / length, row[j] / length
                r[j, j] = length
                for i in range(j + 1, size + 1):
                    t = r[j, i]
                    r[j, i] = c * t + s * row[i]
                    row[i] = c * row[i] - s * t
    log_det, form = 0.0, 0.0
    for i in range(size - 1, -1, -1):
        total = r[i, size]
        for j in range(i + 1, size):
            total -= r[i, j] * coef[j]
        coef[i] = total / r[i, i]
        log_det += math.log(r[i, i] * prior_std[i])
        apart = (coef[i] - prior_mean[i]) / prior_std[i]
        form += apart * apart
    # T = R⁻ᵀ: its column j solves R'y = e_j.
    factor[:] = 0.0
    for j in range(size):
        factor[j, j] = 1.0 / r[j, j]
        for i in range(j + 1, size):
            total = 0.0
            for k in range(j, i):
                total -= r[k, i] * factor[k, j]
            factor[i, j] = total / r[i, i]
    # The quadratic form at its minimum, as a sum of squares because a difference would cancel.
    within = moments[0, 0]
    for i in range(d):
        total = -2.0 * moments[1 + i, 0]
        for j in range(d):
            c = moments[1 + i, 1 + j] if j <= i else moments[1 + j, 1 + i]
            total += c * coef[j]
        within += coef[i] * total
    between = 0.0
    for k in range(1, last_row + 1):
        apart = arms[k, REWARD]
        for j in range(d):
            apart -= arms[k, CONTEXT + j] * coef[j]
        if size > d:
            apart -= coef[d]
        weight = age * arms[k, WEIGHT]
        between += weight / (1.0 + weight * (arm_variance / noise)) * apart * apart
    determinants = age * (numbers[COUNT] * math.log(noise) - numbers[SUM_LOG_WEIGHT])
    return determinants + log_arms + 2.0 * log_det, form + (within + between) / noise
