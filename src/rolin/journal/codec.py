"""Events to and from the rows of a table: a few columns for searching, a JSON body, and numbers.

All databases use this form. Numbers are little-endian doubles, so nothing is rounded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.errors import JournalError, RolinError
from rolin.features import BaseFeatureMap, RecordedFeatures, from_json
from rolin.journal.compression import text_of
from rolin.journal.events import (
    IGNORED_REASONS,
    MODES,
    Activated,
    ArmRemoved,
    ArmRestored,
    Decayed,
    EarlyReward,
    Event,
    FeatureMapChanged,
    HeldReward,
    IgnoredReward,
    LoggedDecision,
    Mode,
    Outcome,
    Proposal,
    Rejected,
    ScalesLearned,
    SettingsChanged,
    ShadowStarted,
    ShadowStopped,
)
from rolin.journal.question_digest import QuestionDigest
from rolin.model.scales import Scales
from rolin.model.state_file import decode, encode

__all__ = ["DECISION", "PERMANENT_KINDS", "Row", "event_of", "kind_of", "row_of"]

Floats = NDArray[np.float64]
_DOUBLES = np.dtype("<f8")

DECISION = -1
"""The rank in the row of a decision; its outcomes have the ranks 0, 1, …"""
_ACTIVATION = -2  # the rank in the row of an activation
_HELD = -3  # a held reward of the arm with rank r has _HELD - r, because the outcome itself has r
# A reward with the number n has one of these minus n. No ranking is so long that the ranks of held rewards reach them.
_EARLY, _UNKNOWN, _IGNORED = -(1 << 40), -(1 << 41), -(1 << 42)
_DIGEST_SIZE = 16
PERMANENT_KINDS = ("restored", "settings", "features")
"""Kinds of rows that are never removed."""

_KINDS = {
    LoggedDecision: "decision",
    Activated: "activation",
    EarlyReward: "early",
    HeldReward: "held",
    IgnoredReward: "ignored",
    Decayed: "decay",
    ScalesLearned: "scales",
    ArmRemoved: "removed",
    ArmRestored: "restored",
    SettingsChanged: "settings",
    FeatureMapChanged: "features",
    Rejected: "rejected",
    ShadowStarted: "shadow",
    ShadowStopped: "no shadow",
}
_SETTINGS = SettingsChanged._fields[1:]
_dumps = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Row(NamedTuple):
    """One event as a row of a table."""

    time: float
    kind: str
    body: str
    decision: str | None = None
    rank: int | None = None
    person: str | None = None
    numbers: bytes | None = None
    question: bytes | None = None
    """The raw features of a decision, as JSON, which may be compressed."""
    digest: bytes | None = None
    """A digest of the question."""
    reward: str | None = None
    """The caller's own id of a reward."""


def kind_of(event: Event) -> str:
    """Return the kind of an event, as the rows name it."""
    if isinstance(event, Outcome):
        return "expiry" if event.expired else "reward"
    return _KINDS[type(event)]


def row_of(event: Event) -> Row:
    """Return the row of an event."""
    kind = kind_of(event)
    match event:
        case LoggedDecision():
            p, given = event.propensities, event.given
            members: dict[str, Any] = {
                "offered": _encoded(event.offered),
                "chosen": event.chosen,
                "version": event.version,
                "control": event.control,
                "propensities": p is not None,
            }
            if event.imported:
                members["imported"] = True
            if not event.active:
                members["active"] = False
            if event.mode != "online":
                members["mode"] = event.mode
            if event.outside_share:
                members["outside_share"] = True
            for name, own in (("proposal", event.proposal), ("shadow", event.shadow)):
                if own is not None:
                    q = own.propensities
                    members[name] = {
                        "chosen": own.chosen,
                        "propensities": None if q is None else q.tolist(),
                    }
            x: Floats | None
            if isinstance(given, RecordedFeatures):
                members["map"] = given.feature_map.version
                question, x = given.to_json().encode(), given.stored_vectors
            else:
                question, x = None, given
            numbers = b"".join(_bytes(part) for part in (x, p) if part is not None)
            return Row(
                event.time, kind, _json(**members), event.id, DECISION, event.person, numbers,
                question, None if event.digest is None else bytes(event.digest),
            )  # fmt: skip
        case Outcome():
            members = {"arm": encode(event.arm), "value": event.value, "weight": event.weight}
            if not event.learned:
                members["learned"] = False
            numbers = _bytes(event.context)
            return Row(event.time, kind, _json(**members), event.id, event.rank, numbers=numbers)
        case Activated():
            return Row(event.time, kind, "{}", event.id, _ACTIVATION)
        case HeldReward():
            body, rank = _json(value=event.value, weight=event.weight), _HELD - event.rank
            return Row(event.time, kind, body, event.id, rank, reward=event.reward_id)
        case EarlyReward():
            members = _members(event)
            place = _EARLY - event.number
            return Row(event.time, kind, _json(**members), event.id, place, reward=event.reward_id)
        case IgnoredReward():
            members = {**_members(event), "reason": event.reason}
            place = _ignored_place(event.reason) - event.number
            return Row(event.time, kind, _json(**members), event.id, place, reward=event.reward_id)
        case Decayed():
            return Row(event.time, kind, _json(factor=event.factor))
        case ScalesLearned():
            members = {"scales": None if event.scales is None else event.scales.to_dict()}
            if event.shadow:
                members["shadow"] = True
            return Row(event.time, kind, _json(**members))
        case ArmRemoved():
            return Row(event.time, kind, _json(arm=encode(event.arm)))
        case ArmRestored():
            body = _json(arm=encode(event.arm), with_past=event.with_past)
            return Row(event.time, kind, body)
        case SettingsChanged():
            body = _json(**dict(zip(_SETTINGS, event[1:], strict=True)))
            return Row(event.time, kind, body)
        case FeatureMapChanged():
            return Row(event.time, kind, event.feature_map.to_json())
        case Rejected():
            return Row(event.time, kind, _json(event=event.event, reason=event.reason))
        case ShadowStarted():
            return Row(event.time, kind, "{}", numbers=event.state)
        case ShadowStopped():
            return Row(event.time, kind, "{}")


def _members(event: EarlyReward | IgnoredReward) -> dict[str, Any]:
    arm = None if event.arm is None else encode(event.arm)
    return {"arm": arm, "value": event.value, "weight": event.weight}


def _ignored_place(reason: str) -> int:
    """Return the place of the first ignored reward; those of unknown decisions have their own, as one may be made later."""
    return _UNKNOWN if reason == "unknown" else _IGNORED


def _encoded(names: tuple[Name, ...]) -> Sequence[object]:
    """Return names as JSON values; usually all of them are."""
    return names if {str, int}.issuperset(map(type, names)) else [encode(name) for name in names]


def event_of(row: Row, maps: Mapping[str, BaseFeatureMap]) -> Event:
    """Return the event of a row; raw features refer to one of the maps by its version."""
    time, kind, text, decision, rank, person, numbers, question, digest, reward = row
    try:
        body = json.loads(text)
        match kind:
            case "decision":
                if question is not None:  # format 1 kept it in the body
                    body["raw"] = json.loads(text_of(question))
                return _decision(str(decision), time, person, body, _floats(numbers), maps, digest)
            case "reward" | "expiry":
                return _outcome(str(decision), time, int(rank or 0), body, _floats(numbers), kind)
            case "activation":
                return Activated(str(decision), time)
            case "held":
                value, weight = _reward_of(body)
                rank_held = _HELD - int(rank or 0)
                if value is None or rank_held < 0:
                    raise ValueError(f"it has the rank {rank_held} and the reward {value}")
                return HeldReward(str(decision), time, rank_held, value, weight, reward)
            case "early":
                known = _numbered(_EARLY, rank, body)
                return EarlyReward(str(decision), time, *known, reward)
            case "ignored":
                reason = body["reason"]
                if reason not in IGNORED_REASONS:
                    raise ValueError(f"it has the reason {reason!r}, which is unknown")
                known = _numbered(_ignored_place(reason), rank, body)
                return IgnoredReward(str(decision), time, *known, reward, reason)
            case "decay":
                return Decayed(time, body["factor"])
            case "scales":
                given = body["scales"]
                scales = None if given is None else Scales(**given)
                return ScalesLearned(time, scales, bool(body.get("shadow", False)))
            case "removed":
                return ArmRemoved(time, decode(body["arm"]))
            case "restored":
                return ArmRestored(time, decode(body["arm"]), body["with_past"])
            case "settings":
                # Settings that were added later are missing in earlier events: they had their defaults.
                given = {name: body[name] for name in _SETTINGS if name in body}
                _mode_of(given)
                return SettingsChanged(time, **given)
            case "features":
                return FeatureMapChanged(time, from_json(text))
            case "rejected":
                return Rejected(time, int(body["event"]), str(body["reason"]))
            case "shadow":
                return ShadowStarted(time, bytes(numbers or b""))
            case "no shadow":
                return ShadowStopped(time)
    except (
        KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, RolinError
    ) as error:  # fmt: skip
        raise JournalError(f"a row of kind {kind!r} is damaged: {error!r}") from error
    raise JournalError(f"a row has the kind {kind!r}, which this version of rolin does not know")


def _outcome(
    id: str, time: float, rank: int, body: dict[str, Any], context: Floats, kind: str
) -> Outcome:
    value, weight = _reward_of(body)
    if rank < 0:
        raise ValueError(f"its rank is {rank}")
    if not np.isfinite(context).all():
        raise ValueError("its context has numbers that are not finite")
    arm, learned = decode(body["arm"]), bool(body.get("learned", True))
    return Outcome(id, time, rank, arm, context, value, weight, kind == "expiry", learned)


def _reward_of(body: dict[str, Any]) -> tuple[float | None, float]:
    """Return value and weight of a reward."""
    value, weight = body["value"], body["weight"]
    if value is not None and not math.isfinite(value):
        raise ValueError(f"its reward is {value}")
    if not 0.0 < weight < math.inf:
        raise ValueError(f"its weight is {weight}")
    return value, weight


def _numbered(
    first: int, place: int | None, body: dict[str, Any]
) -> tuple[int, Name | None, float, float]:
    """Return number, arm, value and weight of a reward that was not learned from."""
    value, weight = _reward_of(body)
    number = first - int(place or 0)
    if value is None or number < 0:
        raise ValueError(f"it has the number {number} and the reward {value}")
    arm = body["arm"]
    return number, None if arm is None else decode(arm), value, weight


def _mode_of(body: dict[str, Any]) -> Mode:
    """Return the mode of an event; those that were written before there were modes have none."""
    mode: Mode = body.get("mode", "online")
    if mode not in MODES:
        raise ValueError(f"it has the mode {mode!r}, which this version of rolin does not know")
    return mode


def _decision(
    id: str,
    time: float,
    person: str | None,
    body: dict[str, Any],
    numbers: Floats,
    maps: Mapping[str, BaseFeatureMap],
    digest: bytes | None,
) -> LoggedDecision:
    offered = tuple(decode(name) for name in body["offered"])
    k = len(offered)
    p = numbers[-k:] if body["propensities"] else None
    x = numbers if p is None else numbers[:-k]
    vectors = x.reshape(k, -1) if x.size else np.empty((k, 0))
    given: Floats | RecordedFeatures = vectors
    chosen = _indices(body["chosen"], k)
    if digest is not None and not (isinstance(digest, bytes) and len(digest) == _DIGEST_SIZE):
        raise ValueError(f"its digest does not have {_DIGEST_SIZE} bytes")
    if "map" in body:
        situation, rows = body["raw"]["situation"], body["raw"]["arms"]
        if len(rows) != k or not all(isinstance(row, dict) for row in [situation, *rows]):
            raise ValueError(f"it does not hold the raw features of {k} arms")
        feature_map = maps[body["map"]]
        known = vectors if feature_map.needs_vectors else None
        given = RecordedFeatures(feature_map, offered, body["raw"], known)
    return LoggedDecision(
        id, time, offered, given,
        chosen, p, body["version"], person, body["control"],
        body.get("imported", False), None if digest is None else QuestionDigest(digest), bool(body.get("active", True)), _mode_of(body),
        _proposal(body.get("proposal"), k), bool(body.get("outside_share", False)),
        _proposal(body.get("shadow"), k),
    )  # fmt: skip


def _proposal(given: dict[str, Any] | None, k: int) -> Proposal | None:
    """Return what a policy would have chosen among k arms, if it was recorded."""
    if given is None:
        return None
    p = given["propensities"]
    if p is not None:
        p = np.array(p, dtype=np.float64)
        if p.shape != (k,) or not ((p >= 0.0) & (p <= 1.0)).all():
            raise ValueError(f"the policy's propensities are not {k} numbers from 0 to 1")
    return Proposal(_indices(given["chosen"], k), p)


def _indices(given: list[int], k: int) -> tuple[int, ...]:
    """Return the indices of a ranking of k arms."""
    chosen = tuple(given)
    if not chosen or not set(chosen) <= set(range(k)):
        raise ValueError(f"{chosen} are not indices of {k} arms")
    return chosen


def _json(**members: Any) -> str:
    return _dumps(members)


def _bytes(array: Floats) -> bytes:
    return array.astype(_DOUBLES, copy=False).tobytes()


def _floats(numbers: bytes | None) -> Floats:
    # The kernels need a copy that is aligned and can be written to.
    return np.frombuffer(numbers or b"", dtype=_DOUBLES).astype(np.float64)
