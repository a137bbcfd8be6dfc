"""The answers about a bandit: what happened, what it believes, and whether the promises hold."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from rolin.journal.events import Mode
from rolin.service.schema import BanditInfo

__all__ = [
    "ArmEstimate",
    "ArmEstimates",
    "ArmTraffic",
    "Calibration",
    "CalibrationBin",
    "Change",
    "Delay",
    "Exploration",
    "Group",
    "KeyInfo",
    "LiftAnswer",
    "OverTime",
    "Promise",
    "Reading",
    "RecentDecision",
    "RecentDecisions",
    "State",
    "Summary",
]

State = Literal["ok", "watch", "broken", "unknown"]
"""The state of a promise; `watch` if it holds, but somebody should look."""
Group = Literal["policy", "control", "baseline"]
"""Who decided."""


class KeyInfo(Struct):
    """What is known of the key of a request."""

    name: str
    scopes: list[str]


class Reading(Struct):
    """How much of the journal was read."""

    read: int
    """Number of the last event that was read."""
    last: int
    """Number of the last event."""
    first: int
    """Number of the event before the first one that was read; 0 if nothing was left out."""
    since: float | None
    """Time of the first decision that was read, in seconds since 1970."""


class ArmTraffic(Struct):
    """How often an arm was chosen over time."""

    arm: str | None
    """`null` for all other arms together."""
    decisions: list[int]


class OverTime(Struct):
    """Counts over time; all lists have one item per interval."""

    range: str
    width: float
    """Seconds of an interval."""
    times: list[float]
    """Start of each interval, in seconds since 1970; the last one is not over yet."""
    decisions: dict[str, list[int]]
    """Decisions by who decided: `policy`, `control` or `baseline`."""
    rewards: dict[str, list[int]]
    """How many of them have a reward, by who decided."""
    mean_reward: dict[str, list[float | None]]
    """Mean reward of the decisions of that time, by who decided."""
    traffic: list[ArmTraffic]
    """The arms that were chosen most often in the range, and the others together."""
    explored: list[float | None]
    """Share of the policy's decisions that chose another arm than the most probable one."""


class Exploration(Struct):
    """How much the policy explores, over all its decisions with known probabilities that were read."""

    decisions: int
    """Number of decisions."""
    top_probability: float | None
    """Mean probability of the most probable arm."""
    explored: float | None
    """Share of decisions that chose another arm."""
    arms_in_play: float | None
    """Mean of exp(entropy): 1 if one arm is certain, K if K arms are equally probable."""


class Delay(Struct):
    """How many rewards came within some time after their decision."""

    below: float | None
    """Seconds; `null` for all that took longer."""
    rewards: int


class CalibrationBin(Struct):
    """Arms with a similar probability."""

    low: float
    high: float
    offers: int
    expected: float
    """Number of choices that the probabilities predict."""
    chosen: int
    z: float | None
    """Difference in standard deviations; `null` if there are too few."""


class Calibration(Struct):
    """Whether arms are chosen as often as the recorded probabilities say."""

    state: State
    decisions: int
    z: float | None
    """Largest difference of all arms and groups, in standard deviations."""
    p_value: float
    """Probability of one this large if the probabilities are true."""
    tests: int
    """Number of arms and groups with enough decisions."""
    bins: list[CalibrationBin]


class Promise(Struct):
    """The state of something that the service promises."""

    name: str
    state: State
    text: str
    """The reason, in words."""


class Change(Struct):
    """A change of the settings."""

    time: float
    text: str


class Summary(Struct):
    """What happened in a bandit."""

    bandit: BanditInfo
    time: float
    """When it was asked, in seconds since 1970."""
    reading: Reading
    decisions: dict[str, int]
    """Decisions by who decided: `policy`, `control` or `baseline`."""
    mean_reward: dict[str, float | None]
    """Mean reward by who decided. The difference of two of them is no estimate of an effect; see `lift`."""
    n_arms: int
    """Number of arms that were offered or rewarded."""
    waiting: int
    """Arms that wait for a reward."""
    fates: dict[str, int]
    """What became of rewards: `learned`, `default` (none came in the window, the default was learned), `expired` (none
    came, nothing was learned), `not_learned` (the bandit was stopped), `late`, `conflicting`, `invalid`, `unknown`, or
    `rejected` by the policy."""
    delays: list[Delay]
    over_time: OverTime
    exploration: Exploration
    calibration: Calibration
    promises: list[Promise]
    changes: list[Change]
    """The latest changes of settings, oldest first."""


class ArmEstimate(Struct):
    """What a bandit believes of an arm."""

    arm: str
    removed: bool
    pulls: float
    """Rewards that were learned, by weight; those that were read, if the policy does not count them."""
    chosen: int
    """Decisions that chose it, of those that were read."""
    observed: float | None
    """Mean observed reward. Not causal: arms are shown in different situations."""
    mean: float | None
    """Posterior mean reward in the arm's average situation so far; `null` before its first reward."""
    low: float | None
    high: float | None
    """Ends of its interval."""
    effect: float | None
    """The arm's own effect: what the features do not explain."""
    effect_std: float | None
    shrinkage: float | None
    """0: only features count, as for a new arm; close to 1: mostly the arm's own rewards."""


class ArmEstimates(Struct):
    """A page of arms."""

    arms: list[ArmEstimate]
    total: int
    """Number of arms that fit the search."""
    level: float
    """Level of the intervals."""
    version: int
    """Number of the last event that the estimates know."""


class LiftAnswer(Struct):
    """The gain of the policy over people who were assigned to another group at random."""

    by: Literal["control", "share"]
    since: float | None
    """Only decisions since then count: the last change of the shares, or the first decision."""
    n_policy: int
    n_other: int
    """Decisions with a reward."""
    effective_n_policy: float
    effective_n_other: float
    """Effective sample size: people with equal weights that would be as informative."""
    reason: str | None = None
    """Why there is no estimate yet; `null` if there is one."""
    policy: float | None = None
    """Mean reward of the policy."""
    other: float | None = None
    """Mean reward of the other group."""
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    """Ends of the interval of the gain."""
    level: float = 0.95


class RecentDecision(Struct):
    """A decision, in short."""

    id: str
    time: float
    arm: str
    by: Group
    mode: Mode
    n_offered: int
    probability: float | None
    """Probability of the chosen arm; `null` if it was not recorded."""
    top_probability: float | None
    """Probability of the most probable arm."""
    outcome: Literal["waiting", "reward", "expired"] = "waiting"
    reward: float | None = None
    delay: float | None = None
    """Seconds from the decision to its reward."""


class RecentDecisions(Struct):
    """The latest decisions, newest first."""

    decisions: list[RecentDecision]
