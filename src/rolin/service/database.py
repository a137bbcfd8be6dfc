"""The tables of a service in PostgreSQL: its bandits, without their journals, and its keys. They are in the schema `rolin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rolin
from rolin._support.optional import needs
from rolin.errors import JournalError
from rolin.service.settings import Settings

if TYPE_CHECKING:
    from rolin.journal.postgres_database import PostgresDatabase

__all__ = ["LOCK", "database_of", "open_database"]

_TABLES = """
CREATE SCHEMA IF NOT EXISTS rolin;
CREATE TABLE IF NOT EXISTS rolin.bandits (
    name text COLLATE "C" PRIMARY KEY, config text NOT NULL, arms text,
    bandit bigint GENERATED ALWAYS AS IDENTITY, changes bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS rolin.keys (content text NOT NULL, changes bigint NOT NULL);
CREATE TABLE IF NOT EXISTS rolin.catalogues (
    bandit bigint PRIMARY KEY, number bigint NOT NULL, size bigint NOT NULL, sha256 text NOT NULL
);
CREATE SEQUENCE IF NOT EXISTS rolin.catalogue_numbers;
CREATE TABLE IF NOT EXISTS rolin.catalogue_parts (
    number bigint, part int, content bytea NOT NULL, PRIMARY KEY (number, part)
);
ALTER TABLE rolin.catalogue_parts ALTER content SET STORAGE EXTERNAL
"""
# The first one that an earlier version has not created, or a database without any.
_NEWEST = "catalogue_parts"
LOCK = "SELECT pg_advisory_xact_lock(hashtext('rolin service'))"
"""Taken by a transaction that changes the tables of the service."""


def database_of(settings: Settings) -> str:
    """Return where the database of a service is; if it is read-only, the server refuses whatever it might write."""
    assert settings.database is not None  # the caller knows
    if not settings.read_only:
        return settings.database
    with needs("postgres"):
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    given = conninfo_to_dict(settings.database).get("options") or ""
    options = f"{given} -c default_transaction_read_only=on".strip()
    return make_conninfo(settings.database, options=options)


def open_database(dsn: str, lock_timeout: float) -> PostgresDatabase:
    """Open the database of a service, and create its tables; a read-only service refuses one without them."""
    with needs("postgres"):
        from rolin.journal.postgres_database import PostgresDatabase
    database = PostgresDatabase(dsn, schema="rolin", lock_timeout=lock_timeout)
    try:
        ((is_old, is_complete, is_read_only),) = database.query(
            "SELECT to_regclass('keys') IS NOT NULL, to_regclass(?) IS NOT NULL,"
            " current_setting('default_transaction_read_only') = 'on'",
            (_NEWEST,),
        )
        if not is_complete:
            if is_read_only:
                raise JournalError(_why_incomplete(database.where, is_old=is_old))
            with database.transaction(LOCK):
                for statement in _TABLES.split(";"):
                    database.execute(statement)
    except BaseException:
        database.close()
        raise
    return database


def _why_incomplete(where: str, *, is_old: bool) -> str:
    """Return why a read-only service cannot use a database, and what to do."""
    if is_old:
        found = f"{where} has tables of an earlier version of rolin"
        todo = f"start a service of rolin {rolin.__version__} that is not read-only, which adds the missing ones"
    else:
        found = f"{where} has no tables of a rolin service"
        todo = (
            "check the address, or start a service on it that is not read-only, which creates them"
        )
    return f"{found}, and a read-only service creates none: {todo}"
