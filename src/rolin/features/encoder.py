"""The fields of a situation, or of an arm: rows become slots, and places have names."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.errors import InputError, ParameterError
from rolin.features import kernels
from rolin.features.base import ARM
from rolin.features.columns import Column, Values
from rolin.features.field_error import FieldError, NotFiniteFieldError
from rolin.features.fields import LARGEST, Boolean, Category, Field, Number, Tags
from rolin.features.tables import DEEPEST, Table, flatten, value_at
from rolin.features.values import REMEMBERED, BadValue, is_missing, text, told, truth

__all__ = ["Side", "Slots"]

Floats = NDArray[np.float64]
Places = NDArray[np.int32]
Whose = Callable[[int], str]
_NUMBERS = {float, int, bool, np.float64, np.float32, np.int64, np.int32, np.bool_}
_KEPT = 1 << 16  # texts whose places are remembered, of a field that is hashed


class Slots(NamedTuple):
    """What n rows have, without zeros: places and numbers, the constant first."""

    places: Places  # (n, slots)
    values: Floats  # (n, slots)


class Side:
    """One of the two sides that are crossed.

    Parameters
    ----------
    what
        `"situation"` or `"arm"`.
    fields
        Its fields, by name; those of objects within objects are joined by dots.
    """

    def __init__(self, what: str, fields: Mapping[str, Field]) -> None:
        self.what = what
        self.fields = dict(fields)
        objects = {
            name.rsplit(".", i)[0]
            for name in self.fields
            if isinstance(name, str)
            for i in range(1, name.count(".") + 1)
        }
        for name, field in self.fields.items():
            _check(what, name, field, objects)
        used = {name: field for name, field in self.fields.items() if field.width}
        ends = np.cumsum([1, *(field.width for field in used.values())]).tolist()
        self.offset: dict[str, int] = dict(zip(used, ends, strict=False))
        """The first place of each field that is used; place 0 is the constant."""
        self.width: int = ends[-1]
        self._known = set(self.fields)
        self._flat = not any("." in name for name in self.fields)
        # Slots of rows: the constant, all numbers, the other kinds that take one slot, then tags.
        numbers = {n: f for n, f in used.items() if isinstance(f, Number)}
        self._center = np.array([f.center or 0.0 for f in numbers.values()])
        self._scale = np.array([f.scale or 1.0 for f in numbers.values()])
        self._numbers = list(numbers)
        self._tags = {n: f for n, f in used.items() if isinstance(f, Tags)}
        self._single = {n: f for n, f in used.items() if n not in numbers and n not in self._tags}
        self._order = [*numbers, *self._single, *self._tags]
        self._plain = not any("." in n or n == ARM for n in self._order)
        flat = len(numbers) > 1 and not any("." in n for n in numbers)
        self._getter = itemgetter(*numbers) if flat else None
        places = [0, *(self.offset[n] for n in [*numbers, *self._single])]
        self._template = np.array(places, dtype=np.int32)
        self._tables: dict[str, dict[str, int]] = {
            n: {value: self.offset[n] + p for value, p in f.table().items()}
            for n, f in used.items()
            if isinstance(f, (Category, Tags))
        }

    @cached_property
    def names(self) -> list[str]:
        """What the places are called; the constant has no name."""
        own = [self.fields[name].names(name) for name in self.offset]
        found = ["", *(name for names in own for name in names)]
        if len(set(found)) < len(found):
            twice = next(name for name, n in Counter(found).items() if n > 1)
            raise ParameterError(f"two features of the {self.what} would be called {twice!r}")
        return found

    def place_range(self, name: str) -> range:
        """Return the places of a field."""
        first = self.offset.get(name, 0)  # one that is not used has none
        return range(first, first + self.fields[name].width)

    # -- rows --------------------------------------------------------------------------------

    def encode(
        self, rows: Sequence[dict[str, Any]], whose: Whose, arms: Sequence[Any] | None = None
    ) -> Slots:
        """Return the slots of a few rows, fast; errors say whose row it is."""
        if len(rows) == 1 and self._plain and (quick := self._quick(rows[0])) is not None:
            return quick
        n, width, q = len(rows), len(self._template), len(self._numbers)
        places, values = np.empty((n, width), dtype=np.int32), np.ones((n, width))
        if not n:
            return Slots(places, values)
        places[:] = self._template
        if q and not self._put_numbers(rows, whose, values[:, 1 : 1 + q]):
            for slot, name in enumerate(self._numbers, start=1):
                column = Values(self._column(name, rows, whose, arms))
                p, v = self._slow(name, self.fields[name], column, whose)
                places[:, slot], values[:, slot] = p[:, 0], v[:, 0]
        for slot, (name, field) in enumerate(self._single.items(), start=1 + q):
            each = self._column(name, rows, whose, arms)
            try:
                if isinstance(field, Category):
                    places[:, slot] = self._places(name, field, each)
                    continue
                if isinstance(field, Boolean):
                    values[:, slot] = [v if v.__class__ is bool else truth(0, v) for v in each]
                    continue
            except (BadValue, TypeError, ValueError):
                pass  # something is missing or wrong: it takes a closer look
            p, v = self._slow(name, field, Values(each), whose)
            places[:, slot], values[:, slot] = p[:, 0], v[:, 0]
        if not self._tags:
            return Slots(places, values)
        parts = [(places, values)]
        for name, tags in self._tags.items():
            each = self._column(name, rows, whose, arms)
            parts.append(self._tag_slots(name, tags, each, whose))
        return Slots(np.hstack([p for p, _ in parts]), np.hstack([v for _, v in parts]))

    def _quick(self, row: dict[str, Any]) -> Slots | None:
        """Return the slots of a row, without NumPy, if all in it is as it mostly is."""
        places, values = [0], [1.0]
        for name in self._order:
            value: Any = row.get(name)
            field = self.fields[name]
            kind, place = value.__class__, self.offset[name]
            if kind is str and isinstance(field, Category):
                place = self._tables[name].get(value, 0)
                value = 1.0
                if not place:
                    return None
            elif kind is bool and isinstance(field, Boolean):
                value = 1.0 if value else 0.0
            elif kind in (float, int) and isinstance(field, Number):
                try:
                    value = (value - (field.center or 0.0)) / (field.scale or 1.0)
                except OverflowError:
                    return None
                if not -LARGEST <= value <= LARGEST:
                    return None
            else:
                return None
            places.append(place)
            values.append(value)
        return Slots(np.array([places], dtype=np.int32), np.array([values]))

    def _column(
        self,
        name: str,
        rows: Sequence[dict[str, Any]],
        whose: Whose,
        arms: Sequence[Any] | None = None,
    ) -> Sequence[Any]:
        """Return the values of a field, `None` where a row has none."""
        if name == ARM and arms is not None:
            return arms
        if "." in name:
            return [_value_at(row, name, whose, i) for i, row in enumerate(rows)]
        return [row.get(name) for row in rows]

    def _put_numbers(self, rows: Sequence[dict[str, Any]], whose: Whose, out: Floats) -> bool:
        """Scale all numbers at once; return whether none is missing or wrong."""
        try:
            each: Iterable[Sequence[Any]] = (
                map(self._getter, rows)
                if self._getter
                else zip(*(self._column(name, rows, whose) for name in self._numbers), strict=True)
            )
            values = list(chain.from_iterable(each))
        except KeyError:
            return False
        if not _NUMBERS.issuperset(map(type, values)):
            return False
        try:  # a third of the time that np.array takes
            raw = np.frombuffer(struct.pack(f"{len(values)}d", *values)).reshape(out.shape)
        except (OverflowError, struct.error):
            return False
        return kernels.scale(raw, self._center, self._scale, LARGEST, out)

    def _places(self, name: str, field: Category | Tags, values: Iterable[Any]) -> list[int]:
        """Return the places of categories."""
        table = self._tables[name]
        try:
            return [table[value] for value in values]  # all are texts that are known, mostly
        except KeyError:
            pass
        unseen = self.offset[name] + len(table)  # of a field whose values are listed
        found = []
        for value in values:
            known = value if value.__class__ is str else text(0, value)
            place = table.get(known)
            if place is None:
                place = unseen
                if field.size is not None:
                    place = self.offset[name] + field.place(known)
                    if len(table) < _KEPT and len(known) <= REMEMBERED:
                        table[known] = place
            found.append(place)
        return found

    def _tag_slots(
        self, name: str, field: Tags, column: Sequence[Any], whose: Whose
    ) -> tuple[Places, Floats]:
        if any(tags.__class__ is not list for tags in column):
            return self._slow(name, field, Values(column), whose)
        try:
            lists = [sorted(set(self._places(name, field, tags))) for tags in column]
        except (BadValue, TypeError, ValueError):
            return self._slow(name, field, Values(column), whose)
        slots = max(map(len, lists), default=0)
        places = np.zeros((len(lists), slots), dtype=np.int32)
        values = np.zeros((len(lists), slots))
        for k, found in enumerate(lists):
            places[k, : len(found)] = found
            values[k, : len(found)] = 1.0
        return places, values

    def _slow(self, name: str, field: Field, column: Column, whose: Whose) -> tuple[Places, Floats]:
        try:
            places, values = field.encode(column)
        except BadValue as bad:
            raise _error(name, bad, whose) from None
        return places + np.int32(self.offset[name]), values

    def check_reserved(self, rows: Sequence[dict[str, Any]], whose: Whose) -> None:
        """Refuse a field that would be the name of the arm."""
        for i, row in enumerate(rows):
            if ARM in row:
                raise InputError(f"{whose(i)} has a field {ARM!r}, which is its name and not given")

    def check_known(self, rows: Sequence[dict[str, Any]], whose: Whose) -> None:
        """Refuse fields that were not declared."""
        self.check_reserved(rows, whose)
        for i, row in enumerate(rows):
            if self._flat and row.keys() <= self._known:
                continue
            for path, value in flatten(whose(i), row):
                if path not in self.fields and not is_missing(value):
                    raise InputError(
                        f"{whose(i)} has a field {path!r}, expected only {', '.join(self.fields)}"
                    )

    # -- tables ------------------------------------------------------------------------------

    def encode_table(self, table: Table, n: int, whose: Whose) -> Slots:
        """Return the slots of n rows, from their columns; one that is not there is missing."""
        parts = []
        for name in self.offset:
            column = table.get(name) or Values([None] * n)
            parts.append(self._slow(name, self.fields[name], column, whose))
        return _joined(n, parts)


def _joined(n: int, parts: list[tuple[Places, Floats]]) -> Slots:
    """Return all slots side by side, behind the constant."""
    width = 1 + sum(places.shape[1] for places, _ in parts)
    places, values = np.zeros((n, width), dtype=np.int32), np.empty((n, width))
    values[:, 0] = 1.0
    at = 1
    for own_places, own_values in parts:
        end = at + own_places.shape[1]
        places[:, at:end] = own_places
        values[:, at:end] = own_values
        at = end
    return Slots(places, values)


def _value_at(row: dict[str, Any], name: str, whose: Whose, i: int) -> Any:
    try:
        return value_at(row, name)
    except InputError as error:
        raise InputError(f"{whose(i)}: {error}") from None


def _error(name: str, bad: BadValue, whose: Whose) -> InputError:
    infinite = isinstance(bad.value, float) and not math.isfinite(bad.value)
    kind = NotFiniteFieldError if infinite else FieldError
    problem = f"is {told(bad.value)}, expected {bad.expected}"
    return kind.of(name, bad.place, whose(bad.place), problem)


def _check(what: str, name: Any, field: Any, objects: Set[str]) -> None:
    """Refuse a declaration that could not be told apart later."""
    if not isinstance(name, str) or not name:
        raise ParameterError(f"a field of the {what} is named {name!r}, expected a text")
    if not isinstance(field, Field):
        raise ParameterError(
            f"field {name!r} of the {what} is {field!r}, expected Number(), Boolean(), Category(), "
            "Tags() or Ignored()"
        )
    if any(part.startswith("_") for part in name.split(".")) and (what, name) != ("arm", ARM):
        raise ParameterError(
            f"field {name!r} of the {what}: names that begin with an underscore are reserved"
        )
    if "×" in name or name == "intercept":
        raise ParameterError(
            f"field {name!r} of the {what}: 'intercept' and '×' are reserved for names of features"
        )
    if name in objects:
        raise ParameterError(f"field {name!r} is declared both as a value and as an object")
    if name == ARM and not isinstance(field, Category):
        raise ParameterError(f"field {ARM!r} is the name of the arm, expected a Category of names")
    if name.count(".") >= DEEPEST:
        raise ParameterError(f"field {name!r} is nested deeper than {DEEPEST} levels")
    if not field.is_fitted:
        raise ParameterError(
            f"field {name!r} of the {what} is {field!r}, which has to be learned from a sample: say its values, or "
            "its center and scale; FeatureMap.infer finds them for a new map"
        )
