"""Find the columns of a table that hold raw features, of the arm and of the situation."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.errors import DataError, RolinError
from rolin.features import BaseFeatureMap, FeatureMap
from rolin.features.base import ARM
from rolin.features.field_error import FieldError
from rolin.journal.validation import listed
from rolin.logs.rules import BadCell, UnnamedColumns, require

__all__ = ["RawColumns", "columns_of_map", "encode_rows", "raw_columns"]

Floats = NDArray[np.float64]


class RawColumns(NamedTuple):
    """The columns of raw features, and the feature map that reads them."""

    feature_map: BaseFeatureMap
    arm: Sequence[str]
    """Columns with fields of the arm."""
    situation: Sequence[str]
    """Columns with fields of the situation."""


def raw_columns(
    columns: Sequence[str],
    feature_map: BaseFeatureMap,
    features: Sequence[str] | None,
    situation: Sequence[str] | None,
    taken: Set[str],
) -> RawColumns:
    """Return the columns of raw features of the arm and of the situation.

    Parameters
    ----------
    columns
        All columns of the table.
    feature_map
        The feature map.
    features
        Columns of the arm's features; `None` for all that the map has as fields of the arm.
    situation
        Columns of the situation's features; `None` for all that the map has as fields of the situation.
    taken
        Columns with a meaning of their own, such as the reward. They are features only if the caller names them.
    """
    given = [
        name
        for what, names in (("features", features), ("situation", situation))
        for name in (() if names is None else listed(what, names))
    ]
    require(columns, given)
    sides: list[Sequence[str]] = [features or (), situation or ()]
    if isinstance(feature_map, FeatureMap):
        # A column may also hold objects that contain the fields.
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
                raise UnnamedColumns(
                    f"column {name!r} is a field of both the situation and the arm",
                    ": say which one is meant, by features=[…] and situation=[…]",
                    columns,
                )
            if name in taken and (name in sides[0] or name in sides[1]):
                raise UnnamedColumns(
                    f"column {name!r} has a meaning of its own",
                    ", so it is not a feature unless features=[…] or situation=[…] names it",
                    columns,
                )
    known = isinstance(feature_map, FeatureMap) and set(feature_map.arm) <= {ARM}
    if not sides[0] and not sides[1] and features is None and situation is None and not known:
        raise UnnamedColumns(
            f"no column is a field of {feature_map!r}",
            ": name the columns of its fields by features=[…] and situation=[…]; there are "
            f"{', '.join(map(repr, columns))}",
            columns,
        )
    return RawColumns(feature_map, *sides)


def columns_of_map(feature_map: BaseFeatureMap, columns: Sequence[str]) -> list[str]:
    """Return the columns that hold fields of the feature map, or objects that contain them."""
    if not isinstance(feature_map, FeatureMap):
        raise DataError(
            "this feature map does not name its fields: name the columns that it reads, by features=[…]"
        )
    fields = {name for side in (feature_map.arm, feature_map.situation) for name in side}
    wanted = {field.split(".")[0] for field in fields} | fields
    for field in fields - {ARM}:
        if field not in columns and field.split(".")[0] not in columns:
            raise DataError(
                f"there is no column {field!r}, a field of the map, only {', '.join(map(repr, columns))}"
            )
    return [name for name in columns if name in wanted]


def encode_rows(
    feature_map: BaseFeatureMap, table: Any, names: Callable[[], Sequence[Name]]
) -> Floats:
    """Return the (n, d) contexts of the n rows of a log; a value that cannot be used is a `BadCell`.

    Parameters
    ----------
    feature_map
        The feature map.
    table
        The columns of the raw features: a table of pandas or Arrow.
    names
        Returns the n arms; it is called only if the map uses their names.
    """
    named = not isinstance(feature_map, FeatureMap) or ARM in feature_map.arm
    try:
        x: Floats = feature_map.transform(table, names=names() if named else None)
    except FieldError as error:
        raise BadCell(None, error.row, f"field {error.field!r} {error.text}") from None
    except RolinError as error:
        raise BadCell(None, None, str(error)) from None
    return x
