"""Raw features as they are recorded: the whole question in JSON, from which its vectors can be had again."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name, canonical
from rolin.features.base import BaseFeatureMap, Part, arms_of
from rolin.features.columns import LISTS
from rolin.features.sklearn import Transformed
from rolin.features.tables import DEEPEST, row_of
from rolin.features.values import is_missing

__all__ = ["RawContexts", "ask_raw"]

Floats = NDArray[np.float64]
_LONGEST = 4096  # bits of an integer that is recorded; Python does not write much longer ones


class RawContexts:
    """The raw features of the arms that were offered, and of the situation.

    Parameters
    ----------
    feature_map
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

    __slots__ = ("_at_hand", "_raw", "arms", "feature_map", "vectors")

    def __init__(
        self,
        feature_map: BaseFeatureMap,
        arms: Sequence[Name],
        raw: str | dict[str, Any],
        vectors: Floats | None = None,
        at_hand: Mapping[int, Floats] | None = None,
    ) -> None:
        self.feature_map, self.arms, self._raw, self.vectors = feature_map, arms, raw, vectors
        self._at_hand = at_hand or {}

    @classmethod
    def read(
        cls,
        feature_map: BaseFeatureMap,
        arms: Sequence[Name],
        rows: Sequence[dict[str, Any]],
        situation: dict[str, Any],
    ) -> tuple[RawContexts, Floats]:
        """Return a record, which does not change with what it was made of, and its (K, d) vectors."""
        rows, situation = [row.copy() for row in rows], situation.copy()  # others may change them
        vectors = feature_map.encode(rows, situation, arms)  # says what is wrong with them
        kept = vectors if isinstance(feature_map, Transformed) else None
        raw = {"situation": situation, "arms": rows}
        text = None if feature_map.careful else _json(raw)
        if text is None or (_is_nested(text, len(rows)) and _deeper(raw, DEEPEST + 2)):
            plain = _plain(raw, DEEPEST + 2, ())
            text = _json(plain) or ""
            if kept is None:  # then the vectors are those of what is recorded
                vectors = feature_map.encode(plain["arms"], plain["situation"], arms)
        return cls(feature_map, tuple(arms), text, kept), vectors

    def with_at_hand(self, vectors: Floats, chosen: Sequence[int]) -> RawContexts:
        """Return it with the vectors of the chosen arms, which are needed when their rewards come."""
        at_hand = {k: vectors[k].copy() for k in chosen}
        for vector in at_hand.values():
            vector.flags.writeable = False
        return RawContexts(self.feature_map, self.arms, self._raw, self.vectors, at_hand)

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
        return self.feature_map.encode(raw["arms"], raw["situation"], self.arms)

    def context(self, k: int) -> Floats:
        """Return the (d,) vector of one of the arms."""
        if k in self._at_hand:
            return self._at_hand[k]
        if self.vectors is not None:
            row: Floats = self.vectors[k]
            return row
        raw = self._parsed()
        only: Floats = self.feature_map.encode([raw["arms"][k]], raw["situation"], [self.arms[k]])[
            0
        ]
        return only

    def contexts_of(self, places: Sequence[int]) -> Floats:
        """Return the vectors of several arms."""
        if all(k in self._at_hand for k in places):
            return np.array([self._at_hand[k] for k in places])
        return self.contexts()[list(places)]

    def parts(self, k: int) -> list[Part]:
        """Return what the vector of an arm consists of, by name."""
        raw = self._parsed()
        vector = self.context(k)
        return self.feature_map.parts(raw["arms"][k], raw["situation"], self.arms[k], vector)

    def to_json(self) -> str:
        """Return it as JSON."""
        return self._raw if isinstance(self._raw, str) else _json(self._raw) or ""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RawContexts)
            and (self.feature_map, tuple(self.arms)) == (other.feature_map, tuple(other.arms))
            and self._parsed() == other._parsed()
        )

    __hash__ = None  # type: ignore[assignment]  # it holds dicts

    def __repr__(self) -> str:
        """Say what it holds."""
        return f"<RawContexts of {len(self.arms)} arms, map {self.feature_map.version}>"


def ask_raw(
    feature_map: BaseFeatureMap, arms: Any, names: Any, situation: Any, excluded: Container[Name]
) -> tuple[RawContexts, Floats]:
    """Return the record and the vectors of a question, without the arms that are excluded."""
    rows, found = arms_of(arms, names)
    offered = list(found)
    if not {str}.issuperset(map(type, offered)):
        offered = [canonical(name) for name in offered]
    if excluded:
        kept = [k for k, name in enumerate(offered) if name not in excluded]
        if kept:  # or else whoever asks will say so
            rows, offered = [rows[k] for k in kept], [offered[k] for k in kept]
    return RawContexts.read(feature_map, offered, rows, row_of("the situation", situation))


def _json(raw: dict[str, Any]) -> str | None:
    """Return a text; `None` if there is something in it that JSON does not have."""
    try:
        return json.dumps(raw, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None


def _is_nested(text: str, n_arms: int) -> bool:
    """Return whether there are more objects and lists than the rows themselves, and a few."""
    return text.count("{") + text.count("[") > n_arms + 2 + DEEPEST


def _deeper(value: Any, depth: int) -> bool:
    """Return whether something is nested deeper than that, so that it might not be read again."""
    inner = value.values() if isinstance(value, dict) else value
    return any(
        not depth or _deeper(item, depth - 1)
        for item in inner
        if item.__class__ in (dict, list, tuple)
    )


def _plain(value: Any, depth: int, around: tuple[int, ...]) -> Any:
    """Return what JSON can hold of a value: what a field can be is held as it is, to the bit.

    What no field can be, such as a date, becomes an object that has no fields; NaN, and what holds itself, is
    missing. It is in a field that is not used, and breaks nothing.
    """
    if isinstance(value, (np.generic, np.ndarray)) and not value.ndim:
        value = value.item()
    if is_missing(value):
        return None
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() < _LONGEST else None
    if isinstance(value, (Mapping, *LISTS)):
        if not depth or id(value) in around:
            return None
        inside = (*around, id(value))
        if isinstance(value, Mapping):
            items = [(name, inner) for name, inner in value.items() if isinstance(name, str)]
            return {str.__str__(n): _plain(inner, depth - 1, inside) for n, inner in items}
        return [_plain(inner, depth - 1, inside) for inner in value]
    try:
        if isinstance(value, (float, np.floating, Decimal, Fraction)):
            return float(value) if math.isfinite(value) else None
        return {"_text": str(value)}
    except Exception:  # whatever an object that nobody uses does when it is looked at
        return None
