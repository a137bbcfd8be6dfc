"""Features without a declaration: all fields of a row are hashed to a fixed number of features."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.checks import count_of, flag_of
from rolin._support.repeated import read_only_rows
from rolin.errors import InputError
from rolin.features import kernels
from rolin.features.base import (
    ARM,
    BaseFeatureMap,
    Label,
    Part,
    arm_labels,
    situation_label,
)
from rolin.features.columns import LIST_TYPES, list_items
from rolin.features.field_error import field_error, name_field_error
from rolin.features.fields import MAX_NUMBER
from rolin.features.tables import flatten
from rolin.features.uniform_rows import UniformRows
from rolin.features.values import (
    MAX_CACHED_LENGTH,
    BadValue,
    describe,
    hash_text,
    read_number,
    read_text,
)

__all__ = ["HashedFeatures"]

Floats = NDArray[np.float64]
Tokens = list[tuple[int, str, float]]
"""The features of a row: hash, name and value of each."""
_NO_VALUE = type(None)
TokenArrays = tuple[NDArray[np.uint64], Floats, NDArray[np.int64]]
"""The hashes and values of the features of several rows, and where those of each row end."""
_SCALARS = (str, int, float, np.number, np.bool_, Decimal, Fraction)


class HashedFeatures(BaseFeatureMap):
    """Encodes any fields by hashing them to a fixed number of features. Nothing is declared.

    A number becomes one feature, named after its field. A text becomes a feature of its own with the value 1, and
    so does each item of a list, and a boolean that is true. Other values, such as dates, are recorded but not used.
    The hash of a field or text gives its feature index and its sign (Weinberger et al. 2009). Two of them may share a
    feature; that is rarer with a larger `size`. Numbers are not scaled: give numbers of about size 1.

    Parameters
    ----------
    size
        Number d of features.
    cross
        Whether every feature of the situation is multiplied with every feature of the arm.
    intercept
        Whether the first feature is the constant 1.
    arm_names
        Whether the name of the arm is one of its features.

    Examples
    --------
    >>> features = HashedFeatures(64)
    >>> features.contexts({"red": {"price": 5.0, "tags": ["new"]}}, {"device": "phone"}).shape
    (1, 64)
    """

    def __init__(
        self,
        size: int = 256,
        *,
        cross: bool = True,
        intercept: bool = True,
        arm_names: bool = False,
    ) -> None:
        self.n_features = count_of(
            "size", size, least=1 + flag_of("intercept", intercept), most=100_000
        )
        self._cross = flag_of("cross", cross)
        self._intercept = flag_of("intercept", intercept)
        self._arm_names = flag_of("arm_names", arm_names)

    def encode(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> Floats:
        """Return the (K, d) contexts of K arms in one situation; see `FeatureMap.encode` for arms without fields."""
        if len(rows) > 1 and not rows[0] and not self._arm_names and not any(rows):
            return read_only_rows(self.encode(rows[:1], situation, arms[:1])[0], len(rows))
        left = _row_tokens("s", situation, situation_label, 0)
        uniform = rows if isinstance(rows, UniformRows) else UniformRows.of(rows)
        found = None if uniform is None or self._arm_names else _uniform_tokens("a", uniform)
        if found is None:
            found = self._each_row(rows if uniform is None else list(uniform), arms)
        hashes, values, ends = found
        out = np.zeros((len(rows), self.n_features))
        out[:, : int(self._intercept)] = 1.0
        kernels.cross_hashed(
            *_arrays(left), hashes, values, ends, self._cross, int(self._intercept), out
        )
        return out

    def _each_row(self, rows: Sequence[dict[str, Any]], arms: Sequence[Name]) -> TokenArrays:
        """Return the features of all arms, row by row."""
        found: Tokens = []
        ends = np.empty(len(rows), dtype=np.int64)
        for k, row in enumerate(rows):
            found += self._arm_tokens(row, arms, k)
            ends[k] = len(found)
        return *_arrays(found), ends

    def _arm_tokens(self, row: dict[str, Any], arms: Sequence[Name], k: int) -> Tokens:
        tokens = _row_tokens("a", row, arm_labels(arms), k)
        if self._arm_names:
            if ARM in row:
                raise name_field_error(ARM, k, arm_labels(arms))
            try:
                tokens.append((*_token("a", ARM, read_text(0, arms[k])), 1.0))
            except BadValue as bad:
                raise InputError(
                    f"the name of arm {describe(arms[k])} cannot be a feature, expected {bad.expected}: use such "
                    "names, or arm_names=False"
                ) from None
        return tokens

    @property
    def names(self) -> list[str]:
        """Names of the d features; hashed features are only numbered, since several fields may share one."""
        hashed = [f"#{i}" for i in range(self._intercept, self.n_features)]
        return ["intercept"] * self._intercept + hashed

    def parts(
        self, row: dict[str, Any], situation: dict[str, Any], arm: Name, vector: Floats
    ) -> list[Part]:
        """Return the named terms that an arm's vector is the sum of."""
        found = [Part("intercept", 0, 1.0)] if self._intercept else []
        left = _row_tokens("s", situation, situation_label, 0)
        right = self._arm_tokens(row, [arm], 0)
        both = {name for _, name, _ in left} & {name for _, name, _ in right}
        left, right = (
            [(h, f"{side}.{name}" if name in both else name, v) for h, name, v in tokens]
            for side, tokens in (("situation", left), ("arm", right))
        )
        for h, name, value in [*left, *right]:
            found.append(self._part(name, h, value))
        if self._cross:
            for own, name, v in right:
                for shared, other, u in left:
                    h = int(kernels.mix_hashes(np.uint64(shared), np.uint64(own)))
                    found.append(self._part(f"{other} × {name}", h, u * v))
        return found

    def _part(self, name: str, h: int, value: float) -> Part:
        first = int(self._intercept)
        index = first + (h >> 1) % (self.n_features - first)
        return Part(name, index, value * (1 - 2 * (h & 1)))

    def __repr__(self) -> str:
        """Return the call that makes the map."""
        return (
            f"HashedFeatures({self.n_features}, cross={self._cross}, intercept={self._intercept}, "
            f"arm_names={self._arm_names})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything that defines the map, as values that JSON can hold."""
        return {
            "kind": "hashed",
            "size": self.n_features,
            "cross": self._cross,
            "intercept": self._intercept,
            "arm_names": self._arm_names,
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> HashedFeatures:
        """Return the map that `to_dict` described."""
        options = {name: given[name] for name in ("cross", "intercept", "arm_names")}
        return cls(given["size"], **options)


def _row_tokens(side: str, row: dict[str, Any], label: Label, k: int) -> Tokens:
    """Return the features of a row, sorted by hash so that the order of the fields does not matter."""
    found: Tokens = []
    for path, value in row.items():
        kind = value.__class__
        if path.__class__ is not str:
            raise InputError(f"{label(k)} has a field named {path!r}, expected texts as names")
        if path[:1] == "_":
            continue
        if kind is str:
            found.append((*_token(side, path, value), 1.0))
        elif kind is float and -MAX_NUMBER <= value <= MAX_NUMBER:
            found.append((*_token(side, path, None), value))
        else:
            for inner, item in flatten(label(k), {path: value}, index=k):
                try:
                    found += _value_tokens(side, inner, item, k)
                except BadValue as bad:
                    raise field_error(inner, bad, label) from None
    found.sort()
    return found


def _uniform_tokens(side: str, rows: UniformRows) -> TokenArrays | None:
    """Return the features of rows, column by column, in the same order; `None` if a column has values of several types."""
    numbers, row_of = rows.numbers, rows.number_row
    if numbers is None:
        return None
    n, hashes, sources = len(rows), [], []
    for path, kind in rows.kinds.items():
        if path[:1] == "_" or kind is _NO_VALUE:
            continue
        if kind is str:
            hashes += [_token(side, path, text)[0] for text in rows.column(path)]
        elif kind is None:
            return None
        else:
            hashes += [_token(side, path, None)[0]] * n
        sources.append(row_of.get(path, -1))
    if numbers.size and not np.abs(numbers).max() <= MAX_NUMBER:
        return None  # the error names the value
    m = len(sources)
    columns = np.frombuffer(struct.pack(f"{m * n}Q", *hashes), dtype=np.uint64).reshape(m, n)
    found, values = np.empty(m * n, dtype=np.uint64), np.empty(m * n)
    kernels.sort_hashes(columns, numbers, np.array(sources, dtype=np.int64), found, values)
    return found, values, np.arange(m, m * n + 1, m) if m else np.zeros(n, dtype=np.int64)


def _value_tokens(side: str, path: str, value: Any, k: int) -> Tokens:
    """Return the features of a value of any type; none for a type that is not used."""
    if isinstance(value, (bool, np.bool_)):
        return [(*_token(side, path, None), 1.0)] if value else []
    if isinstance(value, LIST_TYPES):
        texts = {read_text(k, item) for item in list_items(value) if isinstance(item, _SCALARS)}
        return [(*_token(side, path, item), 1.0) for item in texts]
    if isinstance(value, str):
        return [(*_token(side, path, read_text(k, value)), 1.0)]
    if not isinstance(value, _SCALARS):
        return []
    found = read_number(k, value)
    if not abs(found) <= MAX_NUMBER:
        raise BadValue(k, value, f"a number of at most {MAX_NUMBER:g}")
    return [(*_token(side, path, None), found)]


def _token(side: str, path: str, value: str | None) -> tuple[int, str]:
    """Return the hash and the name of a feature: a field, or a text in a field."""
    if value is not None and len(value) > MAX_CACHED_LENGTH:
        return _hash_token(side, path, value)
    return _cached_token(side, path, value)


def _hash_token(side: str, path: str, value: str | None) -> tuple[int, str]:
    name = path if value is None else f"{path}={value}"
    return hash_text(f"{side}{name}"), name


_cached_token = lru_cache(maxsize=1 << 16)(_hash_token)


def _arrays(tokens: Tokens) -> tuple[NDArray[np.uint64], Floats]:
    hashes = np.array([hash for hash, _, _ in tokens], dtype=np.uint64)
    return hashes, np.array([value for _, _, value in tokens], dtype=np.float64)
