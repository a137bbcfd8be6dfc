"""Read a table one cell at a time; errors name the row and the column."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rolin._support.checks import LAST_TIME
from rolin.errors import DataError, InputError, RolinError
from rolin.features import Boolean, Category, Number, Tags
from rolin.logs.frames import read_table
from rolin.logs.rules import BadCell, is_empty_cell, number_in

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Cells"]


class Cells:
    """The cells of a table, from a file or a data frame.

    Parameters
    ----------
    source
        A CSV or Parquet file, or a data frame. A CSV file holds texts only.
    """

    def __init__(self, source: str | Path | pd.DataFrame) -> None:
        self.source, self.columns, self.n_rows = _read(source)
        self._is_numeric: dict[str, bool] = {}
        content = repr(sorted(self.columns.items(), key=lambda column: column[0]))
        self.digest = hashlib.blake2b(content.encode(errors="replace"), digest_size=6).hexdigest()
        """Hash of the whole table, which names rows that have no id of their own."""

    @contextmanager
    def row(self, i: int) -> Iterator[None]:
        """Add the table and the row, numbered from 1, to errors."""
        try:
            yield
        except BadCell as bad:
            raise bad.at(i + 1, self.source) from None
        except RolinError as error:
            raise DataError(f"{self.source}, row {i + 1}: {error}") from error

    @contextmanager
    def named(self) -> Iterator[None]:
        """Add the table to errors."""
        try:
            yield
        except DataError as error:
            raise DataError(f"{self.source}: {error}") from error

    def is_numeric(self, column: str) -> bool:
        """Return whether all values of a column that are not missing are numbers."""
        if column not in self._is_numeric:
            try:
                for value in self.columns[column]:
                    if not is_empty_cell(value):
                        number_in(column, value)
                self._is_numeric[column] = True
            except DataError:
                self._is_numeric[column] = False
        return self._is_numeric[column]

    def get(self, i: int, column: str) -> Any:
        """Return a cell; `None` if it is missing or there is no such column."""
        value = self.columns[column][i] if column in self.columns else None
        return None if is_empty_cell(value) else value

    def number(self, i: int, column: str) -> float:
        """Return a cell as a finite number."""
        value = self.get(i, column)
        if value is None:
            raise BadCell(column, None, "is missing, expected a number")
        return number_in(column, value)

    def value(self, i: int, column: str, expected: str = "JSON") -> Any:
        """Return a cell that holds any value, as such or as JSON."""
        value = self.get(i, column)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                raise BadCell(column, None, f"is {value[:60]!r}, expected {expected}") from None
        return value

    def items(self, i: int, column: str) -> list[Any]:
        """Return a cell that holds a list, as such or as JSON."""
        value = self.value(i, column, "a list")
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            raise BadCell(column, None, f"is {value!r}, expected a list")
        return list(value)

    def time(self, i: int, column: str, default: float) -> float:
        """Return a cell that holds a time, or seconds since 1970, as seconds since 1970."""
        value = moment = self.get(i, column)
        if value is None:
            return default
        if isinstance(value, str):
            with suppress(ValueError):
                moment = datetime.fromisoformat(value)
        if isinstance(moment, datetime):
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            time = (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
        else:
            time = number_in(column, value)
        if not 0.0 <= time < LAST_TIME:
            raise BadCell(column, None, f"is {value!r}, expected a time, or seconds, since 1970")
        return time

    def flag(self, i: int, column: str) -> bool:
        """Return a cell that holds true or false; a missing one is false."""
        value = self.get(i, column)
        return False if value is None else _flag(column, value)

    def field_value(self, i: int, column: str, field: Any) -> Any:
        """Return a cell that holds a raw feature; a text is converted to what its field is.

        Parameters
        ----------
        i
            The row.
        column
            The column.
        field
            The field of the feature map, if the map declares it.
        """
        value = self.get(i, column)
        if not isinstance(value, str):
            return value
        if isinstance(field, Number):
            return number_in(column, value)
        if isinstance(field, Boolean):
            return _flag(column, value)
        if isinstance(field, Tags):
            return self.items(i, column)
        if isinstance(field, Category):
            if value not in (field.values or (value,)):
                with suppress(DataError):  # 18.0 is the category 18
                    return number_in(column, value)
            return value
        if field is None and value.startswith(("{", "[")):  # an object that contains fields
            with suppress(ValueError, RecursionError):
                return json.loads(value)
        if field is None and self.is_numeric(column):
            return number_in(column, value)
        return {"true": True, "false": False}.get(value.lower(), value)


def _flag(column: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false", "1", "0", "1.0", "0.0"):
        raise BadCell(column, None, f"is {value!r}, expected true or false")
    return text in ("true", "1", "1.0")


def _read(source: str | Path | pd.DataFrame) -> tuple[str, dict[str, list[Any]], int]:
    """Return the name of a table for errors, its columns, and its number of rows."""
    if isinstance(source, (str, Path)):
        where = str(source)
        frame = read_table(Path(source), None)  # explains what is wrong with the file
        if where.endswith((".parquet", ".pq")):
            # Lists of lists and integers with nulls stay what they are, which pandas would change.
            pq = importlib.import_module("pyarrow.parquet")
            try:
                table = pq.read_table(source)
                return where, table.to_pydict(), table.num_rows
            except (OverflowError, ValueError) as error:
                raise DataError(f"{where} cannot be read as a table: {error}") from error
    else:
        where, frame = "the table", source
    try:
        return where, {str(name): frame[name].to_list() for name in frame.columns}, len(frame)
    except (AttributeError, TypeError):
        raise InputError(
            f"{type(source).__name__} is not a table, expected a file or a data frame"
        ) from None
