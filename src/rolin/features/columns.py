"""Columns of raw values from any library: read as numbers, as categories, or as lists of tags.

`values.py` defines what a single value means. A column first finds its distinct values, so that each of them is
read only once; the rest is arithmetic on whole arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.features.values import BadValue, is_missing, nan_to_none, read_number

__all__ = ["LIST_TYPES", "ArrowColumn", "Column", "PandasColumn", "PythonColumn", "list_items"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Reader = Callable[[int, Any], Any]
"""Reads a value, given the index of its row and the value; raises `BadValue`."""
LIST_TYPES = (list, tuple, set, frozenset, np.ndarray)
"""The types that are accepted as a list of tags."""


def list_items(value: Any) -> list[Any]:
    """Return the items of a list of tags, without the missing ones."""
    items = np.atleast_1d(value).tolist() if isinstance(value, np.ndarray) else value
    return [item for item in items if not is_missing(item)]


class Column(ABC):
    """The values of one field in n rows."""

    @abstractmethod
    def numbers(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return (n,) numbers, 0 where the value is missing, and an (n,) mask of missing values."""

    @abstractmethod
    def codes(self, read: Reader) -> tuple[list[Any], Codes]:
        """Return the distinct values as `read` returns them, and (n,) indices into them; -1 if missing."""

    @abstractmethod
    def lists(self, read: Reader) -> tuple[list[Any], Codes, Codes]:
        """Return the distinct items of all lists, the index of each item, and where each list ends.

        A missing list has a single item, with index -1.
        """


class PythonColumn(Column):
    """A column of Python values.

    Parameters
    ----------
    values
        The values, `None` where one is missing.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def numbers(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the numbers, and a mask of missing values."""
        missing = np.array([is_missing(value) for value in self.values], dtype=bool)
        found = [
            0.0 if is_missing(value) else read_number(i, value)
            for i, value in enumerate(self.values)
        ]
        return np.array(found, dtype=np.float64), missing

    def codes(self, read: Reader) -> tuple[list[Any], Codes]:
        """Return the distinct values, and an index into them for each row."""
        found: dict[Any, int] = {}
        codes = np.empty(len(self.values), dtype=np.int64)
        for i, value in enumerate(self.values):
            codes[i] = -1 if is_missing(value) else found.setdefault(read(i, value), len(found))
        return list(found), codes

    def lists(self, read: Reader) -> tuple[list[Any], Codes, Codes]:
        """Return the distinct items, the index of each item, and where each list ends."""
        found: dict[Any, int] = {}
        flat: list[int] = []
        ends = np.empty(len(self.values), dtype=np.int64)
        for i, value in enumerate(self.values):
            if is_missing(value):
                flat.append(-1)
            elif isinstance(value, LIST_TYPES):
                for item in list_items(value):
                    try:
                        flat.append(found.setdefault(read(i, item), len(found)))
                    except BadValue as bad:
                        raise BadValue(i, value, "a list of texts") from bad
            else:
                raise BadValue(i, value, "a list of texts")
            ends[i] = len(flat)
        return list(found), np.array(flat, dtype=np.int64), ends


class PandasColumn(Column):
    """A column of a pandas data frame, where NaN means that a value is missing."""

    def __init__(self, series: Any) -> None:
        self._series = series

    def _as_python(self) -> PythonColumn:
        return PythonColumn([nan_to_none(value) for value in self._series.astype(object).tolist()])

    def numbers(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the numbers, and a mask of missing values."""
        series = self._series
        if getattr(series.dtype, "kind", "O") not in "biuf":
            return self._as_python().numbers()
        found = np.array(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
        missing = np.isnan(found)
        found[missing] = 0.0
        return _finite(found), missing

    def codes(self, read: Reader) -> tuple[list[Any], Codes]:
        """Return the distinct values, and an index into them for each row."""
        import pandas as pd

        plain = pd.api.types.infer_dtype(self._series) in ("string", "categorical")
        if self._series.dtype.kind == "O" and not plain:
            return self._as_python().codes(read)  # pd.factorize takes True and 1 for one value
        codes, distinct = pd.factorize(self._series)
        return _read_distinct(codes.astype(np.int64), distinct.tolist(), read)

    def lists(self, read: Reader) -> tuple[list[Any], Codes, Codes]:
        """Return the distinct items, the index of each item, and where each list ends."""
        return self._as_python().lists(read)


class ArrowColumn(Column):
    """A column of an Arrow table; polars tables are converted to Arrow."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def _as_python(self) -> PythonColumn:
        return PythonColumn(self._array.to_pylist())

    def numbers(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the numbers, and a mask of missing values."""
        import pyarrow as pa

        array, kind = self._array, self._array.type
        if pa.types.is_boolean(kind):
            array = array.cast(pa.int8())
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return self._as_python().numbers()
        missing = array.is_null().to_numpy(zero_copy_only=False)
        filled = array.fill_null(0) if array.null_count else array
        found = filled.to_numpy(zero_copy_only=False).astype(np.float64)
        return _finite(found), missing

    def codes(self, read: Reader) -> tuple[list[Any], Codes]:
        """Return the distinct values, and an index into them for each row."""
        import pyarrow as pa

        array = self._array
        if not pa.types.is_dictionary(array.type):
            try:
                array = array.dictionary_encode()
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists and structs
                return self._as_python().codes(read)
        indices = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return _read_distinct(indices, array.dictionary.to_pylist(), read)

    def lists(self, read: Reader) -> tuple[list[Any], Codes, Codes]:
        """Return the distinct items, the index of each item, and where each list ends."""
        import pyarrow as pa

        array = self._array
        plain = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
        if not plain or array.null_count:
            return self._as_python().lists(read)
        items = array.flatten()
        if items.null_count:
            return self._as_python().lists(read)
        ends = array.value_lengths().to_numpy(zero_copy_only=False).cumsum().astype(np.int64)
        try:
            distinct, codes = ArrowColumn(items).codes(read)
        except BadValue:
            return self._as_python().lists(read)  # raises the error with the index of the row
        return distinct, codes, ends


def _finite(found: Floats) -> Floats:
    """Return the numbers; raise `BadValue` for the first that is not finite."""
    if not np.isfinite(found).all():
        i = int(np.argmin(np.isfinite(found)))
        read_number(i, float(found[i]))  # raises
    return found


def _read_distinct(codes: Codes, distinct: list[Any], read: Reader) -> tuple[list[Any], Codes]:
    """Read each distinct value once, and merge those that `read` returns the same for."""
    found: dict[Any, int] = {}
    new = np.full(len(distinct) + 1, -1, dtype=np.int64)  # new[-1] is for missing values
    for code, value in enumerate(distinct):
        if not is_missing(value):
            try:
                new[code] = found.setdefault(read(0, value), len(found))
            except BadValue as bad:
                raise BadValue(int(np.argmax(codes == code)), bad.value, bad.expected) from None
    return list(found), new[codes]
