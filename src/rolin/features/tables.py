"""Rows and tables of any origin: dicts, JSON, pandas, polars, Arrow.

Objects within objects become fields whose names are joined by dots, in every one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from rolin._support.optional import needs
from rolin.errors import InputError
from rolin.features.columns import ArrowColumn, Column, PandasColumn, Values
from rolin.features.values import is_missing, without_nan

__all__ = [
    "DEEPEST",
    "Table",
    "flatten",
    "is_table",
    "listed",
    "row_of",
    "rows_of",
    "table_of",
    "value_at",
]

DEEPEST = 8
"""Levels of objects within objects."""

Row = Mapping[str, Any]
Table = dict[str, Column]
"""The columns of n rows, by field."""


def row_of(what: str, given: Any) -> dict[str, Any]:
    """Return one row as a dict."""
    if type(given) is dict:
        return given
    if given is None:
        return {}
    if isinstance(given, (str, bytes, bytearray)):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{what} is a text that is not JSON: {error}") from None
    elif is_table(given):
        rows = rows_of(given)
        if len(rows) != 1:
            raise InputError(f"{what} is a table of {len(rows)} rows, expected one")
        return rows[0]
    elif hasattr(given, "as_py"):  # a row of Arrow's
        given = given.as_py()
    elif hasattr(given, "to_dict") and hasattr(given, "index"):  # a row of pandas
        given = {name: without_nan(value) for name, value in given.to_dict().items()}
    if not isinstance(given, Mapping):
        raise InputError(
            f"{what} is {_kind(given)}, expected its fields: a mapping from name to value"
        )
    return dict(given)


def listed(what: str, given: Any) -> list[Any]:
    """Return several rows as a list; of a mapping, those of its keys."""
    try:
        return list(given.values() if isinstance(given, Mapping) else given)
    except TypeError:
        raise InputError(
            f"{what} is {_kind(given)}, expected a table of pandas, polars or Arrow, or a list of rows"
        ) from None


def is_table(given: Any) -> bool:
    """Return whether something is a table of pandas, polars or Arrow."""
    return hasattr(given, "columns") and (
        hasattr(given, "iloc") or hasattr(given, "to_pylist") or hasattr(given, "iter_rows")
    )


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts of Python's values."""
    names = _column_names(table)
    if hasattr(table, "to_pylist") or hasattr(table, "iter_rows"):
        columns = [_python_values(table, name) for name in names]
        rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        rows = rows or [{} for _ in range(len(table))]
    else:
        columns = [table.iloc[:, i].astype(object).tolist() for i in range(len(names))]
        rows = [
            {name: without_nan(value) for name, value in zip(names, values, strict=True)}
            for values in zip(*columns, strict=True)
        ] or [{} for _ in range(len(table))]  # fmt: skip
    return rows


def _python_values(table: Any, name: str) -> list[Any]:
    """Return a column as Python's values, or as something else if there are some that Python does not have."""
    column = table[name]
    try:
        values: list[Any] = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    except BaseException as error:  # what polars raises is no Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return [_Unreadable()] * len(table)
    return values


class _Unreadable:
    """A value of a table that Python does not have, such as a date in the year 300000."""

    def __repr__(self) -> str:
        """Say what it is, where a field should have it."""
        return "a value that Python does not have"


def _column_names(table: Any) -> list[str]:
    names = table.schema.names if hasattr(table, "to_pylist") else table.columns
    found = [str(name) for name in names]
    if len(set(found)) < len(found):
        raise InputError("two columns of the table have the same name")
    return found


def table_of(
    given: Any, fields: Sequence[str], *, strict: bool = False
) -> tuple[Table, int, list[str]]:
    """Return the columns of these fields, the number of rows, and if asked the names of other fields."""
    if not is_table(given):
        return _from_rows(listed("the table", given), fields, strict)
    names = _column_names(given)
    if hasattr(given, "iloc"):
        columns = {name: given.iloc[:, i] for i, name in enumerate(names)}
        objects = [name for name, column in columns.items() if column.dtype.kind == "O"]
        if any(field.startswith(f"{name}.") for name in objects for field in fields):
            return _from_rows(rows_of(given), fields, strict)
        found: Table = {n: PandasColumn(columns[n]) for n in fields if n in columns}
        return found, len(given), [name for name in columns if name not in found]
    others: list[str] = []
    if hasattr(given, "iter_rows"):  # polars
        with needs("frames"):
            import pyarrow as pa
        # what is not used may be of a type that Arrow does not have
        used = [c for c in names if any(f"{n}.".startswith(f"{c}.") for n in fields)]
        others, n = [name for name in names if name not in used], len(given)
        try:
            given = given.select(used).to_arrow()
        except pa.ArrowInvalid:
            table, _, unknown = _from_rows(rows_of(given.select(used)), fields, strict)
            return table, n, [*others, *unknown]
        if not used:
            return {}, n, others
    arrays: dict[str, Any] = {}
    for path, column in _arrow_columns("", given, set(fields)):
        if path in arrays:
            raise InputError(f"field {path!r} is given twice, as one name and as an object")
        arrays[path] = column
    found = {name: ArrowColumn(arrays[name]) for name in fields if name in arrays}
    return found, len(given), [*others, *(name for name in arrays if name not in found)]


def _from_rows(
    given: list[Any], fields: Sequence[str], strict: bool
) -> tuple[Table, int, list[str]]:
    rows = [row_of(f"row {i}", row) for i, row in enumerate(given)]
    found: Table = {name: Values([value_at(row, name) for row in rows]) for name in fields}
    known = set(fields)
    unknown = {
        path: None
        for i, row in enumerate(rows if strict else ())
        for path, value in flatten(f"row {i}", row)
        if path not in known and not is_missing(value)
    }
    return found, len(rows), list(unknown)


def _arrow_columns(
    prefix: str, table: Any, fields: Set[str], depth: int = 1
) -> Iterator[tuple[str, Any]]:
    """Yield the columns with their names, those within others too, unless they are fields themselves."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for i, name in enumerate(table.schema.names if depth == 1 else [f.name for f in table.type]):
        column = table.column(i) if depth == 1 else pc.struct_field(table, [i])
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
            if isinstance(column, pa.ChunkedArray):
                column = pa.concat_arrays(column.chunks)
        path = f"{prefix}{name}"
        if pa.types.is_struct(column.type) and path not in fields and depth < DEEPEST:
            yield from _arrow_columns(f"{path}.", column, fields, depth + 1)
        else:
            yield path, column


def value_at(row: Row, name: str) -> Any:
    """Return the value of a field, which may be within other objects; `None` if there is none."""
    if "." not in name:
        return row.get(name)
    found = [row[name]] if row.get(name) is not None else []
    parts = name.split(".")
    for i in range(1, len(parts)):  # names of objects may hold dots, too
        inner = row.get(".".join(parts[:i]))
        if isinstance(inner, Mapping):
            value = value_at(inner, ".".join(parts[i:]))
            if value is not None:
                found.append(value)
    if len(found) > 1:
        raise InputError(f"field {name!r} is given twice, as one name and as an object")
    return found[0] if found else None


def flatten(what: str, row: Row, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a row with their values; names that begin with an underscore are not fields."""
    for name, value in row.items():
        if not isinstance(name, str):
            raise InputError(f"{what} has a field named {name!r}, expected texts as names")
        if name.startswith("_"):
            continue
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            if depth >= DEEPEST:
                raise InputError(f"field {path!r} of {what} is nested deeper than {DEEPEST} levels")
            yield from flatten(what, value, f"{path}.", depth + 1)
        else:
            yield path, value


def _kind(given: Any) -> str:
    shown = repr(given)
    return shown if len(shown) < 60 else f"a {type(given).__name__}"
