"""Which part of a request is wrong, if the library or msgspec rejects it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rolin.errors import ArmError, InputError, ParameterError, RolinError
from rolin.features import FieldError
from rolin.journal.validation import LARGEST
from rolin.service import schema
from rolin.service.errors import Refusal, failure_of
from rolin.service.questions import id_of

__all__ = [
    "ERASURE",
    "EXPLANATION",
    "REWARD",
    "REWARD_ITEM",
    "SETTINGS",
    "refusal_at",
    "refusal_of_question",
    "with_names",
]

# What requests call the arguments of the library.
ERASURE = {"id": "ids", "person": "person", "older_than": "older_than"}
EXPLANATION = {name: name for name in ("arm", "against", "as_of")}
REWARD = {"reward": "value", "arm": "arm", "weight": "weight", "reward_id": "id"}
REWARD_ITEM = {**REWARD, "id": "decision"}
SETTINGS = {name: f"settings.{name}" for name in schema.Settings.__struct_fields__}
_QUESTION = {name: name for name in ("id", "person", "exclude", "top_k", "active", "baseline")}


def refusal_at(error: RolinError, field: str | Mapping[str, str] | None) -> Refusal:
    """Return an error of the library as a refusal that names the part of the request.

    Parameters
    ----------
    error
        The error.
    field
        The part, or the parts by the arguments of the library that they become.
    """
    if isinstance(field, Mapping):
        argument = error.argument if isinstance(error, InputError) else None
        field = None if argument is None else field.get(argument)
    failure = failure_of(error)
    return Refusal(failure.status, failure.message, field=field, retry_after=failure.retry_after)


def refusal_of_question(
    error: InputError,
    request: schema.DecisionRequest,
    registered: Sequence[str | schema.Arm] | None,
) -> Refusal:
    """Return why a question is refused.

    Parameters
    ----------
    error
        Why the library rejects it.
    request
        The question.
    registered
        The arms of a request that names none.
    """
    place, arms = "arms", registered if request.arms is None else request.arms
    if request.candidates is not None:
        place = "candidates"
        arms = request.candidates if isinstance(request.candidates, list) else None
    return refusal_at(error, _place(error, request, place, arms))


def _place(
    error: InputError,
    request: schema.DecisionRequest,
    place: str,
    arms: Sequence[str | schema.Arm] | None,
) -> str | None:
    if isinstance(error, FieldError) and error.argument == "situation":
        return f"situation.{error.field}"
    if error.argument in _QUESTION:
        return error.argument
    excluded = set(request.exclude)
    left, all_excluded = None, False
    if arms is not None:
        # Arms are read without those that are excluded, unless these are all.
        left = [k for k, arm in enumerate(arms) if id_of(arm) not in excluded]
        all_excluded = not left and bool(arms)
        left = left or list(range(len(arms)))
    if isinstance(error, FieldError):
        if left is None:
            return place
        k = left[error.row]
        return f"candidates[{k}]" if place == "candidates" else f"arms[{k}].features.{error.field}"
    if error.argument == "arms":
        return _repeated(place, arms or (), left or ())
    if error.argument == "contexts":
        return _large(request, place, arms or (), left or ())
    if isinstance(error, ArmError) and all_excluded:
        return "exclude"
    if isinstance(error, ParameterError) and request.top_k > (1 if left is None else len(left)):
        return "top_k"
    return None


def _repeated(place: str, arms: Sequence[str | schema.Arm], left: Sequence[int]) -> str:
    """Return the place of the first name that is given twice, or else of all names."""
    seen: set[str] = set()
    for k in left:
        name = id_of(arms[k])
        if name in seen:
            return f"{place}[{k}]"
        seen.add(name)
    return place


def _large(
    request: schema.DecisionRequest,
    place: str,
    arms: Sequence[str | schema.Arm],
    left: Sequence[int],
) -> str:
    """Return the place of the first number of a vector that is too large to learn from."""
    rows: list[tuple[str, Any]] = [("situation", request.situation)]
    for k in left:
        arm = arms[k]
        if not isinstance(arm, str):
            rows.append((f"{place}[{k}].features", arm.features))
    for where, row in rows:
        for i, value in enumerate(row if isinstance(row, list) else ()):
            if not abs(value) <= LARGEST:
                return f"{where}[{i}]"
    return place


_STEP = re.compile(r"\[(\.\.\.|\d+)\]|\.?(\w+)")


def with_names(place: str, body: bytes) -> str:
    """Return the place of a number that is too large, with the names of members instead of `[...]`.

    >>> with_names("situation[...][1]", b'{"situation": {"x": 1, "y": [1, 1e400]}}')
    'situation.y[1]'
    """
    steps = [
        name or (None if index == "..." else int(index)) for index, name in _STEP.findall(place)
    ]
    try:
        found = next(_places(json.loads(body), steps), None)
    except ValueError:  # what follows is not JSON
        found = None
    return place if found is None else found.removeprefix(".")


def _places(value: Any, steps: Sequence[str | int | None]) -> Any:
    """Yield the places of numbers that are too large, where the steps lead; `None` is any member."""
    if not steps:
        if isinstance(value, float) and math.isinf(value):
            yield ""
        return
    step, rest = steps[0], steps[1:]
    if isinstance(value, list) and isinstance(step, int):
        for found in _places(value[step], rest):
            yield f"[{step}]{found}"
    elif isinstance(value, dict):
        for name in value if step is None else [step]:
            for found in _places(value.get(name), rest):
                yield f".{name}{found}"
