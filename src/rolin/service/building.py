"""From the configuration of a bandit to its policy and feature map."""

from __future__ import annotations

import json
import re
from typing import Any

from rolin.bandit import Bandit
from rolin.bandit.validation import reward_of, seconds_of
from rolin.errors import InputError, RolinError, Unsupported
from rolin.features import BaseFeatureMap, FeatureMap, HashedFeatures, from_json
from rolin.features.fields import KINDS, field_from_dict
from rolin.policies import Policy, find
from rolin.service.errors import Refusal
from rolin.service.places import SETTINGS, refusal_at
from rolin.service.schema import BanditConfig, RewardRules

__all__ = ["change_settings", "check_rewards", "feature_map_of", "n_features_of", "policy_of"]

_MAX_FEATURES = 5000  # a model has a matrix of as many rows and columns: 200 MB
_LEAST_RETENTION = 1.0  # seconds


def feature_map_of(given: dict[str, Any]) -> BaseFeatureMap | None:
    """Return the feature map that a configuration describes; `None` if contexts are vectors.

    Parameters
    ----------
    given
        `{"kind": "hashed"}`, `{"kind": "vectors", "n_features": 10}`, `{"kind": "map", "situation": …, "arm": …}`, or
        the JSON of a saved map.
    """
    try:
        return _feature_map_of(given)
    except Refusal:
        raise
    except RolinError as error:
        raise refusal_at(error, "features") from error


def _feature_map_of(given: dict[str, Any]) -> BaseFeatureMap | None:
    if "rolin-features" in given:
        return from_json(json.dumps(given), "features")
    options = dict(given)
    kind = options.pop("kind", None)
    try:
        if kind == "hashed":
            return HashedFeatures(**options)
        if kind == "map":
            for side in ("situation", "arm"):
                options[side] = _fields(f"features.{side}", options.get(side) or {})
            return FeatureMap(**options)
        if kind == "vectors":
            _n_features_of(given)
            return None
    except TypeError as error:  # an option that does not exist
        raise Refusal(400, _plain(error), field="features") from error
    raise Refusal(
        400,
        f'features has the kind {kind!r}, expected "hashed", "map" or "vectors"',
        field="features.kind",
    )


def _fields(where: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise Refusal(400, f"it is {given!r}, expected an object of fields", field=where)
    return {name: _field(f"{where}.{name}", field) for name, field in given.items()}


def _field(where: str, given: Any) -> Any:
    if not isinstance(given, dict) or given.get("kind") not in list(KINDS):
        raise Refusal(
            400,
            f"it is {given!r}, expected an object with a kind: {', '.join(KINDS)}",
            field=where,
        )
    try:
        return field_from_dict(given)
    except (InputError, TypeError) as error:
        raise Refusal(400, str(error), field=where) from error


def _n_features_of(given: dict[str, Any]) -> int:
    d = given.get("n_features")
    if type(d) is not int or d < 0 or set(given) != {"kind", "n_features"}:
        raise Refusal(
            400,
            'vectors need their number of features, expected {"kind": "vectors", "n_features": 10}',
            field="features",
        )
    return d


def n_features_of(config: BanditConfig, feature_map: BaseFeatureMap | None) -> int:
    """Return the number of features of a new bandit."""
    d = _n_features_of(config.features) if feature_map is None else feature_map.n_features
    if d > _MAX_FEATURES:
        raise Refusal(
            400, f"there are {d} features, expected at most {_MAX_FEATURES}", field="features"
        )
    return d


def policy_of(
    name: str, options: dict[str, Any], n_features: int, feature_map: BaseFeatureMap | None
) -> Policy[Any]:
    """Return a new policy by its name; `slopes` may be the names of fields of the feature map."""
    kinds: dict[str, Any] = dict(find())
    if name not in kinds:
        raise Refusal(
            400,
            f"there is no policy {name!r}, expected one of {', '.join(sorted(kinds))}",
            field="policy",
        )
    if "n_features" in options:
        raise Refusal(
            400,
            "n_features follows from the features, expected no such option",
            field="options.n_features",
        )
    if "slopes" in options:
        options = {**options, "slopes": _slopes_of(options["slopes"], feature_map)}
    try:
        policy: Policy[Any] = kinds[name](n_features=n_features, **options)
    except (TypeError, InputError) as error:  # an option that does not exist, or its value
        raise Refusal(400, _plain(error), field="options") from error
    return policy


def _slopes_of(given: Any, feature_map: BaseFeatureMap | None) -> Any:
    """Return the columns of features with slopes, which may be given by the names of their fields."""
    if not isinstance(given, list) or all(type(each) is int for each in given):
        return given
    if not isinstance(feature_map, FeatureMap):
        raise Refusal(
            400,
            "only fields of a feature map have names, expected the indices of columns, such as [0, 2]",
            field="options.slopes",
        )
    try:
        return feature_map.indices(
            [tuple(each) if isinstance(each, list) else each for each in given]
        )
    except InputError as error:
        raise refusal_at(error, "options.slopes") from error


def _plain(error: Exception) -> str:
    """Return the message of an option that does not exist, without the name of the Python function."""
    found = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    return f"there is no option {found[1]!r}" if found else str(error)


def change_settings(bandit: Bandit[Any], given: dict[str, Any]) -> None:
    """Change settings of a bandit; an error names the setting."""
    try:
        bandit.change_settings(**given)
    except InputError as error:
        raise refusal_at(error, SETTINGS) from error
    except Unsupported as error:  # the only setting that some policies do not have
        raise refusal_at(error, "settings.exploration") from error


def check_rewards(rules: RewardRules, retention: float | None, policy: Policy[Any]) -> None:
    """Reject a default reward that the policy cannot learn from, and a retention that ends before the window."""
    try:
        if rules.default is not None:
            reward_of("default", rules.default, policy)
        if rules.window is not None:
            seconds_of("window", rules.window, InputError)
        if retention is not None:
            seconds_of("retention", retention, InputError)
            _check_retention(retention, rules.window)
    except InputError as error:
        fields = {
            "default": "rewards.default",
            "window": "rewards.window",
            "retention": "retention",
        }
        raise refusal_at(error, fields) from error


def _check_retention(retention: float, window: float | None) -> None:
    if retention < _LEAST_RETENTION:
        raise Refusal(
            400,
            f"it is {retention:g} s, expected at least {_LEAST_RETENTION:g} s",
            field="retention",
        )
    if window is None or retention < window:
        awaited = "for ever" if window is None else f"for {window:g} s"
        raise Refusal(
            400,
            f"decisions would be erased after {retention:g} s, but their rewards are awaited {awaited}, expected a "
            "retention of at least the window",
            field="retention",
        )
