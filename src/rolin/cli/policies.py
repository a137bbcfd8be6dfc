"""Convert arguments of commands: names of policies, files of feature maps, treatment of missing rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rolin.errors import DataError
from rolin.features import BaseFeatureMap, load
from rolin.policies import Policy, find

__all__ = ["missing_of", "new_policy", "read_map"]


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


def missing_of(text: str) -> Any:
    """Return the value of `missing=` for the text of `--missing`."""
    if text in ("refuse", "drop"):
        return text
    try:
        return float(text)
    except ValueError:
        raise DataError(f"--missing {text}, expected refuse, drop or a number") from None
