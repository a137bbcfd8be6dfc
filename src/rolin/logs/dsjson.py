"""Logs of Vowpal Wabbit's decision services (dsjson): one JSON object per line, one decision each.

A feature is a number under its name, or a text, which becomes a feature of its own that is 1; names
are joined by dots, and what begins with an underscore is not a feature. An arm has its own features
and those of the situation; a feature map can tell them apart, and cross them.
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

__all__ = ["SUFFIXES", "Imported", "read_dsjson"]

SUFFIXES = (".dsjson", ".dsjson.gz", ".json", ".json.gz", ".jsonl", ".log")
"""How the names of such files end."""
_MOST = 10_000  # features; a table of more is hardly what somebody wanted
_ROUNDING = (
    1e-3  # how far logged probabilities, which are single precision, may be from summing to 1
)


class Imported(NamedTuple):
    """What a file of Vowpal Wabbit's held."""

    decisions: list[PastDecision]
    features: list[str]
    """Names of the d features."""
    skipped: int
    """Lines that hold no decision: rewards without one, and those marked to be skipped."""


def read_dsjson(
    path: str | Path,
    *,
    features: Sequence[str] | None = None,
    arm: str | None = None,
    feature_map: BaseFeatureMap | None = None,
) -> Imported:
    """Read decisions, costs and probabilities as Vowpal Wabbit logs them.

    Parameters
    ----------
    path
        The file, `.gz` if it is compressed.
    features
        Names of the features, in order, others being left out; by default all that occur, sorted.
    arm
        Name of the feature of an action that names the arm, such as `"i.id"`; by default its `_tag`,
        or else its features.
    feature_map
        What makes vectors of raw features, in place of a list of their names.
    """
    if feature_map is not None and features is not None:
        raise ParameterError("both features and feature_map are given, expected one")
    known = None if features is None else {name: i for i, name in enumerate(features)}
    lines: list[tuple[int, dict[str, Any], list[dict[str, float]]]] = []
    skipped = 0
    for number, event in _events(Path(path)):
        with _line(path, number):
            if "c" not in event or event.get("_skipLearn"):
                skipped += 1
                continue
            lines.append((number, event, _features_of(event)))
    if known is None and feature_map is not None:
        known = {}
    if known is None:
        names = sorted({name for _, _, actions in lines for x in actions for name in x})
        if len(names) > _MOST:
            raise DataError(
                f"{path} holds {len(names)} features, at most {_MOST} are read; name those to keep"
            )
        known = {name: i for i, name in enumerate(names)}
    decisions, seen = [], dict[str, int]()
    for number, event, actions in lines:
        with _line(path, number):
            given = _Given(feature_map, actions, known)
            past = _past(event, given, arm, f"{Path(path).name}-line-{number}")
            first = seen.setdefault(past.decision.id, number)
            if first != number:
                raise DataError(f"EventId {past.decision.id!r} is that of line {first} too")
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
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


@contextmanager
def _line(path: str | Path, number: int) -> Iterator[None]:
    """Say in which line something is wrong."""
    try:
        yield
    except KeyError as error:
        raise DataError(f"{path}, line {number}: {error.args[0]} is missing") from error
    except (RolinError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: {error}") from error


def _features_of(event: dict[str, Any]) -> list[dict[str, float]]:
    """Return the features of every action, those of the situation included."""
    context = event["c"]
    if not isinstance(context, dict) or not isinstance(context.get("_multi"), list):
        raise DataError("c has no list _multi, expected the actions of one decision")
    if "_slots" in context or "_outcomes" in event:
        raise DataError("it has several slots, expected one decision")
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
    """Collect the features of a JSON value, as Vowpal Wabbit reads them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.startswith("_"):
                _flatten(f"{prefix}.{key}" if prefix else key, inner, out)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            # objects in a list belong to its namespace; numbers are named by their place
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


class _Given(NamedTuple):
    """How contexts are made: by a map of raw features, or from named features that are known."""

    feature_map: BaseFeatureMap | None
    actions: list[dict[str, float]]
    known: dict[str, int]

    def contexts(self, event: dict[str, Any], offered: tuple[Name, ...]) -> Any:
        if self.feature_map is not None:
            context = dict(event["c"])
            rows = [_plain(action) for action in context.pop("_multi")]
            if not all(isinstance(row, dict) for row in rows):
                raise DataError("_multi holds actions that are not objects")
            situation = _plain(context)
            return RecordedFeatures.record(self.feature_map, offered, rows, situation)
        x = np.zeros((len(self.actions), len(self.known)))
        for k, action in enumerate(self.actions):
            for name, value in action.items():
                if name in self.known:
                    x[k, self.known[name]] = value
        return x


def _plain(value: Any) -> Any:
    """Return raw features as a map takes them: a list of objects, as Vowpal Wabbit has them, is one object."""
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        value = {name: inner for item in value for name, inner in item.items()}
    if isinstance(value, dict):
        return {n: _plain(inner) for n, inner in value.items() if not n.startswith("_")}
    return value


def _past(
    event: dict[str, Any],
    given: _Given,
    arm: str | None,
    default_id: str,
) -> PastDecision:
    offered = tuple(_arm_of(action, arm) for action in event["c"]["_multi"])
    if len(set(offered)) != len(offered):
        raise DataError(
            f"two actions have the same name, of {list(offered)!r}: say which feature is the arm"
        )
    chosen = event["_labelIndex"]
    if type(chosen) is not int or not 0 <= chosen < len(offered):
        raise DataError(f"_labelIndex is {chosen!r}, expected one of {len(offered)} actions")
    p = _propensities(event, chosen, len(offered))
    own_id = event.get("EventId")
    id = text_of("EventId", default_id if own_id is None else str(own_id))
    time = _time(event.get("Timestamp"))
    x = given.contexts(event, offered)
    decision = LoggedDecision(id, time, offered, x, (chosen,), p, None)
    cost, drop = float(event["_label_cost"]), float(event.get("pdrop", 0.0))
    if not np.isfinite(cost) or not 0.0 <= drop < 1.0:
        raise DataError(f"_label_cost is {cost} and pdrop {drop}, expected numbers")
    # Of a log that was thinned out, a line stands for as many as were dropped.
    outcome = Outcome(
        id, time, 0, offered[chosen], decision.context, -cost + 0.0, 1.0 / (1.0 - drop)
    )
    return PastDecision(decision, {0: outcome})


def _propensities(event: dict[str, Any], chosen: int, n: int) -> Any:
    """Return the probabilities in the order of the actions; they are logged in that of the ranking."""
    order = event["a"]
    if sorted(order) == list(range(n)):
        order = [a + 1 for a in order]  # numbered from 0, as in some older files
    if sorted(order) != list(range(1, n + 1)):
        raise DataError(f"a is {order}, expected every one of {n} actions once")
    p = np.zeros(n)
    given = [float(q) for q in event["p"]]
    if len(given) != n:
        raise DataError(f"p has {len(given)} items, expected {n}, one per action")
    p[[a - 1 for a in order]] = given
    total = p.sum()
    if not ((p >= 0.0) & (p <= 1.0 + _ROUNDING)).all() or abs(total - 1.0) > _ROUNDING:
        raise DataError(f"p is {given}, expected probabilities that sum to 1")
    logged = float(event["_label_probability"])
    if not 0.0 < logged <= 1.0 + _ROUNDING or abs(p[chosen] - logged) > _ROUNDING:
        raise DataError(
            f"_label_probability is {logged}, but p says {p[chosen]} of action {chosen}"
        )
    return p / total


def _arm_of(action: Any, feature: str | None) -> Name:
    own: dict[str, float] = {}
    _flatten("", action, own)
    if feature is not None:
        for name in own:
            if name.startswith(f"{feature}="):
                return name[len(feature) + 1 :]
        raise DataError(f"an action has no text under {feature!r} that could name its arm")
    tag = action.get("_tag") if isinstance(action, dict) else None
    if tag is not None and tag != "":
        return str(tag)
    return ",".join(
        name if value == 1.0 else f"{name}:{value:g}" for name, value in sorted(own.items())
    )


def _time(text: Any) -> float:
    if not text:
        return 0.0
    # Seven digits of a second are more than a datetime takes.
    moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", str(text)))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
