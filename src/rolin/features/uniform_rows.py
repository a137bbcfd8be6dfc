"""Rows that all have the same fields: they are read once, and then column by column."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from json.encoder import encode_basestring_ascii
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from rolin.features.json_texts import LONGEST_FLOAT, powers_of_ten, write_rows

__all__ = ["SCALARS", "UniformRows"]

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
SCALARS = frozenset(_TEXT_OF)
"""The types of values that JSON holds exactly and that hold no other values."""
_NUMBERS = {float, int, bool}
_END = "\n"  # between texts for the compiled loop; JSON writes it as two characters


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
        self.names, self.kinds = names, dict(zip(names, kinds, strict=True))
        self.columns = dict(zip(names, columns, strict=True))

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
        if len(types) != n * m or not SCALARS.issuperset(types if None in kinds else kinds):
            return None
        return cls(names, [values[i::m] for i in range(m)], kinds)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.columns[self.names[0]])

    @overload
    def __getitem__(self, k: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, k: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, k: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """Return a row, or several rows, as new dicts."""
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        return {name: column[k] for name, column in self.columns.items()}

    @cached_property
    def numbers(self) -> tuple[Floats, dict[str, int]] | None:
        """The fields of numbers and booleans: (·, n), and the row of each field; `None` if one is too large."""
        found = {
            name: column
            for name, column in self.columns.items()
            if (kind := self.kinds[name]) in _NUMBERS
            or (kind is None and _NUMBERS.issuperset(map(type, column)))
        }
        n = len(self)
        try:  # struct.pack takes a third of the time of np.array
            packed = struct.pack(f"{n * len(found)}d", *chain.from_iterable(found.values()))
        except (OverflowError, struct.error):
            return None
        return np.frombuffer(packed).reshape(len(found), n), {x: i for i, x in enumerate(found)}

    def to_json(self) -> str | None:
        """Return a JSON list of the rows, as `json.dumps` writes it; `None` if JSON cannot hold a number."""
        if self.numbers is None:
            return None
        numbers, row_of = self.numbers
        sources, heads, texts = [], [], []
        before = "},{"
        try:
            for name, column in self.columns.items():
                kind = self.kinds[name]
                heads.append(f"{before}{encode_basestring_ascii(name)}:")
                before = ","
                sources.append(row_of[name] if kind is float else -1)
                if kind is None:
                    texts += [_TEXT_OF[type(value)](value) for value in column]
                elif kind is not float:
                    texts += map(_TEXT_OF[kind], column)
        except ValueError:  # NaN, or an integer that is too long for Python to convert
            return None
        n, head, text = len(self), "".join(heads).encode(), _END.join(texts).encode()
        sizes = np.array([sources, list(map(len, heads))])
        out = np.empty(n * (len(head) + LONGEST_FLOAT * len(heads)) + len(text), dtype=np.uint8)
        end = write_rows(
            n, np.frombuffer(head, dtype=np.uint8), sizes[1], numbers.view(np.uint64), sizes[0],
            np.frombuffer(text, dtype=np.uint8), powers_of_ten(), out,
        )  # fmt: skip
        # The first row has no row before it, and the last one is not closed.
        return None if end < 0 else f"[{out[2:end].tobytes().decode('ascii')}}}]"
