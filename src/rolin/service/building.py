"""From the configuration of a bandit to its policy and feature map."""

from __future__ import annotations

import json
from typing import Any

from rolin.errors import InputError
from rolin.features import BaseFeatureMap, FeatureMap, HashedFeatures, from_json
from rolin.features.fields import KINDS, field_from_dict
from rolin.policies import Policy, find
from rolin.service.errors import Refusal
from rolin.service.schema import BanditConfig

__all__ = ["feature_map_of", "policy_of"]


def feature_map_of(given: dict[str, Any]) -> BaseFeatureMap | None:
    """Return the feature map that a configuration describes; `None` if contexts are vectors.

    Parameters
    ----------
    given
        `{"kind": "hashed"}`, `{"kind": "vectors", "n_features": 10}`, `{"kind": "map", "situation": …, "arm": …}`, or
        the JSON of a saved map.
    """
    if "rolin-features" in given:
        return from_json(json.dumps(given), "features")
    options = dict(given)
    kind = options.pop("kind", None)
    try:
        if kind == "hashed":
            return HashedFeatures(**options)
        if kind == "map":
            for side in ("situation", "arm"):
                options[side] = {
                    name: _field(f"features.{side}.{name}", field)
                    for name, field in dict(options.get(side) or {}).items()
                }
            return FeatureMap(**options)
        if kind == "vectors":
            _n_features_of(given)
            return None
    except TypeError as error:  # an option that does not exist
        raise Refusal(400, f"{error}", field="features") from error
    raise Refusal(
        400,
        f'features has the kind {kind!r}, expected "hashed", "map" or "vectors"',
        field="features.kind",
    )


def _field(where: str, given: Any) -> Any:
    if not isinstance(given, dict) or given.get("kind") not in KINDS:
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
    if type(d) is not int or not 0 <= d <= 100_000 or set(given) != {"kind", "n_features"}:
        raise Refusal(
            400,
            'vectors need their number of features, expected {"kind": "vectors", "n_features": 10}',
            field="features",
        )
    return d


def policy_of(config: BanditConfig, feature_map: BaseFeatureMap | None) -> Policy[Any]:
    """Return the policy of a new bandit."""
    kinds: dict[str, Any] = dict(find())
    if config.policy not in kinds:
        raise Refusal(
            400,
            f"there is no policy {config.policy!r}, expected one of {', '.join(sorted(kinds))}",
            field="policy",
        )
    d = _n_features_of(config.features) if feature_map is None else feature_map.n_features
    if "n_features" in config.options:
        raise Refusal(
            400,
            "n_features follows from the features, expected no such option",
            field="options.n_features",
        )
    try:
        policy: Policy[Any] = kinds[config.policy](n_features=d, **config.options)
    except TypeError as error:  # an option that does not exist
        raise Refusal(400, str(error), field="options") from error
    except InputError as error:
        raise Refusal(400, str(error), field="options") from error
    return policy
