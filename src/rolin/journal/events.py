"""What a journal holds: everything that happened, in order.

A state is what folding these events gives, and nothing else: they hold the values that were
learned from, so that folding reads no clock, no file and no random number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.features import BaseFeatureMap, RecordedFeatures
from rolin.model.scales import Scales

__all__ = [
    "ArmRemoved",
    "ArmRestored",
    "Decayed",
    "Event",
    "FeatureMapChanged",
    "Lasting",
    "LoggedDecision",
    "Outcome",
    "ScalesLearned",
    "SettingsChanged",
]

Floats = NDArray[np.float64]


class LoggedDecision(NamedTuple):
    """A decision with the whole question: what was offered, and how likely each arm was."""

    id: str
    """What rewards are joined by."""
    time: float
    """When it was made, in seconds since 1970."""
    offered: tuple[Name, ...]
    """The K arms that could have been chosen."""
    given: Floats | RecordedFeatures
    """What was known of them: (K, d) contexts, or raw features."""
    chosen: tuple[int, ...]
    """Places, among those offered, of the arms that were chosen, the first one first."""
    propensities: Floats | None
    """(K,): how likely each arm was to be the first; `None` if that is not known."""
    version: int | None
    """The last event before it, which is the last that the model knew; `None` outside a journal."""
    person: str | None = None
    """Whom it was made for."""
    control: bool = False
    """Whether it belongs to the control group, for which arms are drawn uniformly."""
    imported: bool = False
    """Whether it was made elsewhere, and recorded here later."""

    @property
    def offered_contexts(self) -> Floats:
        """(K, d): the contexts of the arms that were offered."""
        return self.given.contexts() if isinstance(self.given, RecordedFeatures) else self.given

    def context_of(self, k: int) -> Floats:
        """Return the (d,) context of the arm at a place among those offered."""
        if isinstance(self.given, RecordedFeatures):
            return self.given.context(k)
        row: Floats = self.given[k]
        return row

    @property
    def raw(self) -> RecordedFeatures | None:
        """The raw features of the situation and the arms; `None` if there were only vectors."""
        return self.given if isinstance(self.given, RecordedFeatures) else None

    @property
    def arm(self) -> Name:
        """The chosen arm."""
        return self.offered[self.chosen[0]]

    @property
    def context(self) -> Floats:
        """(d,): its context."""
        return self.context_of(self.chosen[0])

    @property
    def ranking(self) -> tuple[Name, ...]:
        """The best `top_k` arms, the chosen one first."""
        return tuple(self.offered[k] for k in self.chosen)

    @property
    def contexts(self) -> Floats:
        """(top_k, d): the contexts of the ranking."""
        if isinstance(self.given, RecordedFeatures):
            return self.given.contexts_of(self.chosen)
        return self.given[list(self.chosen)]

    @property
    def propensity(self) -> float | None:
        """The probability with which the chosen arm was chosen; `None` if that is not known."""
        return None if self.propensities is None else float(self.propensities[self.chosen[0]])


class Outcome(NamedTuple):
    """What became of one arm of a decision: its reward, or that none came in time."""

    id: str
    """That of the decision."""
    time: float
    """When it came, in seconds since 1970."""
    place: int
    """Which arm of the ranking."""
    arm: Name
    context: Floats
    value: float | None
    """The reward; `None` if none came and nothing is learned."""
    weight: float = 1.0
    """How much it counts."""
    expired: bool = False
    """Whether no reward came in time, and the value is what counts instead."""


class Decayed(NamedTuple):
    """All evidence was multiplied by a factor."""

    time: float
    factor: float


class ScalesLearned(NamedTuple):
    """Scales were estimated; readers take these values and do not estimate again."""

    time: float
    scales: Scales | None
    """`None` if the evidence could not be computed with."""


class ArmRemoved(NamedTuple):
    """An arm was taken out of the game."""

    time: float
    arm: Name


class ArmRestored(NamedTuple):
    """A removed arm came back."""

    time: float
    arm: Name
    with_past: bool


class SettingsChanged(NamedTuple):
    """How decisions are made from now on, beside the policy."""

    time: float
    floor: float = 0.0
    """The least probability of every arm."""
    control_share: float = 0.0
    """Share of the control group."""
    propensities: bool = True
    """Whether they are recorded."""


class FeatureMapChanged(NamedTuple):
    """How vectors are made of raw features from now on; further features are behind those known."""

    time: float
    feature_map: BaseFeatureMap


Lasting = ArmRestored | SettingsChanged | FeatureMapChanged
"""Events that are never removed: they are about nobody, and needed for ever."""
Event = LoggedDecision | Outcome | Decayed | ScalesLearned | ArmRemoved | Lasting
