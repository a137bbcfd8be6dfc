"""Catalogues from files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.errors import DataError, ParameterError
from rolin.features import FeatureMap
from rolin.features.base import ARM
from rolin.logs import arrow
from rolin.logs.batches import RowLocation, bad_data, batches_of, partitions_of
from rolin.logs.files import File, files_of, first_rows, look
from rolin.logs.rules import BadCell

__all__ = ["read_arms", "read_fields"]


def read_arms(
    source: Any,
    arm: str,
    features: str | Sequence[str] | None,
    dtype: str,
    options: Mapping[str, Any],
) -> tuple[Any, NDArray[Any]]:
    """Return names and features of the arms in files of Parquet or Arrow."""
    if dtype not in ("float32", "float64"):
        raise ParameterError(f"dtype={dtype!r}, expected 'float32' or 'float64'")
    files = look(files_of(source, options), options)
    given = [features] if isinstance(features, str) else features
    columns, widths = _columns(files, arm, given, options)
    partitions = partitions_of(files)
    names: list[Any] = []
    for partition in partitions:  # first the names, so that the array is made once
        for place, batch in batches_of(partition, [arm], 1, options):
            with _told(place):
                found, codes = arrow.encoded(batch.column(0), arm)
                names.extend(found[code] for code in codes.tolist())
    x = np.empty((len(names), sum(widths)), dtype=dtype)
    at = 0
    for partition in partitions:
        for place, batch in batches_of(partition, columns, sum(widths), options):
            with _told(place):
                parts = [(name, batch.column(name)) for name in columns]
                rows = np.asarray(arrow.side_by_side(parts, widths, batch.num_rows))
                with np.errstate(over="ignore"):  # the catalogue refuses what is not finite
                    x[at : at + len(rows)] = rows
            at += batch.num_rows
    return names, x


def read_fields(
    source: Any, arm: str, features: FeatureMap, options: Mapping[str, Any]
) -> tuple[list[Any], Any]:
    """Return the names of the arms in files, and a table of their fields."""
    files = look(files_of(source, options), options)
    wanted = {field.split(".")[0] for field in features.arm} | set(features.arm)
    pa = arrow.pyarrow()
    names: list[Any] = []
    batches: list[Any] = []
    for partition in partitions_of(files):
        schema = next(file.schema for file in files if file.path == partition.path)
        try:
            arrow.kind_of_arms(schema, arm)
            columns = [name for name in schema.names if name in wanted and name != arm]
            for field in set(features.arm) - {ARM}:
                if field not in columns and field.split(".")[0] not in columns:
                    raise DataError(f"there is no column {field!r}, a field of the arms")
        except DataError as error:
            raise DataError(f"{partition.path}: {error}") from error
        for place, batch in batches_of(partition, [arm, *columns], len(columns), options):
            with _told(place):
                found, codes = arrow.encoded(batch.column(arm), arm)
            names.extend(found[code] for code in codes.tolist())
            batches.append(batch.select(columns))
    try:
        return names, pa.Table.from_batches(batches)
    except pa.ArrowException as error:
        raise DataError(f"the files differ in their columns: {error}") from error


def _columns(
    files: Sequence[File], arm: str, features: Sequence[str] | None, options: Mapping[str, Any]
) -> tuple[list[str], list[int]]:
    """Return the columns of the features, and how wide each is."""
    first = files[0]
    sample, _ = first_rows(files, options)
    try:
        kind = arrow.kind_of_arms(first.schema, arm)
        columns = (
            [n for n in first.schema.names if n != arm and arrow.is_feature(first.schema, n)]
            if features is None
            else list(features)
        )
        widths = [arrow.width_of(sample, column) for column in columns]
    except DataError as error:
        raise DataError(f"{first.path}: {error}") from error
    for file in files[1:]:
        try:
            if arrow.kind_of_arms(file.schema, arm) != kind:
                raise DataError(f"column {arm!r} holds no {kind}, as in {first.path}")
            for column in columns:
                if not arrow.is_feature(file.schema, column):
                    raise DataError(f"column {column!r} holds no numbers")
        except DataError as error:
            raise DataError(f"{file.path}: {error}") from error
    return columns, widths


@contextmanager
def _told(place: RowLocation) -> Iterator[None]:
    """Say in which file and row group something is wrong."""
    try:
        yield
    except BadCell as bad:
        raise bad_data(place, bad) from None
