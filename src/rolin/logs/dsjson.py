"""Read logs of Vowpal Wabbit's decision services (dsjson): one JSON object per line, one decision each.

A number is a feature under its name. A text is a feature of its own with the value 1. Names are joined by dots, and
names that begin with an underscore are not features. An arm has its own features and those of the situation; a
feature map can tell them apart and cross them.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rolin._support.arms import Name
from rolin._support.checks import text_of
from rolin.errors import DataError, ParameterError, RolinError
from rolin.features import BaseFeatureMap, RecordedFeatures
from rolin.journal.events import LoggedDecision, Outcome
from rolin.logs.record import PastDecision
from rolin.logs.rules import UNREADABLE, is_distribution

__all__ = ["SUFFIXES", "Imported", "plain_features", "read_dsjson"]

SUFFIXES = (".dsjson", ".dsjson.gz", ".json", ".json.gz", ".jsonl", ".log")
"""Endings of the names of such files."""
_MAX_FEATURES = 10_000  # more are hardly wanted, and would not fit into memory
# Vowpal Wabbit computes in single precision and writes few digits: its probabilities sum to 1 as nearly as this.
_ROUNDING = 1e-3


class Imported(NamedTuple):
    """The content of a Vowpal Wabbit log."""

    decisions: list[PastDecision]
    features: list[str]
    """Names of the d features."""
    skipped: int
    """Number of lines without a decision: rewards alone, and lines that are marked to be skipped."""


class _Line(NamedTuple):
    """A line that holds a decision."""

    number: int
    event: dict[str, Any]
    actions: list[dict[str, float]]
    """The features of each arm."""


def read_dsjson(
    path: str | Path,
    *,
    features: Sequence[str] | None = None,
    arm: str | None = None,
    feature_map: BaseFeatureMap | None = None,
) -> Imported:
    """Read the decisions, costs and probabilities of a Vowpal Wabbit log.

    Parameters
    ----------
    path
        The file; a compressed one ends in `.gz`.
    features
        Names of the features, in order; others are left out. By default all that occur, sorted.
    arm
        The feature of an action that names the arm, such as `"i.id"`. By default the action's `_tag`, or if it has
        none, its features.
    feature_map
        The feature map that makes vectors of raw features, instead of `features`.
    """
    if feature_map is not None and features is not None:
        raise ParameterError(
            "both features and feature_map are given, expected one", argument="features"
        )
    known = None if features is None else {name: i for i, name in enumerate(features)}
    lines: list[_Line] = []
    skipped = 0
    for number, event in _events(Path(path)):
        with _line(path, number):
            if "c" not in event or event.get("_skipLearn"):
                skipped += 1
                continue
            lines.append(_Line(number, event, _features_of(event)))
    if known is None and feature_map is not None:
        known = {}
    if known is None:
        names = sorted({name for line in lines for x in line.actions for name in x})
        if len(names) > _MAX_FEATURES:
            raise DataError(
                f"{path} holds {len(names)} features, expected at most {_MAX_FEATURES}: name those to read"
            )
        known = {name: i for i, name in enumerate(names)}
    decisions, seen = [], dict[str, int]()
    for number, event, actions in lines:
        with _line(path, number):
            maker = _ContextMaker(feature_map, actions, known)
            past = _past(event, maker, arm, f"{Path(path).name}-line-{number}")
            first = seen.setdefault(past.decision.id, number)
            if first != number:
                raise DataError(
                    f"EventId {past.decision.id!r} is also in line {first}, expected one line per id"
                )
            decisions.append(past)
    names = list(known) if feature_map is None else feature_map.names
    return Imported(decisions, names, skipped)


def _events(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if not path.is_file():
        raise DataError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
    open_ = gzip.open if path.name.endswith(".gz") else open
    try:
        with open_(path, "rt", encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        event = json.loads(line)
                    except (ValueError, RecursionError) as error:
                        raise DataError(f"{path}, line {number}: not JSON: {error}") from error
                    if not isinstance(event, dict):
                        raise DataError(f"{path}, line {number}: expected an object")
                    yield number, event
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read: {error}") from error


@contextmanager
def _line(path: str | Path, number: int) -> Iterator[None]:
    """Add the file and the line to errors."""
    try:
        yield
    except KeyError as error:
        raise DataError(f"{path}, line {number}: {error.args[0]} is missing") from error
    except (RolinError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: {error}") from error


def _features_of(event: dict[str, Any]) -> list[dict[str, float]]:
    """Return the features of every action, including those of the situation."""
    context = event["c"]
    if not isinstance(context, dict) or not isinstance(context.get("_multi"), list):
        raise DataError("c has no list _multi, expected the actions of one decision")
    if "_slots" in context or "_outcomes" in event:
        raise DataError("the line has several slots, expected one decision")
    shared: dict[str, float] = {}
    _flatten("", context, shared)
    actions = []
    for action in context["_multi"]:
        own = dict(shared)
        _flatten("", action, own)
        actions.append(own)
    if not actions:
        raise DataError("_multi is empty, expected at least one action")
    return actions


def _flatten(prefix: str, value: Any, out: dict[str, float]) -> None:
    """Collect the features of a JSON value by the rules of Vowpal Wabbit."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.startswith("_"):
                _flatten(f"{prefix}.{key}" if prefix else key, inner, out)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            # Objects in a list belong to its namespace; numbers are named by their index.
            _flatten(prefix if isinstance(inner, (dict, list)) else f"{prefix}.{i}", inner, out)
    elif isinstance(value, bool):
        if value:
            out[prefix] = 1.0
    elif isinstance(value, (int, float)):
        if not np.isfinite(value):
            raise DataError(f"feature {prefix} is {value}, expected a finite number")
        out[prefix] = float(value)
    elif isinstance(value, str):
        out[f"{prefix}={value}"] = 1.0


class _ContextMaker(NamedTuple):
    """Makes the contexts of one decision: by a feature map, or from named features."""

    feature_map: BaseFeatureMap | None
    actions: list[dict[str, float]]
    known: dict[str, int]

    def contexts(self, event: dict[str, Any], offered: tuple[Name, ...]) -> Any:
        """Return the raw features of the arms, or a (K, d) array."""
        if self.feature_map is not None:
            actions = event["c"]["_multi"]
            if not all(isinstance(action, dict) for action in actions):
                raise DataError("_multi holds an action that is not an object")
            rows, situation = _raw_features(event["c"], actions)
            return RecordedFeatures.record(self.feature_map, offered, rows, situation)
        x = np.zeros((len(self.actions), len(self.known)))
        for k, action in enumerate(self.actions):
            for name, value in action.items():
                if name in self.known:
                    x[k, self.known[name]] = value
        return x


def _raw_features(
    context: dict[str, Any], actions: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the raw features of the actions and of the situation, as a feature map takes them.

    Azure Personalizer wraps the features that its callers send: those of the context in `FromUrl`, those of an action in
    `j`, beside its name in `i`. They are unwrapped, so that a log and a live request have the same fields.
    """
    situation = {name: inner for name, inner in context.items() if not name.startswith("_")}
    if set(situation) == {"FromUrl"}:
        situation = plain_features(situation["FromUrl"])
    rows = actions
    if all(set(row) <= {"_tag", "i", "j"} and "i" in row for row in rows):
        rows = [plain_features(row.get("j")) for row in rows]
    return [plain_features(row) for row in rows], plain_features(situation)


def plain_features(value: Any) -> dict[str, Any]:
    """Return the features of a JSON object, or of a list of objects, as one object that a feature map takes.

    Members whose names begin with an underscore are no features. If several objects of a list have a member of the same
    name, its parts are joined if they are objects, and otherwise the last one counts.

    Parameters
    ----------
    value
        The object or the objects; `None` has no features.
    """
    parts = value if isinstance(value, list) else [] if value is None else [value]
    if len(parts) == 1 and _is_plain(parts[0]):  # the usual case
        return parts[0]  # type: ignore[no-any-return]
    found: dict[str, Any] = {}
    _join(found, parts)
    return found


def _join(found: dict[str, Any], parts: list[Any]) -> None:
    """Add the features of some objects, in time that is linear in their size."""
    for part in parts:
        if not isinstance(part, dict):
            raise DataError(f"features hold {part!r}, expected objects")
        for name, value in part.items():
            if name.startswith("_"):
                continue
            if isinstance(value, dict) or _is_list_of_objects(value):
                if not isinstance(found.get(name), dict):
                    found[name] = {}
                _join(found[name], value if isinstance(value, list) else [value])
            else:
                found[name] = value


def _is_plain(part: Any) -> bool:
    """Return whether an object holds only features that are not objects or lists. Every arm of a request is checked."""
    if not isinstance(part, dict):
        return False
    for name, value in part.items():
        kind = type(value)
        if kind is dict or kind is list or name[:1] == "_":
            return False
    return True


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _past(
    event: dict[str, Any],
    maker: _ContextMaker,
    arm: str | None,
    default_id: str,
) -> PastDecision:
    offered = tuple(_arm_of(action, arm) for action in event["c"]["_multi"])
    if len(set(offered)) != len(offered):
        raise DataError(
            f"two actions have the same name in {list(offered)!r}: say by arm=… which feature names the arm"
        )
    chosen = event["_labelIndex"]
    if type(chosen) is not int or not 0 <= chosen < len(offered):
        raise DataError(f"_labelIndex is {chosen!r}, expected one of {len(offered)} actions")
    p = _propensities(event, chosen, len(offered))
    own_id = event.get("EventId")
    id = text_of("EventId", default_id if own_id is None else str(own_id))
    time = _time(event.get("Timestamp"))
    x = maker.contexts(event, offered)
    decision = LoggedDecision(id, time, offered, x, (chosen,), p, None)
    cost, drop = float(event["_label_cost"]), float(event.get("pdrop", 0.0))
    if not np.isfinite(cost) or not 0.0 <= drop < 1.0:
        raise DataError(f"_label_cost is {cost} and pdrop {drop}, expected numbers")
    # With pdrop, the log holds a random share of all lines: each one counts for those that were dropped.
    outcome = Outcome(
        id, time, 0, offered[chosen], decision.context, -cost + 0.0, 1.0 / (1.0 - drop)
    )
    return PastDecision(decision, {0: outcome})


def _propensities(event: dict[str, Any], chosen: int, n: int) -> Any:
    """Return the probabilities in the order of the actions; the log has them in that of the ranking."""
    order = event["a"]
    if sorted(order) == list(range(n)):
        order = [a + 1 for a in order]  # some older files count from 0
    if sorted(order) != list(range(1, n + 1)):
        raise DataError(f"a is {order}, expected every one of {n} actions once")
    p = np.zeros(n)
    given = [float(q) for q in event["p"]]
    if len(given) != n:
        raise DataError(f"p has {len(given)} items, expected {n}, one per action")
    p[[a - 1 for a in order]] = given
    total = p.sum()
    if not abs(total - 1.0) <= _ROUNDING or not is_distribution(p / total, n):
        raise DataError(f"p is {given}, expected probabilities that sum to 1")
    logged = float(event["_label_probability"])
    if not 0.0 < logged <= 1.0 + _ROUNDING or abs(p[chosen] - logged) > _ROUNDING:
        raise DataError(f"_label_probability is {logged}, but p is {p[chosen]} for action {chosen}")
    return p / total


def _arm_of(action: Any, feature: str | None) -> Name:
    own: dict[str, float] = {}
    _flatten("", action, own)
    if feature is not None:
        for name in own:
            if name.startswith(f"{feature}="):
                return name[len(feature) + 1 :]
        raise DataError(f"an action has no text under {feature!r}, which should name its arm")
    tag = action.get("_tag") if isinstance(action, dict) else None
    if tag is not None and tag != "":
        return str(tag)
    return ",".join(
        name if value == 1.0 else f"{name}:{value:g}" for name, value in sorted(own.items())
    )


def _time(text: Any) -> float:
    if not text:
        return 0.0
    # A datetime takes at most six digits of a second.
    moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", str(text)))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
