"""The calls of a bandit as values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from rolin._support.arms import Name
from rolin.features import BaseFeatureMap
from rolin.journal.base import Waiting
from rolin.journal.events import LoggedDecision
from rolin.logs.record import PastDecision

__all__ = [
    "Activate",
    "Change",
    "ChangeFeatureMap",
    "ChangeSettings",
    "Decay",
    "Expire",
    "ImportDecisions",
    "LearnScales",
    "RecordDecisions",
    "RecordRewards",
    "RemoveArm",
    "Request",
    "RestoreArm",
    "Reward",
]


class RecordDecisions(NamedTuple):
    """Record decisions that were just made; the answer is the decisions as they are stored."""

    decisions: Sequence[LoggedDecision]
    stored: Collection[int]
    """Indices of decisions that were read from the journal and need not be written."""
    given_ids: Collection[str]
    """Ids chosen by the caller: another thread or process may have stored one of them meanwhile."""


class Reward(NamedTuple):
    """The reward of one arm of a decision."""

    id: str
    value: float
    arm: Name | None
    """One arm of the ranking; by default the first."""
    weight: float
    reward_id: str | None = None
    """The caller's own id; rewards with ids add up."""


class RecordRewards(NamedTuple):
    """Record rewards, all of them or none."""

    rewards: Sequence[Reward]
    time: float


class Activate(NamedTuple):
    """Activate a decision, and learn from the rewards that came before."""

    id: str
    time: float


class Expire(NamedTuple):
    """Close arms that have waited too long; the answer is the last one looked at and how many were closed."""

    before: float
    """Close arms that were chosen before this time."""
    limit: int
    """Number of arms to close in one transaction."""
    after: Waiting | None
    """The last arm that was looked at before; `None` to begin with the oldest."""
    value: float | None
    """The default reward; `None` to learn nothing."""
    time: float


class ImportDecisions(NamedTuple):
    """Record past decisions with their outcomes; the answer is how many were new."""

    past: Sequence[PastDecision]


Request = RecordDecisions | RecordRewards | Activate | Expire | ImportDecisions


class RemoveArm(NamedTuple):
    """Remove an arm."""

    arm: Name


class RestoreArm(NamedTuple):
    """Restore a removed arm."""

    arm: Name
    with_past: bool


class Decay(NamedTuple):
    """Multiply all evidence by a factor."""

    factor: float


class LearnScales(NamedTuple):
    """Estimate the scales from all evidence."""


class ChangeFeatureMap(NamedTuple):
    """Use another feature map from now on."""

    feature_map: BaseFeatureMap


class ChangeSettings(NamedTuple):
    """Use other settings from now on; those not given stay as they are."""

    given: Mapping[str, Any]


Change = RemoveArm | RestoreArm | Decay | LearnScales | ChangeFeatureMap | ChangeSettings
