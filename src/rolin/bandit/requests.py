"""The calls of a bandit as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rolin._support.arms import Name
from rolin.bandit.question import Conditions, Question
from rolin.features import BaseFeatureMap
from rolin.journal.base import Waiting
from rolin.logs.record import PastDecision

__all__ = [
    "Activate",
    "Change",
    "ChangeFeatureMap",
    "ChangeSettings",
    "Decay",
    "Decide",
    "Expire",
    "ImportDecisions",
    "LearnScales",
    "RecordRewards",
    "RemoveArm",
    "Request",
    "RestoreArm",
    "Reward",
]


class Decide(NamedTuple):
    """Choose an arm for every question and record the decisions; the answer is the decisions."""

    questions: Sequence[Question]
    conditions: Conditions


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


Request = Decide | RecordRewards | Activate | Expire | ImportDecisions


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
