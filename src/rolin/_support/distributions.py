"""Quantiles and tail probabilities; SciPy is imported when they are first needed, which takes 0.1 s."""

from __future__ import annotations

__all__ = ["chi2_tail", "normal_tail", "student_margin"]


def student_margin(freedom: float, level: float) -> float:
    """Return the half width, in standard errors, of a two-sided Student interval.

    >>> round(student_margin(1e9, 0.95), 3)
    1.96
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + 0.5 * level))


def chi2_tail(freedom: float, value: float) -> float:
    """Return the probability that a χ² variable exceeds a value."""
    from scipy.special import chdtrc

    return float(chdtrc(freedom, value))


def normal_tail(value: float) -> float:
    """Return the probability that a standard normal variable exceeds a value."""
    from scipy.special import ndtr

    return float(ndtr(-value))
