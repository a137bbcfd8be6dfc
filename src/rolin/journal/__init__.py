"""Append-only records of every decision and of everything that changes a policy.

A new database needs one more class with the calls of `Journal`, and passes the same tests as
`MemoryJournal`, `SQLiteJournal` and `PostgresJournal`.
"""

from __future__ import annotations

from os import PathLike

from rolin.errors import ParameterError
from rolin.journal.base import (
    DamagedSnapshot,
    Found,
    Header,
    Journal,
    OutOfDate,
    Removal,
    Removed,
    Snapshot,
    StorageReport,
    Waiting,
)
from rolin.journal.checking import JournalReport, check_journal
from rolin.journal.events import LoggedDecision, Proposal
from rolin.journal.folding import LoadedPolicy, load_policy
from rolin.journal.memory import MemoryJournal
from rolin.journal.postgres import PostgresJournal
from rolin.journal.sqlite import SQLiteJournal

__all__ = [
    "DamagedSnapshot",
    "Found",
    "Header",
    "Journal",
    "JournalReport",
    "LoadedPolicy",
    "LoggedDecision",
    "MemoryJournal",
    "OutOfDate",
    "PostgresJournal",
    "Proposal",
    "Removal",
    "Removed",
    "SQLiteJournal",
    "Snapshot",
    "StorageReport",
    "Waiting",
    "check_journal",
    "is_database",
    "load_policy",
    "open_journal",
]


def is_database(where: str) -> bool:
    """Return whether a text is the address of a database, not the path of a file.

    Parameters
    ----------
    where
        The text.
    """
    # A path has lost one of the slashes.
    return where.startswith(("postgresql:/", "postgres:/"))


def open_journal(where: Journal | str | PathLike[str] | None, *, readonly: bool = False) -> Journal:
    """Return the given journal, the journal of a file, or by default a new one in memory.

    Parameters
    ----------
    where
        A journal, the path of its file, or `None` for a new one in memory.
    readonly
        Open an existing file for reading only.
    """
    if where is None:
        return MemoryJournal()
    if isinstance(where, Journal):
        return where
    if isinstance(where, str) and is_database(where):
        raise ParameterError(
            "journal is the address of a database, expected PostgresJournal(address, name)"
        )
    if isinstance(where, (str, PathLike)):
        return SQLiteJournal(where, readonly=readonly)
    raise ParameterError(f"journal={where!r}, expected the path of a file, a Journal, or None")
