"""Read single values: as a number, a text, true or false, or missing.

A category is a text. Numbers and booleans are converted to the texts that JSON uses for them, so that 18, 18.0 and
"18" are the same category, whichever library the row came from.
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
    "MAX_CACHED_LENGTH",
    "BadValue",
    "describe",
    "hash_text",
    "is_missing",
    "nan_to_none",
    "read_boolean",
    "read_number",
    "read_text",
]

MAX_CACHED_LENGTH = 256
"""Longest text, in characters, whose column or hash is cached; longer texts would fill the memory."""
_NOT_NUMBERS = (complex, np.complexfloating, np.datetime64, np.timedelta64)
_MISSING_TYPES = ("NAType", "NaTType")  # the types of pandas' NA and NaT


class BadValue(Exception):  # caught where the field and the arm are known
    """A value that a field does not accept.

    Parameters
    ----------
    row
        Index of the row that holds the value.
    value
        The value.
    expected
        The kind of value that the field accepts.
    """

    def __init__(self, row: int, value: object, expected: str) -> None:
        super().__init__(row, value, expected)
        self.row, self.value, self.expected = row, value, expected


def describe(value: object) -> str:
    """Return a short text that shows a value in an error message."""
    try:
        shown = repr(value)
    except Exception:  # an object's own code may raise anything
        return f"a {type(value).__name__}"
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


def is_missing(value: object) -> bool:
    """Return whether a value is missing: `None`, or NA or NaT of pandas."""
    return value is None or type(value).__name__ in _MISSING_TYPES


def nan_to_none(value: Any) -> Any:
    """Return a value of pandas, with `None` for NaN: pandas marks missing values by NaN."""
    return None if isinstance(value, float) and value != value else value


def read_number(row: int, value: Any) -> float:
    """Return a value as a finite number; raise `BadValue` if it is none."""
    try:
        if isinstance(value, _NOT_NUMBERS):
            raise TypeError
        found = number_of("value", value)
    except NotFiniteError:
        raise BadValue(row, value, "a number that fits into a float") from None
    except Exception:  # an object's own code may raise anything
        raise BadValue(row, value, "a number") from None
    if not math.isfinite(found):
        hint = "a finite number; give None, or leave the field out, if the value is missing"
        raise BadValue(row, value, hint if found != found else "a finite number")
    return found


def read_boolean(row: int, value: Any) -> bool:
    """Return a value as true or false; 0 and 1 are accepted."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, float, np.number)) and not isinstance(value, _NOT_NUMBERS):
        if value in (0, 1):
            return bool(value)
    raise BadValue(row, value, "true or false")


def read_text(row: int, value: Any) -> str:
    """Return a value as the text of a category."""
    if isinstance(value, str):
        return str.__str__(value)  # the text itself if it is a member of an Enum
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, AnyNumber) and not isinstance(value, _NOT_NUMBERS):
        found = read_number(row, value)
        if isinstance(value, (int, np.integer)):
            try:
                return str(int(value))
            except ValueError:  # longer than Python's limit for converting integers to text
                raise BadValue(row, value, "a shorter number") from None
        return str(int(found)) if found.is_integer() else repr(found)
    raise BadValue(row, value, "a text, a number, or true or false")


def hash_text(text: str) -> int:
    """Return a 64-bit hash of a text that is the same on every machine and in every version."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
