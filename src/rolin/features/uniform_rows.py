"""Rows that all have the same fields: they are read once, and then column by column."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from json.encoder import encode_basestring_ascii
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from rolin.features.json_texts import (
    AS_BOOLEAN,
    AS_FLOAT,
    AS_INTEGER,
    LONGEST_NUMBER,
    powers_of_ten,
    write_rows,
)

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
_STYLES: dict[Any, int] = {float: AS_FLOAT, int: AS_INTEGER, bool: AS_BOOLEAN}
_END = "\n"  # between texts for the compiled loop; JSON writes it as two characters


class MixedNumbers:
    """Stands for the type of the values of a field that are floats, integers and booleans."""


_NUMBERS = {float, int, bool}
_KINDS_OF_NUMBERS = {*_NUMBERS, MixedNumbers}
Kind = type | None
"""The type of all values of a field; `None` if they are of several types."""


class _Layout(NamedTuple):
    """What follows from the fields and the types of their values; it is cached, because most rows are alike."""

    kinds: dict[str, Kind]
    position: dict[str, int]
    """The index of each field in a row."""
    number_row: dict[str, int]
    heads: NDArray[np.uint8]
    """What stands before the value of each field in JSON."""
    head_sizes: NDArray[np.int64]
    sources: NDArray[np.int64]
    """The row of a field of floats, integers or booleans in `numbers`, -1 for other fields."""
    styles: NDArray[np.int64]
    """How the compiled loop writes these."""
    others: tuple[str, ...]
    """The other fields."""
    is_plain: bool
    """Whether the other fields hold texts only."""
    is_sure: bool
    """Whether JSON can hold all values if the numbers are finite; fields with values of several types may hide others."""


@lru_cache(maxsize=8)
def _layout(names: tuple[str, ...], kinds: tuple[Kind, ...]) -> _Layout:
    kind_of = dict(zip(names, kinds, strict=True))
    numbers = [name for name in names if kind_of[name] in _KINDS_OF_NUMBERS]
    row = {name: i for i, name in enumerate(numbers)}
    others = tuple(name for name in names if kind_of[name] not in _STYLES)
    heads = [f"{',' if i else '},{'}{encode_basestring_ascii(n)}:" for i, n in enumerate(names)]
    return _Layout(
        kind_of,
        {name: i for i, name in enumerate(names)},
        row,
        np.frombuffer("".join(heads).encode(), dtype=np.uint8),
        np.array([len(head) for head in heads]),
        np.array([row[name] if kind_of[name] in _STYLES else -1 for name in names]),
        np.array([_STYLES.get(kind, -1) for kind in kinds]),
        others,
        all(kind_of[name] is str for name in others),
        None not in kinds,
    )


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
    values
        The values of all rows, row after row: a tuple, because the garbage collector leaves it alone.
    layout
        What follows from the fields and the types of their values.
    """

    __slots__ = ("_layout", "_n", "_values", "kinds", "number_row", "numbers")

    def __init__(self, values: tuple[Any, ...], layout: _Layout) -> None:
        self._values, self._layout = values, layout
        self._n = len(values) // len(layout.kinds)
        self.kinds = layout.kinds
        """The type of the values of each field; `None` if they are of several types."""
        self.number_row = layout.number_row
        """The row of each field of numbers or booleans in `numbers`."""
        self.numbers: Floats | None = None
        """(·, n): the fields of numbers and booleans; `None` if an integer is too large."""
        try:  # struct.pack takes a third of the time of np.array
            numbers = chain.from_iterable([self.column(name) for name in self.number_row])
            packed = struct.pack(f"{self._n * len(self.number_row)}d", *numbers)
            self.numbers = np.frombuffer(packed).reshape(len(self.number_row), self._n)
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
        values = tuple(chain.from_iterable(map(dict.values, rows)))
        types: list[type] = list(map(type, values))
        kinds: list[Kind] = [*types[:m]]
        if types != kinds * n:
            kinds = [_kind_of(types[i::m]) for i in range(m)]
        if len(types) != n * m or not _SCALARS.issuperset(kinds if kinds == types[:m] else types):
            return None
        return cls(values, _layout(tuple(names), tuple(kinds)))

    def column(self, name: str) -> tuple[Any, ...]:
        """Return the values of a field."""
        return self._values[self._layout.position[name] :: len(self.kinds)]

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
        m = len(self.kinds)
        start = range(self._n)[k] * m  # also from the end; the usual error if there is no such row
        return dict(zip(self.kinds, self._values[start : start + m], strict=True))

    @property
    def is_json(self) -> bool:
        """Whether JSON can certainly hold all values."""
        numbers = self.numbers
        return numbers is not None and self._layout.is_sure and bool(np.isfinite(numbers).all())

    def to_json(self) -> str | None:
        """Return a JSON list of the rows, as `json.dumps` writes it.

        It is `None` if JSON cannot hold a number, and in two rare cases, in which `json.dumps` must write it: integers of
        2⁵³ or more, and control characters.
        """
        numbers, n, layout = self.numbers, self._n, self._layout
        if numbers is None:
            return None
        try:
            text, quoted = self._texts()
        except ValueError:  # NaN, or an integer that is too long for Python to convert
            return None
        data, heads = np.frombuffer(text.encode(), dtype=np.uint8), layout.heads
        size = n * (len(heads) + LONGEST_NUMBER * len(layout.sources)) + len(data)
        out = np.empty(size, dtype=np.uint8)
        end = write_rows(
            n, heads, layout.head_sizes, numbers, numbers.view(np.uint64), layout.sources, layout.styles,
            data, quoted, powers_of_ten(), out,
        )  # fmt: skip
        # The first row has no row before it, and the last one is not closed.
        return None if end < 0 else f"[{out[2:end].tobytes().decode('ascii')}}}]"

    def _texts(self) -> tuple[str, bool]:
        """Return the texts of the fields that are not numbers, column by column, and whether quotation marks are missing."""
        others = self._layout.others
        each = [value for name in others for value in self.column(name)]
        if self._layout.is_plain:
            text = _END.join(each)
            has_no_end = text.count(_END) < max(len(each), 1)
            if has_no_end and text.isascii() and '"' not in text and "\\" not in text:
                return text, True
        return _END.join([_TEXT_OF[type(value)](value) for value in each]), False


def _kind_of(types: list[type]) -> Kind:
    """Return the type of all values, `MixedNumbers` or `None`."""
    if types.count(types[0]) == len(types):
        return types[0]
    return MixedNumbers if _NUMBERS.issuperset(types) else None
