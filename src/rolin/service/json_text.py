"""What msgspec does not check of a JSON text: how deep it is, and members that are given twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.compile import compiled
from rolin.service.errors import Refusal

__all__ = ["check_json"]

_FINE, _DEEP, _DOUBTFUL = 0, 1, 2
_LEAST = 5  # bytes per member, such as "":0 and a comma
# Nobody can prepare keys whose hashes agree without knowing it.
_SEED = np.uint64(int.from_bytes(os.urandom(8)))


def check_json(body: bytes, most: int, what: str = "the body") -> None:
    """Refuse a JSON text with more than `most` objects and lists inside each other, or with a member given twice.

    The text need not be valid: a decoder finds out what else is wrong with it. `what` names the text in messages.
    """
    n_keys = min(body.count(b":"), len(body) // _LEAST)
    found = _scan(np.frombuffer(body, np.uint8), most, n_keys, _SEED)
    if found == _DEEP:
        raise Refusal(400, f"{what} is nested deeper than {most} levels")
    if found == _DOUBTFUL and (place := _repeated(body)) is not None:
        raise Refusal(
            400,
            f"{what} gives the member {place!r} twice, expected every member once",
            field=place,
        )


@compiled(reorder=False, keep_lock=True)
def _scan(text: NDArray[np.uint8], most: int, most_keys: int, seed: np.uint64) -> int:
    """Return whether a text is fine, is too deep, or has a key that may be one of an earlier member.

    The keys of all objects are in one hash table. A key with an escape is always doubtful, because it can be spelt in
    several ways.
    """
    size = 16
    while size < 2 * most_keys:
        size *= 2
    last = size - 1
    table = np.zeros(size, np.uint64)
    object_at = np.zeros(most + 1, np.int64)  # the number of the object at each depth, 0 for a list
    multiplier = np.uint64(0x9E3779B97F4A7C15)
    n, i, depth, n_objects, n_keys = len(text), 0, 0, 0, 0
    is_key = False  # whether a string in an object would be a key
    doubtful = False
    while i < n:
        byte = text[i]
        if 45 <= byte <= 58:  # most bytes are those of numbers
            pass
        elif byte == 34:  # "
            mixed = (seed ^ np.uint64(object_at[depth])) * multiplier
            escaped = False
            i += 1
            while i < n and text[i] != 34:
                if text[i] == 92:  # \
                    escaped = True
                    i += 1
                elif is_key:
                    mixed = (mixed ^ np.uint64(text[i])) * multiplier
                    mixed ^= mixed >> np.uint64(29)
                i += 1
            if is_key and object_at[depth]:
                doubtful |= escaped
                if n_keys >= most_keys:
                    return _FINE  # not JSON: every key has a colon
                n_keys += 1
                mixed |= np.uint64(1)  # 0 is an empty place
                at = np.int64(mixed >> np.uint64(32)) & last
                while table[at] != 0:
                    if table[at] == mixed:
                        doubtful = True
                        break
                    at = (at + 1) & last
                table[at] = mixed
                is_key = False
        elif byte == 123 or byte == 91:  # { or [
            depth += 1
            if depth > most:
                return _DEEP
            is_key = byte == 123
            if is_key:
                n_objects += 1
            object_at[depth] = n_objects if is_key else 0
        elif byte == 125 or byte == 93:  # } or ]
            depth -= 1
            if depth < 0:
                return _FINE  # not JSON
            is_key = False
        elif byte == 44:  # ,
            is_key = object_at[depth] != 0
        i += 1
    return _DOUBTFUL if doubtful else _FINE


def _repeated(body: bytes) -> str | None:
    r"""Return the place of the first member that is given twice; `None` if there is none, or the text is not JSON.

    >>> _repeated(b'{"arms": [{"id": 1}, {"id": 2, "i\\u0064": 3}]}')
    'arms[1].id'
    """
    try:
        return _repeated_in(json.loads(body, object_pairs_hook=_Members), "")
    except ValueError:
        return None


class _Members(list[tuple[str, Any]]):
    """The members of an object, in order."""


def _repeated_in(value: Any, place: str) -> str | None:
    inside: Iterable[tuple[str, Any]] = ()
    if isinstance(value, _Members):
        seen: set[str] = set()
        for name, _ in value:
            if name in seen:
                return f"{place}.{name}".lstrip(".")
            seen.add(name)
        inside = [(f"{place}.{name}", item) for name, item in value]
    elif isinstance(value, list):
        inside = [(f"{place}[{i}]", item) for i, item in enumerate(value)]
    for where, item in inside:
        found = _repeated_in(item, where)
        if found is not None:
            return found
    return None
