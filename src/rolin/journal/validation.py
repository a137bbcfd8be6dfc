"""Checks of what is recorded: names, rewards and weights that every journal and every policy accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rolin._support.arms import Name, canonical
from rolin._support.checks import finite_number_of
from rolin.errors import ArmError, InputError, ShapeError
from rolin.journal.events import HeldReward, LoggedDecision, Outcome

__all__ = [
    "LARGEST",
    "MAX_WEIGHT",
    "check_names",
    "conflict_message",
    "listed",
    "offered_index",
    "rank_of",
    "unknown_message",
    "weight_of",
]

# Larger rewards, weights and features are rejected, so that every recorded value can be learned from.
LARGEST = 1e50
MAX_WEIGHT = 1e9
_INTEGERS = 2**63


def rank_of(decision: LoggedDecision, arm: Name | None) -> int:
    """Return the rank of an arm in the ranking of a decision; by default 0."""
    if arm is None:
        return 0
    return _position(decision.ranking, arm, f"decision {decision.id!r} did not choose arm")


def offered_index(decision: LoggedDecision, arm: Name, argument: str = "arm") -> int:
    """Return the index of an arm among those offered; `argument` is where the caller named it."""
    problem = f"decision {decision.id!r} was not offered arm"
    return _position(decision.offered, arm, problem, argument)


def _position(names: Sequence[Name], arm: Name, problem: str, argument: str = "arm") -> int:
    name = canonical(arm)
    for position, known in enumerate(names):
        if known == name and type(known) is type(name):
            return position
    raise ArmError(f"{problem} {arm!r}, only {list(names)!r}", argument=argument)


def conflict_message(known: Outcome | HeldReward, value: float, weight: float) -> str:
    """Return the message for a reward that contradicts the recorded outcome."""
    if isinstance(known, Outcome) and known.expired:
        was = "nothing" if known.value is None else f"a reward of {known.value}"
        return f"decision {known.id!r} has expired with {was}, but now has a reward of {value}"
    if known.value == value:
        return (
            f"decision {known.id!r} has a reward of {value} with weight {known.weight}, but now with "
            f"weight {weight}"
        )
    return f"decision {known.id!r} has a reward of {known.value}, but now {value} was reported; the first reward counts"


def unknown_message(id: str) -> str:
    """Return the message for an id that no decision has."""
    return f"no decision has the id {id!r}: it was never made, was erased, or belongs to another journal"


def weight_of(value: object) -> float:
    """Return a valid weight."""
    weight = finite_number_of("weight", value)
    if not 1.0 / MAX_WEIGHT <= weight <= MAX_WEIGHT:
        raise InputError(
            f"weight={value!r}, expected a number from {1.0 / MAX_WEIGHT:g} to {MAX_WEIGHT:g}",
            argument="weight",
        )
    return weight


def check_names(names: Sequence[Name]) -> None:
    """Reject names that a journal, a table or JSON cannot hold."""
    if not {str, int}.issuperset(map(type, names)):
        raise ArmError(f"arms are {list(names)!r}, expected strings or integers", argument="arms")
    try:
        "".join([name for name in names if type(name) is str]).encode()
    except UnicodeEncodeError:
        raise ArmError(
            "the name of an arm contains characters that cannot be encoded as UTF-8",
            argument="arms",
        ) from None
    if any(type(name) is int and not -_INTEGERS <= name < _INTEGERS for name in names):
        raise ArmError("the name of an arm is an integer of more than 64 bits", argument="arms")


def listed(name: str, values: Any) -> list[Any]:
    """Return a list; reject a single string or mapping."""
    if isinstance(values, (str, bytes, Mapping)):
        raise ShapeError(f"{name}={values!r} is a single value, expected a list")
    try:
        return list(values)
    except TypeError:
        raise ShapeError(f"{name}={values!r}, expected a list") from None
