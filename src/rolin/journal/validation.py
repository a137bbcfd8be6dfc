"""What can be recorded: names, rewards and weights that every journal holds and every policy learns from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rolin._support.arms import Name, canonical
from rolin._support.checks import finite_number_of
from rolin.errors import ArmError, InputError, ShapeError
from rolin.journal.events import LoggedDecision, Outcome

__all__ = [
    "LARGEST",
    "check_names",
    "contradiction",
    "listed",
    "offered_place",
    "place_of",
    "weight_of",
]

# Larger rewards, weights and features are refused, so that whatever is recorded can be learned from.
LARGEST = 1e50
_INTEGERS = 2**63


def place_of(decision: LoggedDecision, arm: Name | None) -> int:
    """Return which arm of the ranking is meant."""
    if arm is None:
        return 0
    return _place(decision.ranking, arm, f"decision {decision.id!r} did not choose arm")


def offered_place(decision: LoggedDecision, arm: Name) -> int:
    """Return where an arm is among those offered."""
    return _place(decision.offered, arm, f"decision {decision.id!r} was not offered arm")


def _place(names: Sequence[Name], arm: Name, otherwise: str) -> int:
    name = canonical(arm)
    for place, known in enumerate(names):
        if known == name and type(known) is type(name):
            return place
    raise ArmError(f"{otherwise} {arm!r}, only {list(names)!r}")


def contradiction(known: Outcome, value: float, weight: float) -> str:
    """Say what there is and what came."""
    if known.expired:
        was = "nothing" if known.value is None else f"a reward of {known.value}"
        return f"decision {known.id!r} has expired with {was}, and now {value} came"
    if known.value == value:
        return (
            f"decision {known.id!r} has its reward of {value} with weight {known.weight}, and now it "
            f"came with weight {weight}"
        )
    return f"decision {known.id!r} has a reward of {known.value}, and now {value} came"


def weight_of(value: object) -> float:
    """Return a weight that can be learned from."""
    weight = finite_number_of("weight", value)
    if not 1.0 / LARGEST <= weight <= LARGEST:
        raise InputError(f"weight={value!r}, expected a positive number up to {LARGEST:g}")
    return weight


def check_names(names: Sequence[Name]) -> None:
    """Refuse names that a journal, a table or JSON could not hold."""
    if not {str, int}.issuperset(map(type, names)):
        raise ArmError(f"arms are {list(names)!r}, expected names that are texts or integers")
    try:
        "".join([name for name in names if type(name) is str]).encode()
    except UnicodeEncodeError:
        raise ArmError("the name of an arm holds letters that cannot be stored") from None
    if any(type(name) is int and not -_INTEGERS <= name < _INTEGERS for name in names):
        raise ArmError("the name of an arm is an integer of more than 64 bits")


def listed(name: str, values: Any) -> list[Any]:
    """Return several things as a list; one text is not several."""
    if isinstance(values, (str, bytes, Mapping)):
        raise ShapeError(f"{name}={values!r} is one, expected a list of them")
    try:
        return list(values)
    except TypeError:
        raise ShapeError(f"{name}={values!r}, expected a list") from None
