"""Raw features as JSON that every reader can read, and from which the same contexts can be computed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from rolin.features.base import BaseFeatureMap
from rolin.features.columns import LIST_TYPES
from rolin.features.tables import MAX_DEPTH
from rolin.features.uniform_rows import UniformRows, json_of_row
from rolin.features.values import is_missing

__all__ = ["as_json", "can_be_recorded", "text_of"]

_MAX_BITS = 4096  # of a recorded integer; Python cannot convert much longer ones to text
_RECORDED_DEPTH = MAX_DEPTH + 2  # levels of nesting that are recorded: rows and lists included
_dumps = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_SCALARS = (np.bool_, np.integer, np.floating, np.str_)


def as_json(
    feature_map: BaseFeatureMap, rows: Sequence[dict[str, Any]], situation: dict[str, Any]
) -> tuple[str, dict[str, Any] | None]:
    """Return raw features as JSON, and their values if these may encode to other contexts than those given.

    Parameters
    ----------
    feature_map
        The map that encodes the features.
    rows
        The fields of the arms.
    situation
        The fields of the situation.
    """
    raw = {"situation": situation, "arms": rows}
    text = None if feature_map.must_clean_keys else _to_json(raw)
    if text is None or (_may_be_deep(text, len(rows)) and _is_deeper(raw, _RECORDED_DEPTH)):
        converter = _JsonConverter()
        plain = converter.convert(raw, _RECORDED_DEPTH, ())
        return _to_json(plain) or "", None if converter.exact else plain
    return text, None


def can_be_recorded(text: str, rows: Sequence[dict[str, Any]], situation: dict[str, Any]) -> bool:
    """Return whether a text that Python has parsed is JSON that every reader can read, too.

    Parameters
    ----------
    text
        The text, which holds the rows and the situation.
    rows
        The fields of the arms.
    situation
        The fields of the situation.
    """
    # Python reads them as numbers, but JSON does not have them.
    if "NaN" in text or "Infinity" in text:
        return False
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a character, which no file can hold
            return False
    raw = {"situation": situation, "arms": rows}
    return not (_may_be_deep(text, len(rows)) and _is_deeper(raw, _RECORDED_DEPTH))


def text_of(raw: dict[str, Any]) -> str:
    """Return raw features as JSON, as `as_json` does.

    Parameters
    ----------
    raw
        `{"situation": …, "arms": …}`, whose arms are rows, or `UniformRows`.
    """
    arms, shared = raw["arms"], json_of_row(raw["situation"])
    if isinstance(arms, UniformRows):
        if shared is not None and (own := arms.to_json()):
            return f'{{"situation":{shared},"arms":{own}}}'  # in a third of the time
        raw = {"situation": raw["situation"], "arms": list(arms)}
    return _to_json(raw) or ""


def _to_json(raw: dict[str, Any]) -> str | None:
    """Return a value as JSON; `None` if JSON cannot hold it."""
    try:
        return _dumps(raw)
    except (TypeError, ValueError, RecursionError):
        return None


def _may_be_deep(text: str, n_arms: int) -> bool:
    """Return whether JSON has so many objects and lists that they may be nested too deep."""
    return text.count("{") + text.count("[") > n_arms + _RECORDED_DEPTH


def _is_deeper(value: Any, depth: int) -> bool:
    """Return whether a value is nested deeper than `depth` levels."""
    inner = value.values() if isinstance(value, dict) else value
    return any(
        not depth or _is_deeper(item, depth - 1)
        for item in inner
        if item.__class__ in (dict, list, tuple)
    )


class _JsonConverter:
    """Converts values to those that JSON can hold.

    Every value that a field accepts is recorded exactly. A value that no field accepts, such as a date, becomes an
    object without fields. NaN, integers that are too long, and values that are nested too deep or contain themselves
    become missing. Such values can only be in fields that are not used.

    After `convert`, `exact` tells whether the converted rows certainly encode to the same contexts.
    """

    def __init__(self) -> None:
        self.exact = True

    def convert(self, value: Any, depth: int, around: tuple[int, ...]) -> Any:
        """Return the converted value.

        Parameters
        ----------
        value
            The value.
        depth
            Number of levels of nesting that are converted.
        around
            Ids of the containers around the value.
        """
        if isinstance(value, (np.generic, np.ndarray)) and not value.ndim:
            self.exact &= isinstance(value, _SCALARS)
            value = value.item()
        if is_missing(value):
            return None
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value) if value.bit_length() < _MAX_BITS else self._drop()
        if isinstance(value, (Mapping, *LIST_TYPES)):
            if not depth or id(value) in around:
                return self._drop()
            inside = (*around, id(value))
            if isinstance(value, Mapping):
                self.exact &= {str}.issuperset(map(type, value))
                items = [(name, inner) for name, inner in value.items() if isinstance(name, str)]
                return {
                    str.__str__(n): self.convert(inner, depth - 1, inside) for n, inner in items
                }
            return [self.convert(inner, depth - 1, inside) for inner in value]
        try:
            if isinstance(value, (float, np.floating, Decimal, Fraction)):
                return float(value) if math.isfinite(value) else self._drop()
            return {"_text": str(value)}
        except Exception:  # an object's own code may raise anything
            return self._drop()

    def _drop(self) -> None:
        self.exact = False
