"""Convert arguments of commands: names of policies, files of feature maps, treatment of missing rewards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rolin.cli.shared import listed_names
from rolin.errors import DataError
from rolin.features import BaseFeatureMap, FeatureMap, load
from rolin.policies import Policy, find
from rolin.policies.options import options_of

__all__ = ["missing_of", "new_policy", "read_map", "slope_options"]


def read_map(path: Path) -> BaseFeatureMap:
    """Return the feature map in a file."""
    if not path.is_file():
        raise DataError(f"there is no feature map {path}")
    return load(path)


def new_policy(name: str, n_features: int, **options: Any) -> Policy[Any]:
    """Return a new policy with default settings, so it learns its scales if it can.

    Parameters
    ----------
    name
        Name of the class, such as `RoLinTS`.
    n_features
        Number of features.
    options
        Other options of the policy.
    """
    policies: dict[str, Any] = dict(find())
    if name not in policies:
        raise DataError(
            f"there is no policy {name!r}, expected one of {', '.join(sorted(policies))}"
        )
    policy: Policy[Any] = policies[name](n_features=n_features, **options)
    return policy


def slope_options(
    slope_std: str | None,
    slopes: str | None,
    names: Sequence[str],
    feature_map: BaseFeatureMap | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the options `slope_std` and `slopes` for each of some policies; none for those without slopes.

    Parameters
    ----------
    slope_std
        The text of `--slope-std`.
    slopes
        The text of `--slopes`.
    names
        Names of the policies.
    feature_map
        The map that makes the vectors.
    """
    if slope_std is None:
        if slopes is not None:
            raise DataError(f"--slopes {slopes} without --slope-std, expected --slope-std learn")
        return {name: {} for name in names}
    options: dict[str, Any] = {"slope_std": slope_std}
    if slope_std != "learn":
        try:
            options["slope_std"] = float(slope_std)
        except ValueError:
            raise DataError(f"--slope-std {slope_std}, expected learn or a number") from None
    if slopes is not None:
        options["slopes"] = _slope_indices(slopes, feature_map)
    policies = find()  # names that are not among them are rejected when the policies are created
    known = {
        name: name in policies and "slope_std" in (options_of(policies[name]) or ())
        for name in names
    }
    if not any(known.values()):
        raise DataError(
            f"--slope-std {slope_std}, but no policy with slopes is created: {', '.join(names) or 'none at all'}"
        )
    return {name: options if has_slopes else {} for name, has_slopes in known.items()}


def _slope_indices(text: str, feature_map: BaseFeatureMap | None) -> list[int]:
    """Return the indices of features that are given by their numbers or by fields of a map."""
    given = listed_names(text) or []
    if all(name.isdecimal() for name in given):
        return [int(name) for name in given]
    if not isinstance(feature_map, FeatureMap):
        raise DataError(f"--slopes {text}, expected numbers of features: there is no map of fields")
    return feature_map.indices(given)


def missing_of(text: str) -> Any:
    """Return the value of `missing=` for the text of `--missing`."""
    if text in ("refuse", "drop"):
        return text
    try:
        return float(text)
    except ValueError:
        raise DataError(f"--missing {text}, expected refuse, drop or a number") from None
