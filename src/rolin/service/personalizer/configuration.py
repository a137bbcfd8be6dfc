"""The settings of a bandit under Personalizer's names."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from rolin.service import schema
from rolin.service.errors import Refusal
from rolin.service.personalizer.schema import (
    LearningMode,
    PolicyContract,
    ServiceConfiguration,
    ServiceConfigurationChange,
)

__all__ = [
    "FIRST_REWARDS",
    "FIRST_SETTINGS",
    "change_of",
    "configuration_of",
    "duration_of",
    "duration_text",
    "exploration_change",
    "policy_contract",
]

_MOST_ACTIONS = 50  # of Personalizer; here there may be more

FIRST_REWARDS = schema.RewardChange(window=600.0, default=0.0)
"""What became of rewards in a new Personalizer resource: ten minutes, and then 0."""
FIRST_SETTINGS = schema.Settings(floor=0.002)
"""A new Personalizer resource explored in a share of all events. Here the policy explores where it pays, and the floor keeps
every probability above 0: without it, a log says nothing of the arms that are no longer tried."""

_AGGREGATIONS: dict[str, Literal["earliest", "sum"]] = {"first": "earliest", "sum": "sum"}
_MODES: dict[str, LearningMode] = {
    "online": "Online", "apprentice": "Apprentice", "stopped": "LoggingOnly",
}  # fmt: skip
_DAY = 86400.0
_MOST_DAYS = 36_500


def configuration_of(info: schema.BanditInfo) -> ServiceConfiguration:
    """Return the settings of a bandit as Personalizer names them."""
    rewards, retention, settings = info.config.rewards, info.config.retention, info.settings
    assert settings.mode is not UNSET
    assert settings.floor is not UNSET
    return ServiceConfiguration(
        reward_wait_time=duration_text(rewards.window if rewards.window is not None else 2 * _DAY),
        default_reward=rewards.default if rewards.default is not None else 0.0,
        reward_aggregation=_AGGREGATIONS[rewards.rule],
        exploration_percentage=min(1.0, settings.floor * _MOST_ACTIONS),
        model_export_frequency="PT0S",  # every reward is learned at once
        log_retention_days=-1 if retention is None else math.ceil(retention / _DAY),
        learning_mode=_MODES[settings.mode],
    )


def change_of(given: ServiceConfigurationChange, now: ServiceConfiguration) -> schema.BanditChange:
    """Return the change that Personalizer's settings mean; callers send all of them back, most as they are.

    Parameters
    ----------
    given
        The settings that were sent.
    now
        The settings that the caller would read.
    """
    rewards, settings = schema.RewardChange(), schema.Settings()
    change = schema.BanditChange(settings, rewards)
    if given.reward_wait_time is not UNSET:
        rewards.window = duration_of("rewardWaitTime", given.reward_wait_time)
    if given.default_reward is not UNSET:
        rewards.default = given.default_reward
    if given.reward_aggregation not in (UNSET, now.reward_aggregation):
        rules = {name: rule for rule, name in _AGGREGATIONS.items()}
        if given.reward_aggregation not in rules:
            raise _bad("rewardAggregation", given.reward_aggregation, "earliest or sum")
        rewards.rule = rules[given.reward_aggregation]  # type: ignore[assignment]
    if given.exploration_percentage not in (UNSET, now.exploration_percentage):
        settings.floor = given.exploration_percentage / _MOST_ACTIONS
    if given.model_export_frequency is not UNSET:  # never slower than was asked for
        duration_of("modelExportFrequency", given.model_export_frequency, least=0.0)
    if given.log_retention_days not in (UNSET, now.log_retention_days):
        days = int(given.log_retention_days)
        if days != -1 and not 1 <= days <= _MOST_DAYS:
            raise _bad(
                "logRetentionDays", days, f"1 to {_MOST_DAYS} days, or -1 to keep everything"
            )
        change.retention = None if days == -1 else days * _DAY
    if given.learning_mode not in (UNSET, None, now.learning_mode):
        modes = {name: mode for mode, name in _MODES.items()}
        settings.mode = modes[given.learning_mode]  # type: ignore[assignment]
    for name, value in (
        ("logMirrorEnabled", given.log_mirror_enabled),
        ("isAutoOptimizationEnabled", given.is_auto_optimization_enabled),
    ):
        if value is True:
            raise _bad(name, True, "false: there is no such feature")
    return change


def _bad(name: str, given: object, expected: str) -> Refusal:
    return Refusal(400, f"{name} is {given!r}, expected {expected}", field=name)


_DURATION = re.compile(
    r"P(?:([0-9]+(?:\.[0-9]+)?)D)?(?:T(?:([0-9]+(?:\.[0-9]+)?)H)?(?:([0-9]+(?:\.[0-9]+)?)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)


def duration_of(name: str, text: str, least: float = 1e-3) -> float:
    """Return the seconds of an ISO 8601 duration in days, hours, minutes and seconds.

    >>> duration_of("rewardWaitTime", "PT10M"), duration_of("rewardWaitTime", "P1DT1.5S")
    (600.0, 86401.5)
    """
    found = _DURATION.fullmatch(text) if len(text) <= 100 and any(map(str.isdigit, text)) else None
    parts = zip(found.groups(), (_DAY, 3600.0, 60.0, 1.0), strict=True) if found else ()
    seconds = sum(float(number) * unit for number, unit in parts if number)
    if found is None or text.endswith("T") or not least <= seconds <= 1e12:
        raise _bad(name, text, "a duration such as PT10M or P2D")
    return seconds


def duration_text(seconds: float) -> str:
    """Return an ISO 8601 duration.

    >>> duration_text(600.0), duration_text(86401.5), duration_text(0.0)
    ('PT10M', 'P1DT1.5S', 'PT0S')
    """
    days, rest = divmod(seconds, _DAY)
    hours, rest = divmod(rest, 3600.0)
    minutes, rest = divmod(rest, 60.0)
    date = f"{days:.0f}D" if days else ""
    parts = ((hours, "H"), (minutes, "M"), (round(rest, 6), "S"))
    time = "".join(f"{n:.6f}".rstrip("0").rstrip(".") + unit for n, unit in parts if n)
    return f"P{date}T{time}" if time else f"P{date}" if date else "PT0S"


def policy_contract(info: schema.BanditInfo) -> PolicyContract:
    """Return the policy of a bandit."""
    return PolicyContract(info.config.policy, json.dumps(_arguments(info)))


def _arguments(info: schema.BanditInfo) -> dict[str, Any]:
    options = dict(info.config.options)
    if info.settings.exploration is not UNSET:
        options["exploration"] = info.settings.exploration
    return options


def exploration_change(given: PolicyContract, info: schema.BanditInfo) -> schema.BanditChange:
    """Return the change that a policy contract means. Of a policy, only its exploration can be changed.

    Parameters
    ----------
    given
        The policy that was sent.
    info
        The bandit as it is.
    """
    now = _arguments(info)
    try:
        new = json.loads(given.arguments)
    except (ValueError, RecursionError):
        new = None
    changed = (
        {key for key in {*new, *now} if new.get(key) != now.get(key)}
        if isinstance(new, dict)
        else {"arguments"}
    )
    if given.name != info.config.policy or changed - {"exploration"}:
        raise Refusal(
            400,
            f"the policy is {given.name} with {given.arguments}, expected {info.config.policy} with "
            f"{json.dumps(now)}, where only exploration can be changed; for another policy, create another bandit",
            field="arguments" if given.name == info.config.policy else "name",
        )
    if not changed:
        return schema.BanditChange()
    exploration = msgspec.convert(new.get("exploration", "auto"), float | Literal["auto"])
    return schema.BanditChange(schema.Settings(exploration=exploration))
