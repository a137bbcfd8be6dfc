"""From columns of Arrow to arrays of NumPy, and to words where that cannot be done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rolin._support.optional import needs
from rolin.errors import DataError

__all__ = [
    "BadCell",
    "Kind",
    "as_doubles",
    "check_exported",
    "check_numbers",
    "encoded",
    "exported_rows",
    "exported_width",
    "first_null",
    "is_feature",
    "is_list_of_numbers",
    "is_number",
    "kind_of_arms",
    "numbers",
    "of_spark",
    "pyarrow",
    "require",
    "rows_at",
    "side_by_side",
    "stream",
    "table",
    "width_of",
]

Floats = NDArray[np.float64]
Kind = Literal["strings", "integers", "exported"]


class BadCell(Exception):
    """A value that cannot be folded: its column, its row in the batch, and what is wrong with it."""

    def __init__(self, column: str | None, row: int | None, text: str) -> None:
        super().__init__(column, row, text)
        self.column, self.row, self.text = column, row, text

    def __str__(self) -> str:
        """Say where it is."""
        return self.at(0)

    def at(self, before: int) -> str:
        """Say where it is, with so many rows before the batch."""
        row = "" if self.row is None else f"row {before + self.row}: "
        column = "" if self.column is None else f"column {self.column!r} "
        return f"{row}{column}{self.text}"


@contextmanager
def rows_at(places: NDArray[np.int64] | None) -> Iterator[None]:
    """Say of rows that were chosen from a batch which of its rows they are."""
    try:
        yield
    except BadCell as bad:
        if places is None or bad.row is None:
            raise
        raise BadCell(bad.column, int(places[bad.row]), bad.text) from None


def pyarrow() -> Any:
    """Return pyarrow, or say which extra brings it."""
    with needs("frames"):
        import pyarrow as pa
    return pa


# -- types ---------------------------------------------------------------------------------------


def require(schema: Any, column: str) -> Any:
    """Return the type of a column, or say which columns there are."""
    if schema.names.count(column) > 1:
        raise DataError(f"there are two columns {column!r}")
    if column not in schema.names:
        raise DataError(f"there is no column {column!r}, only {', '.join(map(repr, schema.names))}")
    return schema.field(column).type


def is_number(schema: Any, column: str) -> bool:
    """Return whether a column holds numbers, or yes and no."""
    return _numeric(require(schema, column))


def _numeric(kind: Any) -> bool:
    types = pyarrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        test(kind)
        for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    )


def check_numbers(schema: Any, column: str) -> None:
    """Refuse a column that does not hold numbers."""
    kind = require(schema, column)
    if not _numeric(kind):
        raise DataError(f"column {column!r} is of type {kind}, expected numbers")


def kind_of_arms(schema: Any, column: str) -> Kind:
    """Return what arms are named by: 7 is not "7"."""
    types, kind = pyarrow().types, require(schema, column)
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind):
        return "integers"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "strings"
    raise DataError(
        f"column {column!r} is of type {kind}, expected strings or integers: the names of arms"
    )


def _is_list(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_list_of_numbers(schema: Any, column: str) -> bool:
    """Return whether a column holds lists of numbers."""
    kind = require(schema, column)
    return _is_list(kind) and _numeric(kind.value_type)


def is_feature(schema: Any, column: str) -> bool:
    """Return whether a column holds numbers, or lists of them."""
    return is_number(schema, column) or is_list_of_numbers(schema, column)


def width_of(sample: Any, column: str) -> int:
    """Return how many features a column has: 1 of numbers, of lists their length."""
    kind = require(sample.schema, column)
    if _numeric(kind):
        return 1
    if not is_list_of_numbers(sample.schema, column):
        raise DataError(
            f"column {column!r} is of type {kind}, expected numbers or lists of numbers"
        )
    if pyarrow().types.is_fixed_size_list(kind):
        return int(kind.list_size)
    first = next((value for value in sample.column(column) if value.is_valid), None)
    if first is None:
        raise DataError(f"column {column!r} is of type {kind}, and the first rows hold no list")
    return len(first)


# -- values --------------------------------------------------------------------------------------


def first_null(column: Any) -> int:
    """Return the place of the first null."""
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))


def as_doubles(column: Any) -> Any:
    """Return a column of numbers in double precision."""
    pa = pyarrow()
    column = _one(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type != pa.float64():
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.uint8())
        column = column.cast(pa.float64(), safe=False)
    return column


def numbers(column: Any, name: str) -> Floats:
    """Return a column of numbers without nulls."""
    if column.null_count:
        raise BadCell(name, first_null(column), "is null, expected a number")
    values: Floats = as_doubles(column).to_numpy(zero_copy_only=False)
    return values


def _one(column: Any) -> Any:
    """Return a column as one array, of several chunks too."""
    pa = pyarrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    return column


def encoded(column: Any, name: str) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the names that occur in a column of arms, and which of them each row has."""
    pa = pyarrow()
    column = _one(column)
    if column.null_count:
        raise BadCell(name, first_null(column), "is null, expected the name of an arm")
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    names = column.dictionary.to_pylist()
    codes = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    for k, found in enumerate(names):
        if (found is None or found == "") and (codes == k).any():
            place = int(np.argmax(codes == k))
            raise BadCell(name, place, "is empty, expected the name of an arm")
    if len(set(names)) < len(names):  # a dictionary may hold a value twice
        first = {found: k for k, found in reversed(list(enumerate(names)))}
        codes = np.array([first[found] for found in names])[codes]
    return names, codes


def table(batch: Any) -> Any:
    """Return a batch as a table."""
    pa = pyarrow()
    return batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])


def stream(source: Any) -> Any:
    """Return the batches of anything that hands out Arrow data; the index of pandas is no data."""
    pa = pyarrow()
    try:
        if hasattr(source, "iloc"):
            return pa.Table.from_pandas(source, preserve_index=False).to_reader()
        return pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"the table cannot be read as Arrow data: {reason}") from error


def of_spark(frame: Any) -> Any:
    """Return the first rows of a data frame of Spark's."""
    return frame.limit(1).toArrow()


def side_by_side(columns: Sequence[tuple[str, Any]], widths: Sequence[int], n: int) -> Floats:
    """Return numbers, and lists of numbers, as the columns of one (n, d) array."""
    values = [(name, _one(column)) for name, column in columns]
    if len(values) == 1 and _is_list(values[0][1].type):
        return np.ascontiguousarray(_lists(values[0][1], values[0][0], widths[0]))
    parts = [
        _lists(column, name, width) if _is_list(column.type) else numbers(column, name)[:, None]
        for (name, column), width in zip(values, widths, strict=True)
    ]
    return Beside(parts, n)  # type: ignore[return-value]  # as good as


class Beside:
    """Columns side by side, as one (n, d) array of which some rows are made at a time.

    Parameters
    ----------
    parts
        Arrays of n rows each.
    n
        Their number of rows.
    """

    def __init__(self, parts: Sequence[Floats], n: int) -> None:
        self._parts, self.shape = parts, (n, sum(part.shape[1] for part in parts))
        self._room = np.empty((self.shape[1], 0))

    def __getitem__(self, rows: Any) -> Floats:
        """Return some rows; the array is good until the next are asked for."""
        size = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        if size > self._room.shape[1]:
            # Feature by feature, as the columns are, an odd number of cache lines apart: else all would compete
            # for the same places of the cache.
            self._room = np.empty((self.shape[1], size + (8 - size) % 16))
        out, at = self._room[:, :size], 0
        for part in self._parts:
            width = part.shape[1]
            if width == 1:
                out[at] = part[rows, 0]
            else:
                out[at : at + width] = part[rows].T
            at += width
        return out.T

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        """Return all rows."""
        return np.array(self[0 : self.shape[0]], dtype=dtype)


def _lists(column: Any, name: str, width: int) -> Floats:
    """Return lists of numbers as an (n, width) array."""
    pa = pyarrow()
    n = len(column)
    if column.null_count:
        raise BadCell(name, first_null(column), f"is null, expected a list of {width} numbers")
    if pa.types.is_fixed_size_list(column.type):
        if column.type.list_size != width:
            raise BadCell(name, 0, f"has {column.type.list_size} numbers, expected {width}")
    else:
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if (lengths != width).any():
            place = int(np.argmax(lengths != width))
            raise BadCell(name, place, f"has {lengths[place]} numbers, expected {width}")
    flat = column.flatten()
    if flat.null_count:
        place = first_null(flat) // width
        raise BadCell(name, place, "holds a null, expected numbers")
    return numbers(flat, name).reshape(n, width)


# -- tables that were exported from a journal ----------------------------------------------------


def check_exported(schema: Any) -> None:
    """Refuse an exported table whose columns are not what they are in others."""
    types = pyarrow().types
    inner: dict[str, Any] = {}
    for name in ("offered", "contexts", "chosen", "rewards", "weights"):
        kind = require(schema, name)
        if not _is_list(kind):
            hint = ""
            if name == "offered":
                hint = (
                    ': arms of two kinds (7 and "7") are exported as JSON; import the table into a journal instead '
                    "(rolin journal import)"
                )
            raise DataError(f"column {name!r} is of type {kind}, expected lists{hint}")
        inner[name] = kind.value_type
    text = types.is_string(inner["offered"]) or types.is_large_string(inner["offered"])
    for name, good in (
        ("offered", text or types.is_integer(inner["offered"])),
        ("contexts", _is_list(inner["contexts"]) and _numeric(inner["contexts"].value_type)),
        ("chosen", types.is_integer(inner["chosen"])),
        ("rewards", _numeric(inner["rewards"]) or types.is_null(inner["rewards"])),
        ("weights", _numeric(inner["weights"]) or types.is_null(inner["weights"])),
    ):
        if not good:
            raise DataError(f"column {name!r} holds lists of type {inner[name]}, which it cannot")


def exported_width(sample: Any) -> int:
    """Return the number of features of an exported table."""
    for contexts in sample.column("contexts"):
        if contexts.is_valid and len(contexts):
            return len(contexts[0])
    raise DataError("the table of decisions has no rows")


def exported_rows(
    batch: Any, width: int, missing: float | None
) -> tuple[list[Any], NDArray[np.int64], Floats, Floats, Floats, NDArray[np.int64]]:
    """Return the arms of decisions that have been rewarded, in the contexts that they were chosen in."""
    pa = pyarrow()
    columns = {
        name: _one(batch.column(name))
        for name in ("offered", "contexts", "chosen", "rewards", "weights")
    }
    for name, column in columns.items():
        if column.null_count:
            raise BadCell(name, first_null(column), "is null, expected a list")
    n = batch.num_rows
    sizes = {name: c.value_lengths().to_numpy(zero_copy_only=False) for name, c in columns.items()}
    for name, like in (("contexts", "offered"), ("rewards", "chosen"), ("weights", "chosen")):
        if (sizes[name] != sizes[like]).any():
            place = int(np.argmax(sizes[name] != sizes[like]))
            raise BadCell(
                name,
                place,
                f"has {sizes[name][place]} items, expected {sizes[like][place]} as {like}",
            )
    row = np.repeat(np.arange(n), sizes["chosen"])
    starts = np.concatenate([[0], np.cumsum(sizes["offered"])])[:-1]
    chosen = numbers(columns["chosen"].flatten(), "chosen").astype(np.int64)
    if ((chosen < 0) | (chosen >= sizes["offered"][row])).any():
        place = int(row[np.argmax((chosen < 0) | (chosen >= sizes["offered"][row]))])
        raise BadCell("chosen", place, "is not a place among the arms that were offered")
    rewards = as_doubles(columns["rewards"].flatten())
    if missing is not None:
        rewards = rewards.fill_null(missing)
    known = rewards.is_valid()
    keep = known.to_numpy(zero_copy_only=False)
    at = pa.array((starts[row] + chosen)[keep])
    with rows_at(row[keep]):
        names, codes = encoded(columns["offered"].flatten().take(at), "offered")
        contexts = _lists(columns["contexts"].flatten().take(at), "contexts", width)
        weights = columns["weights"].flatten().filter(known)
        h = numbers(as_doubles(weights).fill_null(1.0), "weights")
        r = numbers(rewards.filter(known), "rewards")
    return names, codes, contexts, r, h, row[keep]
