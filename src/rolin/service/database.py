"""The tables of a service in PostgreSQL: its bandits, without their journals, and its keys. They are in the schema `rolin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rolin._support.optional import needs
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
CREATE TABLE IF NOT EXISTS rolin.keys (content text NOT NULL, changes bigint NOT NULL)
"""
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
    """Open the database of a service, and create its tables."""
    with needs("postgres"):
        from rolin.journal.postgres_database import PostgresDatabase
    database = PostgresDatabase(dsn, schema="rolin", lock_timeout=lock_timeout)
    try:
        if not database.query("SELECT to_regclass('keys') IS NOT NULL")[0][0]:
            with database.transaction(LOCK):
                for statement in _TABLES.split(";"):
                    database.execute(statement)
    except BaseException:
        database.close()
        raise
    return database
