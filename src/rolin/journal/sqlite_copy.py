"""Copy a database while other processes write to it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from rolin._support.progress import Progress, reporter
from rolin.errors import JournalError

__all__ = ["copy_database"]

_PAGES = 1024  # copied between two reports of progress


def copy_database(source: sqlite3.Connection, target: Path, progress: Progress) -> None:
    """Copy what a connection sees to a new file, and have it reach the disk.

    Parameters
    ----------
    source
        A connection in a transaction. Without one, SQLite would start again whenever another process has written.
    target
        The new file.
    progress
        `True` shows a bar; a function is called with the number of bytes copied since its last call.
    """
    (size,) = source.execute("PRAGMA page_size").fetchone()
    (pages,) = source.execute("PRAGMA page_count").fetchone()
    done = 0
    with (
        reporter(progress, f"copying {target.name}", size * pages, in_bytes=True) as advance,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):

        def report(_: int, remaining: int, total: int) -> None:
            nonlocal done
            advance(size * (total - remaining - done))
            done = total - remaining

        try:
            # A copy that is interrupted is of no use, so it needs no journal of its own.
            copy.execute("PRAGMA journal_mode = OFF")
            copy.execute("PRAGMA synchronous = OFF")
            source.backup(copy, pages=_PAGES, progress=report)
        except sqlite3.Error as error:
            raise JournalError(f"the journal cannot be copied to {target}: {error}") from error
    with target.open("rb") as file:
        os.fsync(file.fileno())
