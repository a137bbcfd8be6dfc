"""Raw features as they are recorded: the whole question in JSON, from which its vectors can be had again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.arms import Name
from rolin.features.base import Features, Part
from rolin.features.rows import DEEPEST
from rolin.features.transformed import Transformed

__all__ = ["RawContexts"]

Floats = NDArray[np.float64]


class RawContexts:
    """The raw features of the arms that were offered, and of the situation.

    Parameters
    ----------
    features
        What made vectors of them.
    arms
        Names of the arms.
    raw
        `{"situation": …, "arms": […]}`, or the same as JSON.
    vectors
        (K, d): the vectors, where the features cannot make them again.
    at_hand
        (d,) vectors that are needed soon, by place: those of the chosen arms.
    """

    __slots__ = ("_at_hand", "_raw", "arms", "features", "vectors")

    def __init__(
        self,
        features: Features,
        arms: Sequence[Name],
        raw: str | dict[str, Any],
        vectors: Floats | None = None,
        at_hand: Mapping[int, Floats] | None = None,
    ) -> None:
        self.features, self.arms, self._raw, self.vectors = features, arms, raw, vectors
        self._at_hand = at_hand or {}

    @classmethod
    def of(
        cls,
        features: Features,
        arms: Sequence[Name],
        rows: Sequence[dict[str, Any]],
        situation: dict[str, Any],
        vectors: Floats,
        chosen: Sequence[int] = (),
    ) -> RawContexts:
        """Return a record of what vectors were made of, which does not change with it."""
        kept = vectors if isinstance(features, Transformed) else None
        at_hand = {k: vectors[k].copy() for k in chosen}
        for vector in at_hand.values():
            vector.flags.writeable = False
        return cls(features, arms, _recorded(rows, situation), kept, at_hand)

    @classmethod
    def read(
        cls,
        features: Features,
        arms: Sequence[Name],
        rows: Sequence[dict[str, Any]],
        situation: dict[str, Any],
    ) -> RawContexts:
        """Return a record of raw features that vectors can be made of, or say what is wrong with them."""
        return cls.of(features, arms, rows, situation, features.encode(rows, situation, arms))

    def _parsed(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._raw) if isinstance(self._raw, str) else self._raw
        return found

    @property
    def situation(self) -> dict[str, Any]:
        """The fields of the situation."""
        found: dict[str, Any] = self._parsed()["situation"]
        return found

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The fields of the K arms."""
        found: list[dict[str, Any]] = self._parsed()["arms"]
        return found

    def contexts(self) -> Floats:
        """Return the (K, d) vectors."""
        if self.vectors is not None:
            return self.vectors
        raw = self._parsed()
        return self.features.encode(raw["arms"], raw["situation"], self.arms)

    def context(self, k: int) -> Floats:
        """Return the (d,) vector of one of the arms."""
        if k in self._at_hand:
            return self._at_hand[k]
        if self.vectors is not None:
            row: Floats = self.vectors[k]
            return row
        raw = self._parsed()
        only: Floats = self.features.encode([raw["arms"][k]], raw["situation"], [self.arms[k]])[0]
        return only

    def parts(self, k: int) -> list[Part]:
        """Return what the vector of an arm consists of, by name."""
        raw = self._parsed()
        vector = self.context(k)
        return self.features.parts(raw["arms"][k], raw["situation"], self.arms[k], vector)

    def to_json(self) -> str:
        """Return it as JSON."""
        return self._raw if isinstance(self._raw, str) else _json(self._raw)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RawContexts)
            and (self.features, tuple(self.arms)) == (other.features, tuple(other.arms))
            and self._parsed() == other._parsed()
        )

    __hash__ = None  # type: ignore[assignment]  # it holds dicts

    def __repr__(self) -> str:
        """Say what it holds."""
        return f"<RawContexts of {len(self.arms)} arms, map {self.features.version}>"


def _recorded(rows: Sequence[dict[str, Any]], situation: dict[str, Any]) -> str:
    raw = {"situation": situation, "arms": rows}
    try:
        return _json(raw)
    except (TypeError, ValueError, RecursionError):
        return _json(_plain(raw, DEEPEST + 2))


def _json(raw: dict[str, Any]) -> str:
    return json.dumps(raw, separators=(",", ":"), allow_nan=False)


def _plain(value: Any, depth: int) -> Any:
    """Return what JSON can hold of a value; what the map uses is held as it is, to the bit.

    What no field can be, such as a date or NaN, is in a field that is not used: it breaks nothing.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (Mapping, list, tuple, set, frozenset, np.ndarray)):
        if not depth:
            return None
        if isinstance(value, Mapping):
            return {str(name): _plain(inner, depth - 1) for name, inner in value.items()}
        return [_plain(inner, depth - 1) for inner in value]
    try:
        return float(value)  # Decimal, Fraction
    except (TypeError, ValueError, OverflowError):
        return str(value)
