"""The tables of a journal in PostgreSQL. Each journal has a schema of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rolin.journal.postgres_database import PostgresDatabase

__all__ = ["EVENT_TYPES", "FORMAT", "NAME", "create_tables", "schema_of"]

FORMAT = 1
"""Version of the tables."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,56}")
"""Names of journals; with the prefix of `schema_of`, they have at most 63 characters."""
EVENT_TYPES = (
    "int8", "float8", "text", "text", "text", "int8", "text", "bytea", "bytea", "bytea", "text", "bytea",
)  # fmt: skip
"""Types of the columns of `events`."""

# The columns are those of SQLite, see `schema`. Texts are ordered by their bytes, as everywhere in rolin. `token` tells a
# journal from a later one with the same name. Large values are not compressed, which takes twice the time of all else.
_TABLES = """
CREATE TABLE journal (
    last bigint NOT NULL, first bigint NOT NULL, origin text NOT NULL, token text NOT NULL, format int NOT NULL
);
CREATE TABLE events (
    seq bigint PRIMARY KEY,
    time double precision NOT NULL,
    kind text NOT NULL,
    body text NOT NULL,
    decision text COLLATE "C",
    place bigint,
    person text COLLATE "C",
    numbers bytea,
    question bytea,
    digest bytea,
    reward text COLLATE "C",
    checksum bytea NOT NULL
);
ALTER TABLE events ALTER numbers SET STORAGE EXTERNAL, ALTER question SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX once ON events (decision, place, coalesce(reward, '')) WHERE decision IS NOT NULL;
CREATE INDEX by_person ON events (person) WHERE person IS NOT NULL;
CREATE INDEX without_decision ON events (kind) WHERE decision IS NULL;
CREATE TABLE waiting (
    decision text COLLATE "C" NOT NULL, place bigint NOT NULL, time double precision NOT NULL,
    PRIMARY KEY (decision, place)
);
CREATE INDEX oldest ON waiting (time, decision, place);
CREATE TABLE states (seq bigint PRIMARY KEY, state bytea NOT NULL, checksum bytea NOT NULL);
ALTER TABLE states ALTER state SET STORAGE EXTERNAL
"""
# What was computed from the events, in parts. Journals of the first versions have no such table yet.
_DERIVED = """
CREATE TABLE derived (made text NOT NULL, part bigint NOT NULL, content bytea NOT NULL);
ALTER TABLE derived ALTER content SET STORAGE EXTERNAL
"""


def schema_of(name: str) -> str:
    """Return the schema of the journal with this name."""
    return f"rolin_{name}"


def create_tables(
    database: PostgresDatabase, schema: str, *, events: bool = True, derived: bool = True
) -> None:
    """Create the tables of a journal, in the transaction of the caller.

    Parameters
    ----------
    database
        The database.
    schema
        Where the tables belong; statements must find their tables there.
    events, derived
        Which of them do not exist yet.
    """
    if not database.query("SELECT 1 FROM pg_namespace WHERE nspname = ?", (schema,)):
        database.execute(f'CREATE SCHEMA "{schema}"')
    for tables, is_missing in ((_TABLES, events), (_DERIVED, derived)):
        for statement in tables.split(";") if is_missing else ():
            database.execute(statement)
