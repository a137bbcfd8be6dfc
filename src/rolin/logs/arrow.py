"""Turn columns of Arrow data into NumPy arrays, or raise a readable error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rolin._support.optional import needs
from rolin.errors import DataError
from rolin.logs.rules import BadCell, Missing, arm_in, require, rows_with_reward

__all__ = [
    "ArmKind",
    "as_doubles",
    "as_one_array",
    "check_numbers",
    "encoded",
    "first_rows_of_spark",
    "is_feature",
    "is_list",
    "is_list_of_numbers",
    "is_number",
    "is_numeric",
    "kind_of_arms",
    "lists_of_numbers",
    "numbers",
    "pyarrow",
    "rewards",
    "rows_renumbered",
    "side_by_side",
    "stream",
    "table",
    "type_of",
    "width_of",
]

Floats = NDArray[np.float64]
ArmKind = Literal["strings", "integers"]
"""What arms are named by."""


@contextmanager
def rows_renumbered(rows: NDArray[np.int64] | None) -> Iterator[None]:
    """Report errors in a selection of rows by the numbers that the rows have in the batch.

    Parameters
    ----------
    rows
        The rows of the batch that were selected; `None` for all.
    """
    try:
        yield
    except BadCell as bad:
        if rows is None or bad.row is None:
            raise
        raise bad.at(int(rows[bad.row])) from None


def pyarrow() -> Any:
    """Return the package pyarrow, or raise an error that names the extra to install."""
    with needs("frames"):
        import pyarrow as pa
    return pa


# -- types ---------------------------------------------------------------------------------------


def type_of(schema: Any, column: str) -> Any:
    """Return the type of a column, or raise an error that lists the columns."""
    require(schema.names, [column])
    return schema.field(column).type


def is_number(schema: Any, column: str) -> bool:
    """Return whether a column holds numbers or booleans."""
    return is_numeric(type_of(schema, column))


def is_numeric(kind: Any) -> bool:
    """Return whether an Arrow type is one of numbers or booleans."""
    types = pyarrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        test(kind)
        for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    )


def check_numbers(schema: Any, column: str) -> None:
    """Reject a column that does not hold numbers."""
    kind = type_of(schema, column)
    if not is_numeric(kind):
        raise DataError(f"column {column!r} is of type {kind}, expected numbers")


def kind_of_arms(schema: Any, column: str) -> ArmKind:
    """Return whether arms are named by strings or by integers: 7 is not "7"."""
    types, kind = pyarrow().types, type_of(schema, column)
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind):
        return "integers"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "strings"
    raise DataError(
        f"column {column!r} is of type {kind}, expected strings or integers: the names of arms"
    )


def is_list(kind: Any) -> bool:
    """Return whether an Arrow type is one of lists."""
    types = pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_list_of_numbers(schema: Any, column: str) -> bool:
    """Return whether a column holds lists of numbers."""
    kind = type_of(schema, column)
    return is_list(kind) and is_numeric(kind.value_type)


def is_feature(schema: Any, column: str) -> bool:
    """Return whether a column holds numbers, or lists of them."""
    return is_number(schema, column) or is_list_of_numbers(schema, column)


def width_of(sample: Any, column: str) -> int:
    """Return the number of features in a column: 1 if it holds numbers, the length of its lists otherwise."""
    kind = type_of(sample.schema, column)
    if is_numeric(kind):
        return 1
    if not is_list_of_numbers(sample.schema, column):
        raise DataError(
            f"column {column!r} is of type {kind}, expected numbers or lists of numbers"
        )
    if pyarrow().types.is_fixed_size_list(kind):
        return int(kind.list_size)
    first = next((value for value in sample.column(column) if value.is_valid), None)
    if first is None:
        raise DataError(
            f"column {column!r} is of type {kind}, but the first rows hold no list that shows the number of features"
        )
    return len(first)


# -- values --------------------------------------------------------------------------------------


def _first_null(column: Any) -> int:
    """Return the row of the first null."""
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))


def as_doubles(column: Any) -> Any:
    """Return a column of numbers in double precision."""
    pa = pyarrow()
    column = as_one_array(column)
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
        raise BadCell(name, _first_null(column), "is null, expected a number")
    values: Floats = as_doubles(column).to_numpy(zero_copy_only=False)
    return values


def rewards(column: Any, name: str, missing: Missing) -> tuple[Floats, NDArray[np.bool_] | None]:
    """Return the rewards that count, and the mask of their rows; `None` for all rows.

    Parameters
    ----------
    column
        The column of the reward.
    name
        Its name, for errors.
    missing
        What to do with rows that have no reward.
    """
    values: Floats = as_doubles(column).to_numpy(zero_copy_only=False)  # a null becomes NaN
    absent = np.isnan(values)
    if not absent.any():
        return values, None
    if rows_with_reward(name, absent, missing) is None:
        return np.where(absent, missing, values), None
    return values[~absent], ~absent


def as_one_array(column: Any) -> Any:
    """Return a column as one array, even if it has several chunks."""
    pa = pyarrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    return column


def encoded(
    column: Any, name: str, *, in_lists: bool = False
) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the K distinct names in a column of arms, and for each row the index of its name.

    Parameters
    ----------
    column
        The column.
    name
        Its name, for errors.
    in_lists
        Whether the names were items of lists, where an empty text is a name.
    """
    pa = pyarrow()
    column = as_one_array(column)
    if column.null_count:
        raise BadCell(name, _first_null(column), "is null, expected the name of an arm")
    is_given = pa.types.is_dictionary(column.type)
    if not is_given:
        column = column.dictionary_encode()
    names: list[Any] = column.dictionary.to_pylist()
    codes = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    nameless: list[int] = []
    if None in names or "" in names:  # seldom, so not looked for one by one
        nameless = [k for k, value in enumerate(names) if value is None or value == ""]
    for k in nameless:
        if (codes == k).any():  # a dictionary may hold values that no row has
            try:
                arm_in(name, names[k], in_list=in_lists)
            except BadCell as bad:
                raise bad.at(int(np.argmax(codes == k))) from None
    if is_given and len(set(names)) < len(names):  # a dictionary may hold a value twice
        first = {value: k for k, value in reversed(list(enumerate(names)))}
        codes = np.array([first[value] for value in names])[codes]
    return names, codes


def table(batch: Any) -> Any:
    """Return a batch as a table."""
    pa = pyarrow()
    return batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])


def stream(source: Any) -> Any:
    """Return a reader of the batches of anything that exports Arrow data, without the index of pandas."""
    pa = pyarrow()
    try:
        if hasattr(source, "iloc"):
            return pa.Table.from_pandas(source, preserve_index=False).to_reader()
        return pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"the table cannot be read as Arrow data: {reason}") from error


def first_rows_of_spark(frame: Any) -> Any:
    """Return the first row of a Spark data frame, as a table."""
    return frame.limit(1).toArrow()


def side_by_side(columns: Sequence[tuple[str, Any]], widths: Sequence[int], n: int) -> Floats:
    """Return columns of numbers, and of lists of numbers, as one (n, d) array."""
    values = [(name, as_one_array(column)) for name, column in columns]
    if len(values) == 1 and is_list(values[0][1].type):
        return np.ascontiguousarray(lists_of_numbers(values[0][1], values[0][0], widths[0]))
    parts = [
        lists_of_numbers(column, name, width)
        if is_list(column.type)
        else numbers(column, name)[:, None]
        for (name, column), width in zip(values, widths, strict=True)
    ]
    return _SideBySide(parts, n)  # type: ignore[return-value]  # whoever reads it slices rows


class _SideBySide:
    """Columns side by side: like one (n, d) array, but only the rows that are read are copied.

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
        """Return some rows, in an array that the next call overwrites."""
        size = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        if size > self._room.shape[1]:
            # Feature by feature, as the columns are. An odd number of cache lines apart, so that features do not
            # compete for the same cache sets.
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


def lists_of_numbers(column: Any, name: str, width: int) -> Floats:
    """Return lists of numbers as an (n, width) array."""
    pa = pyarrow()
    n = len(column)
    if column.null_count:
        raise BadCell(name, _first_null(column), f"is null, expected a list of {width} numbers")
    if pa.types.is_fixed_size_list(column.type):
        if column.type.list_size != width:
            raise BadCell(name, 0, f"has {column.type.list_size} numbers, expected {width}")
    else:
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if (lengths != width).any():
            row = int(np.argmax(lengths != width))
            raise BadCell(name, row, f"has {lengths[row]} numbers, expected {width}")
    flat = column.flatten()
    if flat.null_count:
        row = _first_null(flat) // width
        raise BadCell(name, row, "holds a null, expected numbers")
    return numbers(flat, name).reshape(n, width)
