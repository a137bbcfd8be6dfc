"""Connections to a PostgreSQL database, and what happens when one of them is lost.

One connection writes and another reads, so that a look-up does not wait for a commit. A connection that is lost, such as
by a restart of the server, is opened again by the next call. A call that has not begun to write waits for the server.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from time import monotonic, sleep
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo, errors
from psycopg.pq import TransactionStatus

from rolin._support.process import forget_locks_after_fork, process_id
from rolin.errors import JournalError, ParameterError

__all__ = ["CommitUnknown", "PostgresDatabase"]

Connection = psycopg.Connection[tuple[Any, ...]]
Result = TypeVar("Result")
_APPLICATION = "rolin"  # by which the server lists our connections
_STEP = 0.05  # seconds between two attempts to connect
_STALLED = 300  # seconds after which the server ends the transaction of a process that has stopped
# Values of synchronous_commit with which a crash may lose a commit.
_WEAK = ("off", "local", "remote_write")
_REASONS: list[tuple[type[psycopg.Error], str]] = [
    (errors.LockNotAvailable, "it is locked by another process, also after {wait:g} s"),
    (errors.ReadOnlySqlTransaction, "the server is read-only: connect to the primary"),
    (errors.DiskFull, "the disk of the server is full"),
    (errors.UndefinedTable, "its tables are gone: somebody has deleted it"),
    (errors.InvalidSchemaName, "its tables are gone: somebody has deleted it"),
]


class CommitUnknown(JournalError):
    """The connection was lost during a commit, which the server has carried out or not."""


class PostgresDatabase:
    """A database, with one connection that writes and one that reads.

    Parameters
    ----------
    dsn
        Where it is: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, or another connection string of libpq.
    schema
        Statements find their tables there.
    lock_timeout
        Seconds to wait for another process that writes, and for a server that cannot be reached.
    """

    def __init__(self, dsn: str, *, schema: str, lock_timeout: float = 10.0) -> None:
        self._dsn, self.schema, self._lock_timeout = dsn, schema, lock_timeout
        self.where = _described(dsn)
        """The database as messages name it, without secrets."""
        self._process = process_id()
        self._closed = False
        self._connections: dict[str, Connection] = {}
        self._owner: int | None = None  # the thread that is in a transaction
        self.new_locks()
        forget_locks_after_fork(self)
        with self.errors(""):
            self._connections["writer"] = self._connect()

    def another(self) -> PostgresDatabase:
        """Return the same database with connections of its own."""
        return PostgresDatabase(self._dsn, schema=self.schema, lock_timeout=self._lock_timeout)

    def new_locks(self) -> None:
        """Make new locks; those of before a fork may be held by threads that do not exist."""
        self.writing, self.reading = threading.RLock(), threading.Lock()

    # -- connections -------------------------------------------------------------------------

    def _connect(self) -> Connection:
        if self._closed:
            raise psycopg.InterfaceError("it was closed")
        made = psycopg.connect(
            self._dsn,
            autocommit=True,
            client_encoding="utf8",
            connect_timeout=max(2, round(self._lock_timeout)),
            application_name=_APPLICATION,
        )
        try:
            self._prepare(made)
        except BaseException:
            made.close()
            raise
        return made

    def _prepare(self, connection: Connection) -> None:
        """Set what transactions rely on."""
        found = connection.execute(
            "SELECT current_setting('server_encoding'), current_setting('synchronous_commit'), current_setting('fsync')"
        ).fetchone()
        assert found is not None  # it is one row
        encoding, commits, fsync = found
        if encoding != "UTF8":
            raise JournalError(
                f"{self.where} has the encoding {encoding}, expected UTF8: create a database with ENCODING 'UTF8'"
            )
        if fsync != "on":
            warnings.warn(
                f"the server of {self.where} runs with fsync = off, so a crash of its machine can lose everything",
                stacklevel=2,
            )
        chosen = {
            "search_path": f'"{self.schema}"',
            "lock_timeout": f"{round(1000 * self._lock_timeout)}ms",
            "idle_in_transaction_session_timeout": f"{_STALLED}s",
        }
        if commits in _WEAK:
            chosen["synchronous_commit"] = "on"
        for name, value in chosen.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def _patiently(self, role: str, call: Callable[[Connection], Result]) -> Result:
        """Call a function that has no effect yet; if the connection is lost, connect and call it again."""
        give_up = monotonic() + self._lock_timeout
        while True:
            try:
                connection = self._connections.get(role)
                if connection is None or connection.closed:
                    connection = self._connections[role] = self._connect()
                return call(connection)
            except psycopg.OperationalError:
                lost = role not in self._connections or self._connections[role].closed
                if not lost or monotonic() > give_up:
                    raise
            sleep(_STEP)

    @contextmanager
    def errors(self, end: str = "; nothing was written by this call") -> Iterator[None]:
        """Turn errors of PostgreSQL into `JournalError`, with a reason that tells what to do."""
        try:
            yield
        except psycopg.Error as error:
            raise JournalError(f"{self.where}: {self._reason(error)}{end}") from error

    def _reason(self, error: psycopg.Error) -> str:
        for kind, reason in _REASONS:
            if isinstance(error, kind):
                return reason.format(wait=self._lock_timeout)
        # Only the first line: the others may quote values of a row.
        reason = error.diag.message_primary or str(error).strip().partition("\n")[0]
        if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
            return f"cannot connect ({reason})"
        return reason

    def _check_process(self) -> None:
        if process_id() != self._process:
            raise JournalError(
                f"{self.where} was opened by another process, before a fork: open it in each process"
            )

    # -- statements --------------------------------------------------------------------------

    @property
    def is_in_transaction(self) -> bool:
        """Whether this thread is in a transaction."""
        return self._owner == threading.get_ident()

    @contextmanager
    def transaction(self, lock: str) -> Iterator[list[tuple[Any, ...]]]:
        """Commit what the block does, or nothing of it; give the rows of a statement that takes a lock.

        Nothing is committed if the block calls `execute` and `copy` never.

        Parameters
        ----------
        lock
            The first statement. While the server cannot be reached, it is tried again.

        Raises
        ------
        CommitUnknown
            If the connection was lost during the commit.
        """
        self._check_process()
        with self.writing, self.errors():

            def begin(connection: Connection) -> list[tuple[Any, ...]]:
                connection.execute("BEGIN", prepare=False)
                try:
                    cursor = connection.execute(_translated(lock))
                    return cursor.fetchall() if cursor.description else []
                except BaseException:
                    _roll_back(connection)
                    raise

            rows = self._patiently("writer", begin)
            connection = self._connections["writer"]
            self._owner, self._wrote = threading.get_ident(), False
            try:
                yield rows
                if self._wrote:
                    self._commit(connection)
            finally:
                self._owner = None
                _roll_back(connection)

    def _commit(self, connection: Connection) -> None:
        try:
            connection.execute("COMMIT", prepare=False)
        except psycopg.OperationalError as error:
            if connection.closed:
                raise CommitUnknown(
                    f"{self.where}: the connection was lost during a commit; repeat the call to see whether it was stored"
                ) from error
            raise

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> int:
        """Run a statement that writes, in the transaction of this thread; return the number of rows it concerned."""
        self._wrote = True
        return self._connections["writer"].execute(_translated(statement), values).rowcount

    def copy(self, table: str, types: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Add rows to a table, in the transaction of this thread; `types` are those of its columns."""
        self._wrote = True
        with (
            self._connections["writer"].cursor() as cursor,
            cursor.copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def query(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""

        def fetch(connection: Connection) -> list[tuple[Any, ...]]:
            return connection.execute(_translated(statement), values, binary=True).fetchall()

        self._check_process()
        if self.is_in_transaction:
            return fetch(self._connections["writer"])
        with self.reading, self.errors(""):
            return self._patiently("reader", fetch)

    def others(self) -> list[int]:
        """Return the processes of the server that serve other connections of rolin to this database."""
        own = [each.info.backend_pid for each in self._connections.values() if not each.closed]
        rows = self.query(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = ? "
            "AND pid <> ALL (?::int[]) ORDER BY pid",
            (_APPLICATION, own),
        )
        return [pid for (pid,) in rows]

    def close(self) -> None:
        """Close the connections; a process that has not opened them leaves them alone."""
        if process_id() == self._process:
            with self.writing, self.reading:
                self._closed = True
                for connection in self._connections.values():
                    connection.close()

    def __del__(self) -> None:
        """Close connections that nobody closed; there are none if opening failed."""
        with suppress(AttributeError):
            self.close()


@lru_cache(maxsize=256)
def _translated(statement: str) -> str:
    """Return a statement with the placeholders of psycopg."""
    return statement.replace("?", "%s")


def _roll_back(connection: Connection) -> None:
    """End a transaction that was not committed; if that is not possible, end the connection."""
    with suppress(psycopg.Error):
        if connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute("ROLLBACK", prepare=False)
    if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
        connection.close()


def _described(dsn: str) -> str:
    """Return the name of a database without secrets; reject what is no connection string."""
    if not isinstance(dsn, str) or not dsn:
        raise ParameterError(
            "the database is no text, expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        )
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # Its message may quote a part of the password.
        raise ParameterError(
            "the database is no connection string, expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special "
            "characters of the password written as %40 and so on"
        ) from None
    host = parts.get("host") or parts.get("hostaddr") or os.environ.get("PGHOST") or "localhost"
    port = parts.get("port")
    name = parts.get("dbname") or os.environ.get("PGDATABASE") or parts.get("user") or "default"
    return f"database {name!r} at {host}{'' if port is None else f':{port}'}"
