"""Subtract moments: the inverse of adding them, up to rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rolin._support.arms import ArmIndex
from rolin.errors import MergeError
from rolin.model import slope_moments

if TYPE_CHECKING:
    from rolin.model.moments import Moments

__all__ = ["check_same_features", "subtracted"]

# Rounding errors may make a sum of squares negative by this share of what was subtracted from.
_NEGATIVE = 1e-9


def check_same_features(a: int, b: int) -> None:
    """Reject moments of different numbers of features."""
    if a != b:
        raise MergeError(f"moments of {a} features cannot be combined with moments of {b} features")


def subtracted(whole: Moments, part: Moments) -> Moments:
    """Return the evidence that is left of a whole without a part of it."""
    check_same_features(whole.n_features, part.n_features)
    slope_moments.check_same_slopes(whole.slopes, part.slopes)
    index = ArmIndex(whole.arms)
    rows = np.array([index.row_of.get(name, 0) for name in part.arms], np.int64)
    if rows.size and rows.min() == 0:
        name = part.arms[int(rows.argmin())]
        raise MergeError(
            f"arm {name!r} is in the subtracted moments, but not in those they are subtracted from"
        )
    mine = rows - 1
    total, taken = whole.weight[mine], part.weight
    left = total - taken
    # Sums of n numbers in different order differ by about √n rounding errors.
    error = 4.0 * float(np.finfo(float).eps) * max(16.0, whole.count**0.5)
    rounding = error * total
    if left.size and np.min(left + rounding) < 0:
        worst = int(np.argmin(left))
        raise MergeError(
            f"arm {part.arms[worst]!r} has weight {total[worst]:g}, from which "
            f"{taken[worst]:g} cannot be subtracted"
        )
    gone = left <= rounding
    left[gone] = 0.0
    # The remaining part b of c = a + b:  x̄_b = x̄_c + (x̄_c - x̄_a) H_a/H_b
    ratio = np.divide(taken, left, out=np.zeros_like(left), where=~gone)
    from_taken = whole.mean_context[mine] - part.mean_context
    r_from_taken = whole.mean_reward[mine] - part.mean_reward
    gain = taken * (1.0 + ratio)  # H_a H_b/(H_a + H_b) in units of x̄_c - x̄_a
    gain[gone] = 0.0
    before = np.append(np.diag(whole.scatter), whole.reward_scatter)
    apart = np.column_stack([from_taken, r_from_taken])[gone]
    sizes = np.column_stack([whole.mean_context, whole.mean_reward])[mine][gone]
    if (taken[gone] @ apart**2 > _NEGATIVE * before + 1e-20 * (taken[gone] @ sizes**2)).any():
        raise MergeError("the subtracted moments were never part of these moments")
    weight, context = whole.weight.copy(), whole.mean_context.copy()
    reward = whole.mean_reward.copy()
    weight[mine] = left
    context[mine] += ratio[:, None] * from_taken
    reward[mine] += ratio * r_from_taken
    keep = weight > 0.0
    count = whole.count - part.count
    if not keep.any():
        if count != 0:
            raise MergeError("the subtracted moments were never part of these moments")
        return whole.zero(whole.n_features, slopes=whole.slopes)
    gdx = gain[:, None] * from_taken
    scatter = whole.scatter - part.scatter - gdx.T @ from_taken
    reward_scatter = whole.reward_scatter - part.reward_scatter - float(gain @ r_from_taken**2)
    after = np.append(np.diag(scatter), reward_scatter)
    # How much the rounding errors of the means may have changed the subtracted terms.
    moved = gain[:, None] * np.abs(np.column_stack([from_taken, r_from_taken]))
    sizes = np.abs(np.column_stack([whole.mean_context, whole.mean_reward]))[mine]
    rounding = 16 * np.finfo(float).eps * (moved * sizes).sum(axis=0)
    if count < 0 or (after < -_NEGATIVE * before - rounding).any():
        raise MergeError("the subtracted moments were never part of these moments")
    np.fill_diagonal(scatter, np.maximum(np.diag(scatter), 0.0))
    arm_scatter = None
    if whole.arm_scatter is not None and part.arm_scatter is not None:
        arm_scatter = whole.arm_scatter.copy()
        arm_scatter[mine] = slope_moments.taken_from(
            whole.slopes, arm_scatter[mine], part.arm_scatter, gain,
            np.column_stack([r_from_taken, from_taken]), whole.mean_context[mine], error,
        )  # fmt: skip
        arm_scatter = arm_scatter[keep]
    return replace(
        whole,
        count=count,
        sum_log_weight=whole.sum_log_weight - part.sum_log_weight,
        scatter=scatter,
        cross=whole.cross - part.cross - r_from_taken @ gdx,
        reward_scatter=max(reward_scatter, 0.0),
        arms=tuple(name for name, stays in zip(whole.arms, keep, strict=True) if stays),
        weight=weight[keep],
        mean_context=context[keep],
        mean_reward=reward[keep],
        arm_scatter=arm_scatter,
    )
