"""Columns of values, whatever library holds them: as numbers, as categories, as lists of tags.

What a value means is said once, for single values. A column finds out which different values it has, so
that each is looked at once, and the rest is arithmetic on whole arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.features.values import BadValue, is_missing, number, without_nan

__all__ = ["LISTS", "ArrowColumn", "Column", "PandasColumn", "Values", "items_of"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Reading = Callable[[int, Any], Any]
LISTS = (list, tuple, set, frozenset, np.ndarray)
"""What is taken for a list of tags."""


def items_of(value: Any) -> list[Any]:
    """Return the items of a list of any kind, without those that are missing."""
    items = np.atleast_1d(value).tolist() if isinstance(value, np.ndarray) else value
    return [item for item in items if not is_missing(item)]


class Column(ABC):
    """n values of one field."""

    @abstractmethod
    def numbers(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the numbers, 0 where one is missing, and which ones are."""

    @abstractmethod
    def codes(self, read: Reading) -> tuple[list[Any], Codes]:
        """Return what `read` makes of the different values, and which one each is; -1: missing."""

    @abstractmethod
    def lists(self, read: Reading) -> tuple[list[Any], Codes, Codes]:
        """Return what `read` makes of the items of all lists, which one each is, and where lists end.

        A list that is missing has a single item, of code -1.
        """


class Values(Column):
    """A column of Python's own values.

    Parameters
    ----------
    values
        The values, `None` where one is missing.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def numbers(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the numbers, and which ones are missing."""
        missing = np.array([is_missing(value) for value in self.values], dtype=bool)
        found = [
            0.0 if is_missing(value) else number(i, value) for i, value in enumerate(self.values)
        ]
        return np.array(found, dtype=np.float64), missing

    def codes(self, read: Reading) -> tuple[list[Any], Codes]:
        """Return the different values as they are read, and which one each is."""
        found: dict[Any, int] = {}
        codes = np.empty(len(self.values), dtype=np.int64)
        for i, value in enumerate(self.values):
            codes[i] = -1 if is_missing(value) else found.setdefault(read(i, value), len(found))
        return list(found), codes

    def lists(self, read: Reading) -> tuple[list[Any], Codes, Codes]:
        """Return the different items, which one each is, and where lists end."""
        found: dict[Any, int] = {}
        flat: list[int] = []
        ends = np.empty(len(self.values), dtype=np.int64)
        for i, value in enumerate(self.values):
            if is_missing(value):
                flat.append(-1)
            elif isinstance(value, LISTS):
                for item in items_of(value):
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

    def _values(self) -> Values:
        return Values([without_nan(value) for value in self._series.astype(object).tolist()])

    def numbers(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the numbers, and which ones are missing."""
        series = self._series
        if getattr(series.dtype, "kind", "O") not in "biuf":
            return self._values().numbers()
        found = np.array(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
        missing = np.isnan(found)
        found[missing] = 0.0
        return _finite(found), missing

    def codes(self, read: Reading) -> tuple[list[Any], Codes]:
        """Return the different values as they are read, and which one each is."""
        import pandas as pd

        plain = pd.api.types.infer_dtype(self._series) in ("string", "categorical")
        if self._series.dtype.kind == "O" and not plain:
            return self._values().codes(read)  # True and 1 would be one value
        codes, different = pd.factorize(self._series)
        return _read_all(codes.astype(np.int64), different.tolist(), read)

    def lists(self, read: Reading) -> tuple[list[Any], Codes, Codes]:
        """Return the different items, which one each is, and where lists end."""
        return self._values().lists(read)


class ArrowColumn(Column):
    """A column of Arrow, and so of polars."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def numbers(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the numbers, and which ones are missing."""
        import pyarrow as pa

        array, kind = self._array, self._array.type
        if pa.types.is_boolean(kind):
            array = array.cast(pa.int8())
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return Values(array.to_pylist()).numbers()
        missing = array.is_null().to_numpy(zero_copy_only=False)
        filled = array.fill_null(0) if array.null_count else array
        found = filled.to_numpy(zero_copy_only=False).astype(np.float64)
        return _finite(found), missing

    def codes(self, read: Reading) -> tuple[list[Any], Codes]:
        """Return the different values as they are read, and which one each is."""
        import pyarrow as pa

        array = self._array
        if not pa.types.is_dictionary(array.type):
            try:
                array = array.dictionary_encode()
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists and objects
                return Values(array.to_pylist()).codes(read)
        indices = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return _read_all(indices, array.dictionary.to_pylist(), read)

    def lists(self, read: Reading) -> tuple[list[Any], Codes, Codes]:
        """Return the different items, which one each is, and where lists end."""
        import pyarrow as pa

        array = self._array
        plain = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
        if not plain or array.null_count:
            return Values(array.to_pylist()).lists(read)
        items = array.flatten()
        if items.null_count:
            return Values(array.to_pylist()).lists(read)
        ends = array.value_lengths().to_numpy(zero_copy_only=False).cumsum().astype(np.int64)
        try:
            different, codes = ArrowColumn(items).codes(read)
        except BadValue:
            return Values(array.to_pylist()).lists(read)  # which says of which row it is
        return different, codes, ends


def _finite(found: Floats) -> Floats:
    if not np.isfinite(found).all():
        i = int(np.argmin(np.isfinite(found)))
        number(i, float(found[i]))  # says what is wrong with it
    return found


def _read_all(codes: Codes, different: list[Any], read: Reading) -> tuple[list[Any], Codes]:
    """Read each of the different values once; two of them may mean the same."""
    found: dict[Any, int] = {}
    new = np.full(len(different) + 1, -1, dtype=np.int64)  # the last is for what is missing
    for code, value in enumerate(different):
        if not is_missing(value):
            try:
                new[code] = found.setdefault(read(0, value), len(found))
            except BadValue as bad:
                raise BadValue(int(np.argmax(codes == code)), bad.value, bad.expected) from None
    return list(found), new[codes]
