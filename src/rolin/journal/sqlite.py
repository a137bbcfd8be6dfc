"""A journal in one SQLite file.

The file uses write-ahead logging with `synchronous=FULL`: committed events survive a crash of the
process and of the machine, provided that the disk honors its flushes. One connection writes and
another reads, so a look-up does not wait for the disk. Several processes may write to one file: a
process that has not read the latest events is stopped before it writes.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from os import PathLike
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import quote

from rolin.errors import JournalError
from rolin.features import BaseFeatureMap
from rolin.journal.base import Header, Journal, OutOfDate, Removal, Snapshot, reached
from rolin.journal.codec import DECISION, PERMANENT_KINDS, Row, event_of, row_of
from rolin.journal.events import Event, FeatureMapChanged, LoggedDecision, Outcome, PermanentEvent

__all__ = ["FORMAT", "SQLiteJournal"]

FORMAT = 1
"""Version of the tables."""
_APPLICATION = 0x726F6C6E  # "roln": marks the file as a journal
_WAIT = 10.0  # seconds to wait for another process's lock
_CHUNK = 1000  # rows per query, so that a long read does not block writers
_BATCH = 1024  # events encoded in memory at a time
_SNAPSHOTS = 2  # stored beside the first: the latest, and the one before in case of damage

_TABLES = """
CREATE TABLE journal (last INTEGER NOT NULL, first INTEGER NOT NULL, origin TEXT NOT NULL);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    decision TEXT,
    place INTEGER,
    person TEXT,
    numbers BLOB
);
CREATE UNIQUE INDEX once ON events (decision, place) WHERE decision IS NOT NULL;
CREATE INDEX by_person ON events (person) WHERE person IS NOT NULL;
CREATE INDEX without_decision ON events (kind) WHERE decision IS NULL;
CREATE TABLE waiting (
    decision TEXT NOT NULL, place INTEGER NOT NULL, time REAL NOT NULL, PRIMARY KEY (decision, place)
) WITHOUT ROWID;
CREATE INDEX oldest ON waiting (time);
CREATE TABLE states (seq INTEGER PRIMARY KEY, state BLOB NOT NULL);
"""
_COLUMNS = "time, kind, body, decision, place, person, numbers"
_IS_PERMANENT = f"kind IN ({', '.join('?' * len(PERMANENT_KINDS))})"
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
_REASONS = {
    sqlite3.SQLITE_BUSY: f"it is locked by another process, also after {_WAIT:g} s",
    sqlite3.SQLITE_LOCKED: f"it is locked by another process, also after {_WAIT:g} s",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written, or is full",
    sqlite3.SQLITE_NOTADB: "it is damaged or not a journal",
    sqlite3.SQLITE_CORRUPT: "it is damaged or not a journal",
}


class _Maps(dict[str, BaseFeatureMap]):
    """The feature maps of a journal by version, read when an unknown one is looked up."""

    def __init__(self, journal: SQLiteJournal) -> None:
        super().__init__()
        self._journal = journal

    def __missing__(self, version: str) -> BaseFeatureMap:
        for _, event in self._journal.permanent_events():
            if isinstance(event, FeatureMapChanged):
                self[event.feature_map.version] = event.feature_map
        if version not in self:
            raise JournalError(f"the feature map {version} is not in the journal")
        return self[version]


class SQLiteJournal(Journal):
    """A journal in one file.

    Parameters
    ----------
    path
        The file; it is created if it does not exist.
    readonly
        Open an existing file for reading only, without locking it.
    """

    durable = True

    def __init__(self, path: str | PathLike[str], *, readonly: bool = False) -> None:
        try:
            self.path = Path(path)
            if b"\0" in os.fsencode(self.path):
                raise ValueError("it contains a null character")
            self.path.exists()
        except (OSError, ValueError) as error:
            raise JournalError(f"{path!r} is not a valid path for a journal: {error}") from error
        self.readonly = readonly
        if self.path.is_dir():
            raise JournalError(f"{path} is a folder, expected the file of a journal")
        if readonly and not self.path.exists():
            raise JournalError(f"there is no journal {path}")
        if not self.path.parent.is_dir():
            raise JournalError(f"{path} cannot be created: there is no folder {self.path.parent}")
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._maps = _Maps(self)
        with self._errors():
            self._writer = self._connect()
            try:
                self._prepare(self._writer)
                self._reader = self._connect()
            except BaseException:
                self._writer.close()
                raise

    def _connect(self) -> sqlite3.Connection:
        mode = "ro" if self.readonly else "rwc"
        log = self.path.with_name(self.path.name + "-wal")
        if self.readonly and not os.access(self.path.parent, os.W_OK):
            if not log.exists() or not log.stat().st_size:
                mode = "ro&immutable=1"  # otherwise even a reader creates files beside it
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(self.path.absolute()))}?mode={mode}",
            uri=True, isolation_level=None, check_same_thread=False, timeout=_WAIT,
        )  # fmt: skip
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # erased rows are overwritten
            connection.execute("PRAGMA temp_store = MEMORY")  # no copy of erased ids on the disk
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Create the tables of a new file; reject a file that is not a journal."""
        if self._is_journal(db):
            return
        _use_log(db)
        with self._transaction(db):
            if not self._is_journal(db):  # another process may have been faster
                for statement in _TABLES.split(";")[:-1]:
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {_APPLICATION}")
                db.execute(f"PRAGMA user_version = {FORMAT}")

    def _is_journal(self, db: sqlite3.Connection) -> bool:
        """Return whether the file is a journal; reject any other file that is not empty."""
        application, version, tables = db.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
            "FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        if application == _APPLICATION and version != FORMAT:
            raise JournalError(
                f"{self.path} has format version {version}, expected {FORMAT}: it was written "
                "by another version of rolin"
            )
        if application != _APPLICATION and (tables or application or self.readonly):
            raise JournalError(f"{self.path} is a database, but not a journal of rolin")
        return bool(application == _APPLICATION)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn SQLite's errors into `JournalError`, with a reason that tells what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(
                f"journal {self.path}: {_reason(error)}; nothing was written by this call"
            ) from error

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk may have ended it already
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._writing, self._errors():
            if self.readonly:
                raise JournalError(f"journal {self.path} was opened with readonly=True")
            with self._transaction(self._writer):
                yield self._writer

    def _query(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        with self._reading, self._errors():
            return self._reader.execute(statement, values).fetchall()

    # -- writing -----------------------------------------------------------------------------

    def begin(self, state: bytes, origin: str) -> Header:
        """Store the first state unless the journal has begun; return the header."""
        with self._write() as db:
            if not db.execute("SELECT count(*) FROM journal").fetchone()[0]:
                db.execute("INSERT INTO states VALUES (0, ?)", (state,))
                db.execute("INSERT INTO journal VALUES (0, 0, ?)", (origin,))
            return Header(*db.execute("SELECT last, first, origin FROM journal").fetchone())

    def append(self, events: Iterable[Event], *, after: int) -> int:
        """Append all events or none, and return the number of the last one."""
        with self._write() as db:
            self._check(db, after)
            seq = after
            left = iter(events)
            while group := list(islice(left, _BATCH)):
                rows = [(seq + i, *row_of(event)) for i, event in enumerate(group, start=1)]
                seq += len(rows)
                _insert(
                    db,
                    f"INSERT INTO events (seq, {_COLUMNS}) VALUES",
                    "(?, ?, ?, ?, ?, ?, ?, ?)",
                    rows,
                )
                _insert(db, "INSERT INTO waiting VALUES", "(?, ?, ?)", [
                    (event.id, rank, event.time)
                    for event in group if isinstance(event, LoggedDecision)
                    for rank in range(len(event.chosen))
                ])  # fmt: skip
                _insert(db, "DELETE FROM waiting WHERE (decision, place) IN (VALUES", "(?, ?)", [
                    (event.id, event.rank)
                    for event in group if isinstance(event, Outcome)
                ], end=")")  # fmt: skip
            db.execute("UPDATE journal SET last = ?", (seq,))
            reached("inserted")
        reached("committed")
        return seq

    @staticmethod
    def _check(db: sqlite3.Connection, after: int) -> None:
        if db.execute("SELECT last FROM journal").fetchone() != (after,):
            raise OutOfDate

    def save_snapshot(self, version: int, state: bytes) -> None:
        """Store the state after event `version`, and drop all but the latest two snapshots."""
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO states SELECT ?, ? WHERE ? >= (SELECT first FROM journal)",
                (version, state, version),
            )
            db.execute(
                "DELETE FROM states WHERE seq > (SELECT first FROM journal) AND seq NOT IN "
                "(SELECT seq FROM states ORDER BY seq DESC LIMIT ?)",
                (_SNAPSHOTS,),
            )
            reached("state inserted")

    def remove(self, what: Removal, *, after: int, state: bytes) -> tuple[int, int]:
        """Remove decisions, and store the state that they led to as a snapshot."""
        with self._write() as db:
            self._check(db, after)
            db.execute("CREATE TEMP TABLE gone (decision TEXT PRIMARY KEY)")
            try:
                removed = self._remove(db, what, after, state)
            finally:
                db.execute("DROP TABLE temp.gone")
            reached("removed")
        # The write-ahead log still holds the removed rows until it is written back.
        with self._writing:
            busy = True
            with suppress(sqlite3.Error):
                busy, *_ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise JournalError(
                f"journal {self.path}: the decisions are erased, but another process is reading, so the "
                "write-ahead log still holds their bytes; erase again when that process has ended"
            )
        return removed

    @staticmethod
    def _remove(db: sqlite3.Connection, what: Removal, after: int, state: bytes) -> tuple[int, int]:
        find = "INSERT OR IGNORE INTO gone SELECT decision FROM events WHERE place = ? AND "
        db.executemany(f"{find} decision = ?", [(DECISION, id) for id in what.ids])
        db.executemany(f"{find} person = ?", [(DECISION, person) for person in what.people])
        if what.before is not None:
            db.execute(f"{find} time < ?", (DECISION, what.before))
        before = db.total_changes
        if what.before is not None:
            db.execute(
                f"DELETE FROM events WHERE decision IS NULL AND NOT {_IS_PERMANENT} AND time < ?",
                (*PERMANENT_KINDS, what.before),
            )
        db.execute("DELETE FROM events WHERE decision IN (SELECT decision FROM gone)")
        if db.total_changes == before:
            return 0, after
        db.execute("DELETE FROM waiting WHERE decision IN (SELECT decision FROM gone)")
        db.execute("DELETE FROM states")
        db.execute("INSERT INTO states VALUES (?, ?)", (after + 1, state))
        db.execute("UPDATE journal SET last = ?, first = ?", (after + 1, after + 1))
        (n,) = db.execute("SELECT count(*) FROM gone").fetchone()
        return int(n), after + 1

    # -- reading -----------------------------------------------------------------------------

    def header(self) -> Header | None:
        """Return the header, or `None` if the journal has not begun."""
        rows = self._query("SELECT last, first, origin FROM journal")
        return Header(*rows[0]) if rows else None  # type: ignore[arg-type]  # as the table says

    def read(
        self, *, after: int = 0, upto: int | None = None, decisions: bool = True
    ) -> Iterator[tuple[int, Event]]:
        """Yield numbers and events in order."""
        which = "" if decisions else "AND kind != 'decision'"
        last = (1 << 62) if upto is None else upto
        while rows := self._query(
            f"SELECT seq, {_COLUMNS} FROM events WHERE seq > ? AND seq <= ? {which} "
            f"ORDER BY seq LIMIT {_CHUNK}",
            (after, last),
        ):
            for seq, *row in rows:
                yield int(seq), self._event(row)  # type: ignore[call-overload]  # an integer
            after = int(rows[-1][0])  # type: ignore[call-overload]  # the same

    def permanent_events(self) -> list[tuple[int, PermanentEvent]]:
        """Return the events that are never removed, with their numbers, in order."""
        rows = self._query(
            f"SELECT seq, {_COLUMNS} FROM events "
            f"WHERE decision IS NULL AND {_IS_PERMANENT} ORDER BY seq",
            PERMANENT_KINDS,
        )
        return [(seq, self._event(row)) for seq, *row in rows]  # type: ignore[misc]  # by its kind

    def _event(self, row: Iterable[object]) -> Event:
        found = Row(*row)  # type: ignore[arg-type]  # as the table says
        try:
            return event_of(found, self._maps)
        except JournalError as error:
            raise JournalError(f"journal {self.path}: {error}") from error

    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision with this id."""
        rows = self._query(
            f"SELECT {_COLUMNS} FROM events WHERE decision = ? AND place = ?", (id, DECISION)
        )
        return self._event(rows[0]) if rows else None  # type: ignore[return-value]  # by its rank

    def outcomes(self, id: str) -> dict[int, Outcome]:
        """Return the outcomes of a decision, by rank."""
        rows = self._query(
            f"SELECT {_COLUMNS} FROM events WHERE decision = ? AND place > ?", (id, DECISION)
        )
        events: list[Outcome] = [self._event(row) for row in rows]  # type: ignore[misc]  # the same
        return {event.rank: event for event in events}

    def waiting(self, before: float, limit: int) -> list[tuple[str, int]]:
        """Return id and rank of the oldest arms without an outcome that were chosen before a time."""
        return self._query(  # type: ignore[return-value]  # as the table says
            "SELECT decision, place FROM waiting WHERE time < ? ORDER BY time, decision, place LIMIT ?",
            (before, limit),
        )

    def latest_snapshot(self, upto: int | None = None) -> Snapshot | None:
        """Return the latest snapshot, or the latest one up to an event."""
        last = (1 << 62) if upto is None else upto
        rows = self._query(
            "SELECT seq, state FROM states WHERE seq <= ? ORDER BY seq DESC LIMIT 1", (last,)
        )
        return Snapshot(*rows[0]) if rows else None  # type: ignore[arg-type]  # as the table says

    def close(self) -> None:
        """Close the file."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()

    def __del__(self) -> None:
        """Close the file of a journal that nobody closed; there is nothing to close if opening failed."""
        with suppress(AttributeError):
            self.close()


def _primary_code(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary result code; `None` for errors of the Python module itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF  # without the extended part


def _reason(error: sqlite3.Error) -> str:
    """Return why a call failed."""
    code = _primary_code(error)
    if code is None and isinstance(error, sqlite3.ProgrammingError):
        return "it was closed"
    reason = _REASONS.get(code or 0, str(error))
    return f"{reason} ({error})" if code in _DAMAGED else reason


def _use_log(db: sqlite3.Connection) -> None:
    """Turn on write-ahead logging; wait for other processes that do the same, which SQLite does not."""
    give_up = monotonic() + _WAIT
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _primary_code(error) not in _LOCKED or monotonic() > give_up:
                raise
            sleep(0.01)


def _insert(
    db: sqlite3.Connection, statement: str, row: str, rows: list[tuple[Any, ...]], end: str = ""
) -> None:
    """Run a statement for many rows, up to 64 at a time.

    Python may switch threads at every statement, which can take as long as a flush to the disk.
    """
    done = 0
    while done < len(rows):
        # a power of two, so that few statements are prepared
        size = min(64, 1 << ((len(rows) - done).bit_length() - 1))
        values = [value for one in rows[done : done + size] for value in one]
        db.execute(f"{statement} {', '.join([row] * size)}{end}", values)
        done += size
