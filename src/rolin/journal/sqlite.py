"""A journal in one SQLite file.

The file uses write-ahead logging with `synchronous=FULL`: committed events survive a crash of the
process and of the machine, provided that the disk honors its flushes. One connection writes and
another reads, so a look-up does not wait for the disk. Several processes may write to one file: a
process that has not read the latest events is stopped before it writes.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from rolin._support.checks import finite_number_of, flag_of
from rolin._support.files import read_limited, replace_file
from rolin._support.progress import Progress
from rolin.errors import JournalError
from rolin.journal import schema
from rolin.journal.base import (
    LOOK_AHEAD,
    Header,
    OutOfDate,
    Removal,
    Removed,
    StorageReport,
    ended_by,
    reached,
    waiting_since,
)
from rolin.journal.codec import DECISION, PERMANENT_KINDS, Row, row_of
from rolin.journal.compression import compressor
from rolin.journal.events import (
    Event,
    LoggedDecision,
)
from rolin.journal.schema import StoredHeader
from rolin.journal.sqlite_copy import copy_database
from rolin.journal.sqlite_file import SQLiteFile
from rolin.journal.table_journal import (
    IS_PERMANENT,
    LAST_NUMBER,
    OLDEST,
    Query,
    TableJournal,
    oldest_decisions,
)

__all__ = ["SQLiteJournal"]

_BATCH = 1024  # events encoded in memory at a time
_MAX_DERIVED = 1 << 30  # bytes
_SNAPSHOTS = 2  # stored beside the first: the latest, and the one before in case of damage
_SELECT_HEADER = "SELECT last, first, origin, unchecked, checksum FROM journal"
_ROW = f"({', '.join('?' * (2 + len(Row._fields)))})"  # the number, the columns, the checksum


class _Abandoned(Exception):  # an internal signal, always caught
    """What was computed is of no use, because events were removed meanwhile."""


class SQLiteJournal(TableJournal):
    """A journal in one file.

    Parameters
    ----------
    path
        The file; it is created if it does not exist.
    readonly
        Open an existing file for reading only, without locking it.
    verify
        Check the tables and indexes of a file of at most 64 MB, which takes up to 0.3 s, and reject a damaged one.
        Events are checked in any case when they are read.
    lock_timeout
        Seconds to wait for another process that has locked the file.
    compress
        Whether to compress the raw features of new decisions, to about a fifth; this needs the extra `service`. Files
        with decisions of both kinds can be read with either setting.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        readonly: bool = False,
        verify: bool = True,
        lock_timeout: float = 10.0,
        compress: bool = False,
    ) -> None:
        self._compressed = compressor() if flag_of("compress", compress) else None
        super().__init__()
        self._file = SQLiteFile(
            path,
            readonly=readonly,
            verify=flag_of("verify", verify),
            lock_timeout=finite_number_of("lock_timeout", lock_timeout),
        )
        self.path = self._file.path
        self._derived_path = self.path.with_name(f"{self.path.name}-derived")
        self._columns = schema.columns_of(self._file.format)
        if self._file.format == 1:
            self._state_columns = "seq, state, NULL"
        self._last_unchecked: int | None = None

    @property
    def description(self) -> str:
        """What messages call the journal."""
        return f"journal {self.path}"

    @property
    def readonly(self) -> bool:
        """Whether the file was opened for reading only."""
        return self._file.readonly

    # -- writing -----------------------------------------------------------------------------

    def begin(self, state: bytes, origin: str) -> Header:
        """Store the first state unless the journal has begun; return the header."""
        with self._file.write() as db:
            if not db.execute("SELECT count(*) FROM journal").fetchone()[0]:
                _insert_state(db, 0, state)
                header = StoredHeader(0, 0, origin, unchecked=-1)
                row = (*header, schema.header_checksum(header))
                db.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?)", row)
        found = self.header()
        assert found is not None  # it has begun
        return found

    def append(self, events: Iterable[Event], *, after: int) -> int:
        """Append all events or none, and return the number of the last one."""
        with self._file.write() as db:
            header = self._at(db, after)
            seq = after
            left = iter(events)
            while group := list(islice(left, _BATCH)):
                rows = []
                for event in group:
                    seq, row = seq + 1, row_of(event)
                    if self._compressed is not None and row.question is not None:
                        row = row._replace(question=self._compressed(row.question))
                    rows.append((seq, *row, schema.event_checksum(seq, row)))
                _execute_for_rows(
                    db, f"INSERT INTO events (seq, {self._columns}) VALUES", _ROW, rows
                )
                _execute_for_rows(db, "INSERT INTO waiting VALUES", "(?, ?, ?)", [
                    (id, rank, time)
                    for event in group for time, id, rank in waiting_since(event)
                ])  # fmt: skip
                # Not `(decision, place) IN (VALUES …)`, for which SQLite reads the whole table.
                _execute_for_rows(db, "DELETE FROM waiting WHERE", "decision = ? AND place = ?", [
                    ended for event in group if (ended := ended_by(event)) is not None
                ], between=" OR ")  # fmt: skip
                _execute_for_rows(db, "DELETE FROM waiting WHERE place < 0 AND decision IN (", "?", [
                    (event.id,) for event in group if isinstance(event, LoggedDecision)
                ], end=")")  # fmt: skip
            _update_header(db, header._replace(last=seq))
            reached("inserted")
        reached("committed")
        return seq

    def turn(self) -> AbstractContextManager[object]:
        """Return a block in which no other process can write."""
        return self._file.write()

    def _at(self, db: sqlite3.Connection, after: int) -> StoredHeader:
        """Return the header; raise if another process has written since."""
        header = self._header_in(db.execute(_SELECT_HEADER).fetchall())
        if header is None or header.last != after:
            raise OutOfDate
        return header

    def save_snapshot(self, version: int, state: bytes) -> None:
        """Store the state after event `version`, and drop all but the latest two snapshots."""
        with self._file.write() as db:
            header = self._header_in(db.execute(_SELECT_HEADER).fetchall())
            if header is not None and version >= header.first:
                _insert_state(db, version, state)
            db.execute(
                "DELETE FROM states WHERE seq > (SELECT first FROM journal) AND seq NOT IN "
                "(SELECT seq FROM states ORDER BY seq DESC LIMIT ?)",
                (_SNAPSHOTS,),
            )
            reached("state inserted")

    def remove(self, what: Removal, *, after: int, state: bytes) -> Removed:
        """Remove decisions, and store the state that they led to as a snapshot."""
        with self._file.write() as db:
            header = self._at(db, after)
            db.execute("CREATE TEMP TABLE gone (decision TEXT PRIMARY KEY)")
            removed = self._remove(db, what, header, state)
            db.execute("DROP TABLE temp.gone")  # after an error, it is gone with the transaction
            if removed.last > after:
                self._delete_derived()
            reached("removed")
        if not what.wipe:
            return removed
        # The write-ahead log still holds the removed rows until it is written back.
        if not self._file.checkpoint():
            raise JournalError(
                f"journal {self.path}: the decisions are erased, but another process is reading, so the "
                "write-ahead log still holds their bytes; erase again when that process has ended"
            )
        return removed

    @staticmethod
    def _remove(
        db: sqlite3.Connection, what: Removal, header: StoredHeader, state: bytes
    ) -> Removed:
        find = "INSERT OR IGNORE INTO gone SELECT decision FROM events WHERE place = ? AND "
        db.executemany(f"{find} decision = ?", [(DECISION, id) for id in what.ids])
        db.executemany(f"{find} person = ?", [(DECISION, person) for person in what.people])
        last_seen = LAST_NUMBER
        if what.before is not None and what.limit is not None:
            # No index knows the times, and the table may be huge, so only its beginning is looked at.
            seen = db.execute(OLDEST, (DECISION, what.limit + LOOK_AHEAD)).fetchall()
            old, last_seen = oldest_decisions(seen, what.before, what.limit)
            db.executemany("INSERT INTO gone VALUES (?)", [(id,) for id in old])
        elif what.before is not None:
            db.execute(f"{find} time < ?", (DECISION, what.before))
        (n,) = db.execute("SELECT count(*) FROM gone").fetchone()
        # Rewards whose decision was never made.
        db.executemany("INSERT OR IGNORE INTO gone VALUES (?)", [(id,) for id in what.ids])
        before = db.total_changes
        if what.before is not None:
            db.execute(
                f"DELETE FROM events WHERE decision IS NULL AND NOT {IS_PERMANENT} AND time < ? AND seq <= ?",
                (*PERMANENT_KINDS, what.before, last_seen),
            )
            db.execute(
                "DELETE FROM waiting WHERE place < 0 AND time < ? AND (? OR EXISTS (SELECT 1 FROM events "
                "WHERE events.decision = waiting.decision AND kind = 'early' AND events.time = waiting.time AND seq <= ?))",
                (what.before, what.limit is None, last_seen),
            )
            db.execute(
                "DELETE FROM events WHERE kind IN ('early', 'ignored') AND time < ? AND seq <= ? AND NOT EXISTS "
                "(SELECT 1 FROM events AS made WHERE made.decision = events.decision AND made.place = ?)",
                (what.before, last_seen, DECISION),
            )
        db.execute("DELETE FROM events WHERE decision IN (SELECT decision FROM gone)")
        if db.total_changes == before:
            return Removed(0, header.last)
        last = header.last + 1
        db.execute("DELETE FROM waiting WHERE decision IN (SELECT decision FROM gone)")
        db.execute("DELETE FROM states")
        _insert_state(db, last, state)
        _update_header(db, header._replace(last=last, first=last))
        return Removed(int(n), last)

    # -- reading -----------------------------------------------------------------------------

    def header(self) -> Header | None:
        """Return the header, or `None` if the journal has not begun."""
        found = self._stored_header()
        return None if found is None else found.header

    def _stored_header(self) -> StoredHeader | None:
        if self._file.format == 1:
            rows = self._file.query("SELECT last, first, origin, last, NULL FROM journal")
        else:
            rows = self._file.query(_SELECT_HEADER)
        return self._header_in(rows)

    def _header_in(self, rows: list[Any]) -> StoredHeader | None:
        """Return the header from its row; reject it if it is damaged."""
        if not rows:
            return None
        try:
            *values, checksum = rows[0]
            header = StoredHeader(*values)
            computed = schema.header_checksum(header)
        except (TypeError, ValueError, AttributeError, struct.error) as error:
            raise JournalError(f"{self.description}: the header is damaged: {error}") from error
        if len(rows) > 1:
            raise JournalError(f"journal {self.path}: the header is damaged: there are several")
        what = f"journal {self.path}: the header"
        schema.verify(what, checksum, computed, required=self._file.format > 1)
        return header

    def _query(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        return self._file.query(statement, values)

    def integrity_problems(self) -> list[str]:
        """Return what is wrong with the file: pages and indexes, by SQLite's own check, and the schema."""
        lines = [str(line) for (line,) in self._file.query("PRAGMA integrity_check")]
        found = [f"SQLite: {line}" for line in lines if line != "ok"]
        return found + schema.differences(self._file.query(schema.SELECT_SCHEMA), self._file.format)

    @property
    def last_unchecked(self) -> int:
        """Number of the last event without a checksum; -1 if all have one."""
        if self._last_unchecked is None:
            header = self._stored_header()
            self._last_unchecked = -1 if header is None else header.unchecked
        return self._last_unchecked

    def copy_to(self, target: str | PathLike[str], *, progress: Progress = False) -> int:
        """Copy the journal to a new file, and return the number of its events.

        The copy is the journal at one moment. Other threads and processes may write meanwhile, but their log is not
        written back before the copy ends. An interrupted copy leaves a part of the file.

        Parameters
        ----------
        target
            The file to write; it must not exist.
        progress
            `True` shows a bar; a function is called with the number of bytes copied since its last call.
        """
        if os.path.lexists(target):
            raise JournalError(f"{target} exists already, expected the name of a new file")
        with self._file.frozen() as source:
            (events,) = source.execute("SELECT count(*) FROM events").fetchone()
            copy_database(source, Path(target), progress)
        return int(events)

    @contextmanager
    def frozen(self) -> Iterator[tuple[Header, Query]]:
        """Give the header and what queries the journal, both of one moment; others may write meanwhile."""
        with self._file.frozen() as db:
            header = self._header_in(db.execute(_SELECT_HEADER).fetchall())
            if header is None:
                raise JournalError(
                    f"{self.description}: it has not begun, so there is nothing to copy"
                )
            yield header.header, lambda statement, values: db.execute(statement, values).fetchall()

    @contextmanager
    def writing_rows(self, header: Header) -> Iterator[sqlite3.Connection]:
        """Give a connection that fills the tables of a new journal, completely or not at all.

        Parameters
        ----------
        header
            Its header.
        """
        with self._file.write() as db:
            stored = StoredHeader(*header, unchecked=-1)
            row = (*stored, schema.header_checksum(stored))
            db.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?)", row)
            yield db

    def defer_upkeep(self) -> None:
        """Do not write back the log while events are appended."""
        self._file.defer_checkpoints()

    @property
    def is_upkeep_due(self) -> bool:
        """Whether the log should be written back."""
        return self._file.is_checkpoint_due

    def do_upkeep(self) -> None:
        """Write back the log."""
        self._file.checkpoint_in_background()

    def storage(self) -> StorageReport:
        """Return the setting of SQLite by which commits are durable, and the sizes of the files."""
        # Both connections have the same settings, and this one does not wait for a commit.
        ((found,),) = self._file.query("PRAGMA synchronous")
        name = ("OFF", "NORMAL", "FULL", "EXTRA")[int(found)]  # type: ignore[call-overload]  # an integer
        is_flushed = name in ("FULL", "EXTRA")
        return StorageReport(f"synchronous={name}", is_flushed, *self._file.sizes())

    def save_derived(self, parts: Iterable[bytes], *, first: int) -> bool:
        """Store what somebody has computed from all events, in a file beside the journal."""
        with ExitStack() as turn, suppress(_Abandoned):
            with replace_file(self._derived_path) as temporary:
                # Erased decisions may be in it, so nobody else may read it.
                opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(opened, "wb") as file:
                    for part in parts:
                        file.write(part)
                    file.flush()
                    os.fsync(file.fileno())  # now, because others wait during the turn
                db = turn.enter_context(self._file.write())
                header = self._header_in(db.execute(_SELECT_HEADER).fetchall())
                if header is None or header.first != first:
                    raise _Abandoned
            return True
        return False

    def _delete_derived(self) -> None:
        try:
            self._derived_path.unlink(missing_ok=True)
        except OSError as error:
            raise JournalError(
                f"{self._derived_path} cannot be deleted: {error.strerror}; it may hold what should be erased, so nothing "
                "was erased"
            ) from error

    def derived(self) -> bytes | None:
        """Return what `save_derived` has stored; `None` if there is nothing."""
        try:
            return read_limited(self._derived_path, _MAX_DERIVED, JournalError)
        except FileNotFoundError:
            return None

    def wipe_log(self) -> bool:
        """Write back and empty the log, unless another process is reading; return whether it is empty."""
        return self._file.wipe_log()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __del__(self) -> None:
        """Close the file of a journal that nobody closed; there is nothing to close if opening failed."""
        with suppress(AttributeError):
            self.close()


def _insert_state(db: sqlite3.Connection, version: int, state: bytes) -> None:
    row = (version, state, schema.state_checksum(version, state))
    db.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", row)


def _update_header(db: sqlite3.Connection, header: StoredHeader) -> None:
    checksum = schema.header_checksum(header)
    db.execute(
        "UPDATE journal SET last = ?, first = ?, checksum = ?",
        (header.last, header.first, checksum),
    )


def _execute_for_rows(
    db: sqlite3.Connection,
    statement: str,
    row: str,
    rows: list[tuple[Any, ...]],
    between: str = ", ",
    end: str = "",
) -> None:
    """Run a statement for many rows, up to 64 at a time.

    Python may switch threads at every statement, which can take as long as a flush to the disk.
    """
    done = 0
    while done < len(rows):
        # a power of two, so that few statements are prepared
        size = min(64, 1 << ((len(rows) - done).bit_length() - 1))
        values = [value for one in rows[done : done + size] for value in one]
        db.execute(f"{statement} {between.join([row] * size)}{end}", values)
        done += size
