"""Events as rows of a table: a few columns to find them by, a JSON text, and raw numbers.

One form for every database. Numbers are little-endian doubles, so that nothing is rounded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.errors import JournalError, RolinError
from rolin.features import BaseFeatureMap, RecordedFeatures, from_json
from rolin.journal.events import (
    ArmRemoved,
    ArmRestored,
    Decayed,
    Event,
    FeatureMapChanged,
    LoggedDecision,
    Outcome,
    ScalesLearned,
    SettingsChanged,
)
from rolin.model.scales import Scales
from rolin.model.state_file import decode, encode

__all__ = ["DECISION", "LASTING", "Row", "event_of", "row_of"]

Floats = NDArray[np.float64]
_DOUBLES = np.dtype("<f8")

DECISION = -1
"""The place of a row that is a decision; those of its outcomes are 0, 1, …"""
LASTING = ("restored", "settings", "features")
"""Kinds of rows that are never removed."""


_SETTINGS = SettingsChanged._fields[1:]


class Row(NamedTuple):
    """One event, as a table has it."""

    time: float
    kind: str
    body: str
    decision: str | None = None
    place: int | None = None
    person: str | None = None
    numbers: bytes | None = None


def row_of(event: Event) -> Row:
    """Return the row of an event."""
    match event:
        case LoggedDecision():
            p = event.propensities
            body = _json(
                offered=[encode(name) for name in event.offered],
                chosen=event.chosen,
                version=event.version,
                control=event.control,
                propensities=p is not None,
                **({"imported": True} if event.imported else {}),
            )
            raw = event.given
            if isinstance(raw, RecordedFeatures):  # which are JSON already
                body = f'{body[:-1]},"map":"{raw.feature_map.version}","raw":{raw.to_json()}}}'
                x = raw.stored_vectors
            else:
                x = raw
            numbers = b"".join(_bytes(part) for part in (x, p) if part is not None)
            return Row(event.time, "decision", body, event.id, DECISION, event.person, numbers)
        case Outcome():
            kind = "expiry" if event.expired else "reward"
            body = _json(arm=encode(event.arm), value=event.value, weight=event.weight)
            numbers = _bytes(event.context)
            return Row(event.time, kind, body, event.id, event.place, numbers=numbers)
        case Decayed():
            return Row(event.time, "decay", _json(factor=event.factor))
        case ScalesLearned():
            scales = None if event.scales is None else asdict(event.scales)
            return Row(event.time, "scales", _json(scales=scales))
        case ArmRemoved():
            return Row(event.time, "removed", _json(arm=encode(event.arm)))
        case ArmRestored():
            body = _json(arm=encode(event.arm), with_past=event.with_past)
            return Row(event.time, "restored", body)
        case SettingsChanged():
            body = _json(**dict(zip(_SETTINGS, event[1:], strict=True)))
            return Row(event.time, "settings", body)
        case FeatureMapChanged():
            return Row(event.time, "features", event.feature_map.to_json())


def event_of(row: Row, maps: Mapping[str, BaseFeatureMap]) -> Event:
    """Return the event of a row; raw features refer to one of the maps, by its version."""
    time, kind, text, decision, place, person, numbers = row
    try:
        body = json.loads(text)
        match kind:
            case "decision":
                return _decision(str(decision), time, person, body, _floats(numbers), maps)
            case "reward" | "expiry":
                return Outcome(
                    str(decision), time, int(place or 0), decode(body["arm"]), _floats(numbers),
                    body["value"], body["weight"], kind == "expiry",
                )  # fmt: skip
            case "decay":
                return Decayed(time, body["factor"])
            case "scales":
                given = body["scales"]
                return ScalesLearned(time, None if given is None else Scales(**given))
            case "removed":
                return ArmRemoved(time, decode(body["arm"]))
            case "restored":
                return ArmRestored(time, decode(body["arm"]), body["with_past"])
            case "settings":
                return SettingsChanged(time, *(body[name] for name in _SETTINGS))
            case "features":
                return FeatureMapChanged(time, from_json(text))
    except (
        KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, RolinError
    ) as error:  # fmt: skip
        raise JournalError(f"a row of kind {kind!r} is damaged: {error!r}") from error
    raise JournalError(f"a row is of kind {kind!r}, which this version of rolin does not know")


def _decision(
    id: str,
    time: float,
    person: str | None,
    body: dict[str, Any],
    numbers: Floats,
    maps: Mapping[str, BaseFeatureMap],
) -> LoggedDecision:
    offered = tuple(decode(name) for name in body["offered"])
    k = len(offered)
    p = numbers[-k:] if body["propensities"] else None
    x = numbers if p is None else numbers[:-k]
    vectors = x.reshape(k, -1) if x.size else np.empty((k, 0))
    given: Floats | RecordedFeatures = vectors
    chosen = tuple(body["chosen"])
    if not chosen or not set(chosen) <= set(range(k)):
        raise ValueError(f"{chosen} are not places among {k} arms")
    if "map" in body:
        situation, rows = body["raw"]["situation"], body["raw"]["arms"]
        if len(rows) != k or not all(isinstance(row, dict) for row in [situation, *rows]):
            raise ValueError(f"its raw features are not those of {k} arms")
        feature_map = maps[body["map"]]
        known = vectors if feature_map.needs_vectors else None
        given = RecordedFeatures(feature_map, offered, body["raw"], known)
    return LoggedDecision(
        id, time, offered, given,
        chosen, p, body["version"], person, body["control"],
        body.get("imported", False),
    )  # fmt: skip


def _json(**body: Any) -> str:
    return json.dumps(body, separators=(",", ":"), allow_nan=False)


def _bytes(array: Floats) -> bytes:
    return array.astype(_DOUBLES, copy=False).tobytes()


def _floats(numbers: bytes | None) -> Floats:
    # a copy, which can be written to and is aligned: the kernels ask for both
    return np.frombuffer(numbers or b"", dtype=_DOUBLES).astype(np.float64)
