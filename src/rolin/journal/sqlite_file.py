"""The file of a journal: its connections, its locks, and whether it is still the file that was opened."""

from __future__ import annotations

import os
import sqlite3
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from os import PathLike
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple
from urllib.parse import quote

from rolin._support.checks import flag_of
from rolin._support.process import close_in_child, forget_locks_after_fork, process_id
from rolin.errors import JournalError
from rolin.journal import schema

__all__ = ["SQLiteFile"]

_WAIT = 10.0  # seconds to wait for other threads before a fork
_STEP = 0.001  # seconds between two attempts
_LOG_STEP = 0.01  # seconds between attempts to turn on write-ahead logging
_LARGE_LOG = 256 << 20  # bytes of the write-ahead log that are worth a warning
_LOG = 4 << 20  # bytes of the log after which it is written back
_MAX_LOG = 16 << 20  # bytes of the log after which writers wait until it is written back
_SMALL = 64 << 20  # bytes of a file that is checked when it is opened, which takes 4 ms per MB
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
_REASONS = {
    sqlite3.SQLITE_BUSY: "it is locked by another process, also after {wait:g} s",
    sqlite3.SQLITE_LOCKED: "it is locked by another process, also after {wait:g} s",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written, or is full",
    sqlite3.SQLITE_NOTADB: "it is damaged or not a journal",
    sqlite3.SQLITE_CORRUPT: "it is damaged or not a journal",
}


class _File(NamedTuple):
    """What a file keeps until it is deleted; while it is open, no other file has the same."""

    device: int
    number: int


_in_use_at_fork: dict[_File, SQLiteFile] = {}
"""In a child process: files of the parent that were in use during the fork."""


class SQLiteFile:
    """A journal's file, open with one connection that writes and one that reads.

    Parameters
    ----------
    path
        The file; it is created if it does not exist.
    readonly
        Open an existing file for reading only, without locking it.
    verify
        Whether to check the tables and indexes of a file of at most 64 MB.
    lock_timeout
        Seconds to wait for another process that has locked the file.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        readonly: bool,
        verify: bool = True,
        lock_timeout: float = 10.0,
    ) -> None:
        self._lock_timeout = lock_timeout
        self.readonly = flag_of("readonly", readonly)
        self.path = _checked_path(path, readonly=self.readonly)
        self._log = self.path.with_name(self.path.name + "-wal")
        self._process = process_id()
        self._immutable: tuple[int, ...] | None = None
        self._large_log = _LARGE_LOG
        self._log_size = 0  # after the last commit
        self._checkpoint_at: int | None = None  # `None` if SQLite does it by itself
        self._closed = False
        self.new_locks()
        with self._errors():
            before = self._on_disk()
            if before[0] in _in_use_at_fork:
                raise JournalError(
                    f"journal {self.path} was being written when this process was forked, so it cannot be opened "
                    "here: fork before the journal is opened, or start processes by spawn"
                )
            self.writer = self._connect()
            try:
                self.format = self._prepare()
                self.reader = self._connect()
                try:
                    if verify:
                        self._verify()
                    self.reader.execute(
                        "SELECT count(*) FROM journal"
                    ).fetchone()  # it opens the files
                    self._files = self._on_disk()
                    if before[0] is not None and before[0] != self._files[0]:
                        raise JournalError(
                            f"journal {self.path} was replaced while it was being opened"
                        )
                except BaseException:
                    self.reader.close()
                    raise
            except BaseException:
                self.writer.close()
                raise
        self._held: list[Any] = []  # locks, during a fork
        self._is_quiet = False  # during a fork: no thread uses the connections
        forget_locks_after_fork(self)
        close_in_child(self)

    def new_locks(self) -> None:
        """Make new locks; those of before a fork may be held by threads that do not exist."""
        self.checkpointing = threading.Lock()  # taken before the others, if several are needed
        self.writing, self.reading = threading.RLock(), threading.Lock()

    # SQLite keeps locks and memory maps of a file in its process. A child inherits them as they are, but not the locks of
    # the operating system. If it opened the file again, SQLite would take it for locked and read it without any lock:
    # pages of two states, or a wait without end. So no statement runs during a fork, and the child closes the
    # connections that it has inherited. This leaves the parent alone, because locks belong to a process.

    def before_fork(self) -> None:
        """Wait until no thread uses the connections, for at most 30 seconds."""
        self._held, self._is_quiet = [], False
        for lock in (self.checkpointing, self.writing, self.reading):
            if not lock.acquire(timeout=_WAIT):
                return
            self._held.append(lock)
        try:
            self._is_quiet = not self.writer.in_transaction
        except sqlite3.ProgrammingError:  # it is closed
            self._is_quiet = True

    def after_fork(self, *, in_child: bool) -> None:
        """Let threads use the connections again; in the child, close them."""
        if not in_child:
            for lock in reversed(self._held):
                lock.release()
        elif self._is_quiet:
            self.reader.close()
            self.writer.close()
        elif self._files[0] is not None:
            _in_use_at_fork[self._files[0]] = self  # which is never collected, and so never closed

    # -- opening -----------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise sqlite3.ProgrammingError("the file was closed")  # as its connections do
        mode = "ro" if self.readonly else "rwc"
        if self.readonly and not os.access(self.path.parent, os.W_OK) and not _size(self._log):
            mode = "ro&immutable=1"  # otherwise even a reader creates files beside it
            self._immutable = self._identity()
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(self.path.absolute()))}?mode={mode}",
            uri=True, isolation_level=None, check_same_thread=False, timeout=self._lock_timeout,
        )  # fmt: skip
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # erased rows are overwritten
            connection.execute("PRAGMA temp_store = MEMORY")  # no copy of erased ids on the disk
            connection.execute("PRAGMA cell_size_check = ON")  # notice damaged pages early
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> int:
        """Create the tables of a new file, upgrade earlier ones, and return the format."""
        db = self.writer
        version = self._version()
        if version is None:
            _use_log(db, self._lock_timeout)
        if version == schema.FORMAT or (version is not None and self.readonly):
            return version
        with self.transaction(db):
            version = self._version()  # another process may have been faster
            if version is None:
                schema.create_tables(db)
            elif version < schema.FORMAT:
                schema.upgrade(db, version)
        return schema.FORMAT

    def _version(self) -> int | None:
        """Return the format of the journal, or `None` if the file is empty; reject any other file."""
        application, version, tables = self.writer.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
            "FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        if application == schema.APPLICATION:
            if version in schema.FORMATS:
                return int(version)
            raise JournalError(
                f"{self.path} has format version {version}, expected at most {schema.FORMAT}: it was "
                "written by another version of rolin"
            )
        if tables or application or self.readonly:
            raise JournalError(f"{self.path} is a database, but not a journal of rolin")
        return None

    def _verify(self) -> None:
        """Reject a file with statements of somebody else, and a small one whose indexes or pages are damaged.

        The checksums of rows do not cover the indexes, by which decisions and outcomes are found.
        """
        foreign = self.reader.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view') LIMIT 1"
        ).fetchone()
        if foreign:
            raise JournalError(
                f"journal {self.path}: it has a trigger or a view {foreign[0]!r}, which rolin did not make: drop it"
            )
        if _size(self.path) + _size(self._log) > _SMALL:
            return
        ((found,),) = self.reader.execute("PRAGMA integrity_check(1)").fetchall()
        if found != "ok":
            raise JournalError(
                f"journal {self.path}: it is damaged ({found}): `rolin journal check` lists the damage. Restore a "
                "backup. If only an index is damaged, the statement REINDEX of SQLite rebuilds it"
            )

    # -- using -------------------------------------------------------------------------------

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn SQLite's errors into `JournalError`, with a reason that tells what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(
                f"journal {self.path}: {_reason(error, self._lock_timeout)}; nothing was written by this call"
            ) from error
        except UnicodeDecodeError as error:  # SQLite quotes a damaged text in its message
            raise JournalError(f"journal {self.path}: it is damaged: {error}") from error

    @contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Commit what the block does, or nothing of it."""
        try:
            _begin(connection, self._lock_timeout)
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk may have ended it already
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Give the connection that writes, in a transaction; raise if what was committed is not in the file.

        Blocks inside a block are part of its transaction.
        """
        self._check_process()
        with self.writing, self._errors():
            if self.readonly:
                raise JournalError(f"journal {self.path} was opened with readonly=True")
            if self.writer.in_transaction:
                yield self.writer
                return
            with self.transaction(self.writer):
                yield self.writer
            self._check_files()

    def query(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        """Return the rows of a query."""
        self._check_process()
        with self.reading, self._errors():
            if self._immutable is not None and self._immutable != self._identity():
                self._open_again()  # somebody has written after all
            try:
                return self.reader.execute(statement, values).fetchall()
            except OverflowError as error:  # an integer of more than 64 bits
                raise JournalError(f"journal {self.path}: {error}") from error

    @contextmanager
    def frozen(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that sees one state of the file, however long the block takes; others may write meanwhile."""
        self._check_process()
        with self._errors(), closing(self._connect()) as db:
            db.execute("BEGIN")
            db.execute("SELECT count(*) FROM journal").fetchone()  # the first read fixes the state
            yield db

    def _check_process(self) -> None:
        if process_id() != self._process:
            raise JournalError(
                f"journal {self.path} was opened by another process, before a fork: open it in each process"
            )

    # -- the files on the disk ---------------------------------------------------------------

    def _identity(self) -> tuple[int, ...]:
        """Return what changes when somebody writes to the file."""
        found = os.stat(self.path)
        return (found.st_ino, found.st_mtime_ns, found.st_size, _size(self._log))

    def _open_again(self) -> None:
        self._immutable = None
        old, self.reader = self.reader, self._connect()
        old.close()

    def _on_disk(self) -> tuple[_File | None, _File | None]:
        """Return which file, and which write-ahead log, are at the path now."""
        return _file_at(self.path), _file_at(self._log)

    def _check_files(self) -> None:
        """Reject a commit that went to files which are no longer those at the path."""
        file, log = self._on_disk()
        if self._files[1] is None:
            # The log has its inode from the first write until the file is closed.
            self._files = (self._files[0], log)
        if file is None or log is None or (file, log) != self._files:
            raise JournalError(
                f"journal {self.path}: the file, or its write-ahead log, was deleted or replaced while it was open; "
                "what was written since then is lost. Restore the file, and open it again"
            )
        self._log_size = size = _size(self._log)
        if self._checkpoint_at is not None and size <= _LOG:
            self._checkpoint_at = _LOG  # it has started again
        if size > self._large_log:
            self._large_log = 2 * size  # warn again only if it doubles
            warnings.warn(
                f"the write-ahead log of journal {self.path} has {size >> 20} MB: another process has been reading the "
                "file for long, so that it cannot be written back. End that process",
                stacklevel=2,
            )

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of the file and of its write-ahead log."""
        return _size(self.path), _size(self._log)

    def checkpoint(self) -> bool:
        """Write the whole log back to the file; return whether it was possible."""
        self._check_process()
        with self.checkpointing, self.writing, suppress(sqlite3.Error):
            busy, *_ = self.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
        return False

    def defer_checkpoints(self) -> None:
        """Do not write back the log when a transaction is committed: somebody calls `checkpoint_in_background`."""
        self._check_process()
        if self.readonly:
            return
        with self.writing, self._errors():
            self.writer.execute("PRAGMA wal_autocheckpoint = 0")
            # Once all of the log is written back, it starts again from the beginning, and is cut to this size.
            self.writer.execute(f"PRAGMA journal_size_limit = {_LOG}")
            self._checkpoint_at = _LOG

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether the log has grown enough to be written back."""
        return self._checkpoint_at is not None and self._log_size > self._checkpoint_at

    def checkpoint_in_background(self) -> None:
        """Write back the log on a connection of its own, while others write."""
        self._check_process()
        with self.checkpointing, self._errors(), closing(self._connect()) as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            if self._log_size > _MAX_LOG:
                # While others write, the log never ends, so it cannot start again. Now little is left to write back, but
                # another process may read for long: then this is tried again later.
                db.execute("PRAGMA busy_timeout = 5")
                with self.writing:
                    db.execute("PRAGMA wal_checkpoint(RESTART)")
        self._checkpoint_at = self._log_size + _LOG

    def wipe_log(self) -> bool:
        """Write back the whole log and empty it, unless another process is reading; return whether it is empty.

        Writers wait only for what was written during the first step.
        """
        self._check_process()
        with self.checkpointing, self._errors(), closing(self._connect()) as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            db.execute("PRAGMA busy_timeout = 5")
            with self.writing:
                busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def close(self) -> None:
        """Close the connections; a process that has not opened them leaves them alone."""
        if process_id() == self._process:
            with self.checkpointing, self.writing, self.reading:
                self._closed = True
                self.reader.close()
                self.writer.close()


def _checked_path(path: str | PathLike[str], *, readonly: bool) -> Path:
    """Return a path at which a journal can be."""
    try:
        found = Path(path)
        if b"\0" in os.fsencode(found):
            raise ValueError("it contains a null character")
        exists = found.exists()
    except (OSError, ValueError) as error:
        raise JournalError(f"{path!r} is not a valid path for a journal: {error}") from error
    if found.is_dir():
        raise JournalError(f"{path} is a folder, expected the file of a journal")
    if exists and not found.is_file():
        raise JournalError(f"{path} is not a file, expected the file of a journal")
    if readonly and not exists:
        raise JournalError(f"there is no journal {path}")
    if not found.parent.is_dir():
        raise JournalError(f"{path} cannot be created: there is no folder {found.parent}")
    return found


def _file_at(path: Path) -> _File | None:
    try:
        found = os.stat(path)
    except OSError as error:
        if error.errno is None:  # not of the system: a signal handler has raised a TimeoutError
            raise
        return None
    return _File(found.st_dev, found.st_ino)


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _primary_code(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary result code; `None` for errors of the Python module itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF  # without the extended part


def _reason(error: sqlite3.Error, wait: float) -> str:
    """Return why a call failed."""
    code = _primary_code(error)
    if code is None and isinstance(error, sqlite3.ProgrammingError):
        return "it was closed"
    reason = _REASONS[code].format(wait=wait) if code in _REASONS else str(error)
    return f"{reason} ({error})" if code in _DAMAGED else reason


def _begin(db: sqlite3.Connection, wait: float) -> None:
    """Begin to write; wait for other processes.

    SQLite itself waits in ever longer steps, so that a process which has waited long would lose against newcomers.
    """
    db.execute("PRAGMA busy_timeout = 0")
    try:
        _retry_while_locked(db, "BEGIN IMMEDIATE", _STEP, wait)
    finally:
        db.execute(f"PRAGMA busy_timeout = {int(1000 * wait)}")


def _use_log(db: sqlite3.Connection, wait: float) -> None:
    """Turn on write-ahead logging; wait for other processes that do the same, which SQLite does not."""
    _retry_while_locked(db, "PRAGMA journal_mode = WAL", _LOG_STEP, wait)


def _retry_while_locked(db: sqlite3.Connection, statement: str, step: float, wait: float) -> None:
    """Execute a statement; while another process holds a lock, try again after `step` seconds."""
    give_up = monotonic() + wait
    while True:
        try:
            db.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if _primary_code(error) not in _LOCKED or monotonic() > give_up:
                raise
            sleep(step)
