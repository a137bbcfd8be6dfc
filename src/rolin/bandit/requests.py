"""The calls of a bandit as values, made of checked arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from rolin._support.arms import Name, canonical
from rolin._support.checks import as_excluded, count_of, flag_of, text_of
from rolin.bandit.question import Conditions, Question, with_checked_ids
from rolin.bandit.validation import id_of, reward_of, seconds_of
from rolin.errors import InputError
from rolin.features import BaseFeatureMap
from rolin.journal.base import Waiting
from rolin.journal.validation import weight_of
from rolin.logs.record import PastDecision
from rolin.policies import Policy

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
    "RewardStatus",
    "StartShadow",
    "StopShadow",
    "Window",
    "decide_request",
    "lenient_reward_request",
    "reward_from",
    "window_from",
]


class Decide(NamedTuple):
    """Choose an arm for every question and record the decisions; the answer is the decisions."""

    questions: Sequence[Question]
    conditions: Conditions


def decide_request(
    questions: Sequence[Question],
    top_k: int | None,
    exclude: Iterable[Name],
    active: bool,
    baseline: Name | None,
) -> Decide:
    """Return the request of checked arguments; the questions themselves are checked when they are decided."""
    conditions = Conditions.of(
        1 if top_k is None else count_of("top_k", top_k, least=1),
        as_excluded(exclude) or (),
        flag_of("active", active),
        None if baseline is None else _baseline_of(baseline),
    )
    return Decide(with_checked_ids(questions), conditions)


def _baseline_of(name: Name) -> Name:
    """Return the name of the baseline; whether it is offered is checked when a question is decided."""
    known = canonical(name)
    if type(known) not in (str, int):
        raise InputError(
            f"baseline={name!r}, expected the name of an arm: a string or an integer",
            argument="baseline",
        )
    return known


class Reward(NamedTuple):
    """The reward of one arm of a decision."""

    id: str
    value: float
    arm: Name | None
    """One arm of the ranking; by default the first."""
    weight: float
    reward_id: str | None = None
    """The caller's own id; rewards with ids add up."""


class Window(NamedTuple):
    """How long rewards are expected, and what is learned if none came."""

    before: float
    """Arms that were chosen, and early rewards that arrived, before this time have waited too long."""
    default: float | None
    """The default reward; `None` to learn nothing."""
    time: float
    """The present time."""


def window_from(
    policy: Policy[Any], name: str, age: float | timedelta, default_reward: object, now: float
) -> Window:
    """Return the window of checked arguments.

    Parameters
    ----------
    policy
        The policy that would learn the default reward.
    name
        What error messages call the age.
    age
        Age of a decision from which on no reward is expected.
    default_reward
        The reward to learn if none has arrived; `None` for none.
    now
        The present time.
    """
    seconds = seconds_of(name, age, InputError)
    default = (
        None if default_reward is None else reward_of("default_reward", default_reward, policy)
    )
    return Window(math.nextafter(now - seconds, math.inf), default, now)


def reward_from(
    policy: Policy[Any],
    id: object,
    value: object,
    arm: Name | None = None,
    weight: Any = 1.0,
    reward_id: object = None,
) -> Reward:
    """Return the reward of checked arguments."""
    r = reward_of("reward", value, policy)
    own = None if reward_id is None else text_of("reward_id", reward_id)
    reward = Reward(id_of(id), r, arm, weight_of(weight), own)
    if own is not None and reward.weight != 1.0:
        raise InputError(
            f"weight={weight!r} with reward_id, expected 1: a sum has no weight", argument="weight"
        )
    return reward


RewardStatus = Literal["learned", "recorded", "repeated", "early", "late", "conflicting"]
"""What became of a reward: see `Bandit.record_reward`."""


class RecordRewards(NamedTuple):
    """Record rewards, all of them or none; the answer is the status of each."""

    rewards: Sequence[Reward]
    time: float
    lenient: bool = False
    """Record rewards that are early, late or conflicting without learning from them, instead of raising."""
    window: Window | None = None
    """If given, the arms of these rewards are closed first if they have waited too long."""


def lenient_reward_request(
    policy: Policy[Any],
    now: float,
    reward: Reward,
    window: float | timedelta | None,
    default_reward: object,
) -> RecordRewards:
    """Return the request for a reward that may come too early, too late or twice.

    Parameters
    ----------
    policy
        The policy that would learn the default reward.
    now
        The present time.
    reward
        The reward.
    window
        Age of the decision from which on the reward is late; `None` for any age.
    default_reward
        The reward to learn if none has arrived in the window; `None` for none.
    """
    closing = None
    if window is not None:
        closing = window_from(policy, "window", window, default_reward, now)
    return RecordRewards([reward], now, lenient=True, window=closing)


class Activate(NamedTuple):
    """Activate a decision, and learn from the rewards that came before."""

    id: str
    time: float


class Expire(NamedTuple):
    """Close what has waited too long; the answer is the last one looked at and how many arms were closed."""

    window: Window
    limit: int
    """Number of arms and early rewards to close in one transaction."""
    after: Waiting | None
    """The last one that was looked at before; `None` to begin with the oldest."""


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


class StartShadow(NamedTuple):
    """Let a second policy learn from now on."""

    policy: Policy[Any]


class StopShadow(NamedTuple):
    """End the shadow."""


Change = (
    RemoveArm
    | RestoreArm
    | Decay
    | LearnScales
    | ChangeFeatureMap
    | ChangeSettings
    | StartShadow
    | StopShadow
)
