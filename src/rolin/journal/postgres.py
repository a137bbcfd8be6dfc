"""A journal in a PostgreSQL database, which several processes can share.

A process that writes takes a turn: it locks the header, reads what others have written since, writes, and commits. So
the numbers of events have no gaps, are in the order of the commits, and nothing is planned in vain. Commits wait for
the disk of the server (`synchronous_commit`).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import Any, NamedTuple

from rolin._support.checks import finite_number_of, flag_of
from rolin._support.optional import needs
from rolin.errors import JournalError, MaybeRecorded, ParameterError
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
from rolin.journal.codec import DECISION, PERMANENT_KINDS, row_of
from rolin.journal.compression import compressor
from rolin.journal.events import Event, LoggedDecision
from rolin.journal.postgres_tables import EVENT_TYPES, FORMAT, NAME, create_tables, schema_of
from rolin.journal.table_journal import (
    IS_PERMANENT,
    LAST_NUMBER,
    OLDEST,
    Query,
    TableJournal,
    oldest_decisions,
)

__all__ = ["PostgresJournal"]

_BATCH = 1024  # events encoded in memory at a time
_SNAPSHOTS = 2  # stored beside the first: the latest, and the one before in case of damage
# A journal that was deleted meanwhile has no tables.
_STORAGE = """
SELECT current_setting('synchronous_commit'), current_setting('fsync'), coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = ? AND c.relkind = 'r'
"""
_HEADER = "SELECT last, first, origin, token, format FROM journal"
# One statement, because each takes a round trip to the server.
_AFTER_EVENTS = """
WITH ended AS (
    DELETE FROM waiting USING unnest(?::text[], ?::bigint[]) AS e (decision, place)
    WHERE waiting.decision = e.decision AND waiting.place = e.place
), decided AS (
    DELETE FROM waiting WHERE place < 0 AND decision = ANY (?::text[])
), counted AS (
    UPDATE journal SET last = ?
)
INSERT INTO waiting (decision, place, time) SELECT * FROM unnest(?::text[], ?::bigint[], ?::float8[])
"""


class _StoredHeader(NamedTuple):
    last: int
    first: int
    origin: str
    token: str
    format: int


class PostgresJournal(TableJournal):
    """A journal in a PostgreSQL database; needs the extra `postgres`.

    Several processes, also on several machines, may write to it. A database can hold several journals. Each has a schema
    of its own, `rolin_NAME`.

    Parameters
    ----------
    dsn
        Where the database is: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, or another connection string of libpq. The
        encoding of the database must be UTF8.
    name
        Name of the journal: 1 to 57 letters, digits, - and _.
    create
        Whether to create the journal if it does not exist; otherwise that is an error.
    lock_timeout
        Seconds to wait for another process that writes, and for a server that restarts.
    compress
        Whether to compress the raw features of new decisions; this needs the extra `service`.
    """

    takes_turns = True

    def __init__(
        self,
        dsn: str,
        name: str = "default",
        *,
        create: bool = True,
        lock_timeout: float = 10.0,
        compress: bool = False,
    ) -> None:
        super().__init__()
        self._compressed = compressor() if flag_of("compress", compress) else None
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ParameterError(
                f"name={name!r}, expected 1 to 57 letters, digits, - and _, beginning with a letter or a digit"
            )
        timeout = finite_number_of("lock_timeout", lock_timeout)
        with needs("postgres"):
            from rolin.journal.postgres_database import CommitUnknown, PostgresDatabase
        self.name = name
        self._commit_unknown = CommitUnknown
        self._database = PostgresDatabase(dsn, schema=schema_of(name), lock_timeout=timeout)
        self._locked: _StoredHeader | None = None  # the header, during a turn
        self._written: list[tuple[int, bytes]] = []  # numbers and checksums, during a turn
        self._token: str | None = None
        try:
            if not flag_of("create", create):
                self._check_exists()
            self._create_tables()
        except BaseException:
            self.close()
            raise

    @property
    def description(self) -> str:
        """What messages call the journal, without secrets."""
        return f"journal {self.name!r} in {self._database.where}"

    def _check_exists(self) -> None:
        if not self._database.query("SELECT to_regclass('journal') IS NOT NULL")[0][0]:
            rows = self._database.query(
                "SELECT substr(nspname, 7) FROM pg_namespace WHERE starts_with(nspname, 'rolin_') ORDER BY 1"
            )
            known = ", ".join(name for (name,) in rows) or "none"
            raise JournalError(
                f"there is no {self.description}; the names of its journals are: {known}"
            )

    def _create_tables(self) -> None:
        """Create the tables, unless they exist."""
        exist = "SELECT to_regclass('journal') IS NOT NULL, to_regclass('derived') IS NOT NULL"
        if all(self._database.query(exist)[0]):
            return
        with self._database.transaction("SELECT pg_advisory_xact_lock(hashtext('rolin'))"):
            # Again, because another process may have been faster.
            ((begun, derived),) = self._database.query(exist)
            create_tables(
                self._database, self._database.schema, events=not begun, derived=not derived
            )

    def delete(self) -> None:
        """Delete the journal with all its events."""
        with self._database.transaction("SELECT pg_advisory_xact_lock(hashtext('rolin'))"):
            self._database.execute(f'DROP SCHEMA IF EXISTS "{self._database.schema}" CASCADE')
        self.close()

    # -- writing -----------------------------------------------------------------------------

    def begin(self, state: bytes, origin: str) -> Header:
        """Store the first state unless the journal has begun; return the header."""
        if (known := self.header()) is not None:
            return known
        with self._database.transaction("LOCK TABLE journal IN SHARE ROW EXCLUSIVE MODE"):
            if not self._database.query(_HEADER):
                self._insert_state(0, state)
                self._database.execute(
                    "INSERT INTO journal VALUES (0, 0, ?, ?, ?)",
                    (origin, secrets.token_hex(8), FORMAT),
                )
        found = self.header()
        assert found is not None  # it has begun
        return found

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Return a block in which no other process can write."""
        if self._database.is_in_transaction:
            yield
            return
        written: list[tuple[int, bytes]] = []
        try:
            with self._database.transaction(f"{_HEADER} FOR UPDATE") as rows:
                self._locked, self._written = self._header_in(rows), written
                try:
                    yield
                finally:
                    self._locked = None
        except self._commit_unknown as error:
            self._check_committed(written, error)

    def _check_committed(self, written: list[tuple[int, bytes]], error: JournalError) -> None:
        """Raise unless events are in the journal, after the connection was lost during their commit."""
        if not written:  # but a snapshot or a removal, which can be repeated
            raise error
        problem = f"{self.description}: the connection was lost during a commit"
        first, last = written[0][0], written[-1][0]
        try:
            # The lost transaction holds this lock until it has ended, one way or the other.
            with self._database.transaction(f"{_HEADER} FOR UPDATE") as rows:
                header = self._header_in(rows)
                found = self._database.query(
                    "SELECT seq, checksum FROM events WHERE seq >= ? AND seq <= ? ORDER BY seq",
                    (first, last),
                )
        except JournalError as lost:
            raise MaybeRecorded(
                f"{problem}, and the server cannot be reached; repeat the call with the same id to see whether it was "
                "recorded"
            ) from lost
        if [tuple(row) for row in found] == written:
            return
        if header is None or header.first >= first:  # somebody has erased events since
            raise MaybeRecorded(
                f"{problem}; repeat the call with the same id to see whether it was recorded"
            ) from error
        raise JournalError(f"{problem}; nothing was written by this call") from error

    def append(self, events: Iterable[Event], *, after: int) -> int:
        """Append all events or none, and return the number of the last one."""
        with self.turn():
            header = self._at(after)
            seq, left = after, iter(events)
            while group := list(islice(left, _BATCH)):
                rows = []
                for event in group:
                    seq, row = seq + 1, row_of(event)
                    if self._compressed is not None and row.question is not None:
                        row = row._replace(question=self._compressed(row.question))
                    checksum = schema.event_checksum(seq, row)
                    rows.append((seq, *row, checksum))
                    self._written.append((seq, checksum))
                self._database.copy(f"events (seq, {self._columns})", EVENT_TYPES, rows)
                new, ended, decided = _waiting_after(group)
                self._database.execute(
                    _AFTER_EVENTS,
                    (
                        [id for id, _ in ended], [place for _, place in ended], decided, seq,
                        [id for id, _ in new], [place for _, place in new], list(new.values()),
                    ),
                )  # fmt: skip
            self._locked = header._replace(last=seq)
            reached("inserted")
        reached("committed")
        return seq

    def _at(self, after: int) -> _StoredHeader:
        """Return the header, in a turn; raise if another process has written since."""
        header = self._locked
        if header is None or header.last != after:
            raise OutOfDate
        return header

    def save_snapshot(self, version: int, state: bytes) -> None:
        """Store the state after event `version`, and drop all but the latest two snapshots."""
        with self.turn():
            header = self._locked
            if header is not None and version >= header.first:
                self._insert_state(version, state)
            self._database.execute(
                "DELETE FROM states WHERE seq > (SELECT first FROM journal) AND seq NOT IN "
                "(SELECT seq FROM states ORDER BY seq DESC LIMIT ?)",
                (_SNAPSHOTS,),
            )
            reached("state inserted")

    def _insert_state(self, version: int, state: bytes) -> None:
        self._database.execute(
            "INSERT INTO states VALUES (?, ?, ?) ON CONFLICT (seq) DO UPDATE "
            "SET state = excluded.state, checksum = excluded.checksum",
            (version, state, schema.state_checksum(version, state)),
        )

    def remove(self, what: Removal, *, after: int, state: bytes) -> Removed:
        """Remove decisions, and store the state that they led to as a snapshot.

        No query finds them afterwards. Their bytes stay in the files of the database until it vacuums the tables and uses
        the space again, and in its write-ahead log and backups as long as these are kept.
        """
        with self.turn():
            header = self._at(after)
            removed = self._remove(what, header, state)
            reached("removed")
        return removed

    def _remove(self, what: Removal, header: _StoredHeader, state: bytes) -> Removed:
        db = self._database
        db.execute("CREATE TEMP TABLE gone (decision text PRIMARY KEY) ON COMMIT DROP")
        ids, before, last_seen = list(what.ids), what.before, LAST_NUMBER
        if before is not None and what.limit is not None:
            # No index knows the times, and the table may be huge, so only its beginning is looked at.
            seen = db.query(OLDEST, (DECISION, what.limit + LOOK_AHEAD))
            ids, last_seen = oldest_decisions(seen, before, what.limit)
            before = None
        n = db.execute(
            "INSERT INTO gone SELECT decision FROM events WHERE place = ? "
            "AND (decision = ANY (?::text[]) OR person = ANY (?::text[]) OR time < ?::float8)",
            (DECISION, ids, list(what.people), before),
        )
        # Rewards whose decision was never made.
        db.execute(
            "INSERT INTO gone SELECT * FROM unnest(?::text[]) ON CONFLICT DO NOTHING",
            (list(what.ids),),
        )
        rows = 0
        if what.before is not None:
            rows += db.execute(
                f"DELETE FROM events WHERE decision IS NULL AND NOT {IS_PERMANENT} AND time < ? AND seq <= ?",
                (*PERMANENT_KINDS, what.before, last_seen),
            )
            rows += db.execute(
                "DELETE FROM waiting WHERE place < 0 AND time < ? AND (?::boolean OR EXISTS (SELECT 1 FROM events "
                "WHERE events.decision = waiting.decision AND kind = 'early' AND events.time = waiting.time AND seq <= ?))",
                (what.before, what.limit is None, last_seen),
            )
            rows += db.execute(
                "DELETE FROM events WHERE kind IN ('early', 'ignored') AND time < ? AND seq <= ? AND NOT EXISTS "
                "(SELECT 1 FROM events AS made WHERE made.decision = events.decision AND made.place = ?)",
                (what.before, last_seen, DECISION),
            )
        rows += db.execute("DELETE FROM events USING gone WHERE events.decision = gone.decision")
        if not rows:
            return Removed(0, header.last)
        last = header.last + 1
        db.execute("DELETE FROM waiting USING gone WHERE waiting.decision = gone.decision")
        db.execute("DELETE FROM states")
        db.execute("DELETE FROM derived")
        self._insert_state(last, state)
        db.execute("UPDATE journal SET last = ?, first = ?", (last, last))
        self._locked = header._replace(last=last, first=last)
        return Removed(n, last)

    def save_derived(self, parts: Iterable[bytes], *, first: int) -> bool:
        """Store what somebody has computed from all events, in a table."""
        made = secrets.token_hex(8)
        rows = ((made, n, part) for n, part in enumerate(parts))
        # A connection of its own, because sending many megabytes takes a while. Others wait only for the last step.
        with closing(self._database.another()) as aside, aside.transaction("SELECT 1"):
            aside.copy("derived (made, part, content)", ("text", "int8", "bytea"), rows)
            header = self._header_in(aside.query(f"{_HEADER} FOR UPDATE"))
            if header is None or header.first != first:
                aside.execute("DELETE FROM derived WHERE made = ?", (made,))
                return False
            aside.execute("DELETE FROM derived WHERE made != ?", (made,))
        return True

    # -- reading -----------------------------------------------------------------------------

    def header(self) -> Header | None:
        """Return the header, or `None` if the journal has not begun."""
        if self._database.is_in_transaction and self._locked is not None:
            found: _StoredHeader | None = self._locked
        else:
            found = self._header_in(self._query(_HEADER))
        return None if found is None else Header(found.last, found.first, found.origin)

    def _header_in(self, rows: list[tuple[Any, ...]]) -> _StoredHeader | None:
        """Return the header from its row; reject that of another journal."""
        if not rows and self._token is None:
            return None
        if not rows:
            raise self._replaced()
        header = _StoredHeader(*rows[0])
        if header.format > FORMAT:
            raise JournalError(
                f"{self.description} has format version {header.format}, expected at most {FORMAT}: it was written by another "
                "version of rolin"
            )
        if self._token is None:
            self._token = header.token
        if header.token != self._token:
            raise self._replaced()
        return header

    def _replaced(self) -> JournalError:
        return JournalError(
            f"{self.description} was deleted, and another one was created with this name"
        )

    def _query(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        return self._database.query(statement, values)

    def _query_decisions(self, ids: list[str]) -> list[tuple[Any, ...]]:
        return self._query(
            f"SELECT seq, {self._columns} FROM events WHERE decision = ANY (?::text[]) ORDER BY seq",
            (ids,),
        )

    @contextmanager
    def elected(self, task: str) -> Iterator[bool]:
        """Give whether this process, and no other, does a task at present."""
        key = f"rolin {self.name} {task}"
        ((chosen,),) = self._query("SELECT pg_try_advisory_lock(hashtextextended(?, 0))", (key,))
        try:
            yield bool(chosen)
        finally:
            if chosen:
                with suppress(JournalError):  # if the connection is lost, so is the lock
                    self._query("SELECT pg_advisory_unlock(hashtextextended(?, 0))", (key,))

    def storage(self) -> StorageReport:
        """Return the settings of the server by which commits are durable, and the size of the tables and their indexes."""
        # Both connections have the same settings, and this one does not wait for a commit.
        ((commits, fsync, size),) = self._query(_STORAGE, (self._database.schema,))
        durability = f"synchronous_commit={commits}, fsync={fsync}"
        is_flushed = commits != "off" and fsync == "on"
        return StorageReport(durability, is_flushed, int(size))

    @contextmanager
    def frozen(self) -> Iterator[tuple[Header, Query]]:
        """Give the header and what queries the journal, both of one moment; others may write meanwhile."""
        with (
            closing(self._database.another()) as aside,
            aside.transaction("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"),
        ):
            header = self._header_in(aside.query(_HEADER))
            if header is None:
                raise JournalError(
                    f"{self.description}: it has not begun, so there is nothing to copy"
                )
            yield Header(header.last, header.first, header.origin), aside.query

    def derived(self) -> bytes | None:
        """Return what `save_derived` has stored; `None` if there is nothing."""
        # One statement sees one commit, but each part is read by itself, so that nobody waits for long.
        numbers = self._query("SELECT made, part FROM derived ORDER BY part")
        parts = []
        for key in numbers:
            found = self._query("SELECT content FROM derived WHERE made = ? AND part = ?", key)
            if not found:
                return None  # it was replaced meanwhile
            parts.append(found[0][0])
        return b"".join(parts) if parts else None

    def wipe_log(self) -> bool:
        """Return `False`: only the server can wipe its files and its log."""
        return False

    def close(self) -> None:
        """Close the connections."""
        self._database.close()


def _waiting_after(
    events: Iterable[Event],
) -> tuple[dict[tuple[str, int], float], list[tuple[str, int]], list[str]]:
    """Return what waits since some events, what they have ended before, and the decisions among them."""
    new: dict[tuple[str, int], float] = {}
    early: dict[str, list[tuple[str, int]]] = {}
    ended: list[tuple[str, int]] = []
    decided: list[str] = []
    for event in events:
        if isinstance(event, LoggedDecision):
            decided.append(event.id)
            for key in early.pop(event.id, ()):
                new.pop(key, None)
        for time, id, rank in waiting_since(event):
            new[id, rank] = time
            if rank < 0:
                early.setdefault(id, []).append((id, rank))
        if (last := ended_by(event)) is not None and new.pop(last, None) is None:
            ended.append(last)
    return new, ended, decided
