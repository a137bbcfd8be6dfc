"""Binary rewards of arms with slopes: each outcome becomes a weighted Gaussian observation of the logit."""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, Rows, compiled
from rolin.model.kernels.layout import AGEING, WEIGHT, WEIGHT_OF_NEW, Tails
from rolin.model.kernels.logistic import site_of
from rolin.model.kernels.observe import age, dot, is_within, times
from rolin.model.kernels.slopes import (
    fold_slopes,
    has_parts,
    invert_stds,
    own_products,
    residual,
    scaled_entries,
)

__all__ = ["observe_slope_outcome", "observe_slope_outcomes", "slope_site"]


@compiled(reorder=False)
def slope_site(
    context: Floats, reward: float, weight: float, row: int, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, own: Floats, parts: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Return the observation that stands for an outcome in the current state, r and h; or NaN."""
    d, size, q = context.shape[0], factor.shape[0], own.shape[1]
    if not is_within(row, context, arms, tails) or not has_parts(row, d, own, parts):
        return math.nan, math.nan
    mine = own[row if arms[row, WEIGHT] > 0.0 else 0]  # an arm without rewards has its prior
    u, f = np.empty(size), np.empty(max(size, q))
    z, p, inverse = np.empty(q), np.empty(q), np.empty(q)
    scaled_entries(context, parts[0], z)
    invert_stds(parts[0], inverse)
    own_variance, level = own_products(mine, z, f, p)
    residual(context, z, p, mine, inverse, parts[0, 0], u)
    times(factor, u, f[:size])
    mean, variance = level + dot(u, coef), own_variance + dot(f[:size], f[:size])
    if not (abs(mean) < np.inf and variance < np.inf):
        return math.nan, math.nan
    if reward > 0.5:
        return site_of(mean, variance, weight, 0.0)
    return site_of(mean, variance, 0.0, weight)


@compiled(reorder=False)
def observe_slope_outcome(
    context: Floats, reward: float, weight: float, row: int, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, scatter: Floats, numbers: Floats, own: Floats, parts: Floats,
) -> bool:  # fmt: skip
    """Fold one outcome, 0 or 1, into the state; or return False and change nothing."""
    grown = numbers[WEIGHT_OF_NEW] * numbers[AGEING]
    r, h = slope_site(
        context, reward, weight * grown, row, arms, tails, coef, factor, own, parts
    )  # fmt: skip
    if not h > 0.0:
        return False
    folded = fold_slopes(
        context, r, h, row, arms, tails, coef, factor, scatter, numbers, own, parts
    )  # fmt: skip
    if folded:
        age(weight, grown, numbers)
    return folded


@compiled(reorder=False)
def observe_slope_outcomes(
    contexts: Floats, rewards: Floats, weights: Floats, rows: Rows, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, scatter: Floats, numbers: Floats, own: Floats, parts: Floats,
) -> int:  # fmt: skip
    """Fold outcomes one by one, up to the first that is not finite; return the number folded."""
    for t in range(rows.shape[0]):
        if not observe_slope_outcome(
            contexts[t], rewards[t], weights[t], rows[t],
            arms, tails, coef, factor, scatter, numbers, own, parts,
        ):  # fmt: skip
            return t
    return len(rows)
