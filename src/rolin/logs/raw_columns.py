"""Which columns of a table are raw features: of the arm, and of the situation."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, NamedTuple

from rolin.errors import DataError
from rolin.features import BaseFeatureMap, FeatureMap
from rolin.features.base import ARM
from rolin.journal.validation import listed

__all__ = ["RawColumns", "raw_columns", "require"]


def require(where: str, columns: dict[str, list[Any]], names: Sequence[str]) -> None:
    """Refuse a table without these columns."""
    for name in names:
        if name not in columns:
            raise DataError(f"{where} has no column {name!r}, only {', '.join(map(repr, columns))}")


class RawColumns(NamedTuple):
    """How raw features are read."""

    features: BaseFeatureMap
    arm: Sequence[str]
    """Columns of the arm's."""
    situation: Sequence[str]
    """Columns of the situation's."""


def raw_columns(
    where: str,
    columns: dict[str, list[Any]],
    feature_map: BaseFeatureMap,
    features: Sequence[str] | None,
    situation: Sequence[str] | None,
    taken: Set[str],
) -> RawColumns:
    """Return the columns of raw features of the arm and of the situation."""
    given = [
        name
        for what, names in (("features", features), ("situation", situation))
        for name in (() if names is None else listed(what, names))
    ]
    require(where, columns, given)
    sides: list[Sequence[str]] = [features or (), situation or ()]
    if isinstance(feature_map, FeatureMap):
        # a column may hold the objects in which fields are
        fields = [
            {name for field in side for name in (field, field.split(".")[0]) if name in columns}
            for side in (feature_map.arm, feature_map.situation)
        ]
        for i, chosen in enumerate((features, situation)):
            if chosen is None:
                sides[i] = [name for name in columns if name in fields[i]]
        for name in columns:
            if name in given:
                continue
            if name in sides[0] and name in sides[1]:
                raise DataError(
                    f"{where} has a column {name!r}, and so have situation and arm of the map: say which it is, by "
                    "features=[…] and situation=[…]"
                )
            if name in taken and (name in sides[0] or name in sides[1]):
                raise DataError(
                    f"{where} has a column {name!r}, which is not a feature unless features=[…] or situation=[…] "
                    "says so"
                )
    known = isinstance(feature_map, FeatureMap) and set(feature_map.arm) <= {ARM}
    if not sides[0] and not sides[1] and features is None and situation is None and not known:
        raise DataError(
            f"{where} has no column that is a field of {feature_map!r}; say which ones are, by features=[…] and "
            f"situation=[…]; there are {', '.join(map(repr, columns))}"
        )
    return RawColumns(feature_map, *sides)
