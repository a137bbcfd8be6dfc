"""Errors that say which field of which row has a value that it cannot have."""

from __future__ import annotations

from rolin.errors import InputError, NotFiniteError

__all__ = ["FieldError", "NotFiniteFieldError"]


class FieldError(InputError):
    """A field of a row has a value that it cannot have."""

    field: str
    """Name of the field."""
    row: int
    """Index of the row."""
    text: str
    """The value, and what was expected."""

    @classmethod
    def of(cls, field: str, row: int, label: str, text: str) -> FieldError:
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
        """
        error = cls(f"field {field!r} of {label} {text}")
        error.field, error.row, error.text = field, row, text
        return error


class NotFiniteFieldError(FieldError, NotFiniteError):
    """A field of a row is NaN or infinite."""
