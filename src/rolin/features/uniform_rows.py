"""Rows that all have the same fields: they are read once, and then column by column."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from itertools import chain
from json.encoder import encode_basestring_ascii
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from rolin.features.json_texts import LONGEST_FLOAT, powers_of_ten, write_rows

__all__ = ["UniformRows", "json_of_row"]

Floats = NDArray[np.float64]


def _finite_text(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(value)
    return repr(value)


# How JSON writes a value of each type.
_TEXT_OF: dict[Any, Callable[[Any], str]] = {
    str: encode_basestring_ascii,
    float: _finite_text,
    int: int.__repr__,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
}
_SCALARS = frozenset(_TEXT_OF)
_NUMBERS = {float, int, bool}
_END = "\n"  # between texts for the compiled loop; JSON writes it as two characters


def json_of_row(row: dict[str, Any]) -> str | None:
    """Return a row as JSON, as `json.dumps` writes it; `None` if a key or a value may not be a text, a number, a boolean or `None`."""
    try:
        parts = [f"{_TEXT_OF[type(n)](n)}:{_TEXT_OF[type(v)](v)}" for n, v in row.items()]
    except (KeyError, ValueError):
        return None
    return f"{{{','.join(parts)}}}" if {str}.issuperset(map(type, row)) else None


class UniformRows(Sequence[dict[str, Any]]):
    """Rows with the same fields in the same order, whose values are texts, numbers, booleans or `None`.

    The values are read at once, so later changes of the rows do not change them. `of` makes them.

    Parameters
    ----------
    names
        The m fields of every row.
    columns
        The values of each field.
    kinds
        The type of the values of each field; `None` if they are of several types.
    """

    def __init__(
        self, names: list[str], columns: list[list[Any]], kinds: list[type | None]
    ) -> None:
        self.columns = dict(zip(names, columns, strict=True))
        self.kinds = dict(zip(names, kinds, strict=True))
        self._n = len(columns[0])
        numbers = [
            name
            for name, kind in self.kinds.items()
            if kind in _NUMBERS
            or (kind is None and _NUMBERS.issuperset(map(type, self.columns[name])))
        ]
        self.number_row = dict(zip(numbers, range(len(numbers)), strict=True))
        """The row of each field of numbers or booleans in `numbers`."""
        self.numbers: Floats | None = None
        """(·, n): the fields of numbers and booleans; `None` if an integer is too large."""
        try:  # struct.pack takes a third of the time of np.array
            values = chain.from_iterable([self.columns[name] for name in numbers])
            packed = struct.pack(f"{self._n * len(numbers)}d", *values)
            self.numbers = np.frombuffer(packed).reshape(len(numbers), self._n)
        except (OverflowError, struct.error):
            pass

    @classmethod
    def of(cls, rows: Sequence[dict[str, Any]]) -> UniformRows | None:
        """Return the rows column by column; `None` if they have different fields, none, or values of other types."""
        if not rows or not rows[0] or not {dict}.issuperset(map(type, rows)):
            return None
        names, n = list(rows[0]), len(rows)
        m = len(names)
        # No row can be longer, because it would have a name twice; so all of them have m names.
        if not {str}.issuperset(map(type, names)) or list(chain.from_iterable(rows)) != names * n:
            return None
        values = list(chain.from_iterable(map(dict.values, rows)))
        types: list[type] = list(map(type, values))
        kinds: list[type | None] = [*types[:m]]
        if types != kinds * n:
            each = enumerate(types[:m])
            kinds = [kind if types[i::m].count(kind) == n else None for i, kind in each]
        if len(types) != n * m or not _SCALARS.issuperset(types if None in kinds else kinds):
            return None
        return cls(names, [values[i::m] for i in range(m)], kinds)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._n

    @overload
    def __getitem__(self, k: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, k: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, k: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """Return a row, or several rows, as new dicts."""
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        return {name: column[k] for name, column in self.columns.items()}

    def to_json(self) -> str | None:
        """Return a JSON list of the rows, as `json.dumps` writes it; `None` if JSON cannot hold a number."""
        numbers, n = self.numbers, self._n
        if numbers is None:
            return None
        sources, heads, texts = [], [], []
        before = "},{"
        try:
            for name, column in self.columns.items():
                kind = self.kinds[name]
                heads.append(f"{before}{encode_basestring_ascii(name)}:")
                before = ","
                sources.append(self.number_row[name] if kind is float else -1)
                if kind is None:
                    texts += [_TEXT_OF[type(value)](value) for value in column]
                elif kind is not float:
                    texts += map(_TEXT_OF[kind], column)
        except ValueError:  # NaN, or an integer that is too long for Python to convert
            return None
        head, text = "".join(heads).encode(), _END.join(texts).encode()
        m = len(heads)
        sizes = np.frombuffer(struct.pack(f"{2 * m}q", *sources, *map(len, heads)), dtype=np.int64)
        out = np.empty(n * (len(head) + LONGEST_FLOAT * m) + len(text), dtype=np.uint8)
        end = write_rows(
            n, np.frombuffer(head, dtype=np.uint8), sizes[m:], numbers.view(np.uint64), sizes[:m],
            np.frombuffer(text, dtype=np.uint8), powers_of_ten(), out,
        )  # fmt: skip
        # The first row has no row before it, and the last one is not closed.
        return None if end < 0 else f"[{out[2:end].tobytes().decode('ascii')}}}]"
