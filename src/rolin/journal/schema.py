"""The tables of a journal in SQLite, their versions, and the checksums of their rows.

Every row has a checksum of all its values, its number included, so that a damaged or exchanged row is noticed when it
is read. Rows that were written by format 1 have none.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from contextlib import closing
from hashlib import blake2b
from typing import NamedTuple

from rolin.errors import JournalError
from rolin.journal.base import Header
from rolin.journal.codec import Row

__all__ = [
    "APPLICATION",
    "COLUMNS",
    "FORMAT",
    "FORMATS",
    "SELECT_SCHEMA",
    "StoredHeader",
    "columns_of",
    "create_tables",
    "differences",
    "event_checksum",
    "header_checksum",
    "state_checksum",
    "upgrade",
    "verify",
]

FORMAT = 2
"""Version of the tables that this version of rolin writes."""
FORMATS = (1, 2)
"""Versions that it reads. A file of an earlier version is upgraded when it is opened for writing."""
APPLICATION = 0x726F6C6E  # "roln": marks the file as a journal

# `place` is the rank r of an outcome, -1 for the decision itself, -2 for its activation, and -3 - r for a held reward.
# Early and ignored rewards have places below them, see `codec`. In `waiting`, an early reward has a place below 0.
# `question` holds raw features as JSON, `digest` a digest of the question, and `reward` the caller's own id of a reward.
# `unchecked` is the last event without checksum.
_TABLES = """
CREATE TABLE journal (
    last INTEGER NOT NULL, first INTEGER NOT NULL, origin TEXT NOT NULL,
    unchecked INTEGER NOT NULL, checksum BLOB NOT NULL
);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    decision TEXT,
    place INTEGER,
    person TEXT,
    numbers BLOB,
    question BLOB,
    digest BLOB,
    reward TEXT,
    checksum BLOB
);
CREATE UNIQUE INDEX once ON events (decision, place, ifnull(reward, '')) WHERE decision IS NOT NULL;
CREATE INDEX by_person ON events (person) WHERE person IS NOT NULL;
CREATE INDEX without_decision ON events (kind) WHERE decision IS NULL;
CREATE TABLE waiting (
    decision TEXT NOT NULL, place INTEGER NOT NULL, time REAL NOT NULL, PRIMARY KEY (decision, place)
) WITHOUT ROWID;
CREATE INDEX oldest ON waiting (time);
CREATE TABLE states (seq INTEGER PRIMARY KEY, state BLOB NOT NULL, checksum BLOB)
"""
_FROM_1_TO_2 = """
ALTER TABLE journal ADD COLUMN unchecked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE journal ADD COLUMN checksum BLOB NOT NULL DEFAULT x'';
ALTER TABLE events ADD COLUMN question BLOB;
ALTER TABLE events ADD COLUMN digest BLOB;
ALTER TABLE events ADD COLUMN reward TEXT;
ALTER TABLE events ADD COLUMN checksum BLOB;
DROP INDEX once;
CREATE UNIQUE INDEX once ON events (decision, place, ifnull(reward, '')) WHERE decision IS NOT NULL;
ALTER TABLE states ADD COLUMN checksum BLOB;
UPDATE journal SET unchecked = last
"""
COLUMNS = "time, kind, body, decision, place, person, numbers, question, digest, reward"
"""Columns of a row of `events`, in the order of `Row`, without its number and its checksum."""
# Tables that litestream adds to what it replicates.
_OF_LITESTREAM = ("_litestream_lock", "_litestream_seq")
_NO_PLACE = -(1 << 31)
_HEAD = struct.Struct("<qdq8q")  # number, time, place, and the sizes of all parts


class StoredHeader(NamedTuple):
    """The header, as it is stored."""

    last: int
    first: int
    origin: str
    unchecked: int
    """Events and snapshots up to this one were written by format 1 and have no checksum."""

    @property
    def header(self) -> Header:
        """The header that journals of all kinds have."""
        return Header(self.last, self.first, self.origin)


def columns_of(version: int) -> str:
    """Return the columns of an event in a file of this format: those of `Row`, then the checksum."""
    if version >= 2:
        return f"{COLUMNS}, checksum"
    return "time, kind, body, decision, place, person, numbers, NULL, NULL, NULL, NULL"


def create_tables(db: sqlite3.Connection) -> None:
    """Create the tables of a new journal, in the transaction of the caller."""
    for statement in _TABLES.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {FORMAT}")


SELECT_SCHEMA = """
SELECT m.type, m.name, CASE WHEN m.type = 'index' THEN m.sql END, group_concat(c.name || ' ' || c.type, ', ')
FROM sqlite_master AS m LEFT JOIN pragma_table_info(CASE WHEN m.type = 'table' THEN m.name END) AS c
WHERE m.name NOT LIKE 'sqlite!_%' ESCAPE '!'
GROUP BY m.type, m.name ORDER BY m.type, m.name
"""
"""Tables with their columns, indexes with their definitions, and whatever else there is."""


def differences(found: Sequence[tuple[object, ...]], version: int) -> list[str]:
    """Return in what the schema of a file differs from that of its format."""
    given = {
        (str(kind), str(name)): rest for kind, name, *rest in found if name not in _OF_LITESTREAM
    }
    if version != FORMAT:
        # The definitions of earlier formats are not known, but they had no other kinds.
        foreign = [key for key in given if key[0] not in ("table", "index")]
        return [f"the {kind} {name!r} was not made by rolin" for kind, name in foreign]
    with closing(sqlite3.connect(":memory:")) as db:
        create_tables(db)
        rows = db.execute(SELECT_SCHEMA).fetchall()
    known = {(kind, name): rest for kind, name, *rest in rows}
    problems = []
    for kind, name in sorted(given.keys() | known.keys()):
        if (kind, name) not in known:
            problems.append(f"the {kind} {name!r} was not made by rolin")
        elif (kind, name) not in given:
            problems.append(f"the {kind} {name!r} is missing")
        elif given[kind, name] != known[kind, name]:
            problems.append(f"the {kind} {name!r} is not as rolin made it")
    return problems


def upgrade(db: sqlite3.Connection, version: int) -> None:
    """Bring the tables of an earlier format to the present one, in the transaction of the caller."""
    if version == 1:
        for statement in _FROM_1_TO_2.split(";"):
            db.execute(statement)
        rows = db.execute("SELECT last, first, origin, unchecked FROM journal").fetchall()
        for row in rows:  # none, if the journal has not begun
            db.execute("UPDATE journal SET checksum = ?", (header_checksum(StoredHeader(*row)),))
    db.execute(f"PRAGMA user_version = {FORMAT}")


def event_checksum(seq: int, row: Row) -> bytes:
    """Return the checksum of an event."""
    time, kind, body, decision, rank, person, numbers, question, digest, reward = row
    sizes, data = [], []
    for text in (kind, body, decision, person, reward):
        if text is None:
            sizes.append(-1)
        else:
            encoded = text.encode()  # which fails if something else was stored
            sizes.append(len(encoded))
            data.append(encoded)
    for blob in (numbers, question, digest):
        if blob is None:
            sizes.append(-1)
        else:
            sizes.append(len(blob))
            data.append(blob)
    place = _NO_PLACE if rank is None else rank
    head = _HEAD.pack(seq, time, place, *sizes)
    return blake2b(b"".join((head, *data)), digest_size=8).digest()


def header_checksum(header: StoredHeader) -> bytes:
    """Return the checksum of the header."""
    last, first, origin, unchecked = header
    data = struct.pack("<qqq", last, first, unchecked) + origin.encode()
    return blake2b(data, digest_size=8).digest()


def state_checksum(version: int, state: bytes) -> bytes:
    """Return the checksum of a snapshot."""
    return blake2b(struct.pack("<q", version) + state, digest_size=8).digest()


def verify(what: str, stored: object, computed: bytes, *, required: bool) -> None:
    """Reject a row whose checksum does not match; a row of format 1 has none."""
    if stored != computed and (required or stored is not None):
        raise JournalError(f"{what} is damaged: its checksum does not match")
