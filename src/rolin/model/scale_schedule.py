"""When scales are learned: what all models share that estimate them from their evidence."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from rolin.model.estimation_task import EstimationTask
from rolin.model.scales import Scales

__all__ = [
    "FIRST_ESTIMATE",
    "FIRST_ESTIMATE_OF_SLOPES",
    "MAX_HISTORY",
    "LearnsScales",
    "ScaleEvent",
    "least_with_slopes",
    "until_next",
]

# Scales are first estimated after this many rewards. They are estimated again after as many new rewards, or after the
# share _SHARE of all remembered rewards if that is more: 14 times in 3000 rewards, 28 times in 10⁶.
FIRST_ESTIMATE = 10
_SHARE = 0.5
# If slope_std is learned, scales are first estimated after this many rewards, because nothing is learned until then.
# From then on the share _SHARE decides: after 6, 9, 13, 19 and 28 rewards. In the problems of docs/how-to/arms.md, the regret
# is up to 5 % lower than with a first estimate after 10 rewards (measured with uniform choices until then).
FIRST_ESTIMATE_OF_SLOPES = 4
MAX_HISTORY = 256
"""The history holds the latest events only."""


class ScaleEvent(NamedTuple):
    """Scales that were learned, and when."""

    seen: int
    """Number of rewards at that time."""
    scales: Scales
    """The scales from then on."""


def until_next(remembered: float, *, is_urgent: bool = False, least: int = FIRST_ESTIMATE) -> int:
    """Return after how many rewards the scales are estimated again, at least `least`, given how many are remembered."""
    return max(least, 0 if is_urgent else int(_SHARE * remembered))


def least_with_slopes(seen: int, *, is_urgent: bool = False) -> int:
    """Return `least` if slope_std is learned, given the number of all rewards.

    It is at most the usual number, so that a policy that forgets does not estimate its scales more often. `is_urgent` says
    that there is no estimate yet.
    """
    least = min(max(int(_SHARE * seen), 1), FIRST_ESTIMATE)
    return max(least, FIRST_ESTIMATE_OF_SLOPES - seen) if is_urgent else least


class LearnsScales:
    """A model that learns its scales: at once when they are due, or by events of a journal."""

    n_features: int
    _due: float
    """The number of rewards at which scales are estimated next."""
    _learns_when_due = True

    @property
    @abstractmethod
    def _seen(self) -> int:
        """The number of rewards, without decay."""

    @abstractmethod
    def estimation_task(self, *, roughly: bool = False) -> EstimationTask:
        """Return `estimate_scales` as a task, which can run in another thread while this model learns.

        It holds copies. Give what it returns to `settle`; no other scales may be settled in between.
        """

    @abstractmethod
    def settle(self, scales: Scales | None) -> None:
        """Use estimated scales (`None` for the current ones) until the next estimate is due."""

    def wait_for_scales(self) -> None:
        """Do not estimate scales when they are due; wait until `settle` is called with them.

        A journal records the estimated scales as values, so whoever folds its events must not estimate them again.
        """
        self._learns_when_due = False

    def learn_scales_when_due(self) -> None:
        """Estimate the scales whenever they are due, which is the default; ends `wait_for_scales`."""
        self._learns_when_due = True

    @property
    def is_due(self) -> bool:
        """Whether the scales should be estimated again."""
        return self._seen >= self._due

    def learn_scales(self, *, roughly: bool = False) -> None:
        """Estimate the scales from all evidence, and recompute the posterior with them."""
        self.settle(self.estimate_scales(roughly=roughly))

    def estimate_scales(self, *, roughly: bool = False) -> Scales | None:
        """Return the scales estimated from all evidence, or `None`, usually with a warning, if that is not possible.

        `roughly` is faster with slopes, for estimates that come again and again.
        """
        return self.estimation_task(roughly=roughly).run()
