"""What msgspec does not check of a JSON text: how deep it is, and members that are given twice."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.compile import compiled
from rolin.service.errors import Refusal

__all__ = ["check_json"]

_FINE, _DEEP, _DOUBTFUL = 0, 1, 2
_LONGEST = 200  # characters of a place in messages
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
        if len(place) > _LONGEST:
            place = f"{place[:_LONGEST]}…"
        raise Refusal(
            400,
            f"{what} gives the member {place!r} twice, expected every member once",
            field=place,
        )


@compiled(reorder=False, inline=True, keep_lock=True)
def _mix(mixed: np.uint64, byte: int) -> np.uint64:
    """Return the hash of a text with one more byte."""
    mixed = (mixed ^ np.uint64(byte)) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(29))


@compiled(reorder=False, inline=True, keep_lock=True)
def _hex(text: NDArray[np.uint8], start: int) -> int:
    """Return the number of four hexadecimal digits; -1 if there are none."""
    if start + 4 > len(text):
        return -1
    number = 0
    for i in range(start, start + 4):
        byte = int(text[i])
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 65 <= (byte & ~32) <= 70:
            digit = (byte & ~32) - 55
        else:
            return -1
        number = 16 * number + digit
    return number


@compiled(reorder=False, keep_lock=True)
def _scan(text: NDArray[np.uint8], most: int, most_keys: int, seed: np.uint64) -> int:
    """Return whether a text is fine, is too deep, or has a key with the hash of an earlier one in the same object.

    The keys of all objects are in one hash table. A key has the same hash however it is spelt: escapes are hashed as the
    UTF-8 of what they stand for.
    """
    size = 16
    while size < 2 * most_keys:
        size *= 2
    last = size - 1
    table = np.zeros(size, np.uint64)
    object_at = np.zeros(most + 1, np.int64)  # the number of the object at each depth, 0 for a list
    n, i, depth, n_objects, n_keys = len(text), 0, 0, 0, 0
    is_key = False  # whether a string in an object would be a key
    doubtful = False
    while i < n:
        byte = int(text[i])
        if 45 <= byte <= 58:  # most bytes are those of numbers
            pass
        elif byte == 34:  # "
            mixed = _mix(seed ^ np.uint64(object_at[depth]), 0)
            i += 1
            while i < n and text[i] != 34:
                byte = int(text[i])
                if byte != 92:
                    if is_key:
                        mixed = _mix(mixed, byte)
                    i += 1
                    continue
                byte = int(text[i + 1]) if i + 1 < n else 0  # after a backslash
                i += 2
                if not is_key:
                    continue
                if byte != 117:  # not u
                    if byte == 98:
                        byte = 8
                    elif byte == 102:
                        byte = 12
                    elif byte == 110:
                        byte = 10
                    elif byte == 114:
                        byte = 13
                    elif byte == 116:
                        byte = 9
                    mixed = _mix(mixed, byte)
                    continue
                code = _hex(text, i)
                if code < 0:
                    continue  # not JSON
                i += 4
                if 0xD800 <= code < 0xDC00 and i + 1 < n and text[i] == 92 and text[i + 1] == 117:
                    low = _hex(text, i + 2)
                    if 0xDC00 <= low < 0xE000:
                        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                        i += 6
                if code < 0x80:
                    mixed = _mix(mixed, code)
                else:
                    if code < 0x800:
                        mixed = _mix(mixed, 0xC0 | (code >> 6))
                    else:
                        if code < 0x10000:
                            mixed = _mix(mixed, 0xE0 | (code >> 12))
                        else:
                            mixed = _mix(mixed, 0xF0 | (code >> 18))
                            mixed = _mix(mixed, 0x80 | ((code >> 12) & 63))
                        mixed = _mix(mixed, 0x80 | ((code >> 6) & 63))
                    mixed = _mix(mixed, 0x80 | (code & 63))
            if is_key:
                if n_keys >= most_keys:
                    return _DOUBTFUL if doubtful else _FINE  # not JSON: every key has a colon
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
                return _DOUBTFUL if doubtful else _FINE  # not JSON
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
        # Batches may hold items that are not valid, which must not hide the others.
        text = body.decode("utf-8", "replace")
        value = json.loads(text, object_pairs_hook=_Members, parse_int=float)
    except ValueError:
        return None
    place = _repeated_in(value)
    return None if place is None else place.removeprefix(".").encode(errors="replace").decode()


class _Members(list[tuple[str, Any]]):
    """The members of an object, in order."""


def _repeated_in(value: Any) -> str | None:
    """Return the place of a member that is given twice, inside a value."""
    is_object = isinstance(value, _Members)
    if is_object:
        seen: set[str] = set()
        for name, _ in value:
            if name in seen:
                return f".{name}"
            seen.add(name)
    elif not isinstance(value, list):
        return None
    for i, item in enumerate(value):
        place = _repeated_in(item[1] if is_object else item)
        if place is not None:  # its name is made now: names of all items might fill the memory
            return f".{item[0]}{place}" if is_object else f"[{i}]{place}"
    return None
