"""The kinds of fields: how a value becomes numbers, and what these numbers are called.

A field has a fixed number of places in the vector. A value takes few of them, mostly one: that is what is
kept, as *slots* of (place, number), and crossing fields multiplies slots, not places.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import count_of, finite_number_of
from rolin.errors import InputError, ParameterError
from rolin.features.columns import Column
from rolin.features.values import BadValue, hash_of, text, told, truth

__all__ = [
    "KINDS",
    "LARGEST",
    "Boolean",
    "Category",
    "Field",
    "Ignored",
    "Number",
    "Tags",
    "field_of",
]

Floats = NDArray[np.float64]
Places = NDArray[np.int32]
LARGEST = 1e24
"""How large a scaled number may be: products of two can then be learned from."""
_MOST = 100_000  # places of one field


@dataclass(frozen=True, kw_only=True)
class Field(ABC):
    """What every kind of field has."""

    missing: bool = False
    """Whether a value that is missing has a place of its own."""
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        """Take what is as good as a bool for one."""
        object.__setattr__(self, "missing", bool(self.missing))

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of places."""

    @abstractmethod
    def names(self, field: str) -> list[str]:
        """Return what the places are called."""

    @abstractmethod
    def encode(self, column: Column) -> tuple[Places, Floats]:
        """Return (n, slots) places and numbers; a number of 0 means that the slot is not used."""

    @property
    def is_fitted(self) -> bool:
        """Whether nothing is left to be learned from a sample."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return the field as JSON has it, without what is as by default: of a later version, too."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        changed = {f.name: given[f.name] for f in fields(self) if given[f.name] != f.default}
        return {"kind": self.kind, **changed}

    def told(self) -> str:
        """Return what is known of it, in a few words."""
        return "missing has a place" if self.missing else ""

    def _gap(self, field: str) -> list[str]:
        return [f"{field} is missing"] if self.missing else []


@dataclass(frozen=True, kw_only=True)
class Number(Field):
    """A number, as it is or standardised: (value - center) / scale.

    A value that is missing counts as the center; with `missing=True`, it also has a coefficient of its own.

    Parameters
    ----------
    standardise
        Whether center and scale are the mean and standard deviation of a sample, which
        [`FeatureMap.infer`][rolin.FeatureMap.infer] finds and freezes.
    center
        What counts as 0.
    scale
        What counts as 1.
    missing
        Whether a value that is missing has a place of its own.
    """

    standardise: bool = False
    center: float | None = None
    scale: float | None = None
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        object.__setattr__(self, "standardise", bool(self.standardise))
        for name in ("center", "scale"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, finite_number_of(name, value))
        if self.scale is not None and not 1e-150 <= self.scale <= 1e150:
            raise ParameterError(f"scale={self.scale!r}, expected a positive number")

    @property
    def is_fitted(self) -> bool:
        """Whether center and scale are known."""
        return not self.standardise or (self.center is not None and self.scale is not None)

    @property
    def width(self) -> int:
        """Number of places."""
        return 1 + self.missing

    def names(self, field: str) -> list[str]:
        """Return what the places are called."""
        return [field, *self._gap(field)]

    def told(self) -> str:
        """Return what is known of it, in a few words."""
        units = f"center {self.center or 0.0:.4g}, scale {self.scale or 1.0:.4g}"
        return ", ".join(filter(None, [units, super().told()]))

    def encode(self, column: Column) -> tuple[Places, Floats]:
        """Return (n, 1) places and numbers."""
        values, missing = column.numbers()
        scaled = self.scaled(values)
        scaled[missing] = 0.0
        if scaled.size and not np.abs(scaled).max() <= LARGEST:
            i = int(np.argmax(~(np.abs(scaled) <= LARGEST)))
            raise BadValue(i, float(values[i]), f"a number that is at most {LARGEST:g} when scaled")
        scaled[missing] = float(self.missing)
        return (missing & self.missing).astype(np.int32)[:, None], scaled[:, None]

    def scaled(self, values: Floats) -> Floats:
        """Return numbers in units of the scale, from the center."""
        scaled: Floats = (values - (self.center or 0.0)) / (self.scale or 1.0)
        return scaled


@dataclass(frozen=True, kw_only=True)
class Boolean(Field):
    """True or false, which 1 and 0 are taken for; a value that is missing counts as false.

    Parameters
    ----------
    missing
        Whether a value that is missing has a place of its own.
    """

    kind: ClassVar[str] = "boolean"

    @property
    def width(self) -> int:
        """Number of places."""
        return 1 + self.missing

    def names(self, field: str) -> list[str]:
        """Return what the places are called."""
        return [field, *self._gap(field)]

    def encode(self, column: Column) -> tuple[Places, Floats]:
        """Return (n, 1) places and numbers."""
        different, codes = column.codes(truth)
        value = np.array([*different, self.missing], dtype=np.float64)[codes]
        return ((codes < 0) & self.missing).astype(np.int32)[:, None], value[:, None]


@dataclass(frozen=True)
class _Texts(Field):
    """What categories and tags share: the texts they know, or the places they are hashed to."""

    values: Sequence[Any] | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        """Check the values; numbers and booleans become texts."""
        super().__post_init__()
        if self.values is not None and self.size is not None:
            raise ParameterError(f"both values and size={self.size!r} are given, expected one")
        if self.values is not None:
            object.__setattr__(self, "values", _as_texts(self.values))
        if self.size is not None:
            size = count_of("size", self.size, least=1, most=_MOST)
            object.__setattr__(self, "size", size)

    @property
    def is_fitted(self) -> bool:
        """Whether the values are known, or hashed."""
        return self.values is not None or self.size is not None

    @property
    def _known(self) -> int:
        """Number of places of values: one each, and one for all that were never seen."""
        return self.size if self.size is not None else len(self.values or ()) + 1

    @property
    def width(self) -> int:
        """Number of places."""
        return self._known + self.missing

    def names(self, field: str) -> list[str]:
        """Return what the places are called."""
        if self.size is not None:
            known = [f"{field}#{i}" for i in range(self.size)]
        else:
            known = [f"{field}={value}" for value in self.values or ()] + [f"{field} is unseen"]
        return [*known, *self._gap(field)]

    def told(self) -> str:
        """Return what is known of it, in a few words."""
        listed = ", ".join(map(str, self.values or ()))
        known = (
            "hashed" if self.size is not None else listed if len(listed) < 50 else f"{listed[:49]}…"
        )
        return ", ".join(filter(None, [known, super().told()]))

    def table(self) -> dict[str, int]:
        """Return the places of the values that are known."""
        return {value: i for i, value in enumerate(self.values or ())}

    def place(self, value: str) -> int:
        """Return the place of a value, known or not."""
        return int(self._places([value])[0])

    def _places(self, texts: Iterable[str]) -> NDArray[np.int64]:
        if self.size is not None:
            found = [hash_of(value) % self.size for value in texts]
        else:
            table = self.table()
            found = [table.get(value, len(table)) for value in texts]
        return np.array(found, dtype=np.int64)


@dataclass(frozen=True)
class Category(_Texts):
    """One of several values: each has a place, and all that were never seen share one.

    Numbers and booleans are taken as texts: 18, 18.0 and `"18"` are one category. A value that is missing
    counts as one that was never seen, or with `missing=True` has a place of its own.

    Parameters
    ----------
    values
        The values; by default those of a sample, which [`FeatureMap.infer`][rolin.FeatureMap.infer] finds.
    size
        Number of places that values are hashed to, in place of a list of them.
    missing
        Whether a value that is missing has a place of its own.
    """

    kind: ClassVar[str] = "category"

    def encode(self, column: Column) -> tuple[Places, Floats]:
        """Return (n, 1) places and numbers."""
        different, codes = column.codes(text)
        places = self._places(different)
        # What is missing has the place behind the others, is unseen, or nowhere if values are hashed.
        gap = self.width - 1 if self.missing or self.size is None else 0
        found = np.append(places, gap)[codes].astype(np.int32)
        value = np.ones(len(codes))
        if self.size is not None and not self.missing:
            value[codes < 0] = 0.0
        return found[:, None], value[:, None]


@dataclass(frozen=True)
class Tags(_Texts):
    """A list of values, in any order: each tag that is there counts 1, all never seen count 1 together.

    Parameters
    ----------
    values
        The tags; by default those of a sample, which [`FeatureMap.infer`][rolin.FeatureMap.infer] finds.
    size
        Number of places that tags are hashed to, in place of a list of them.
    missing
        Whether a list that is missing has a place of its own; an empty list is not missing.
    """

    kind: ClassVar[str] = "tags"

    def encode(self, column: Column) -> tuple[Places, Floats]:
        """Return (n, slots) places and numbers, as many slots as the longest list has tags."""
        different, codes, ends = column.lists(text)
        n = len(ends)
        row = np.repeat(np.arange(n), np.diff(ends, prepend=0))
        place = np.append(self._places(different), self.width - 1)[codes]
        keep = (codes >= 0) | self.missing
        # each place once in a row, in order, so that the order of the tags does not matter
        pairs = np.unique(row[keep] * self.width + place[keep])
        row, place = np.divmod(pairs, self.width)
        count = np.bincount(row, minlength=n)
        slots = int(count.max(initial=0))
        slot = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        places, values = np.zeros((n, slots), dtype=np.int32), np.zeros((n, slots))
        places[row, slot] = place
        values[row, slot] = 1.0
        return places, values


@dataclass(frozen=True, kw_only=True)
class Ignored(Field):
    """A field that is known and not used: an identifier, a free text, something that is always missing."""

    kind: ClassVar[str] = "ignored"

    @property
    def width(self) -> int:
        """Number of places: none."""
        return 0

    def names(self, field: str) -> list[str]:  # as all kinds
        """Return no names."""
        return []

    def encode(self, column: Column) -> tuple[Places, Floats]:  # as all kinds
        """Refuse: it has no places, so nobody asks for them."""
        raise TypeError("a field that is ignored has no places")


KINDS: dict[str, type[Field]] = {
    kind.kind: kind for kind in (Number, Boolean, Category, Tags, Ignored)
}
"""The kinds of fields, by name."""


def field_of(given: dict[str, Any]) -> Field:
    """Return the field that `to_dict` described."""
    options = dict(given)
    kind = KINDS[options.pop("kind")]
    known = {field.name for field in fields(kind)}
    if unknown := set(options) - known:
        raise InputError(f"a field of kind {kind.kind!r} has no option {sorted(unknown)[0]!r}")
    if options.get("values") is not None:
        options["values"] = tuple(options["values"])
    return kind(**options)


def _as_texts(values: Any) -> tuple[str, ...]:
    if isinstance(values, (str, bytes)):
        raise ParameterError(f"values={values!r} is one text, expected a list of values")
    if isinstance(values, Set):
        raise ParameterError("values is a set, which has no order, expected a list of values")
    try:
        texts = tuple(text(i, value) for i, value in enumerate(values))
    except BadValue as bad:
        raise ParameterError(f"values hold {told(bad.value)}, expected {bad.expected}") from None
    except TypeError:
        raise ParameterError(f"values={values!r}, expected a list of values") from None
    if len(set(texts)) != len(texts):
        twice = next(value for value, n in Counter(texts).items() if n > 1)
        raise ParameterError(f"values hold {twice!r} twice, as texts, expected each once")
    if len(texts) >= _MOST:
        raise ParameterError(f"there are {len(texts)} values, expected fewer than {_MOST}")
    return texts
