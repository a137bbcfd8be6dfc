"""Rows and tables of any origin: dicts, JSON, pandas, polars, Arrow.

Objects within objects become fields whose names are joined by dots, in every one of them.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rolin.errors import InputError
from rolin.extras import needs
from rolin.features.columns import ArrowColumn, Column, PandasColumn, Values

__all__ = ["DEEPEST", "Table", "flatten", "is_table", "row_of", "rows_of", "table_of", "value_at"]

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
        given = {name: _pandas_value(value) for name, value in given.to_dict().items()}
    if not isinstance(given, Mapping):
        raise InputError(
            f"{what} is {_kind(given)}, expected its fields: a mapping from name to value"
        )
    return dict(given)


def is_table(given: Any) -> bool:
    """Return whether something is a table of pandas, polars or Arrow."""
    return hasattr(given, "columns") and (
        hasattr(given, "iloc") or hasattr(given, "to_pylist") or hasattr(given, "iter_rows")
    )


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts of Python's values."""
    if hasattr(table, "to_pylist"):
        rows: list[dict[str, Any]] = table.to_pylist()
    elif hasattr(table, "iter_rows"):
        rows = table.to_dicts()
    else:
        names = [str(name) for name in table.columns]
        columns = [table.iloc[:, i].astype(object).tolist() for i in range(len(names))]
        rows = [
            {name: _pandas_value(value) for name, value in zip(names, values, strict=True)}
            for values in zip(*columns, strict=True)
        ] or [{} for _ in range(len(table))]  # fmt: skip
    return rows


def _pandas_value(value: Any) -> Any:
    """Return a value of pandas, where NaN means that it is missing."""
    if isinstance(value, float) and value != value:
        return None
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def table_of(given: Any, fields: Sequence[str]) -> tuple[Table, int, list[str]]:
    """Return the columns of these fields, the number of rows, and the names of other fields."""
    if not is_table(given):
        return _from_rows(list(given), fields)
    if hasattr(given, "iloc"):
        columns = {str(name): given.iloc[:, i] for i, name in enumerate(given.columns)}
        if len(columns) < len(given.columns):
            raise InputError("two columns of the table have the same name")
        nested = {name.split(".")[0] for name in fields if "." in name}
        if any(columns[name].dtype.kind == "O" for name in nested & columns.keys()):
            return _from_rows(rows_of(given), fields)
        found: Table = {n: PandasColumn(columns[n]) for n in fields if n in columns}
        return found, len(given), [name for name in columns if name not in found]
    if hasattr(given, "iter_rows"):  # polars
        with needs("frames"):
            importlib.import_module("pyarrow")
        given = given.to_arrow()
    arrays = dict(_arrow_columns("", given, len(given)))
    found = {name: ArrowColumn(arrays[name]) for name in fields if name in arrays}
    return found, len(given), [name for name in arrays if name not in found]


def _from_rows(given: list[Any], fields: Sequence[str]) -> tuple[Table, int, list[str]]:
    rows = [row_of(f"row {i}", row) for i, row in enumerate(given)]
    found: Table = {name: Values([value_at(row, name) for row in rows]) for name in fields}
    return found, len(rows), []


def _arrow_columns(prefix: str, table: Any, n: int, depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the columns with their names, those within others too."""
    import pyarrow as pa

    pc = importlib.import_module("pyarrow.compute")
    for i, name in enumerate(table.schema.names if depth == 1 else [f.name for f in table.type]):
        column = table.column(i) if depth == 1 else pc.struct_field(table, [i])
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
            if isinstance(column, pa.ChunkedArray):
                column = pa.concat_arrays(column.chunks)
        path = f"{prefix}{name}"
        if pa.types.is_struct(column.type):
            if depth >= DEEPEST:
                raise InputError(f"field {path!r} is nested deeper than {DEEPEST} levels")
            yield from _arrow_columns(f"{path}.", column, n, depth + 1)
        else:
            yield path, column


def value_at(row: Row, name: str) -> Any:
    """Return the value of a field, which may be within other objects; `None` if there is none."""
    if "." not in name:
        return row.get(name)
    found = row.get(name)
    inner: Any = row
    for part in name.split("."):
        if not isinstance(inner, Mapping):
            inner = None
            break
        inner = inner.get(part)
    if found is not None and inner is not None:
        raise InputError(f"field {name!r} is given twice, as one name and as an object")
    return inner if found is None else found


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
