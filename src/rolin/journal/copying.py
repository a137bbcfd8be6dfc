"""Copy a journal from SQLite to PostgreSQL or back, with the same event numbers and bytes, and compare the copy.

Both have the same tables with the same columns, and order texts by their bytes. So each table is read in pages, in the
order of its key, and written as it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import zip_longest
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from rolin.errors import JournalError
from rolin.journal import schema
from rolin.journal.base import Header
from rolin.journal.codec import Row
from rolin.journal.postgres import PostgresJournal
from rolin.journal.postgres_tables import EVENT_TYPES, FORMAT, create_tables, schema_of
from rolin.journal.sqlite import SQLiteJournal
from rolin.journal.table_journal import LAST_NUMBER, Query, TableJournal

if TYPE_CHECKING:
    from rolin.journal.postgres_database import PostgresDatabase

__all__ = ["CopiedJournal", "copy_to_postgres", "copy_to_sqlite"]

_PAGE = 1000  # rows


class CopiedJournal(NamedTuple):
    """What was copied."""

    events: int
    waiting: int
    """Arms that wait for a reward, and early rewards that wait for a decision."""
    snapshots: int


class _Table(NamedTuple):
    name: str
    columns: str
    key: tuple[str, ...]
    before: tuple[object, ...]  # all keys
    types: Sequence[str]  # in PostgreSQL


_TABLES = (
    _Table("events", f"seq, {schema.COLUMNS}, checksum", ("seq",), (-LAST_NUMBER,), EVENT_TYPES),
    _Table(
        "waiting", "decision, place, time", ("decision", "place"), ("", -LAST_NUMBER), ("text", "int8", "float8")
    ),
    _Table("states", "seq, state, checksum", ("seq",), (-LAST_NUMBER,), ("int8", "bytea", "bytea")),
)  # fmt: skip


def copy_to_postgres(
    source: SQLiteJournal, database: PostgresDatabase, name: str, advance: Callable[[int], None]
) -> CopiedJournal:
    """Copy a journal of a file to a database, in the transaction of the caller.

    Parameters
    ----------
    source
        The journal.
    database
        The database. It must not have a journal of this name.
    name
        Name of the copy.
    advance
        Called with the number of events that were copied or compared since its last call.
    """
    with source.frozen() as (header, query):
        database.execute(f'SET LOCAL search_path = "{schema_of(name)}"')
        create_tables(database, schema_of(name))

        def write(table: _Table, rows: Iterator[tuple[Any, ...]]) -> None:
            database.copy(f"{table.name} ({table.columns})", table.types, rows)

        found = _copy(source, header, query, write, database.query, advance)
        database.execute(
            "INSERT INTO journal VALUES (?, ?, ?, ?, ?)",
            (*header, secrets.token_hex(8), FORMAT),
        )
        database.execute(f'SET LOCAL search_path = "{database.schema}"')
    return found


def copy_to_sqlite(
    source: PostgresJournal, target: str | PathLike[str], advance: Callable[[int], None]
) -> CopiedJournal:
    """Copy a journal of a database to a new file.

    Parameters
    ----------
    source
        The journal.
    target
        The file to make; it must not exist.
    advance
        Called with the number of events that were copied or compared since its last call.
    """
    with (
        source.frozen() as (header, query),
        closing(SQLiteJournal(target)) as made,
        made.writing_rows(header) as db,
    ):

        def write(table: _Table, rows: Iterator[tuple[Any, ...]]) -> None:
            places = ", ".join("?" * len(table.types))
            db.executemany(f"INSERT INTO {table.name} ({table.columns}) VALUES ({places})", rows)

        def written(statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
            return db.execute(statement, values).fetchall()

        return _copy(source, header, query, write, written, advance)


def _copy(
    journal: TableJournal,
    header: Header,
    read: Query,
    write: Callable[[_Table, Iterator[tuple[Any, ...]]], None],
    written: Query,
    advance: Callable[[int], None],
) -> CopiedJournal:
    """Copy all tables but the header, read them again, and compare them."""
    what = journal.description
    for table in _TABLES:
        write(table, _checked(journal, table, _rows(read, table), advance))
    counts = []
    for table in _TABLES:
        n = 0
        source = _checked(journal, table, _rows(read, table), advance)
        for ours, theirs in zip_longest(source, _rows(written, table)):
            if ours != theirs:
                raise JournalError(f"{what}: the copy of the table {table.name} differs from it")
            n += 1
        counts.append(n)
    ((present,),) = read("SELECT count(*) FROM events WHERE seq > ?", (header.first,))
    if present != header.last - header.first:
        raise JournalError(
            f"{what}: it has {present} events after event {header.first}, expected {header.last - header.first}"
        )
    return CopiedJournal(*counts)


def _rows(query: Query, table: _Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table, in the order of its key."""
    names = [name.strip() for name in table.columns.split(",")]
    places = [names.index(name) for name in table.key]
    key, after = ", ".join(table.key), table.before
    statement = (
        f"SELECT {table.columns} FROM {table.name} "
        f"WHERE ({key}) > ({', '.join('?' * len(after))}) ORDER BY {key} LIMIT {_PAGE}"
    )
    while rows := query(statement, after):
        yield from map(tuple, rows)
        after = tuple(rows[-1][place] for place in places)


def _checked(
    journal: TableJournal,
    table: _Table,
    rows: Iterator[tuple[Any, ...]],
    advance: Callable[[int], None],
) -> Iterator[tuple[Any, ...]]:
    """Yield rows that are not damaged. Those of an earlier format get the checksum that they lack."""
    if table.name == "waiting":
        yield from rows
        return
    unchecked = journal.last_unchecked
    for seq, *values, stored in rows:
        if table.name == "events":
            checksum = schema.event_checksum(seq, Row(*values))
            advance(1)
        else:
            checksum = schema.state_checksum(seq, *values)
        what = f"{journal.description}: row {seq} of the table {table.name}"
        schema.verify(what, stored, checksum, required=seq > unchecked)
        yield seq, *values, checksum
