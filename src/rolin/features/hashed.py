"""Features without a declaration: whatever a row has is hashed to a fixed number of places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.checks import count_of
from rolin.errors import InputError
from rolin.features import kernels
from rolin.features.base import ARM, BaseFeatureMap, Part, whose
from rolin.features.columns import LISTS, items_of
from rolin.features.fields import LARGEST
from rolin.features.tables import flatten
from rolin.features.values import REMEMBERED, BadValue, hash_of, number, text, told

__all__ = ["HashedFeatures"]

Floats = NDArray[np.float64]
Tokens = list[tuple[int, str, float]]
_SCALARS = (str, int, float, np.number, np.bool_, Decimal, Fraction)


class HashedFeatures(BaseFeatureMap):
    """Any fields, hashed to a fixed number of features: nothing is declared.

    A number is a feature of its field's name, a text one of its own that is 1, and so is each item of a list
    and what is true; dates and other things are recorded and not used. Each has the place and the sign of
    its hash (Weinberger et al. 2009), so two of them may share a place; the more places, the rarer that is.
    Numbers are taken as they are: bring them to a size of about 1.

    Parameters
    ----------
    size
        Number d of features.
    cross
        Whether every feature of the situation is multiplied with every one of the arm.
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
        self.n_features = count_of("size", size, least=1 + bool(intercept), most=100_000)
        self._cross, self._intercept, self._arm_names = (
            bool(cross),
            bool(intercept),
            bool(arm_names),
        )

    def encode(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> Floats:
        """Return the (K, d) vectors of K arms in one situation."""
        left = _tokens("s", situation, lambda _: "the situation", 0)
        right: Tokens = []
        ends = np.empty(len(rows), dtype=np.int64)
        for k, row in enumerate(rows):
            right += self._arm_tokens(row, arms, k)
            ends[k] = len(right)
        out = np.zeros((len(rows), self.n_features))
        out[:, : int(self._intercept)] = 1.0
        kernels.cross_hashed(
            *_arrays(left), *_arrays(right), ends, self._cross, int(self._intercept), out
        )
        return out

    def _arm_tokens(self, row: dict[str, Any], arms: Sequence[Name], k: int) -> Tokens:
        tokens = _tokens("a", row, whose(arms), k)
        if self._arm_names:
            if ARM in row:
                raise InputError(f"arm {arms[k]!r} has a field {ARM!r}, which is its name")
            try:
                tokens.append((*_token("a", ARM, text(0, arms[k])), 1.0))
            except BadValue as bad:
                raise InputError(
                    f"arm {told(arms[k])} has no name that is a feature, expected {bad.expected}"
                ) from None
        return tokens

    @property
    def names(self) -> list[str]:
        """What the d features are called, which is not much: many fields may share one."""
        hashed = [f"#{i}" for i in range(self._intercept, self.n_features)]
        return ["intercept"] * self._intercept + hashed

    def parts(
        self, row: dict[str, Any], situation: dict[str, Any], arm: Name, vector: Floats
    ) -> list[Part]:
        """Return what an arm's vector is the sum of, by name."""
        found = [Part("intercept", 0, 1.0)] if self._intercept else []
        left = _tokens("s", situation, lambda _: "the situation", 0)
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
                    h = int(kernels.mixed(np.uint64(shared), np.uint64(own)))
                    found.append(self._part(f"{other} × {name}", h, u * v))
        return found

    def _part(self, name: str, h: int, value: float) -> Part:
        first = int(self._intercept)
        place = first + (h >> 1) % (self.n_features - first)
        return Part(name, place, value * (1 - 2 * (h & 1)))

    def __repr__(self) -> str:
        """Return the call that makes it."""
        return (
            f"HashedFeatures({self.n_features}, cross={self._cross}, intercept={self._intercept}, "
            f"arm_names={self._arm_names})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything there is to it, as JSON has it."""
        return {
            "kind": "hashed",
            "size": self.n_features,
            "cross": self._cross,
            "intercept": self._intercept,
            "arm_names": self._arm_names,
        }

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> HashedFeatures:
        """Return what `to_dict` described."""
        options = {name: given[name] for name in ("cross", "intercept", "arm_names")}
        return cls(given["size"], **options)


def _tokens(side: str, row: dict[str, Any], whose: Callable[[int], str], k: int) -> Tokens:
    """Return the features of a row in the order of their hashes, whatever that of the fields."""
    found: Tokens = []
    for path, value in row.items():
        kind = value.__class__
        if path.__class__ is not str:
            raise InputError(f"{whose(k)} has a field named {path!r}, expected texts as names")
        if path[:1] == "_":
            continue
        if kind is str:
            found.append((*_token(side, path, value), 1.0))
        elif kind is float and -LARGEST <= value <= LARGEST:
            found.append((*_token(side, path, None), value))
        else:
            for inner, item in flatten(whose(k), {path: value}):
                try:
                    found += _others(side, inner, item, k)
                except BadValue as bad:
                    raise InputError(
                        f"field {inner!r} of {whose(k)} is {told(bad.value)}, expected {bad.expected}"
                    ) from None
    found.sort()
    return found


def _others(side: str, path: str, value: Any, k: int) -> Tokens:
    """Return the features of what is not a text."""
    if isinstance(value, (bool, np.bool_)):
        return [(*_token(side, path, None), 1.0)] if value else []
    if isinstance(value, LISTS):
        texts = {text(k, item) for item in items_of(value) if isinstance(item, _SCALARS)}
        return [(*_token(side, path, item), 1.0) for item in texts]
    if isinstance(value, str):
        return [(*_token(side, path, text(k, value)), 1.0)]
    if not isinstance(value, _SCALARS):
        return []
    found = number(k, value)
    if not abs(found) <= LARGEST:
        raise BadValue(k, value, f"a number of at most {LARGEST:g}")
    return [(*_token(side, path, None), found)]


def _token(side: str, path: str, value: str | None) -> tuple[int, str]:
    """Return the hash and the name of a feature: of a field, or of a text in it."""
    if value is not None and len(value) > REMEMBERED:
        return _new_token(side, path, value)
    return _known_token(side, path, value)


def _new_token(side: str, path: str, value: str | None) -> tuple[int, str]:
    name = path if value is None else f"{path}={value}"
    return hash_of(f"{side}{name}"), name


_known_token = lru_cache(maxsize=1 << 16)(_new_token)


def _arrays(tokens: Tokens) -> tuple[NDArray[np.uint64], Floats]:
    hashes = np.array([token[0] for token in tokens], dtype=np.uint64)
    return hashes, np.array([token[2] for token in tokens], dtype=np.float64)
