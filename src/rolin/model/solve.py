"""Solve for the posterior of the coefficients, given scales and moments, in O(K d² + d³).

    M = Λ + σ⁻²[C + Σ_i H_i (1 - w_i) x̄_i x̄_i'],    b = Λm + σ⁻²[g + Σ_i H_i (1 - w_i) x̄_i r̄_i]

(docs/explanation/maths.md, "Additive evidence"). The sum over the arms is never added to the rest. If features are offset by a
million, its rounding errors would hide the information about their slopes. Instead, all parts are stacked as the rows
of a least-squares problem and reduced by QR to a triangle R with R'R = M.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rolin.errors import NotFiniteError
from rolin.model import lapack
from rolin.model.evidence import SMALL
from rolin.model.moments import Moments
from rolin.model.scales import Scales

__all__ = [
    "CoefficientPosterior",
    "checked",
    "left_root",
    "qr",
    "rounding_error",
    "solve_coefficients",
    "solve_triangle",
]

Floats = NDArray[np.float64]
_Solution = TypeVar("_Solution", bound=tuple[Any, ...])

# Arms that are stacked at a time. This limits the additional memory.
_CHUNK = 16_384
_EPS = float(np.finfo(float).eps)


class CoefficientPosterior(NamedTuple):
    """Posterior of the coefficients (an intercept is the last), and the evidence of the scales."""

    coef: Floats  # (D,): θ̂
    factor: Floats  # (D, D): lower-triangular T with T'T = M⁻¹
    log_determinants: float  # the log evidence is -½ (N log 2π + log_determinants + quadratic)
    quadratic: float
    error: float = 0.0
    """About how large the relative error is that rounding of the scatter causes."""


def checked(
    solve: Callable[[Scales, Moments], _Solution],
) -> Callable[[Scales, Moments], _Solution]:
    """Return a function that raises `NotFiniteError` if a solution is out of the range of floating-point numbers."""

    @wraps(solve)
    def solves(scales: Scales, moments: Moments) -> _Solution:
        try:
            with np.errstate(all="ignore"):
                solution = solve(scales, moments)
            finite = _is_finite(solution)
        except np.linalg.LinAlgError:
            finite = False
        if not finite:
            raise NotFiniteError(
                "the posterior of the coefficients is not finite: scales and moments differ by too many orders of "
                "magnitude"
            )
        return solution

    return solves


def _is_finite(solution: tuple[Any, ...]) -> bool:
    """Return whether all numbers of a solution, and of solutions within it, are finite."""
    return all(
        _is_finite(part) if isinstance(part, tuple) else bool(np.isfinite(part).all())
        for part in solution
    )


@checked
def solve_coefficients(scales: Scales, moments: Moments) -> CoefficientPosterior:
    """Return the exact posterior of the coefficients, and the evidence of the scales.

    Raises `NotFiniteError` if the result is beyond the range of floating-point numbers.
    """
    d = moments.n_features
    prior_mean, prior_std = scales.prior(d)
    size = len(prior_mean)
    noise = scales.noise_std**2
    odds = moments.weight * (scales.arm_std**2 / noise)  # H s₀²/σ²; 1 - w = 1/(1 + odds)
    scatter = np.zeros((size, size))
    scatter[:d, :d] = moments.scatter / noise
    right = prior_mean / prior_std**2
    right[:d] += moments.cross / noise

    left = left_root(scatter, 1.0 / prior_std)
    # One more column for the right-hand side: the triangle holds R and R θ̂.
    triangle = np.zeros((size + 1, size + 1))
    triangle[:size, :size] = left.T
    triangle[:size, size] = solve_triangle(left, right, lower=True)
    for start in range(0, len(odds), _CHUNK):
        part = slice(start, start + _CHUNK)
        rows = np.ones((len(odds[part]), size + 1))
        rows[:, :d] = moments.mean_context[part]
        rows[:, size] = moments.mean_reward[part]
        rows *= np.sqrt(moments.weight[part] / (noise * (1.0 + odds[part])))[:, None]
        if len(triangle) > SMALL:
            triangle = lapack.triangle_with(triangle, rows)
        else:
            triangle = qr(np.vstack([triangle, rows]))
    r = triangle[:size, :size]
    coef = solve_triangle(r, triangle[:size, size])

    # -2 log p(r), docs/explanation/maths.md, "Evidence": the determinants, and the quadratic form at its minimum θ̂. It is
    # computed as a sum of squares, because a difference would cancel.
    theta, apart = coef[:d], moments.mean_reward - moments.mean_context @ coef[:d]
    if scales.has_intercept:
        apart = apart - coef[d]
    within = moments.reward_scatter + theta @ (moments.scatter @ theta - 2.0 * moments.cross)
    between = (moments.weight / (1.0 + odds)) @ apart**2
    quadratic = float((((coef - prior_mean) / prior_std) ** 2).sum() + (within + between) / noise)
    log_determinants = (
        moments.count * np.log(noise)
        - moments.sum_log_weight
        + np.log1p(odds).sum()
        + 2.0 * (np.log(np.abs(np.diag(r))).sum() + np.log(prior_std).sum())
    )
    large = len(triangle) > SMALL
    inverse = lapack.inverse_of_triangle(r) if large else solve_triangle(r, np.eye(size))
    return CoefficientPosterior(
        coef=coef,
        factor=np.ascontiguousarray(inverse.T),  # M⁻¹ = R⁻¹ R⁻ᵀ
        log_determinants=float(log_determinants),
        quadratic=quadratic,
        error=rounding_error(np.diag(scatter), (inverse**2).sum(axis=1)),
    )


def rounding_error(scatter: Floats, variance: Floats) -> float:
    """Return about how far rounding errors of the scatter C/σ² change M⁻¹.

    Only C is added up in double precision. Its rounding error C_jj ε changes the variance (M⁻¹)_jj by about
    (M⁻¹)_jj² C_jj ε (docs/explanation/maths.md, "Numerical accuracy").
    """
    return float(_EPS * (scatter * variance).max(initial=0.0))


def left_root(scatter: Floats, prior_precision_root: Floats) -> Floats:
    """Return lower-triangular L with L L' = scatter + diag(prior_precision_root²)."""
    try:
        return np.asarray(np.linalg.cholesky(scatter + np.diag(prior_precision_root**2)), float)
    except np.linalg.LinAlgError:
        # Rounding errors have made the scatter slightly negative in some direction, and the prior is too weak to
        # compensate. Replace negative eigenvalues by zero. First scale to a unit diagonal, so that features of
        # small scale are not lost beside large ones.
        scale = np.sqrt(np.maximum(np.diag(scatter), 0.0))
        scale[scale == 0.0] = 1.0
        values, axes = np.linalg.eigh(scatter / np.outer(scale, scale))
        half = np.sqrt(np.maximum(values, 0.0))[:, None] * axes.T * scale
        return qr(np.vstack([half, np.diag(prior_precision_root)])).T


def qr(rows: Floats) -> Floats:
    """Return upper-triangular R with R'R = rows'rows."""
    r: Floats = np.linalg.qr(rows, mode="r")  # type: ignore[assignment]  # mode "r" gives R alone
    return r


def solve_triangle(triangle: Floats, right: Floats, *, lower: bool = False) -> Floats:
    """Solve a triangular system; one of size 0 has the solution of size 0."""
    if not len(triangle):
        return np.zeros_like(right)
    from scipy.linalg import solve_triangular  # takes 0.2 s to import

    solution: Floats = solve_triangular(triangle, right, lower=lower, check_finite=False)
    return solution
