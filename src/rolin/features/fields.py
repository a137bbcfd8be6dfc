"""The kinds of fields: how a value becomes numbers, and how these numbers are named.

A field owns a fixed number of features, which are numbers of the vector. A single value is not zero in only a few of
them, mostly in one. Values are therefore encoded sparsely, as pairs of a feature index and a number. Crossing two fields
multiplies such pairs, not all features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import count_of, finite_number_of, flag_of
from rolin.errors import InputError, ParameterError
from rolin.features.columns import Column
from rolin.features.values import BadValue, describe, hash_text, read_boolean, read_text

__all__ = [
    "KINDS",
    "MAX_NUMBER",
    "Boolean",
    "Category",
    "Field",
    "Ignored",
    "Indices",
    "Number",
    "Tags",
    "field_from_dict",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int32]
"""Feature indices."""
MAX_NUMBER = 1e24
"""Largest absolute value of a scaled number; a model can still learn from the product of two such numbers."""
_MAX_FEATURES = 100_000  # of one field


@dataclass(frozen=True, kw_only=True)
class Field(ABC):
    """Base class of all kinds of fields."""

    missing: bool = False
    """Whether a missing value has a feature of its own."""
    kind: ClassVar[str]
    """Name of the kind in JSON."""
    json_names: ClassVar[dict[str, str]] = {}
    """Options that have another name in JSON."""

    def __post_init__(self) -> None:
        """Convert `missing` to a bool."""
        object.__setattr__(self, "missing", flag_of("missing", self.missing))

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features."""

    @abstractmethod
    def names(self, field: str) -> list[str]:
        """Return the names of the features.

        Parameters
        ----------
        field
            Name of the field.
        """

    @abstractmethod
    def encode(self, column: Column) -> tuple[Indices, Floats]:
        """Return the feature indices and the numbers of n values, both (n, m).

        m is the largest number of features that one value takes. Unused entries have the number 0.

        Parameters
        ----------
        column
            The n values.
        """

    @property
    def is_fitted(self) -> bool:
        """Whether nothing is left to learn from a sample."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return the field as JSON has it, without options that have their default.

        Leaving out defaults keeps the version of a map when a later release adds an option.
        """
        options = {f.name: getattr(self, f.name) for f in fields(self)}
        changed = {
            self.json_names.get(f.name, f.name): options[f.name]
            for f in fields(self)
            if options[f.name] != f.default
        }
        return {"kind": self.kind, **changed}

    def summary(self) -> str:
        """Return the options in a few words."""
        return "missing has a feature" if self.missing else ""

    def _missing_name(self, field: str) -> list[str]:
        return [f"{field} is missing"] if self.missing else []


@dataclass(frozen=True, kw_only=True)
class Number(Field):
    """A number, as it is or standardized: (value - center) / scale.

    A missing value counts as the center. With `missing=True` it also has a coefficient of its own.

    Parameters
    ----------
    standardize
        Whether center and scale are the mean and standard deviation of a sample.
        [`FeatureMap.infer`][rolin.FeatureMap.infer] computes them once.
    center
        The value that is encoded as 0.
    scale
        The distance from the center that is encoded as 1.
    missing
        Whether a missing value has a feature of its own.
    """

    standardize: bool = False
    center: float | None = None
    scale: float | None = None
    kind: ClassVar[str] = "number"
    json_names: ClassVar[dict[str, str]] = {"standardize": "standardise"}

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        object.__setattr__(self, "standardize", flag_of("standardize", self.standardize))
        for name in ("center", "scale"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, finite_number_of(name, value))
        if self.scale is not None and not 1e-150 <= self.scale <= 1e150:
            raise ParameterError(f"scale={self.scale!r}, expected a positive number")

    @property
    def is_fitted(self) -> bool:
        """Whether center and scale are known, or not needed."""
        return not self.standardize or (self.center is not None and self.scale is not None)

    @property
    def width(self) -> int:
        """Number of features."""
        return 1 + self.missing

    def names(self, field: str) -> list[str]:
        """Return the names of the features."""
        return [field, *self._missing_name(field)]

    def summary(self) -> str:
        """Return the options in a few words."""
        units = f"center {self.center or 0.0:.4g}, scale {self.scale or 1.0:.4g}"
        return ", ".join(filter(None, [units, super().summary()]))

    def encode(self, column: Column) -> tuple[Indices, Floats]:
        """Return (n, 1) feature indices and numbers."""
        values, missing = column.numbers()
        scaled = self.scaled(values)
        scaled[missing] = 0.0
        if scaled.size and not np.abs(scaled).max() <= MAX_NUMBER:
            i = int(np.argmax(~(np.abs(scaled) <= MAX_NUMBER)))
            expected = f"a number that is at most {MAX_NUMBER:g} when scaled"
            raise BadValue(i, float(values[i]), expected)
        scaled[missing] = float(self.missing)
        return (missing & self.missing).astype(np.int32)[:, None], scaled[:, None]

    def scaled(self, values: Floats) -> Floats:
        """Return (values - center) / scale."""
        scaled: Floats = (values - (self.center or 0.0)) / (self.scale or 1.0)
        return scaled


@dataclass(frozen=True, kw_only=True)
class Boolean(Field):
    """True or false; 1 and 0 are accepted. A missing value counts as false.

    Parameters
    ----------
    missing
        Whether a missing value has a feature of its own.
    """

    kind: ClassVar[str] = "boolean"

    @property
    def width(self) -> int:
        """Number of features."""
        return 1 + self.missing

    def names(self, field: str) -> list[str]:
        """Return the names of the features."""
        return [field, *self._missing_name(field)]

    def encode(self, column: Column) -> tuple[Indices, Floats]:
        """Return (n, 1) feature indices and numbers."""
        distinct, codes = column.codes(read_boolean)
        value = np.array([*distinct, self.missing], dtype=np.float64)[codes]
        return ((codes < 0) & self.missing).astype(np.int32)[:, None], value[:, None]


@dataclass(frozen=True)
class _TextField(Field):
    """Base class of categories and tags: texts that are listed, or hashed to a number of columns."""

    values: Sequence[Any] | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        """Check the options; convert values that are numbers or booleans to texts."""
        super().__post_init__()
        if self.values is not None and self.size is not None:
            raise ParameterError(
                f"both values and size={self.size!r} are given, expected one of them: values lists the texts, size "
                "hashes them"
            )
        if self.values is not None:
            object.__setattr__(self, "values", _as_texts(self.values))
        if self.size is not None:
            size = count_of("size", self.size, least=1, most=_MAX_FEATURES)
            object.__setattr__(self, "size", size)

    @property
    def is_fitted(self) -> bool:
        """Whether the values are listed or hashed."""
        return self.values is not None or self.size is not None

    @property
    def width(self) -> int:
        """Number of features: one per value and one for unseen values, or `size`; and one for missing values."""
        known = self.size if self.size is not None else len(self.values or ()) + 1
        return known + self.missing

    def names(self, field: str) -> list[str]:
        """Return the names of the features."""
        if self.size is not None:
            known = [f"{field}#{i}" for i in range(self.size)]
        else:
            known = [f"{field}={value}" for value in self.values or ()] + [f"{field} is unseen"]
        return [*known, *self._missing_name(field)]

    def summary(self) -> str:
        """Return the options in a few words."""
        values = ", ".join(map(str, self.values or ()))
        known = (
            "hashed" if self.size is not None else values if len(values) < 50 else f"{values[:49]}…"
        )
        return ", ".join(filter(None, [known, super().summary()]))

    def listed_indices(self) -> dict[str, int]:
        """Return the feature index, within the field, of each listed value."""
        return {value: i for i, value in enumerate(self.values or ())}

    def feature_index(self, value: str) -> int:
        """Return the feature index, within the field, of a text, listed or not."""
        return int(self._indices([value])[0])

    def _indices(self, texts: Iterable[str]) -> NDArray[np.int64]:
        if self.size is not None:
            found = [hash_text(text) % self.size for text in texts]
        else:
            listed = self.listed_indices()
            found = [listed.get(text, len(listed)) for text in texts]
        return np.array(found, dtype=np.int64)


@dataclass(frozen=True)
class Category(_TextField):
    """One of several values. Each value has a feature; all values that are not listed share one.

    Numbers and booleans are converted to texts: 18, 18.0 and `"18"` are the same category. A missing value counts
    as unseen, or has a feature of its own with `missing=True`.

    Parameters
    ----------
    values
        The values; if left out, [`FeatureMap.infer`][rolin.FeatureMap.infer] takes them from a sample.
    size
        Number of features that values are hashed to, instead of a list of values.
    missing
        Whether a missing value has a feature of its own.
    """

    kind: ClassVar[str] = "category"

    def encode(self, column: Column) -> tuple[Indices, Floats]:
        """Return (n, 1) feature indices and numbers."""
        distinct, codes = column.codes(read_text)
        # A missing value has the last feature, which is that of unseen values unless `missing`.
        # If values are hashed and not `missing`, it has no feature: its number is 0.
        for_missing = self.width - 1 if self.missing or self.size is None else 0
        indices = np.append(self._indices(distinct), for_missing)[codes].astype(np.int32)
        numbers = np.ones(len(codes))
        if self.size is not None and not self.missing:
            numbers[codes < 0] = 0.0
        return indices[:, None], numbers[:, None]


@dataclass(frozen=True)
class Tags(_TextField):
    """A list of values in any order. Each tag in the list counts 1; all unseen tags together count 1.

    Parameters
    ----------
    values
        The tags; if left out, [`FeatureMap.infer`][rolin.FeatureMap.infer] takes them from a sample.
    size
        Number of features that tags are hashed to, instead of a list of tags.
    missing
        Whether a missing list has a feature of its own; an empty list is not missing.
    """

    kind: ClassVar[str] = "tags"

    def encode(self, column: Column) -> tuple[Indices, Floats]:
        """Return (n, m) feature indices and numbers, where m is the largest number of features of one list."""
        distinct, codes, ends = column.lists(read_text)
        n = len(ends)
        row = np.repeat(np.arange(n), np.diff(ends, prepend=0))
        index = np.append(self._indices(distinct), self.width - 1)[codes]
        used = (codes >= 0) | self.missing
        # Each feature once per row, and sorted, so that the order of the tags does not matter.
        pairs = np.unique(row[used] * self.width + index[used])
        row, index = np.divmod(pairs, self.width)
        count = np.bincount(row, minlength=n)
        m = int(count.max(initial=0))
        entry = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        indices, numbers = np.zeros((n, m), dtype=np.int32), np.zeros((n, m))
        indices[row, entry] = index
        numbers[row, entry] = 1.0
        return indices, numbers


@dataclass(frozen=True, kw_only=True)
class Ignored(Field):
    """A field that is known but not used: an identifier, a free text, or a field that is always missing."""

    kind: ClassVar[str] = "ignored"

    @property
    def width(self) -> int:
        """Number of columns: 0."""
        return 0

    def names(self, field: str) -> list[str]:
        """Return no names."""
        return []

    def encode(self, column: Column) -> tuple[Indices, Floats]:
        """Raise an error: the field has no columns, so encoding it is a bug."""
        raise TypeError("an ignored field has no columns")


KINDS: dict[str, type[Field]] = {
    kind.kind: kind for kind in (Number, Boolean, Category, Tags, Ignored)
}
"""The kinds of fields, by their name in JSON."""


def field_from_dict(given: dict[str, Any]) -> Field:
    """Return the field that `to_dict` described."""
    options = dict(given)
    kind = KINDS[options.pop("kind")]
    names = {kind.json_names.get(field.name, field.name): field.name for field in fields(kind)}
    if unknown := sorted(set(options) - set(names)):
        raise InputError(
            f"a field of kind {kind.kind!r} has no option {unknown[0]!r}, expected only {', '.join(names)}"
        )
    if options.get("values") is not None:
        options["values"] = tuple(options["values"])
    return kind(**{names[name]: value for name, value in options.items()})


def _as_texts(values: Any) -> tuple[str, ...]:
    """Return the values of a category or the tags as texts; each must occur once."""
    if isinstance(values, (str, bytes)):
        raise ParameterError(f"values={values!r} is one text, expected a list of values")
    if isinstance(values, Set):
        raise ParameterError("values is a set, which has no order, expected a list of values")
    try:
        texts = tuple(read_text(i, value) for i, value in enumerate(values))
    except BadValue as bad:
        raise ParameterError(
            f"values hold {describe(bad.value)}, expected {bad.expected}"
        ) from None
    except TypeError:
        raise ParameterError(f"values={values!r}, expected a list of values") from None
    if len(set(texts)) != len(texts):
        twice = next(text for text, n in Counter(texts).items() if n > 1)
        raise ParameterError(
            f"values hold {twice!r} twice, after conversion to texts, expected each value once"
        )
    if len(texts) >= _MAX_FEATURES:
        raise ParameterError(
            f"there are {len(texts)} values, expected fewer than {_MAX_FEATURES}: hash them with size=…"
        )
    return texts
