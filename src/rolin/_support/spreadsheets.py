"""Texts that spreadsheets do not take for formulas."""

from __future__ import annotations

__all__ = ["with_apostrophe", "without_apostrophe"]

# Spreadsheets take a text that begins with one of these for a formula, or drop an apostrophe.
_FORMULA = tuple("=+-@\t\r\n'")


def with_apostrophe(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula.

    >>> with_apostrophe("=1+1"), with_apostrophe("order-7"), with_apostrophe("'=1")
    ("'=1+1", 'order-7', "''=1")
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def without_apostrophe(text: str) -> str:
    """Return the text that `with_apostrophe` was given."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text
