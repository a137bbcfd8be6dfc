"""Errors that say which field of which row has a value that it cannot have."""

from __future__ import annotations

import math
from collections.abc import Callable

from rolin.errors import InputError, NotFiniteError
from rolin.features.values import BadValue, describe

__all__ = ["SITUATION", "FieldError", "NotFiniteFieldError", "field_error", "name_field_error"]

SITUATION = "the situation"
"""What error messages call the situation."""


class FieldError(InputError):
    """A field of a row has a value that it cannot have."""

    field: str
    """Name of the field."""
    row: int
    """Index of the row."""
    text: str
    """The value, and what was expected."""

    @classmethod
    def of(
        cls, field: str, row: int, label: str, text: str, message: str | None = None
    ) -> FieldError:
        """Return the error.

        Parameters
        ----------
        field
            Name of the field.
        row
            Index of the row.
        label
            The row in words, such as "row 3" or "arm 'a'".
        text
            The value, and what was expected.
        message
            The whole message; by default it is made of the others.
        """
        argument = "situation" if label == SITUATION else "arms"
        error = cls(message or f"field {field!r} of {label} {text}", argument=argument)
        error.field, error.row, error.text = field, row, text
        return error


class NotFiniteFieldError(FieldError, NotFiniteError):
    """A field of a row is NaN or infinite."""


def field_error(field: str, bad: BadValue, label: Callable[[int], str]) -> FieldError:
    """Return the error that names the field and the row of a bad value."""
    infinite = isinstance(bad.value, float) and not math.isfinite(bad.value)
    kind = NotFiniteFieldError if infinite else FieldError
    problem = f"is {describe(bad.value)}, expected {bad.expected}"
    return kind.of(field, bad.row, label(bad.row), problem)


def name_field_error(field: str, row: int, label: Callable[[int], str]) -> FieldError:
    """Return the error of a row with the reserved field that holds the name of its arm."""
    what = label(row)
    problem = f"{what} has a field {field!r}, which is its name: leave the field out"
    return FieldError.of(field, row, what, "is the name of the arm: leave the field out", problem)
