"""Lift: what the policy gains over its randomised control group."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from rolin._support.checks import level_of
from rolin.errors import DataError, OverlapWarning
from rolin.offline.estimators import groups_of, mean_of, standard_error
from rolin.offline.log import DecisionLog

__all__ = ["Lift", "lift"]

_FEW, _FAR = 50, 8.0  # of people with many decisions each, a share moves more than by chance


class Lift(NamedTuple):
    """Mean rewards of two groups, and their difference."""

    policy: float
    """Mean reward where the policy chose."""
    control: float
    """Mean reward where arms were drawn uniformly."""
    gain: float
    low: float
    high: float
    """Their difference, and the ends of its interval."""
    level: float
    """Of the interval."""
    n_policy: int
    n_control: int

    def __str__(self) -> str:
        """Return it as a line."""
        return (
            f"policy {self.policy:.4g} ({self.n_policy} decisions), control {self.control:.4g} "
            f"({self.n_control}): gain {self.gain:.4g} ({self.low:.4g} to {self.high:.4g}, {100 * self.level:g} %)"
        )


def lift(log: DecisionLog, *, level: float = 0.95) -> Lift:
    """Compare the decisions of the policy with those of its control group.

    No model and no propensity is needed: who belongs to the group was drawn at random. But if the group's
    share changes, the two are not of the same time, and that is warned of.
    """
    level = level_of(level)
    _check_share(log)
    means: list[float] = []
    variances: list[float] = []
    sizes, freedoms = [], []
    for name, rows in (("of the policy", ~log.control), ("of the control group", log.control)):
        if rows.sum() < 2:
            raise DataError(f"the log has {rows.sum()} decisions {name}, expected at least 2")
        part = log.take(rows)
        terms = mean_of(part.rewards, part.weights / part.weights.mean())
        error, groups = standard_error(terms.each, groups_of(part.people, len(part)))
        if groups < 2:
            raise DataError(f"all decisions {name} are for one person, expected at least 2 people")
        means.append(terms.value)
        variances.append(error**2)
        sizes.append(len(part))
        freedoms.append(groups - 1)
    gain, total = means[0] - means[1], sum(variances)
    # Welch's degrees of freedom: those of the smaller group, if it is what makes the difference unsure.
    parts = sum(v**2 / max(f, 1) for v, f in zip(variances, freedoms, strict=True))
    freedom = total**2 / parts if parts > 0.0 else min(freedoms)
    reach = float(stdtrit(max(freedom, 1.0), 0.5 + 0.5 * level)) * total**0.5
    return Lift(means[0], means[1], gain, gain - reach, gain + reach, level, sizes[0], sizes[1])


def _check_share(log: DecisionLog) -> None:
    """Warn if the control group was larger at some time than at another."""
    halves = np.array_split(log.control, 2)
    if min(len(half) for half in halves) < _FEW:
        return
    shares = [float(half.mean()) for half in halves]
    error = sum(p * (1.0 - p) / len(half) for p, half in zip(shares, halves, strict=True)) ** 0.5
    if abs(shares[0] - shares[1]) > _FAR * max(error, 1e-12):
        warnings.warn(
            f"the control group was {100 * shares[0]:.3g} % of the first half and {100 * shares[1]:.3g} % of the "
            "second: compare decisions of a time in which its share was the same",
            OverlapWarning,
            stacklevel=3,
        )
