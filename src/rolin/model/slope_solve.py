"""Solve for the posterior of a model whose arms have slopes, given scales and moments, in O(K q (q + d)² + d³).

Each arm becomes q rows of a least-squares problem for the shared coefficients (`rolin.model.kernels.slope_rows`). As in
`rolin.model.solve`, the rows are stacked and reduced by QR, so that no information is lost by squaring them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.model.kernels import slope_rows as kernels
from rolin.model.moments import Moments
from rolin.model.scales import Scales
from rolin.model.solve import (
    CoefficientPosterior,
    checked,
    left_root,
    qr,
    rounding_error,
    solve_triangle,
)

__all__ = ["ArmRows", "SlopeSolution", "arm_rows", "feature_order", "own_stds", "solve_slopes"]

Floats = NDArray[np.float64]
# Stands for a standard deviation of zero. The formulas divide by it, and this is far below every rounding error.
_TINY = 1e-120
_CHUNK = 16_384  # rows that are stacked at a time, so that QR does not copy all of them at once


class ArmRows(NamedTuple):
    """The evidence of all arms as q observations per arm, and what is left of the scatter."""

    rows: Floats
    """(K, q, q + 1 + n): entries z = (1, x_S), reward and other features of q observations of every arm"""
    rest: Floats
    """(1 + n, 1 + n): scatter of reward and other features that the slopes have no part in"""
    columns: NDArray[np.int64]
    """(d,): the features with slopes, then the others"""

    @property
    def n_own(self) -> int:
        """Number q of own coefficients of an arm."""
        return int(self.rows.shape[1])

    def outputs(self, *, intercept: bool) -> Floats:
        """Return (K, q, D + 1): features, intercept and reward of the observations."""
        k, q, d = len(self.rows), self.n_own, len(self.columns)
        size = d + intercept
        outputs = np.empty((k, q, size + 1))
        outputs[:, :, self.columns[: q - 1]] = self.rows[:, :, 1:q]
        outputs[:, :, self.columns[q - 1 :]] = self.rows[:, :, q + 1 :]
        if intercept:
            outputs[:, :, d] = self.rows[:, :, 0]
        outputs[:, :, size] = self.rows[:, :, q]
        return outputs


class SlopeSolution(NamedTuple):
    """The posterior of the shared coefficients, and of the own coefficients of every arm given them."""

    shared: CoefficientPosterior
    own: Floats
    """(K, q, q + 1 + n), as `rolin.model.kernels.slopes` describes"""


def own_stds(scales: Scales, n_features: int) -> Floats:
    """Return the standard deviations of the own coefficients, all of them positive."""
    return np.maximum(scales.own_stds(n_features), _TINY)


def feature_order(slopes: NDArray[np.int64], n_features: int) -> NDArray[np.int64]:
    """Return the indices of the features with slopes, then those of the others."""
    return np.concatenate([slopes, np.delete(np.arange(n_features), slopes)])


def arm_rows(moments: Moments) -> ArmRows:
    """Return the evidence of every arm as the rows of a regression."""
    assert moments.arm_scatter is not None  # the callers have checked that there are slopes
    d, s = moments.n_features, len(moments.slopes)
    columns = feature_order(np.array(moments.slopes, dtype=np.int64), d)
    others = columns[s:]
    rest = np.empty((1 + d - s, 1 + d - s))
    rest[0, 0] = moments.reward_scatter
    rest[0, 1:] = rest[1:, 0] = moments.cross[others]
    rest[1:, 1:] = moments.scatter[np.ix_(others, others)]
    rows = np.empty((len(moments.arms), 1 + s, d + 2))
    kernels.arm_rows(
        moments.weight, moments.mean_reward, moments.mean_context,
        np.ascontiguousarray(moments.arm_scatter), columns, rows, rest,
    )  # fmt: skip
    return ArmRows(rows, rest, columns)


@checked
def solve_slopes(scales: Scales, moments: Moments) -> SlopeSolution:
    """Return the exact posterior of all coefficients, and the evidence of the scales.

    Raises `NotFiniteError` if the result is beyond the range of floating-point numbers.
    """
    d = moments.n_features
    prior_mean, prior_std = scales.prior(d)
    size, noise, stds = len(prior_mean), scales.noise_std, own_stds(scales, d)
    arms = arm_rows(moments)
    q, others = arms.n_own, arms.columns[arms.n_own - 1 :]
    outputs = arms.outputs(intercept=scales.has_intercept)
    whitened = np.empty_like(outputs)
    entries = np.ascontiguousarray(arms.rows[:, :, :q])
    log_arms = kernels.whiten(entries, (stds / noise) ** 2, outputs, whitened)
    rows = whitened.reshape(-1, size + 1) / noise

    scatter = np.zeros((size, size))
    scatter[np.ix_(others, others)] = arms.rest[1:, 1:] / noise**2
    right = prior_mean / prior_std**2
    right[others] += arms.rest[1:, 0] / noise**2
    left = left_root(scatter, 1.0 / prior_std)
    # One more column for the right-hand side: the triangle holds R and R θ̂.
    triangle = np.zeros((size + 1, size + 1))
    triangle[:size, :size] = left.T
    triangle[:size, size] = solve_triangle(left, right, lower=True)
    for start in range(0, len(rows), _CHUNK):
        triangle = qr(np.vstack([triangle, rows[start : start + _CHUNK]]))
    r = triangle[:size, :size]
    coef = solve_triangle(r, triangle[:size, size])

    # -2 log p(r), docs/explanation/maths.md, "Evidence", as a sum of squares because a difference would cancel.
    theta = coef[others]
    within = arms.rest[0, 0] + theta @ (arms.rest[1:, 1:] @ theta - 2.0 * arms.rest[1:, 0])
    between = float(((rows[:, size] - rows[:, :size] @ coef) ** 2).sum())
    quadratic = float((((coef - prior_mean) / prior_std) ** 2).sum() + within / noise**2 + between)
    log_determinants = (
        moments.count * np.log(noise**2)
        - moments.sum_log_weight
        + log_arms
        + 2.0 * (np.log(np.abs(np.diag(r))).sum() + np.log(prior_std).sum())
    )
    inverse = solve_triangle(r, np.eye(size))
    own = np.empty_like(arms.rows)
    kernels.own_states(arms.rows, stds, noise, own)
    # A rounding error of the scatter within an arm counts like one of the scatter over all arms.
    total = np.zeros(size)
    total[:d] = np.diag(moments.scatter) / noise**2
    shared = CoefficientPosterior(
        coef=coef,
        factor=np.ascontiguousarray(inverse.T),  # M⁻¹ = R⁻¹ R⁻ᵀ
        log_determinants=float(log_determinants),
        quadratic=quadratic,
        error=rounding_error(total, (inverse**2).sum(axis=1)),
    )
    return SlopeSolution(shared, own)
