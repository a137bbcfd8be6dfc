"""Means, ratios and paired differences, with their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import number_of
from rolin.errors import InputError, ParameterError

__all__ = ["Comparison", "Estimate", "compare", "mean_of", "ratio_of", "rounded"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number that runs gave, with its standard error and an interval."""

    value: float
    std_error: float
    """Standard error; NaN from a single run."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""

    def __str__(self) -> str:
        """Return value ± standard error."""
        return f"{rounded(self.value)} ± {rounded(self.std_error, 2)}"


@dataclass(frozen=True)
class Comparison:
    """Two policies that met the same problems, noise and random numbers."""

    difference: Estimate
    """Mean of the first minus mean of the second."""
    ratio: Estimate
    """Mean of the first over mean of the second."""
    wins: float
    """Share of the runs in which the first had less regret (ties count half)."""


def compare(first: Floats, second: Floats, level: float = 0.95) -> Comparison:
    """Compare two sets of paired runs.

    Parameters
    ----------
    first
        (R,) regrets.
    second
        (R,) regrets of the same runs.
    level
        Probability with which the intervals hold the truth.
    """
    won = np.mean(first < second) + 0.5 * np.mean(first == second)
    return Comparison(mean_of(first - second, level), ratio_of(first, second, level), float(won))


def mean_of(values: Floats, level: float = 0.95) -> Estimate:
    """Return the mean of runs, with Student's interval."""
    n = _count(values)
    std_error = float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return _interval(float(values.mean()), std_error, n, level)


def ratio_of(above: Floats, below: Floats, level: float = 0.95) -> Estimate:
    """Return the ratio of two means of paired runs, by the delta method.

    With a = mean(above), b = mean(below) and the residuals e = above - (a/b) below, which have mean
    zero, the standard error of a/b is that of mean(e) over |b|.
    """
    n, mean = _count(above), float(below.mean())
    if mean == 0.0:
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    ratio = float(above.mean()) / mean
    rest = above - ratio * below
    std_error = float(rest.std(ddof=1)) / math.sqrt(n) / abs(mean) if n > 1 else math.nan
    return _interval(ratio, std_error, n, level)


def rounded(value: float, digits: int = 3) -> str:
    """Return a number with so many digits, or more where they stand before the point.

    >>> rounded(1234.5), rounded(12.345), rounded(0.012345)
    ('1234', '12.3', '0.0123')
    """
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def _count(runs: Floats) -> int:
    if not len(runs):
        raise InputError("no runs were given, expected at least one")
    return len(runs)


def _interval(value: float, std_error: float, n: int, level: float) -> Estimate:
    level = number_of("level", level, ParameterError)
    if not 0.0 < level < 1.0:
        raise ParameterError(f"level={level!r}, expected a number between 0 and 1")
    if n == 1:
        return Estimate(value, math.nan, math.nan, math.nan)
    from scipy.special import stdtrit  # 0.1 s to import, and only simulations need it

    margin = float(stdtrit(n - 1, 0.5 + level / 2)) * std_error
    return Estimate(value, std_error, value - margin, value + margin)
