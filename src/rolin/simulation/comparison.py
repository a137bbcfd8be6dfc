"""Means, ratios and paired differences over runs, with their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import level_of
from rolin._support.distributions import student_margin
from rolin.errors import InputError

__all__ = [
    "Comparison",
    "RunEstimate",
    "compare",
    "format_interval",
    "format_number",
    "mean_over_runs",
    "ratio_over_runs",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RunEstimate:
    """A number estimated from runs, with its standard error and a confidence interval."""

    value: float
    std_error: float
    """Standard error; NaN if there is only one run."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""

    def __str__(self) -> str:
        """Return value ± standard error."""
        return f"{format_number(self.value)} ± {format_number(self.std_error, 2)}"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Paired comparison of two policies that played the same problems with the same noise and seeds."""

    difference: RunEstimate
    """Mean regret of the first policy minus mean regret of the second."""
    ratio: RunEstimate
    """Mean regret of the first policy divided by mean regret of the second."""
    wins: float
    """Share of the runs in which the first policy had less regret; a tie counts as half a win."""

    def __repr__(self) -> str:
        """Return the estimates with their standard errors, on one line."""
        return f"Comparison(difference={self.difference}, ratio={self.ratio}, wins={self.wins:.0%})"

    def __str__(self) -> str:
        """Return the estimates with their standard errors and intervals, on one line."""
        return (
            f"difference {self.difference} ({format_interval(self.difference)}), ratio {self.ratio} "
            f"({format_interval(self.ratio)}), less regret in {self.wins:.0%} of the runs"
        )


def compare(first: Floats, second: Floats, level: float = 0.95) -> Comparison:
    """Compare the regrets of two policies in the same runs.

    Parameters
    ----------
    first
        (R,) regrets of one policy.
    second
        (R,) regrets of the other policy in the same runs.
    level
        Confidence level of the intervals.
    """
    wins = np.mean(first < second) + 0.5 * np.mean(first == second)
    return Comparison(
        mean_over_runs(first - second, level), ratio_over_runs(first, second, level), float(wins)
    )


def mean_over_runs(values: Floats, level: float = 0.95) -> RunEstimate:
    """Return the mean of (R,) values, one per run, with Student's interval."""
    n = _count(values)
    std_error = float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return _with_interval(float(values.mean()), std_error, n, level)


def ratio_over_runs(numerator: Floats, denominator: Floats, level: float = 0.95) -> RunEstimate:
    """Return the ratio of two means of paired runs, with an interval by the delta method.

    Let a = mean(numerator), b = mean(denominator) and e = numerator - (a/b) denominator. The
    residuals e have mean zero, and the standard error of a/b is that of mean(e) divided by |b|.
    """
    n, mean = _count(numerator), float(denominator.mean())
    if mean == 0.0:
        return RunEstimate(math.nan, math.nan, math.nan, math.nan)
    ratio = float(numerator.mean()) / mean
    residuals = numerator - ratio * denominator
    std_error = float(residuals.std(ddof=1)) / math.sqrt(n) / abs(mean) if n > 1 else math.nan
    return _with_interval(ratio, std_error, n, level)


def format_number(value: float, digits: int = 3) -> str:
    """Return a number with this many significant digits, and never fewer than its integer part has.

    >>> format_number(1234.5), format_number(12.345), format_number(0.012345)
    ('1234', '12.3', '0.0123')
    """
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def format_interval(estimate: RunEstimate) -> str:
    """Return both ends of an interval, rounded."""
    return f"{format_number(estimate.low)} to {format_number(estimate.high)}"


def _count(runs: Floats) -> int:
    if not len(runs):
        raise InputError("the result has no runs, expected at least one")
    return len(runs)


def _with_interval(value: float, std_error: float, n: int, level: float) -> RunEstimate:
    level = level_of(level)
    if n == 1:
        return RunEstimate(value, math.nan, math.nan, math.nan)
    margin = student_margin(n - 1, level) * std_error
    return RunEstimate(value, std_error, value - margin, value + margin)
