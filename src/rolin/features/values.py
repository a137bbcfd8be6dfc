"""Single values of any origin: what they mean as a number, a text, or nothing at all.

A category is a text. Numbers and booleans are taken as the texts that JSON has for them, so that 18, 18.0 and
"18" are one category, whichever library a row came from.
"""

from __future__ import annotations

import hashlib
import math
from numbers import Number as AnyNumber
from typing import Any

import numpy as np

from rolin._support.checks import number_of
from rolin.errors import NotFiniteError

__all__ = [
    "REMEMBERED",
    "BadValue",
    "hash_of",
    "is_missing",
    "number",
    "text",
    "told",
    "truth",
    "without_nan",
]

_NO_NUMBERS = (complex, np.complexfloating, np.datetime64, np.timedelta64)
REMEMBERED = 256
"""Letters of a text whose place is remembered; longer ones would fill the memory."""
_MISSING_TYPES = ("NAType", "NaTType")  # what pandas has in place of a value; `None` is everybody's


class BadValue(Exception):  # caught where the field and the arm are known
    """A value that a field cannot have."""

    def __init__(self, place: int, value: object, expected: str) -> None:
        super().__init__(place, value, expected)
        self.place, self.value, self.expected = place, value, expected


def told(value: object) -> str:
    """Return a value as errors show it."""
    try:
        shown = repr(value)
    except Exception:  # whatever an object does that is not what was expected
        return f"a {type(value).__name__}"
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


def is_missing(value: object) -> bool:
    """Return whether there is no value."""
    return value is None or type(value).__name__ in _MISSING_TYPES


def without_nan(value: Any) -> Any:
    """Return a value of pandas, where NaN means that it is missing."""
    return None if isinstance(value, float) and value != value else value


def number(place: int, value: Any) -> float:
    """Return a finite number."""
    try:
        if isinstance(value, _NO_NUMBERS):
            raise TypeError
        found = number_of("value", value)
    except NotFiniteError:
        raise BadValue(place, value, "a number that can be computed with") from None
    except Exception:  # whatever it does when it is asked for a number
        raise BadValue(place, value, "a number") from None
    if not math.isfinite(found):
        hint = "a finite number; what is missing is None, or left out"
        raise BadValue(place, value, hint if found != found else "a finite number")
    return found


def truth(place: int, value: Any) -> bool:
    """Return whether a value is true; 0 and 1 are taken for false and true."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, float, np.number)) and not isinstance(value, _NO_NUMBERS):
        if value in (0, 1):
            return bool(value)
    raise BadValue(place, value, "true or false")


def text(place: int, value: Any) -> str:
    """Return a category."""
    if isinstance(value, str):
        return str.__str__(value)  # of an Enum that is a text, the text
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, AnyNumber) and not isinstance(value, _NO_NUMBERS):
        found = number(place, value)
        if isinstance(value, (int, np.integer)):
            try:
                return str(int(value))
            except ValueError:  # too long for Python to write it
                raise BadValue(place, value, "a shorter number") from None
        return str(int(found)) if found.is_integer() else repr(found)
    raise BadValue(place, value, "a text, a number, or true or false")


def hash_of(token: str) -> int:
    """Return 64 bits that a text always has, on every machine and in every version."""
    digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
