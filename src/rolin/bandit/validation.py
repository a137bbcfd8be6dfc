"""Checks of what a bandit is given: rewards, times, past decisions, feature maps."""

from __future__ import annotations

import copy
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from rolin._support.checks import finite_number_of, first_not_finite, flag_of, share_of, text_of
from rolin.errors import InputError, ParameterError, ShapeError
from rolin.features import BaseFeatureMap
from rolin.journal.events import MODES, LoggedDecision, Mode
from rolin.journal.validation import LARGEST, check_names, weight_of
from rolin.logs.record import PastDecision
from rolin.policies import Policy, find

__all__ = [
    "check_feature_map",
    "check_past",
    "checked_shadow",
    "erase_before",
    "id_of",
    "mode_of",
    "reward_of",
    "seconds_of",
    "settings_of",
]


def settings_of(
    floor: float | None,
    control_share: float | None,
    propensities: bool | None,
    mode: Mode | None,
    share: float | None,
) -> dict[str, Any]:
    """Return the settings that were given."""
    settings: dict[str, Any] = {}
    if floor is not None:
        settings["floor"] = share_of("floor", floor)
    if control_share is not None:
        settings["control_share"] = share_of("control_share", control_share)
    if propensities is not None:
        settings["propensities"] = flag_of("propensities", propensities)
    if mode is not None:
        settings["mode"] = mode_of(mode)
    if share is not None:
        settings["share"] = share_of("share", share)
    return settings


def mode_of(mode: object) -> Mode:
    """Return a valid mode."""
    for known in MODES:
        if isinstance(mode, str) and str.__str__(mode) == known:
            return known
    raise ParameterError(
        f"mode={mode!r}, expected one of {', '.join(map(repr, MODES))}", argument="mode"
    )


def id_of(id: object) -> str:
    """Return a valid id of a decision."""
    if isinstance(id, LoggedDecision):
        raise InputError(
            f"id={id!r} is a decision, expected its id: pass decision.id", argument="id"
        )
    return text_of("id", id)


def reward_of(name: str, value: object, policy: Policy[Any]) -> float:
    """Return a reward that a policy can learn from."""
    r = finite_number_of(name, value)
    if not abs(r) <= LARGEST:
        raise InputError(
            f"{name} is {r:g}, expected at most {LARGEST:g} in absolute value", argument=name
        )
    if policy.binary and r not in (0.0, 1.0):
        raise InputError(
            f"{name}={value!r}, expected 0 or 1: {type(policy).__name__} learns from binary rewards",
            argument=name,
        )
    return r


def seconds_of(
    name: str, value: timedelta | float, error: type[InputError | ParameterError]
) -> float:
    """Return an age in seconds, at least 0."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    age = finite_number_of(name, seconds)
    if age < 0.0:
        raise error(f"{name}={value!r}, expected an age of at least 0", argument=name)
    return age


def erase_before(older_than: timedelta | datetime | float, now: float) -> float:
    """Return the time before which decisions are erased."""
    if isinstance(older_than, datetime):
        if older_than.tzinfo is None:
            raise ParameterError(f"older_than={older_than!r}, expected a datetime with a time zone")
        return (older_than - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    return math.nextafter(now - seconds_of("older_than", older_than, ParameterError), math.inf)


def check_past(past: PastDecision, policy: Policy[Any], *, has_map: bool) -> None:
    """Reject a past decision that the policy cannot learn from."""
    if not isinstance(past, PastDecision):
        raise InputError(f"{past!r}, expected a past decision")
    x, d = past.decision.offered_contexts, policy.n_features
    check_names(past.decision.offered)
    grown = has_map and x.shape[1] < d  # features added later were 0
    if x.shape[1] != d and not grown:
        raise ShapeError(f"it has {x.shape[1]} features, expected {d}, as the policy")
    if x.size and not np.abs(x).max() <= LARGEST:
        raise first_not_finite("contexts", x)
    p = past.decision.propensities
    if p is not None and not (p.shape == (len(x),) and ((p >= 0.0) & (p <= 1.0)).all()):
        raise InputError(f"propensities is {p!r}, expected {len(x)} numbers from 0 to 1")
    if p is not None and not past.decision.propensity > 0.0:  # type: ignore[operator]  # it is known
        raise InputError(
            f"the propensity of arm {past.decision.arm!r}, which was chosen, is 0, expected above 0: leave the "
            "propensities out if they are unknown"
        )
    for rank, outcome in past.outcomes.items():
        if rank not in range(len(past.decision.chosen)):
            raise InputError(
                f"it has an outcome for rank {rank}, but its ranking has "
                f"{len(past.decision.chosen)} arms"
            )
        if outcome.value is not None:
            reward_of("reward", outcome.value, policy)
        weight_of(outcome.weight)


def checked_shadow(shadow: object, policy: Policy[Any]) -> Policy[Any]:
    """Return a copy of a policy that can learn what the policy of a bandit learns."""
    if not isinstance(shadow, Policy) or type(shadow) not in find().values():
        raise ParameterError(f"policy={shadow!r}, expected a policy of rolin")
    own: Policy[Any] = copy.deepcopy(shadow)
    if policy.feature_map is not None:
        own.change_feature_map(policy.feature_map)
    if own.n_features != policy.n_features:
        raise ParameterError(
            f"the shadow has n_features={own.n_features}, expected {policy.n_features}, as the policy"
        )
    if own.binary and not policy.binary:
        raise ParameterError(
            f"{type(own).__name__} learns from binary rewards, but those of the bandit may be any number"
        )
    return own


def check_feature_map(policy: Policy[Any], feature_map: BaseFeatureMap) -> None:
    """Reject a feature map whose vectors do not have the policy's size."""
    if policy.n_features != feature_map.n_features:
        raise ParameterError(
            f"the policy has n_features={policy.n_features}, but {feature_map!r} makes vectors of "
            f"{feature_map.n_features}: expected n_features=feature_map.n_features"
        )
