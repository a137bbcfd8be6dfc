"""The catalogue of a bandit in a PostgreSQL database: compressed parts of the file, under a number of their own.

All parts are written in one transaction, at whose end the row in `catalogues` names the new number. So a process that is
killed leaves the old catalogue, and whoever reads gets one of the two.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rolin._support.optional import needs
from rolin.service.catalogue import StoredCatalogue
from rolin.service.catalogue_place import CataloguePlace, NumberedCatalogue
from rolin.service.database import open_database
from rolin.service.errors import Refusal

if TYPE_CHECKING:
    from rolin.journal.postgres_database import PostgresDatabase

__all__ = ["DatabasePlace", "add_catalogue", "delete_catalogue"]

_PART = 1 << 20  # bytes of a part before it is compressed
_TOGETHER = 4  # parts that are read by one query, so that others do not wait for long
_LEVEL = 1  # of Zstandard; 3 takes longer, and numbers hardly get smaller


class DatabasePlace(CataloguePlace):
    """The catalogue of one bandit in a database, which several processes share.

    Parameters
    ----------
    database
        The database.
    dsn
        Where it is: a catalogue that arrives is written by a connection of its own.
    bandit
        The number of the bandit.
    folder
        Where a process keeps its copy, in a file without a name.
    lock_timeout
        Seconds to wait for another process, and for a server that restarts.
    """

    def __init__(
        self,
        database: PostgresDatabase,
        dsn: str,
        bandit: int,
        folder: Path,
        lock_timeout: float,
    ) -> None:
        self._database, self._dsn, self._bandit = database, dsn, bandit
        self._folder, self._lock_timeout = folder, lock_timeout
        # Until the commit, nobody can delete the bandit, or replace or delete its catalogue.
        self._lock = f"SELECT 1 FROM bandits WHERE bandit = {bandit:d} FOR NO KEY UPDATE"

    def arriving(self) -> AbstractContextManager[BinaryIO]:
        """Open a new file without a name, which disappears with the process, too."""
        return tempfile.TemporaryFile(dir=self._folder)

    def put(self, file: BinaryIO, found: StoredCatalogue) -> int:
        """Let a catalogue replace the present one, in one transaction; return its number."""
        with (
            closing(open_database(self._dsn, self._lock_timeout)) as database,
            database.transaction("SELECT 1"),
        ):
            number = _write_parts(database, file)
            if not database.query(self._lock):
                raise Refusal(404, "the bandit was deleted meanwhile")
            delete_catalogue(database, self._bandit)
            _name_number(database, self._bandit, number, found)
        return number

    def number(self) -> int:
        """Return the number of the present catalogue."""
        found = self._present()
        return 0 if found is None else found[0]

    def _present(self) -> tuple[int, int, str] | None:
        """Return number, size and SHA-256 of the present catalogue."""
        rows = self._database.query(
            "SELECT number, size, sha256 FROM catalogues WHERE bandit = ?", (self._bandit,)
        )
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else None

    def read(self) -> NumberedCatalogue:
        """Return the present catalogue, copied to a file of this process."""
        with tempfile.TemporaryFile(dir=self._folder) as file:
            return self.copy_to(file)

    def copy_to(self, file: BinaryIO) -> NumberedCatalogue:
        """Copy the present catalogue to a new file, and return it.

        Parameters
        ----------
        file
            The file. It is empty if there is no catalogue.
        """
        while (present := self._present()) is not None:
            number, size, sha256 = present
            file.seek(0)
            file.truncate()
            stored = self._copied(number, file)
            if stored is not None and (stored.info.size, stored.info.sha256) == (size, sha256):
                return NumberedCatalogue(number, stored)
            if self.number() == number:  # otherwise another process has replaced it meanwhile
                raise Refusal(
                    503,
                    "the catalogue in the database is damaged: delete the rows with this number in rolin.catalogues and "
                    f"rolin.catalogue_parts, {number}, and upload it again",
                )
        return NumberedCatalogue(0, None)

    def _copied(self, number: int, file: BinaryIO) -> StoredCatalogue | None:
        """Return a catalogue that is copied to a file; `None` if parts of it are missing or damaged."""
        try:
            for part in self._parts(number):
                file.write(part)
            file.flush()
            return StoredCatalogue(file)
        except Refusal:
            return None

    def _parts(self, number: int) -> Iterator[bytes]:
        """Yield the parts of a catalogue, as long as there are any."""
        with needs("service"):
            import zstandard
        expand, first = zstandard.ZstdDecompressor().decompress, 0
        query = "SELECT content FROM catalogue_parts WHERE number = ? AND part >= ? ORDER BY part LIMIT ?"
        while rows := self._database.query(query, (number, first, _TOGETHER)):
            first += len(rows)
            try:
                yield from (expand(content, max_output_size=_PART) for (content,) in rows)
            except zstandard.ZstdError as error:
                raise Refusal(503, f"it cannot be decompressed: {error}") from error

    def delete(self) -> bool:
        """Delete the present catalogue; return whether there was one."""
        with self._database.transaction(self._lock):
            return delete_catalogue(self._database, self._bandit)


def delete_catalogue(database: PostgresDatabase, bandit: int) -> bool:
    """Delete the catalogue of a bandit, in the transaction of this thread; return whether there was one."""
    database.execute(
        "DELETE FROM catalogue_parts USING catalogues c WHERE c.bandit = ? AND catalogue_parts.number = c.number",
        (bandit,),
    )
    return database.execute("DELETE FROM catalogues WHERE bandit = ?", (bandit,)) > 0


def add_catalogue(
    database: PostgresDatabase, bandit: int, file: BinaryIO, found: StoredCatalogue
) -> None:
    """Write the catalogue of a bandit that has none, in the transaction of this thread.

    Parameters
    ----------
    database
        The database.
    bandit
        The number of the bandit.
    file
        The file of the catalogue.
    found
        What is in it.
    """
    _name_number(database, bandit, _write_parts(database, file), found)


def _write_parts(database: PostgresDatabase, file: BinaryIO) -> int:
    """Write the parts of a file under a new number, and return it."""
    number = int(database.query("SELECT nextval('catalogue_numbers')")[0][0])
    parts = ((number, i, part) for i, part in enumerate(_compressed(file)))
    database.copy("catalogue_parts", ("int8", "int4", "bytea"), parts)
    return number


def _name_number(
    database: PostgresDatabase, bandit: int, number: int, found: StoredCatalogue
) -> None:
    """Let the parts under a number be the catalogue of a bandit."""
    database.execute(
        "INSERT INTO catalogues (bandit, number, size, sha256) VALUES (?, ?, ?, ?)",
        (bandit, number, found.info.size, found.info.sha256),
    )


def _compressed(file: BinaryIO) -> Iterator[bytes]:
    with needs("service"):
        import zstandard
    compress = zstandard.ZstdCompressor(level=_LEVEL).compress
    file.seek(0)
    while part := file.read(_PART):
        yield compress(part)
