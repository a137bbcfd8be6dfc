"""The part of the moments that slopes need: the scatter of each arm, for the features that arms have slopes for.

    S_i = Σ h (x_S - x̄_S,i)(r - r̄_i, x - x̄_i)'        (s, 1 + d) for every arm i

It is centered within each arm, and merged like the scatter of all arms (Chan, Golub & LeVeque 1983).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rolin.errors import MergeError, ParameterError
from rolin.model.kernels import moments as kernels
from rolin.model.scales import check_slopes

__all__ = [
    "check_arm_scatter",
    "check_same_slopes",
    "pool_arms",
    "scatter_of_arms",
    "selected",
    "slopes_below",
    "taken_from",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_CHUNK = 131_072  # numbers that are read at a time, because a log holds them in columns
# Rounding errors of sums, relative to the sums of squares that they are parts of; and how far the sums of a file may be
# from those of any observations by rounding.
_ROUNDING, _IMPOSSIBLE = 1e-9, 1e-6


def slopes_below(slopes: Iterable[int], n_features: int) -> tuple[int, ...]:
    """Return checked indices of the features with slopes, in ascending order."""
    if isinstance(slopes, tuple) and not slopes:  # the default, at once
        return ()
    found = check_slopes(slopes)
    if found and found[-1] >= n_features:
        raise ParameterError(
            f"slopes has the index {found[-1]}, expected indices below the number of features, {n_features}"
        )
    return found


def check_same_slopes(expected: Sequence[int], given: Sequence[int]) -> None:
    """Reject moments that were collected for other slopes."""
    if tuple(expected) != tuple(given):
        raise MergeError(
            f"moments with slopes={list(given)} cannot be combined with moments with slopes={list(expected)}: collect "
            "both for the same features, or select those that both have by with_slopes(…)"
        )


def scatter_of_arms(
    slopes: Sequence[int],
    codes: Rows,
    contexts: Floats,
    rewards: Floats,
    weights: Floats,
    means: Floats,
) -> Floats:
    """Return (K, s, 1 + d): S of every arm of a batch, given r̄ and x̄ of the arms, (K, 1 + d).

    This is the second of two passes, so nothing is lost if the features are far from zero.
    """
    n, (k, width) = len(codes), means.shape
    columns = np.array(slopes, dtype=np.int64)
    total = np.zeros((k, len(columns), width))
    chunk = max(_CHUNK // width, 64)
    for start in range(0, n, chunk):
        part = slice(start, min(n, start + chunk))
        kernels.add_scatter(
            contexts[part], rewards[part], weights[part], codes[part], means, columns, total
        )
    return total


def pool_arms(
    slopes: Sequence[int],
    rows: Rows,
    apart: Floats,
    scaled: Floats,
    part: Floats,
    total: Floats,
) -> None:
    """Add S of the arms of a part to the rows of a total, and what the distance of their means adds.

    Parameters
    ----------
    slopes
        Indices of the features with slopes.
    rows
        (n,): the row of each arm of the part in the total.
    apart
        (n, 1 + d): r̄ and x̄ of the part, minus those of the total.
    scaled
        (n, 1 + d): the same, times H_a H_b/(H_a + H_b).
    part
        (n, s, 1 + d): S of the part.
    total
        (K, s, 1 + d): S of the total, changed.
    """
    columns = np.array(slopes, dtype=np.int64)
    kernels.pool_scatter(rows, apart, scaled, columns, np.ascontiguousarray(part), total)


def taken_from(
    slopes: Sequence[int],
    whole: Floats,
    part: Floats,
    gain: Floats,
    apart: Floats,
    mean_context: Floats,
    error: float,
) -> Floats:
    """Return S of what is left if a part of the same arms is subtracted: the inverse of `pool_arms`.

    Parameters
    ----------
    slopes
        Indices of the features with slopes.
    whole
        (n, s, 1 + d): S of these arms.
    part
        (n, s, 1 + d): S of what is subtracted.
    gain
        (n,): H_a H_b/(H_a + H_b), in units of the square of `apart`.
    apart
        (n, 1 + d): r̄ and x̄ of the whole, minus those of the part.
    mean_context
        (n, d): x̄ of the whole.
    error
        Relative rounding error of the sums.
    """
    columns, own = np.array(slopes, dtype=np.int64), np.arange(len(slopes))
    moved = gain[:, None] * apart[:, 1 + columns]
    left: Floats = whole - part - moved[:, :, None] * apart[:, None]
    # What is left of a sum of squares may be nothing but rounding errors: of the sums, and of the means. It is zero, and
    # so is every product with it. Otherwise a ratio of two such errors would count as a slope.
    rounding = whole[:, own, 1 + columns] + np.abs(moved * mean_context[:, columns])
    nothing = left[:, own, 1 + columns] <= error * rounding
    left[nothing] = 0.0
    arms, features = np.nonzero(nothing)
    left[arms, :, 1 + columns[features]] = 0.0
    return left


def selected(have: Sequence[int], arm_scatter: Floats | None, want: Sequence[int]) -> Floats | None:
    """Return S for some of its features; `None` for no feature."""
    if missing := [j for j in want if j not in have]:
        raise MergeError(
            f"the moments have slopes={list(have)}, without feature {missing[0]}, expected slopes={list(want)}: "
            f"collect them with slopes={list(want)}"
        )
    if not want or arm_scatter is None:
        return None
    return arm_scatter[:, [list(have).index(j) for j in want]]


def check_arm_scatter(
    slopes: Sequence[int], arm_scatter: Floats, arrays: Mapping[str, NDArray[np.float64]]
) -> None:
    """Raise `ValueError` if S cannot be that of any observations with these sums.

    Parameters
    ----------
    slopes
        Indices of the features with slopes.
    arm_scatter
        (K, s, 1 + d): S of every arm.
    arrays
        `weight`, `mean_context`, `mean_reward`, `scatter`, `cross` and the `numbers` of a state file, checked.
    """
    if list(slopes) != sorted(set(slopes) & set(range(len(arrays["scatter"])))):
        raise ValueError(f"slopes is {list(slopes)[:10]}, expected ascending indices of features")
    columns, own = np.array(slopes), np.arange(len(slopes))
    squares = np.append(arrays["numbers"][2], np.diag(arrays["scatter"]))
    means = np.column_stack([arrays["mean_reward"], arrays["mean_context"]])
    # Sums in units of the standard deviations. Rounding errors are relative to the raw sums of squares.
    with np.errstate(over="ignore", invalid="ignore"):
        raw = _ROUNDING * (arrays["weight"][:, None] * means**2 + squares)  # of every arm
        unit = np.sqrt(squares + raw.sum(axis=0))
        shared = np.column_stack([arrays["cross"], arrays["scatter"]])[columns]
        apart = np.abs(arm_scatter.sum(axis=0) - shared)
        if (apart > _IMPOSSIBLE * np.outer(unit[1 + columns], unit)).any():
            raise ValueError("arm_scatter does not add up to scatter and cross")
        diagonal = arm_scatter[:, own, 1 + columns]
        if (diagonal < 0.0).any():
            raise ValueError("arm_scatter has a negative sum of squares")
        units = np.sqrt(diagonal + raw[:, 1 + columns])
        units[~(units > 0.0)] = 1.0
        between = arm_scatter[:, :, 1 + columns] / units[:, None] / units[:, :, None]
    if (np.abs(between - between.swapaxes(1, 2)) > _IMPOSSIBLE).any():
        raise ValueError("arm_scatter is not symmetric")
    between[:, own, own] += _IMPOSSIBLE * len(own)
    try:
        np.linalg.cholesky(between)
    except np.linalg.LinAlgError:
        raise ValueError(
            "arm_scatter is not positive semidefinite, as sums of squares are"
        ) from None
