"""When scales are learned: what all models share that estimate them from their evidence."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from rolin.model.estimation_task import EstimationTask
from rolin.model.scales import Scales

__all__ = ["FIRST_ESTIMATE", "MAX_HISTORY", "LearnsScales", "ScaleEvent", "until_next"]

# Scales are first estimated after this many rewards. They are estimated again after as many new rewards, or after the
# share _SHARE of all remembered rewards if that is more: 14 times in 3000 rewards, 28 times in 10⁶.
FIRST_ESTIMATE = 10
_SHARE = 0.5
MAX_HISTORY = 256
"""The history holds the latest events only."""


class ScaleEvent(NamedTuple):
    """Scales that were learned, and when."""

    seen: int
    """Number of rewards at that time."""
    scales: Scales
    """The scales from then on."""


def until_next(remembered: float, *, is_urgent: bool = False) -> int:
    """Return after how many rewards the scales are estimated again, given how many are remembered."""
    return max(FIRST_ESTIMATE, 0 if is_urgent else int(_SHARE * remembered))


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
