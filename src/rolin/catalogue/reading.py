"""Read the arms of a catalogue from Parquet and Arrow files."""

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
    """Return the names of the arms in Parquet or Arrow files, and a (K, d) array of their features."""
    if dtype not in ("float32", "float64"):
        raise ParameterError(f"dtype={dtype!r}, expected 'float32' or 'float64'")
    files = look(files_of(source, options), options)
    given = [features] if isinstance(features, str) else features
    columns, widths = _columns(files, arm, given, options)
    partitions = partitions_of(files)
    names: list[Any] = []
    for partition in partitions:  # names first: their number is the size of the array
        for location, batch in batches_of(partition, [arm], 1, options):
            with _located(location):
                found, codes = arrow.encoded(batch.column(0), arm)
                names.extend(found[code] for code in codes.tolist())
    x = np.empty((len(names), sum(widths)), dtype=dtype)
    n_read = 0
    for partition in partitions:
        for location, batch in batches_of(partition, columns, sum(widths), options):
            with _located(location):
                parts = [(name, batch.column(name)) for name in columns]
                rows = np.asarray(arrow.side_by_side(parts, widths, batch.num_rows))
                with np.errstate(over="ignore"):  # the catalogue rejects infinities
                    x[n_read : n_read + len(rows)] = rows
            n_read += batch.num_rows
    return names, x


def read_fields(
    source: Any, arm: str, feature_map: FeatureMap, options: Mapping[str, Any]
) -> tuple[list[Any], Any]:
    """Return the names of the arms in files, and an Arrow table of their fields."""
    files = look(files_of(source, options), options)
    wanted = {field.split(".")[0] for field in feature_map.arm} | set(feature_map.arm)
    pa = arrow.pyarrow()
    names: list[Any] = []
    batches: list[Any] = []
    for partition in partitions_of(files):
        schema = next(file.schema for file in files if file.path == partition.path)
        try:
            arrow.kind_of_arms(schema, arm)
            columns = [name for name in schema.names if name in wanted and name != arm]
            for field in set(feature_map.arm) - {ARM}:
                if field not in columns and field.split(".")[0] not in columns:
                    raise DataError(
                        f"there is no column {field!r}, which the feature map needs for the arms"
                    )
        except DataError as error:
            raise DataError(f"{partition.path}: {error}") from error
        for location, batch in batches_of(partition, [arm, *columns], len(columns), options):
            with _located(location):
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
    """Return the columns of the features, and the number of features in each."""
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
                raise DataError(f"column {arm!r} does not hold {kind}, unlike {first.path}")
            for column in columns:
                if not arrow.is_feature(file.schema, column):
                    raise DataError(f"column {column!r} does not hold numbers")
        except DataError as error:
            raise DataError(f"{file.path}: {error}") from error
    return columns, widths


@contextmanager
def _located(location: RowLocation) -> Iterator[None]:
    """Add the file and the row to an error about a value."""
    try:
        yield
    except BadCell as bad:
        raise bad_data(location, bad) from None
