"""API keys in a PostgreSQL database, which several processes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rolin.service.database import LOCK, open_database
from rolin.service.keys import Keys

__all__ = ["DatabaseKeys"]


class DatabaseKeys(Keys):
    """The API keys of a service, in its database.

    Requests are verified from memory; whoever owns the object calls `look` from time to time.

    Parameters
    ----------
    dsn
        Where the database is.
    api_key
        Another key, with all scopes, which is not stored.
    """

    looks_by_itself = False

    def __init__(self, dsn: str, *, api_key: str | None = None) -> None:
        self._database = open_database(dsn, 10.0)
        self.where = self._database.where
        self._start(api_key)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._database.transaction(LOCK):
            yield

    def _identity(self) -> tuple[int, ...] | None:
        rows = self._database.query("SELECT changes FROM keys")
        return tuple(rows[0]) if rows else None

    def _content(self) -> bytes | None:
        rows = self._database.query("SELECT content FROM keys")
        return rows[0][0].encode() if rows else None

    def _replace(self, content: bytes) -> None:
        text = content.decode()
        if not self._database.execute(
            "UPDATE keys SET content = ?, changes = changes + 1", (text,)
        ):
            self._database.execute("INSERT INTO keys VALUES (?, 0)", (text,))

    def close(self) -> None:
        """Close the connections."""
        self._database.close()
