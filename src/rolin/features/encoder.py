"""Encode the fields of one side, the situation or the arm: from rows or tables to sparse rows."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.errors import InputError, ParameterError
from rolin.features import kernels
from rolin.features.base import ARM, Label
from rolin.features.columns import Column, PythonColumn
from rolin.features.field_error import FieldError, field_error, name_field_error
from rolin.features.fields import MAX_NUMBER, Boolean, Category, Field, Indices, Number, Tags
from rolin.features.tables import MAX_DEPTH, Table, flatten, value_at
from rolin.features.uniform_rows import UniformRows
from rolin.features.values import (
    MAX_CACHED_LENGTH,
    BadValue,
    is_missing,
    read_boolean,
    read_text,
)

__all__ = ["SideEncoder", "SparseRows"]

Floats = NDArray[np.float64]
_NUMBER_TYPES = {float, int, bool, np.float64, np.float32, np.int64, np.int32, np.bool_}
_MAX_CACHED = 1 << 16  # texts of a hashed field whose feature indices are cached


class SparseRows(NamedTuple):
    """n rows without their zeros: the feature indices of the entries and their values.

    The first entry of each row is the constant 1, with index 0. Unused entries have the value 0.
    """

    indices: Indices  # (n, m)
    values: Floats  # (n, m)


class SideEncoder:
    """Encodes the fields of the situation, or those of the arm.

    Parameters
    ----------
    side
        `"situation"` or `"arm"`.
    fields
        The fields by name; names of fields in nested objects are joined by dots.
    """

    def __init__(self, side: str, fields: Mapping[str, Field]) -> None:
        self.side = side
        self.fields = dict(fields)
        objects = {
            name.rsplit(".", i)[0]
            for name in self.fields
            if isinstance(name, str)
            for i in range(1, name.count(".") + 1)
        }
        for name, field in self.fields.items():
            _check_field(side, name, field, objects)
        used = {name: field for name, field in self.fields.items() if field.width}
        ends = np.cumsum([1, *(field.width for field in used.values())]).tolist()
        self.offset: dict[str, int] = dict(zip(used, ends, strict=False))
        """The first feature index of each field that is used; 0 is that of the constant."""
        self.width: int = ends[-1]
        """Number of features, the constant included."""
        self._known = set(self.fields)
        self._flat = not any("." in name for name in self.fields)
        # Order of the entries in a row: the constant, all numbers, other fields with one entry, tags.
        numbers = {n: f for n, f in used.items() if isinstance(f, Number)}
        self._center = np.array([f.center or 0.0 for f in numbers.values()])
        self._scale = np.array([f.scale or 1.0 for f in numbers.values()])
        self._numbers = list(numbers)
        self._tags = {n: f for n, f in used.items() if isinstance(f, Tags)}
        self._single = {n: f for n, f in used.items() if n not in numbers and n not in self._tags}
        self._order = [*numbers, *self._single, *self._tags]
        self._simple = not any("." in n or n == ARM for n in self._order)
        flat = len(numbers) > 1 and not any("." in n for n in numbers)
        self._get_numbers = itemgetter(*numbers) if flat else None
        # Numbers and booleans, whole columns of which are scaled at once, and where they are in a row.
        entries = {n: i for i, n in enumerate([*numbers, *self._single], start=1)}
        self._booleans = [n for n, f in self._single.items() if isinstance(f, Boolean)]
        self._measured = [*numbers, *self._booleans]
        self._categories = {n: f for n, f in self._single.items() if isinstance(f, Category)}
        self._measured_entries = np.array([entries[n] for n in self._measured], dtype=np.int64)
        self._category_entries = np.array([entries[n] for n in self._categories], dtype=np.int64)
        self._measured_center = np.append(self._center, np.zeros(len(self._booleans)))
        self._measured_scale = np.append(self._scale, np.ones(len(self._booleans)))
        first = [0, *(self.offset[n] for n in [*numbers, *self._single])]
        self._first_indices = np.array(first, dtype=np.int32)
        self._text_indices: dict[str, dict[str, int]] = {
            n: {text: self.offset[n] + c for text, c in f.listed_indices().items()}
            for n, f in used.items()
            if isinstance(f, (Category, Tags))
        }

    @cached_property
    def names(self) -> list[str]:
        """Names of the features; the constant has the empty name."""
        own = [self.fields[name].names(name) for name in self.offset]
        return ["", *(name for names in own for name in names)]

    def check_names(self) -> None:
        """Reject fields of which two features would have the same name."""
        if len(set(self.names)) < len(self.names):
            twice = next(name for name, n in Counter(self.names).items() if n > 1)
            raise ParameterError(
                f"two features of the {self.side} would be called {twice!r}: rename a field"
            )

    def indices_of(self, name: str) -> range:
        """Return the feature indices of a field; an ignored field has none."""
        first = self.offset.get(name, 0)
        return range(first, first + self.fields[name].width)

    # -- rows --------------------------------------------------------------------------------

    def encode(
        self, rows: Sequence[dict[str, Any]], label: Label, arms: Sequence[Any] | None = None
    ) -> SparseRows:
        """Encode rows, fast for the few rows of one decision.

        Parameters
        ----------
        rows
            The n rows.
        label
            What error messages call a row.
        arms
            The names of the n arms, for the field `_arm`.
        """
        if len(rows) == 1 and self._simple and (row := self._encode_simple(rows[0])) is not None:
            return row
        if isinstance(rows, UniformRows):
            if (found := self._encode_uniform(rows, arms)) is not None:
                return found
            rows = list(rows)
        n, width, q = len(rows), len(self._first_indices), len(self._numbers)
        indices, values = np.empty((n, width), dtype=np.int32), np.ones((n, width))
        if not n:
            return SparseRows(indices, values)
        indices[:] = self._first_indices
        if q and not self._scale_numbers(rows, label, values[:, 1 : 1 + q]):
            for entry, name in enumerate(self._numbers, start=1):
                column = PythonColumn(self._values_of(name, rows, label, arms))
                i, v = self._encode_column(name, column, label)
                indices[:, entry], values[:, entry] = i[:, 0], v[:, 0]
        for entry, (name, field) in enumerate(self._single.items(), start=1 + q):
            each = self._values_of(name, rows, label, arms)
            try:
                if isinstance(field, Category):
                    indices[:, entry] = self._indices_of_texts(name, field, each)
                    continue
                if isinstance(field, Boolean):
                    values[:, entry] = [
                        v if v.__class__ is bool else read_boolean(0, v) for v in each
                    ]
                    continue
            except (BadValue, TypeError, ValueError):
                pass  # a value is missing or wrong: `_encode_column` handles it
            i, v = self._encode_column(name, PythonColumn(each), label)
            indices[:, entry], values[:, entry] = i[:, 0], v[:, 0]
        if not self._tags:
            return SparseRows(indices, values)
        parts = [(indices, values)]
        for name, tags in self._tags.items():
            each = self._values_of(name, rows, label, arms)
            parts.append(self._encode_tags(name, tags, each, label))
        return SparseRows(np.hstack([i for i, _ in parts]), np.hstack([v for _, v in parts]))

    def _encode_uniform(self, rows: UniformRows, arms: Sequence[Any] | None) -> SparseRows | None:
        """Encode whole columns, or return `None` if a value is missing or wrong, or there are tags."""
        if self._tags:
            return None
        numbers, row_of, kinds = rows.numbers, rows.number_row, rows.kinds
        if numbers is None:
            return None
        codes: list[int] = []
        try:
            sources = [row_of[name] for name in self._measured]
            if any(kinds[name] is not bool for name in self._booleans):
                return None
            for name, field in self._categories.items():
                each = arms if name == ARM and arms is not None else rows.column(name)
                if each is not arms and kinds[name] is str and field.size is None:
                    known = self._text_indices[name]
                    codes += map(known.get, each, repeat(self.offset[name] + len(known)))
                else:
                    codes += self._indices_of_texts(name, field, each)
        except (BadValue, KeyError, TypeError, ValueError):
            return None
        n, width = len(rows), len(self._first_indices)
        packed = struct.pack(f"{len(codes)}i", *codes)
        out = SparseRows(np.empty((n, width), dtype=np.int32), np.empty((n, width)))
        good = kernels.fill_rows(
            numbers, np.array(sources, dtype=np.int64), self._measured_center, self._measured_scale, MAX_NUMBER,
            self._measured_entries, np.frombuffer(packed, dtype=np.int32), self._category_entries,
            self._first_indices, *out,
        )  # fmt: skip
        return out if good else None

    def _encode_simple(self, row: dict[str, Any]) -> SparseRows | None:
        """Encode a row without NumPy, or return `None` if a value is missing, unseen or of another type."""
        indices, values = [0], [1.0]
        for name in self._order:
            value: Any = row.get(name)
            field = self.fields[name]
            kind, index = value.__class__, self.offset[name]
            if kind is str and isinstance(field, Category):
                index = self._text_indices[name].get(value, 0)
                value = 1.0
                if not index:
                    return None
            elif kind is bool and isinstance(field, Boolean):
                value = 1.0 if value else 0.0
            elif kind in (float, int) and isinstance(field, Number):
                try:
                    value = (value - (field.center or 0.0)) / (field.scale or 1.0)
                except OverflowError:
                    return None
                if not -MAX_NUMBER <= value <= MAX_NUMBER:
                    return None
            else:
                return None
            indices.append(index)
            values.append(value)
        return SparseRows(np.array([indices], dtype=np.int32), np.array([values]))

    def _values_of(
        self,
        name: str,
        rows: Sequence[dict[str, Any]],
        label: Label,
        arms: Sequence[Any] | None = None,
    ) -> Sequence[Any]:
        """Return the values of a field, `None` where a row does not have it."""
        if name == ARM and arms is not None:
            return arms
        if "." in name:
            return [_value_at(row, name, label, i) for i, row in enumerate(rows)]
        return [row.get(name) for row in rows]

    def _scale_numbers(self, rows: Sequence[dict[str, Any]], label: Label, out: Floats) -> bool:
        """Scale all numbers at once; return whether none is missing or wrong."""
        try:
            each: Iterable[Sequence[Any]] = (
                map(self._get_numbers, rows)
                if self._get_numbers
                else zip(*(self._values_of(n, rows, label) for n in self._numbers), strict=True)
            )
            values = list(chain.from_iterable(each))
        except KeyError:
            return False
        if not _NUMBER_TYPES.issuperset(map(type, values)):
            return False
        try:  # struct.pack takes a third of the time of np.array
            raw = np.frombuffer(struct.pack(f"{len(values)}d", *values)).reshape(out.shape)
        except (OverflowError, struct.error):
            return False
        return kernels.scale(raw, self._center, self._scale, MAX_NUMBER, out)

    def _indices_of_texts(
        self, name: str, field: Category | Tags, values: Iterable[Any]
    ) -> list[int]:
        """Return the feature indices of categories or tags; raise if a value is missing or wrong."""
        known = self._text_indices[name]
        try:
            return [known[value] for value in values]  # mostly, all are known texts
        except KeyError:
            pass
        unseen = self.offset[name] + len(known)  # if values are listed
        found = []
        for value in values:
            text = value if value.__class__ is str else read_text(0, value)
            index = known.get(text)
            if index is None:
                index = unseen
                if field.size is not None:
                    index = self.offset[name] + field.feature_index(text)
                    if len(known) < _MAX_CACHED and len(text) <= MAX_CACHED_LENGTH:
                        known[text] = index
            found.append(index)
        return found

    def _encode_tags(
        self, name: str, field: Tags, lists: Sequence[Any], label: Label
    ) -> tuple[Indices, Floats]:
        if any(tags.__class__ is not list for tags in lists):
            return self._encode_column(name, PythonColumn(lists), label)
        try:
            each = [sorted(set(self._indices_of_texts(name, field, tags))) for tags in lists]
        except (BadValue, TypeError, ValueError):
            return self._encode_column(name, PythonColumn(lists), label)
        m = max(map(len, each), default=0)
        indices = np.zeros((len(each), m), dtype=np.int32)
        values = np.zeros((len(each), m))
        for k, found in enumerate(each):
            indices[k, : len(found)] = found
            values[k, : len(found)] = 1.0
        return indices, values

    def _encode_column(self, name: str, column: Column, label: Label) -> tuple[Indices, Floats]:
        """Encode all values of a field; an error names the field and the row."""
        try:
            indices, values = self.fields[name].encode(column)
        except BadValue as bad:
            raise field_error(name, bad, label) from None
        return indices + np.int32(self.offset[name]), values

    def check_reserved(self, rows: Sequence[dict[str, Any]], label: Label) -> None:
        """Reject rows that have the reserved field `_arm`."""
        for i, row in enumerate(rows[:1] if isinstance(rows, UniformRows) else rows):
            if ARM in row:
                raise name_field_error(ARM, i, label)

    def check_known(self, rows: Sequence[dict[str, Any]], label: Label) -> None:
        """Reject rows with fields that were not declared."""
        self.check_reserved(rows, label)
        if isinstance(rows, UniformRows) and self._flat and rows.kinds.keys() <= self._known:
            return
        for i, row in enumerate(rows):
            if self._flat and row.keys() <= self._known:
                continue
            for path, value in flatten(label(i), row, index=i):
                if path not in self.fields and not is_missing(value):
                    problem = (
                        f"expected only {', '.join(self.fields)}: declare it, as Ignored() if it is not to be used, or "
                        "make the map with strict=False"
                    )
                    raise FieldError.of(
                        path,
                        i,
                        label(i),
                        f"is not declared, {problem}",
                        f"{label(i)} has a field {path!r}, {problem}",
                    )

    # -- tables ------------------------------------------------------------------------------

    def encode_table(self, table: Table, label: Label) -> SparseRows:
        """Encode the rows of a table, whole columns at a time; a field without a column is missing."""
        n = table.n_rows
        parts = []
        for name in self.offset:
            column = table.columns.get(name) or PythonColumn([None] * n)
            parts.append(self._encode_column(name, column, label))
        return _join(n, parts)


def _join(n: int, parts: list[tuple[Indices, Floats]]) -> SparseRows:
    """Return the constant and the entries of all fields as one set of rows."""
    width = 1 + sum(indices.shape[1] for indices, _ in parts)
    indices, values = np.zeros((n, width), dtype=np.int32), np.empty((n, width))
    values[:, 0] = 1.0
    start = 1
    for own_indices, own_values in parts:
        end = start + own_indices.shape[1]
        indices[:, start:end] = own_indices
        values[:, start:end] = own_values
        start = end
    return SparseRows(indices, values)


def _value_at(row: dict[str, Any], name: str, label: Label, i: int) -> Any:
    try:
        return value_at(row, name)
    except InputError as error:
        text = "is given twice, as a name with dots and as a nested object: give it once"
        raise FieldError.of(name, i, label(i), text, f"{label(i)}: {error}") from None


def _check_field(side: str, name: Any, field: Any, objects: Set[str]) -> None:
    """Reject a declaration that is not a field, not complete, or ambiguous."""
    if not isinstance(name, str) or not name:
        raise ParameterError(f"a field of the {side} is named {name!r}, expected a text")
    if not isinstance(field, Field):
        raise ParameterError(
            f"field {name!r} of the {side} is {field!r}, expected Number(), Boolean(), Category(), "
            "Tags() or Ignored()"
        )
    if any(part.startswith("_") for part in name.split(".")) and (side, name) != ("arm", ARM):
        raise ParameterError(
            f"field {name!r} of the {side}: names that begin with an underscore are reserved, choose another"
        )
    if "×" in name or name == "intercept":
        raise ParameterError(
            f"field {name!r} of the {side}: 'intercept' and '×' are reserved for names of features, choose another"
        )
    if name in objects:
        raise ParameterError(
            f"field {name!r} is declared both as a value and as an object, expected one of them"
        )
    if name == ARM and not isinstance(field, Category):
        raise ParameterError(f"field {ARM!r} is the name of the arm, expected a Category of names")
    if name.count(".") >= MAX_DEPTH:
        raise ParameterError(
            f"field {name!r} is nested deeper than {MAX_DEPTH} levels: declare it closer to the top"
        )
    if not field.is_fitted:
        raise ParameterError(
            f"field {name!r} of the {side} is {field!r}, which must be learned from a sample: give its values, or "
            "its center and scale, or make the map with FeatureMap.infer"
        )
