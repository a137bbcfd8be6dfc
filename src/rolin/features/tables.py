"""Read rows and tables from any library: dicts, JSON, pandas, polars, Arrow.

Fields of nested objects get names joined by dots, such as `user.age`, whatever library the row came from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from rolin._support.optional import needs
from rolin.errors import InputError
from rolin.features.columns import ArrowColumn, Column, PandasColumn, PythonColumn
from rolin.features.field_error import FieldError
from rolin.features.values import describe, is_missing, nan_to_none

__all__ = [
    "MAX_DEPTH",
    "Table",
    "as_list",
    "as_table",
    "flatten",
    "is_table",
    "read_row",
    "rows_of",
    "value_at",
]

MAX_DEPTH = 8
"""Maximum number of levels of nested objects."""

Row = Mapping[str, Any]


class Table(NamedTuple):
    """The columns of a map's fields in n rows."""

    columns: dict[str, Column]
    """The columns by field; a field without a column is missing in every row."""
    n_rows: int
    """Number n of rows."""
    unknown: list[str]
    """Names of fields and columns that the map does not have."""


def read_row(what: str, given: Any) -> dict[str, Any]:
    """Return one row as a dict.

    Parameters
    ----------
    what
        What error messages call the row.
    given
        A mapping, a JSON text, a row of pandas or Arrow, a table with one row, or `None` for a row without fields.
    """
    if type(given) is dict:
        return given
    if given is None:
        return {}
    if isinstance(given, (str, bytes, bytearray)):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{what} is a text that is not JSON ({error}), expected a JSON object, or a mapping from field to "
                "value"
            ) from None
    elif is_table(given):
        rows = rows_of(given)
        if len(rows) != 1:
            raise InputError(f"{what} is a table of {len(rows)} rows, expected one row")
        return rows[0]
    elif hasattr(given, "as_py"):  # a row of Arrow
        given = given.as_py()
    elif hasattr(given, "to_dict") and hasattr(given, "index"):  # a row of pandas
        given = {name: nan_to_none(value) for name, value in given.to_dict().items()}
    if not isinstance(given, Mapping):
        raise InputError(
            f"{what} is {describe(given)}, expected its fields: a mapping from name to value"
        )
    return dict(given)


def as_list(what: str, given: Any) -> list[Any]:
    """Return rows as a list; of a mapping, its values."""
    try:
        return list(given.values() if isinstance(given, Mapping) else given)
    except TypeError:
        raise InputError(
            f"{what} is {describe(given)}, expected a table of pandas, polars or Arrow, or a list of rows"
        ) from None


def is_table(given: Any) -> bool:
    """Return whether a value is a table of pandas, polars or Arrow."""
    return hasattr(given, "columns") and (
        hasattr(given, "iloc") or hasattr(given, "to_pylist") or hasattr(given, "iter_rows")
    )


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts of Python values."""
    names = _column_names(table)
    if hasattr(table, "to_pylist") or hasattr(table, "iter_rows"):
        columns = [_python_values(table, name) for name in names]
    else:
        columns = [
            [nan_to_none(value) for value in table.iloc[:, i].astype(object).tolist()]
            for i in range(len(names))
        ]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return rows or [{} for _ in range(len(table))]  # a table without columns still has rows


def _python_values(table: Any, name: str) -> list[Any]:
    """Return a column of Arrow or polars as Python values, or as `_Unreadable` if that is impossible."""
    column = table[name]
    try:
        values: list[Any] = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    except BaseException as error:  # polars raises errors that are not an Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return [_Unreadable()] * len(table)
    return values


class _Unreadable:
    """Stands for a value that Python cannot represent, such as a date in the year 300000."""

    def __repr__(self) -> str:
        """Return the text for error messages."""
        return "a value that Python cannot represent"


def _column_names(table: Any) -> list[str]:
    names = table.schema.names if hasattr(table, "to_pylist") else table.columns
    found = [str(name) for name in names]
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InputError(
            f"two columns of the table have the same name {twice!r}, expected different names"
        )
    return found


def as_table(given: Any, fields: Sequence[str], *, strict: bool = False) -> Table:
    """Return the columns of these fields, from a table or from rows.

    Parameters
    ----------
    given
        A table of pandas, polars or Arrow, or rows.
    fields
        Names of the fields to read.
    strict
        Whether to list unknown fields of rows, too; those of tables are always listed.
    """
    if not is_table(given):
        return _from_rows(as_list("the table", given), fields, strict)
    names = _column_names(given)
    if hasattr(given, "iloc"):  # pandas
        series = {name: given.iloc[:, i] for i, name in enumerate(names)}
        objects = [name for name, column in series.items() if column.dtype.kind == "O"]
        if any(field.startswith(f"{name}.") for name in objects for field in fields):
            return _from_rows(rows_of(given), fields, strict)
        found: dict[str, Column] = {n: PandasColumn(series[n]) for n in fields if n in series}
        return Table(found, len(given), [name for name in series if name not in found])
    unused: list[str] = []
    if hasattr(given, "iter_rows"):  # polars
        with needs("frames"):
            import pyarrow as pa
        # Only the columns that are used are converted: Arrow may not have the type of another one.
        used = [c for c in names if any(f"{n}.".startswith(f"{c}.") for n in fields)]
        unused, n = [name for name in names if name not in used], len(given)
        try:
            given = given.select(used).to_arrow()
        except pa.ArrowInvalid:
            table = _from_rows(rows_of(given.select(used)), fields, strict)
            return Table(table.columns, n, [*unused, *table.unknown])
        if not used:
            return Table({}, n, unused)
    arrays: dict[str, Any] = {}
    for path, column in _arrow_columns("", given, set(fields)):
        if path in arrays:
            raise _given_twice(path)
        arrays[path] = column
    found = {name: ArrowColumn(arrays[name]) for name in fields if name in arrays}
    return Table(found, len(given), [*unused, *(name for name in arrays if name not in found)])


def _from_rows(given: list[Any], fields: Sequence[str], strict: bool) -> Table:
    rows = [read_row(f"row {i}", row) for i, row in enumerate(given)]
    found: dict[str, Column] = {
        name: PythonColumn([value_at(row, name) for row in rows]) for name in fields
    }
    known = set(fields)
    unknown = {
        path: None
        for i, row in enumerate(rows if strict else ())
        for path, value in flatten(f"row {i}", row, index=i)
        if path not in known and not is_missing(value)
    }
    return Table(found, len(rows), list(unknown))


def _arrow_columns(
    prefix: str, table: Any, fields: Set[str], depth: int = 1
) -> Iterator[tuple[str, Any]]:
    """Yield the columns with their names; a struct that is not itself a field is split into its columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for i, name in enumerate(table.schema.names if depth == 1 else [f.name for f in table.type]):
        column = table.column(i) if depth == 1 else pc.struct_field(table, [i])
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
            if isinstance(column, pa.ChunkedArray):
                column = pa.concat_arrays(column.chunks)
        path = f"{prefix}{name}"
        if pa.types.is_struct(column.type) and path not in fields and depth < MAX_DEPTH:
            yield from _arrow_columns(f"{path}.", column, fields, depth + 1)
        else:
            yield path, column


def value_at(row: Row, name: str) -> Any:
    """Return the value of a field, which may be in a nested object; `None` if the row does not have it."""
    if "." not in name:
        return row.get(name)
    found = [row[name]] if row.get(name) is not None else []
    parts = name.split(".")
    for i in range(1, len(parts)):  # the name of an object may contain dots, too
        inner = row.get(".".join(parts[:i]))
        if isinstance(inner, Mapping):
            value = value_at(inner, ".".join(parts[i:]))
            if value is not None:
                found.append(value)
    if len(found) > 1:
        raise _given_twice(name)
    return found[0] if found else None


def flatten(
    what: str, row: Row, prefix: str = "", depth: int = 1, *, index: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a row and their values, nested ones with joined names.

    Names that begin with an underscore are reserved and skipped. `what` and `index` tell errors which row it is.
    """
    for name, value in row.items():
        if not isinstance(name, str):
            raise InputError(f"{what} has a field named {name!r}, expected texts as names")
        if name.startswith("_"):
            continue
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            if depth >= MAX_DEPTH:
                problem = f"is nested deeper than {MAX_DEPTH} levels: give it closer to the top"
                raise FieldError.of(path, index, what, problem)
            yield from flatten(what, value, f"{path}.", depth + 1, index=index)
        else:
            yield path, value


def _given_twice(path: str) -> InputError:
    return InputError(
        f"field {path!r} is given twice, as a name with dots and as a nested object: give it once"
    )
