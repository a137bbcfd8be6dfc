"""Append-only logs of everything that changes a policy, and of every decision.

`MemoryJournal` and `SQLiteJournal` are two; another database is one more class with the calls of
`Journal`, held to the same tests.
"""

from __future__ import annotations

from os import PathLike

from rolin.errors import ParameterError
from rolin.journal.base import Journal
from rolin.journal.events import LoggedDecision
from rolin.journal.folding import replay
from rolin.journal.memory import MemoryJournal
from rolin.journal.sqlite import SQLiteJournal

__all__ = [
    "Journal",
    "LoggedDecision",
    "MemoryJournal",
    "SQLiteJournal",
    "open_journal",
    "replay",
]


def open_journal(where: Journal | str | PathLike[str] | None, *, readonly: bool = False) -> Journal:
    """Return a journal: the one given, that of a file, or by default one in memory."""
    if where is None:
        return MemoryJournal()
    if isinstance(where, Journal):
        return where
    if isinstance(where, (str, PathLike)):
        return SQLiteJournal(where, readonly=readonly)
    raise ParameterError(f"journal={where!r}, expected the path of a file, a Journal, or None")
