"""Lift: the gain of the policy over randomized people: its control group, or those outside its share."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import level_of
from rolin._support.distributions import student_margin
from rolin._support.optional import needs
from rolin.errors import DataError, OverlapWarning, ParameterError
from rolin.offline.estimators import groups_of, standard_error, weighted_mean
from rolin.offline.log import DecisionLog, check_log

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GroupMean", "Lift", "compare_means", "lift"]

By = Literal["control", "share"]
# How the other group is called: in short, and in messages.
_OTHERS: dict[By, tuple[str, str]] = {
    "control": ("control", "the control group"),
    "share": ("baseline", "the people outside the share"),
}
# The share of the group is checked from 50 decisions on. 8 standard errors, because a few people with many
# decisions each make the share vary more than independent decisions would.
_FEW, _FAR = 50, 8.0


class GroupMean(NamedTuple):
    """The mean reward of a group."""

    value: float
    std_error: float
    """Standard error of the mean."""
    n: int
    """Number of decisions."""
    people: int
    """Number of people; a decision without a person is one of its own."""


class Lift(NamedTuple):
    """Mean rewards of the policy and of another group, and their difference."""

    policy: float
    """Mean reward of the decisions of the policy."""
    control: float
    """Mean reward of the other group: of the control group, whose arms were drawn uniformly; or by `"share"`, of the
    people outside the share, who got the baseline."""
    gain: float
    """The difference of the two."""
    low: float
    high: float
    """Ends of the interval of the gain."""
    level: float
    """Level of the interval."""
    n_policy: int
    """Number of decisions of the policy."""
    n_control: int
    """Number of decisions of the other group."""
    by: By = "control"
    """Which group the policy was compared with."""

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row and the fields as columns."""
        with needs("sim"):
            import pandas as pd
        return pd.DataFrame([self], columns=self._fields)

    def __str__(self) -> str:
        """Return the means and the gain in one line."""
        return (
            f"policy {self.policy:.4g} ({self.n_policy} decisions), {_OTHERS[self.by][0]} {self.control:.4g} "
            f"({self.n_control}): gain {self.gain:.4g} ({self.low:.4g} to {self.high:.4g}, {100 * self.level:g} %)"
        )


def lift(log: DecisionLog, *, by: By = "control", level: float = 0.95) -> Lift:
    """Compare the decisions of the policy with those of its control group, or with the baseline.

    It needs no model and no propensities, because people were assigned to the groups at random. If the share of a group
    changes over time, the groups are not comparable, and a warning says so. Decisions of neither group do not count, such
    as those of the modes `"apprentice"` and `"stopped"`.

    Parameters
    ----------
    log
        The log.
    by
        `"control"`: compare with the control group, whose arms were drawn uniformly. `"share"`: compare with the people
        outside the share of the policy, who got the baseline.
    level
        Level of the interval.
    """
    check_log(log)
    level = level_of(level)
    if not isinstance(by, str) or by not in _OTHERS:
        raise ParameterError(f"by={by!r}, expected 'control' or 'share'")
    others = log.control if by == "control" else log.outside_share
    of_policy = ~(log.control | log.baseline)
    others_name = _OTHERS[by][1]
    _check_share(others[others | of_policy], others_name)
    means = []
    for rows in (of_policy, others):
        part = log.take(rows)
        if not len(part):
            means.append(GroupMean(float("nan"), float("nan"), 0, 0))
            continue
        terms = weighted_mean(part.rewards, part.weights / part.weights.mean())
        error, groups = standard_error(terms.each, groups_of(part.people, len(part)))
        means.append(GroupMean(terms.value, error, len(part), groups))
    return compare_means(*means, by=by, level=level)


def compare_means(
    policy: GroupMean, others: GroupMean, *, by: By = "control", level: float = 0.95
) -> Lift:
    """Return the lift of two groups whose means are known.

    Parameters
    ----------
    policy
        The decisions of the policy.
    others
        Those of the other group.
    by
        Which group that is, as for `lift`.
    level
        Level of the interval.
    """
    for name, group in (("of the policy", policy), (f"of {_OTHERS[by][1]}", others)):
        if group.n < 2:
            raise DataError(f"the log has {group.n} decisions {name}, expected at least 2")
        if group.people < 2:
            raise DataError(f"all decisions {name} are for one person, expected at least 2 people")
    gain = policy.value - others.value
    variances = [group.std_error**2 for group in (policy, others)]
    freedoms = [group.people - 1 for group in (policy, others)]
    total = sum(variances)
    # Welch's degrees of freedom: near those of the group with the larger variance.
    parts = sum(v**2 / max(f, 1) for v, f in zip(variances, freedoms, strict=True))
    freedom = total**2 / parts if parts > 0.0 else min(freedoms)
    reach = student_margin(max(freedom, 1.0), level) * total**0.5
    return Lift(
        policy.value, others.value, gain, gain - reach, gain + reach, level, policy.n, others.n, by
    )


def _check_share(others: NDArray[np.bool_], name: str) -> None:
    """Warn if the share of a group differs between the halves of the log."""
    halves = np.array_split(others, 2)
    if min(len(half) for half in halves) < _FEW:
        return
    shares = [float(half.mean()) for half in halves]
    error = sum(p * (1.0 - p) / len(half) for p, half in zip(shares, halves, strict=True)) ** 0.5
    if abs(shares[0] - shares[1]) > _FAR * max(error, 1e-12):
        warnings.warn(
            f"{100 * shares[0]:.3g} % of the first half and {100 * shares[1]:.3g} % of the second belong to {name}: use "
            "only decisions from a time in which this share was constant",
            OverlapWarning,
            stacklevel=3,
        )
