"""Estimators of the value of a policy from the decisions of another one, with standard errors.

Let w = π(a|x)/p be the policy's probability of the chosen arm over the logged one, and q(x, a) a model
of the reward (Dudík et al. 2014, *Doubly Robust Policy Evaluation and Optimization*):

    IPS      mean of w r
    SNIPS    sum of w r over sum of w
    clipped  mean of min(w, c) r
    DM       mean of Σ_a π(a|x) q(x, a)
    DR       mean of Σ_a π(a|x) q(x, a) + w (r - q(x, a_logged)), q fitted to other decisions

A standard error is that of the mean of independent terms: one per decision, or one per person if the log has people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.distributions import student_margin

__all__ = [
    "Estimate",
    "Terms",
    "estimate_of",
    "groups_of",
    "ratio_of",
    "standard_error",
    "weighted_mean",
]

Floats = NDArray[np.float64]


class Terms(NamedTuple):
    """An estimate with the term of each decision, from which its variance follows."""

    value: float
    each: Floats
    """(n,): centered terms, whose mean has the variance of the estimate."""
    extra_variance: float = 0.0
    """Variance of the value in addition to that of the terms."""


class Estimate(NamedTuple):
    """The estimated reward per decision of a policy, by one method."""

    method: str
    value: float
    std_error: float
    low: float
    high: float
    """Ends of the interval."""
    gain: float
    """Difference to the mean reward that was logged."""
    gain_low: float
    gain_high: float
    effective_n: float
    """Number of decisions of the policy itself that would be as informative (Kish); NaN for DM."""


def groups_of(people: Sequence[str | None] | None, n: int) -> NDArray[np.int64]:
    """Return a group number for each decision: the same for all decisions of one person."""
    if people is None:
        return np.arange(n)
    numbers: dict[object, int] = {}
    keys = [(i,) if person is None else person for i, person in enumerate(people)]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def standard_error(each: Floats, groups: NDArray[np.int64]) -> tuple[float, int]:
    """Return the standard error of the mean of terms, and the number of independent groups."""
    n = len(each)
    sums = np.bincount(groups, weights=each)
    k = len(sums)
    if k < 2:
        return float("nan"), k
    return float(np.sqrt((sums**2).sum() * k / (k - 1)) / n), k


def estimate_of(
    method: str,
    terms: Terms,
    logged: Terms,
    groups: NDArray[np.int64],
    level: float,
    effective_n: float,
) -> Estimate:
    """Return an estimate with its interval, and its gain over the log with a paired interval."""
    error, k = standard_error(terms.each, groups)
    error = float(np.hypot(error, np.sqrt(terms.extra_variance)))
    paired, _ = standard_error(terms.each - logged.each, groups)
    paired = float(np.hypot(paired, np.sqrt(terms.extra_variance)))
    reach = student_margin(max(k - 1, 1), level)
    gain = terms.value - logged.value
    return Estimate(
        method, terms.value, error, terms.value - reach * error, terms.value + reach * error,
        gain, gain - reach * paired, gain + reach * paired, effective_n,
    )  # fmt: skip


def weighted_mean(values: Floats, weights: Floats) -> Terms:
    """Return a weighted mean. The weights must have mean 1."""
    value = float((weights * values).mean())
    return Terms(value, weights * (values - value))


def ratio_of(above: Floats, below: Floats, weights: Floats) -> Terms:
    """Return the ratio of two weighted means, with terms by the delta method."""
    total = float((weights * below).mean())
    value = float((weights * above).mean()) / total
    return Terms(value, weights * (above - value * below) / total)
