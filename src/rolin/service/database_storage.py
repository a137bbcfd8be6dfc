"""Bandits in a PostgreSQL database, which several processes share.

A bandit exists if it has a row in the table `bandits`, which is written last and deleted first. Its journal has a schema
of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rolin.journal import Journal, PostgresJournal
from rolin.service.database import LOCK, open_database
from rolin.service.database_catalogue import DatabasePlace, delete_catalogue
from rolin.service.errors import Refusal, without_places
from rolin.service.storage import Document, Storage, Stored, Version

__all__ = ["DatabaseStorage"]

_VERSION = "bandit, changes, coalesce(number, 0) FROM bandits LEFT JOIN catalogues USING (bandit)"


class DatabaseStorage(Storage):
    """The bandits of a database.

    Parameters
    ----------
    dsn
        Where it is.
    lock_timeout
        Seconds to wait for another process, and for a server that restarts.
    folder
        Where this process keeps copies of catalogues.
    compress
        Whether to compress the features in new decisions.
    """

    is_shared = True

    def __init__(
        self, dsn: str, lock_timeout: float, folder: Path, *, compress: bool = False
    ) -> None:
        self._dsn, self._lock_timeout = dsn, lock_timeout
        self._folder, self._compress = folder, compress
        self._database = open_database(dsn, lock_timeout)
        self._known: dict[str, Version] = {}
        self.look()

    def names(self) -> list[str]:
        """Return the names of all bandits, as of the last `look`."""
        return sorted(self._known)

    def exists(self, name: str) -> bool:
        """Return whether there is a bandit with this name."""
        return bool(self._database.query("SELECT 1 FROM bandits WHERE name = ?", (name,)))

    def create(self, name: str, config: bytes, begin: Callable[[Journal], None]) -> None:
        """Create a bandit, completely or not at all."""
        with self._database.transaction(LOCK):
            if self.exists(name):
                raise Refusal(409, f"there is a bandit {name!r} already", field="name")
            PostgresJournal(self._dsn, name).delete()  # of a process that was killed
            with PostgresJournal(self._dsn, name) as journal:
                begin(journal)
            self._database.execute(
                "INSERT INTO bandits (name, config) VALUES (?, ?)", (name, config.decode())
            )
        self.look()

    def read(self, name: str) -> Stored:
        """Return the documents of a bandit."""
        rows = self._database.query(f"SELECT config, arms, {_VERSION} WHERE name = ?", (name,))
        if not rows:
            raise Refusal(404, f"there is no bandit {name!r}")
        ((config, arms, *version),) = rows
        return Stored(config.encode(), None if arms is None else arms.encode(), Version(*version))

    def change(
        self, name: str, document: Document, change: Callable[[bytes | None], bytes]
    ) -> bytes:
        """Change a document of a bandit, while nobody else does, and return it."""
        with self._database.transaction(LOCK):
            stored = self.read(name)
            content = change(stored.config if document == "config" else stored.arms)
            self._database.execute(
                f"UPDATE bandits SET {document} = ?, changes = changes + 1 WHERE name = ?",
                (content.decode(), name),
            )
        return content

    def journal(self, name: str, lock_timeout: float) -> Journal:
        """Open the journal of a bandit."""
        return PostgresJournal(self._dsn, name, lock_timeout=lock_timeout, compress=self._compress)

    def catalogue(self, name: str, version: Version | None) -> DatabasePlace:
        """Return where the catalogue of a bandit is."""
        assert version is not None  # a database has one
        return DatabasePlace(
            self._database, self._dsn, version.bandit, self._folder, self._lock_timeout
        )

    def delete(self, name: str) -> None:
        """Delete a bandit with its journal."""
        with self._database.transaction(LOCK):
            rows = self._database.query(
                "SELECT bandit FROM bandits WHERE name = ? FOR UPDATE", (name,)
            )
            for (bandit,) in rows:
                delete_catalogue(self._database, bandit)
            self._database.execute("DELETE FROM bandits WHERE name = ?", (name,))
        self._known.pop(name, None)
        PostgresJournal(self._dsn, name).delete()

    def without_place(self, message: str) -> str:
        """Return a message without the address of the database."""
        return without_places(message)

    def look(self) -> dict[str, Version]:
        """See what other processes have changed; return the version of each bandit."""
        rows = self._database.query(f"SELECT name, {_VERSION}")
        self._known = {name: Version(*version) for name, *version in rows}
        return self._known

    def close(self) -> None:
        """Close the connections."""
        self._database.close()
