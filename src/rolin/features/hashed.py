"""Features without a declaration: whatever a row has is hashed to a fixed number of places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.arms import Name
from rolin.checks import count_of
from rolin.errors import InputError
from rolin.features import kernels
from rolin.features.base import ARM, Features, Part, whose
from rolin.features.rows import flatten
from rolin.features.values import BadValue, hash_of, is_missing, number, text, told

__all__ = ["HashedFeatures"]

Floats = NDArray[np.float64]
Tokens = list[tuple[str, float]]
_KINDS = (list, tuple, set, frozenset, np.ndarray)


class HashedFeatures(Features):
    """Any fields, hashed to a fixed number of features: nothing is declared, and nothing breaks.

    A number is a feature of its field's name, a text one of its own that is 1, and so is each item of a list
    and what is true. Each has the place and the sign of its hash (Weinberger et al. 2009), so two of them may share
    a place; the more places, the rarer that is. Numbers are taken as they are: bring them to a size of about 1.

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
            tokens.append((f"a{ARM}={text(0, arms[k])}", 1.0))
        return tokens

    @cached_property
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
        for token, value in [*left, *right]:
            found.append(self._part(token[1:], hash_of(token), value))
        if self._cross:
            for own, v in right:
                for shared, u in left:
                    h = int(kernels.mixed(np.uint64(hash_of(shared)), np.uint64(hash_of(own))))
                    found.append(self._part(f"{shared[1:]} × {own[1:]}", h, u * v))
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
    """Return the features of a row, by name, in an order that does not depend on that of the fields."""
    found: dict[str, float] = {}
    for path, value in flatten(whose(k), row):
        try:
            if value.__class__ is str:
                found[f"{side}{path}={value}"] = 1.0
            elif isinstance(value, (bool, np.bool_)):
                if value:
                    found[f"{side}{path}"] = 1.0
            elif isinstance(value, _KINDS):
                for item in value.tolist() if isinstance(value, np.ndarray) else value:
                    if not is_missing(item):
                        found[f"{side}{path}={text(k, item)}"] = 1.0
            elif isinstance(value, str):
                found[f"{side}{path}={value!s}"] = 1.0
            elif not is_missing(value):
                found[f"{side}{path}"] = number(k, value)
        except BadValue as bad:
            raise InputError(
                f"field {path!r} of {whose(k)} is {told(bad.value)}, expected {bad.expected}"
            ) from None
    return sorted(found.items())


def _arrays(tokens: Tokens) -> tuple[NDArray[np.uint64], Floats]:
    hashes = np.array([hash_of(token) for token, _ in tokens], dtype=np.uint64)
    return hashes, np.array([value for _, value in tokens], dtype=np.float64)
