"""A journal in one SQLite file.

Write-ahead logging with `synchronous=FULL`: what was committed survives a crash of the process and
of the machine, as far as the disk keeps its word. One connection writes and another reads, so that
a look-up does not wait for the disk. Other processes may write to the same file: a number that has
been given out since is noticed before anything is written.
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
from rolin.journal.base import Behind, Header, Journal, Removal, reached
from rolin.journal.codec import DECISION, LASTING, Row, event_of, row_of
from rolin.journal.events import Event, FeatureMapChanged, Lasting, LoggedDecision, Outcome

__all__ = ["FORMAT", "SQLiteJournal"]

FORMAT = 1
"""Version of the tables."""
_APPLICATION = 0x726F6C6E  # "roln": marks the file as ours
_WAIT = 10.0  # seconds to wait for another process's lock
_CHUNK = 1000  # rows read at a time, so that a long reading holds nobody up
_AT_ONCE = 1024  # events held in memory at a time
_STATES = 2  # of the states kept, beside the first: the last, and one more in case

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
_LASTING = str(LASTING)


class _Maps(dict[str, BaseFeatureMap]):
    """The feature maps of a journal by version, read when one is asked for that is not known."""

    def __init__(self, journal: SQLiteJournal) -> None:
        super().__init__()
        self._journal = journal

    def __missing__(self, version: str) -> BaseFeatureMap:
        for _, event in self._journal.lasting():
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
        The file; it is made if it is not there.
    readonly
        Whether it is only read: then it must be there, and nothing is locked.
    """

    durable = True

    def __init__(self, path: str | PathLike[str], *, readonly: bool = False) -> None:
        try:
            self.path = Path(path)
            if b"\0" in os.fsencode(self.path):
                raise ValueError("it holds a zero")
            self.path.exists()
        except (OSError, ValueError) as error:
            raise JournalError(f"{path!r} cannot be the file of a journal: {error}") from error
        self.readonly = readonly
        if self.path.is_dir():
            raise JournalError(f"{path} is a folder, expected the file of a journal")
        if readonly and not self.path.exists():
            raise JournalError(f"there is no journal {path}")
        if not self.path.parent.is_dir():
            raise JournalError(f"{path} cannot be made: there is no folder {self.path.parent}")
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
                mode = "ro&immutable=1"  # a reader, too, would make files beside it
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(self.path.absolute()))}?mode={mode}",
            uri=True, isolation_level=None, check_same_thread=False, timeout=_WAIT,
        )  # fmt: skip
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten
        connection.execute("PRAGMA temp_store = MEMORY")  # ids leave no copy on the disk
        return connection

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Make the tables of a new file; refuse one that is not ours."""
        if self._is_ours(db):
            return
        _use_log(db)
        with self._transaction(db):
            if not self._is_ours(db):  # or somebody else was faster
                for statement in _TABLES.split(";")[:-1]:
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {_APPLICATION}")
                db.execute(f"PRAGMA user_version = {FORMAT}")

    def _is_ours(self, db: sqlite3.Connection) -> bool:
        """Return whether the file is a journal, or else empty."""
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
        """Turn SQLite's errors into ours, which say what to do."""
        try:
            yield
        except sqlite3.Error as error:
            reason = str(error)
            if "locked" in reason or "busy" in reason:
                reason = f"it is locked by another process, also after {_WAIT:g} s"
            elif "readonly" in reason:
                reason = "it is read-only"
            elif "is full" in reason:
                reason = "the disk is full"
            elif "I/O" in reason:
                reason = "the disk cannot be read or written, or is full"
            elif "closed" in reason:
                reason = "it was closed"
            elif "not a database" in reason or "malformed" in reason:
                reason = f"it is damaged or not a journal ({reason})"
            raise JournalError(
                f"journal {self.path}: {reason}; nothing was written by this call"
            ) from error

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk may have ended it, a lock prevented it
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._writing, self._errors():
            if self.readonly:
                raise JournalError(f"journal {self.path} was opened to be read only")
            with self._transaction(self._writer):
                yield self._writer

    def _query(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        with self._reading, self._errors():
            return self._reader.execute(statement, values).fetchall()

    # -- writing -----------------------------------------------------------------------------

    def begin(self, state: bytes, origin: str) -> Header:
        """Make this the journal of a policy in that state, unless it has begun."""
        with self._write() as db:
            if not db.execute("SELECT count(*) FROM journal").fetchone()[0]:
                db.execute("INSERT INTO states VALUES (0, ?)", (state,))
                db.execute("INSERT INTO journal VALUES (0, 0, ?)", (origin,))
            return Header(*db.execute("SELECT last, first, origin FROM journal").fetchone())

    def append(self, events: Iterable[Event], *, after: int) -> int:
        """Add all events, or none, and return the number of the last."""
        with self._write() as db:
            self._check(db, after)
            seq = after
            left = iter(events)
            while group := list(islice(left, _AT_ONCE)):
                rows = [(seq + i, *row_of(event)) for i, event in enumerate(group, start=1)]
                seq += len(rows)
                _insert(
                    db,
                    f"INSERT INTO events (seq, {_COLUMNS}) VALUES",
                    "(?, ?, ?, ?, ?, ?, ?, ?)",
                    rows,
                )
                _insert(db, "INSERT INTO waiting VALUES", "(?, ?, ?)", [
                    (event.id, place, event.time)
                    for event in group if isinstance(event, LoggedDecision)
                    for place in range(len(event.chosen))
                ])  # fmt: skip
                _insert(db, "DELETE FROM waiting WHERE (decision, place) IN (VALUES", "(?, ?)", [
                    (event.id, event.place)
                    for event in group if isinstance(event, Outcome)
                ], end=")")  # fmt: skip
            db.execute("UPDATE journal SET last = ?", (seq,))
            reached("inserted")
        reached("committed")
        return seq

    @staticmethod
    def _check(db: sqlite3.Connection, after: int) -> None:
        if db.execute("SELECT last FROM journal").fetchone() != (after,):
            raise Behind

    def save(self, seq: int, state: bytes) -> None:
        """Keep the state that folding the events up to `seq` gave, and the one before it."""
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO states SELECT ?, ? WHERE ? >= (SELECT first FROM journal)",
                (seq, state, seq),
            )
            db.execute(
                "DELETE FROM states WHERE seq > (SELECT first FROM journal) AND seq NOT IN "
                "(SELECT seq FROM states ORDER BY seq DESC LIMIT ?)",
                (_STATES,),
            )
            reached("state inserted")

    def remove(self, what: Removal, *, after: int, state: bytes) -> tuple[int, int]:
        """Remove decisions and keep the state that they led to."""
        with self._write() as db:
            self._check(db, after)
            db.execute("CREATE TEMP TABLE gone (decision TEXT PRIMARY KEY)")
            try:
                removed = self._remove(db, what, after, state)
            finally:
                db.execute("DROP TABLE temp.gone")
            reached("removed")
        # The log beside the file still holds what was removed, until it is written back.
        with self._writing:
            busy = True
            with suppress(sqlite3.Error):
                busy, *_ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise JournalError(
                f"journal {self.path}: the decisions are erased, but another process is reading, and the "
                "log beside the file still holds their bytes; erase again when it has ended"
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
                f"DELETE FROM events WHERE decision IS NULL AND kind NOT IN {_LASTING} AND time < ?",
                (what.before,),
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
        """Return what the journal knows of itself."""
        rows = self._query("SELECT last, first, origin FROM journal")
        return Header(*rows[0]) if rows else None  # type: ignore[arg-type]  # as the table says

    def read(
        self, *, after: int = 0, upto: int | None = None, decisions: bool = True
    ) -> Iterator[tuple[int, Event]]:
        """Yield the events and their numbers, in order."""
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

    def lasting(self) -> list[tuple[int, Lasting]]:
        """Return the events that are never removed, with their numbers, in order."""
        rows = self._query(
            f"SELECT seq, {_COLUMNS} FROM events WHERE decision IS NULL AND kind IN {_LASTING} ORDER BY seq"
        )
        return [(seq, self._event(row)) for seq, *row in rows]  # type: ignore[misc]  # by its kind

    def _event(self, row: Iterable[object]) -> Event:
        found = Row(*row)  # type: ignore[arg-type]  # as the table says
        try:
            return event_of(found, self._maps)
        except JournalError as error:
            raise JournalError(f"journal {self.path}: {error}") from error

    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision of that id."""
        rows = self._query(
            f"SELECT {_COLUMNS} FROM events WHERE decision = ? AND place = ?", (id, DECISION)
        )
        return self._event(rows[0]) if rows else None  # type: ignore[return-value]  # by its place

    def outcomes(self, id: str) -> dict[int, Outcome]:
        """Return what became of a decision, by place in its ranking."""
        rows = self._query(
            f"SELECT {_COLUMNS} FROM events WHERE decision = ? AND place > ?", (id, DECISION)
        )
        events: list[Outcome] = [self._event(row) for row in rows]  # type: ignore[misc]  # the same
        return {event.place: event for event in events}

    def waiting(self, before: float, limit: int) -> list[tuple[str, int]]:
        """Return the oldest decisions of before this time, with the places that have no outcome."""
        return self._query(  # type: ignore[return-value]  # as the table says
            "SELECT decision, place FROM waiting WHERE time < ? ORDER BY time, decision, place LIMIT ?",
            (before, limit),
        )

    def saved(self, upto: int | None = None) -> tuple[int, bytes] | None:
        """Return the last state that was kept, or the last one up to an event."""
        last = (1 << 62) if upto is None else upto
        rows = self._query(
            "SELECT seq, state FROM states WHERE seq <= ? ORDER BY seq DESC LIMIT 1", (last,)
        )
        return rows[0] if rows else None  # type: ignore[return-value]  # as the table says

    def close(self) -> None:
        """Close the file."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()


def _use_log(db: sqlite3.Connection) -> None:
    """Turn on write-ahead logging, waiting for others who do the same: SQLite itself does not."""
    give_up = monotonic() + _WAIT
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() > give_up:
                raise
            sleep(0.01)


def _insert(
    db: sqlite3.Connection, statement: str, row: str, rows: list[tuple[Any, ...]], end: str = ""
) -> None:
    """Run a statement for many rows, up to 64 at a time.

    Every statement lets another thread of Python have a turn, which may take as long as the disk.
    """
    done = 0
    while done < len(rows):
        # a power of two, so that there are few statements to prepare
        size = min(64, 1 << ((len(rows) - done).bit_length() - 1))
        values = [value for one in rows[done : done + size] for value in one]
        db.execute(f"{statement} {', '.join([row] * size)}{end}", values)
        done += size
