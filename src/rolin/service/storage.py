"""Where the bandits of a service are: a folder, or a database that several processes share."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from rolin._support.files import sync_folder, write_bytes
from rolin.journal import Journal, SQLiteJournal
from rolin.service import schema
from rolin.service.catalogue_place import CataloguePlace, FolderPlace
from rolin.service.data_folder import lock_folder
from rolin.service.errors import Refusal
from rolin.service.settings import Settings

__all__ = ["Document", "FolderStorage", "Storage", "Stored", "Version", "open_storage"]

Document = Literal["config", "arms"]
"""What is stored of a bandit beside its journal: what it is made of, and the arms that requests need not repeat."""
_NAME = re.compile(schema.NAME_PATTERN)


class Version(NamedTuple):
    """Tells whether another process has changed the documents of a bandit, or replaced the bandit."""

    bandit: int
    changes: int
    catalogue: int
    """Number of its catalogue; 0 if there is none."""


class Stored(NamedTuple):
    """The documents of a bandit, as JSON."""

    config: bytes
    arms: bytes | None
    """`None` if no arms are registered."""
    version: Version | None = None
    """`None` if no other process can change them."""


class Storage(ABC):
    """Bandits by name: their documents and their journals."""

    is_shared: bool
    """Whether other processes may change it."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all bandits; if it is shared, as of the last `look`."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether there is a bandit with this name."""

    @abstractmethod
    def create(self, name: str, config: bytes, begin: Callable[[Journal], None]) -> None:
        """Create a bandit, completely or not at all.

        Parameters
        ----------
        name
            Its name; refused if there is one.
        config
            What it is made of, as JSON.
        begin
            Begins its journal.
        """

    @abstractmethod
    def read(self, name: str) -> Stored:
        """Return the documents of a bandit."""

    @abstractmethod
    def change(
        self, name: str, document: Document, change: Callable[[bytes | None], bytes]
    ) -> bytes:
        """Change a document of a bandit, while nobody else does, and return it.

        Parameters
        ----------
        name
            Name of the bandit.
        document
            Which document.
        change
            Returns the new document, given the present one.
        """

    @abstractmethod
    def journal(self, name: str, lock_timeout: float) -> Journal:
        """Open the journal of a bandit."""

    @abstractmethod
    def catalogue(self, name: str, version: Version | None) -> CataloguePlace:
        """Return where the catalogue of a bandit is, which need not have one.

        Parameters
        ----------
        name
            Name of the bandit.
        version
            Version of its documents, which tells it from a later one with the same name.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a bandit with its journal."""

    @abstractmethod
    def without_place(self, message: str) -> str:
        """Return a message of a journal without the place of the storage, which callers must not see."""

    def look(self) -> dict[str, Version]:
        """See what other processes have changed; return the version of each bandit."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Release connections and locks."""


class FolderStorage(Storage):
    """One folder per bandit.

    Parameters
    ----------
    folder
        The data folder; it is created if it does not exist.
    compress
        Whether to compress the features in new decisions.
    """

    is_shared = False

    def __init__(self, folder: Path, *, compress: bool = False) -> None:
        self._compress = compress
        self._folder = folder / "bandits"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = lock_folder(folder)
        for left in (*self._folder.glob(".new-*"), *self._folder.glob(".deleted-*")):
            shutil.rmtree(left)  # of a process that was killed

    def names(self) -> list[str]:
        """Return the names of all bandits."""
        return sorted(
            path.name for path in self._folder.iterdir() if _NAME.match(path.name) and path.is_dir()
        )

    def exists(self, name: str) -> bool:
        """Return whether there is a bandit with this name."""
        return bool(_NAME.match(name)) and (self._folder / name).is_dir()

    def create(self, name: str, config: bytes, begin: Callable[[Journal], None]) -> None:
        """Create a bandit, completely or not at all."""
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".new-") as made:
            whole = Path(made) / "bandit"
            whole.mkdir()
            write_bytes(whole / "config.json", config)
            with SQLiteJournal(whole / "journal.db") as journal:
                begin(journal)
            os.rename(whole, self._folder / name)
            sync_folder(self._folder)  # or a power failure could take the bandit away

    def read(self, name: str) -> Stored:
        """Return the documents of a bandit."""
        folder = self._folder / name
        arms = self._read(name, "arms") if (folder / "arms.json").exists() else None
        return Stored(self._read(name, "config"), arms)

    def _read(self, name: str, document: Document) -> bytes:
        path = self._folder / name / f"{document}.json"
        try:
            return path.read_bytes()
        except OSError as error:
            reason = error.strerror  # without the path
            raise Refusal(
                503, f"bandit {name!r} cannot be opened: {path.name}: {reason}"
            ) from error

    def change(
        self, name: str, document: Document, change: Callable[[bytes | None], bytes]
    ) -> bytes:
        """Change a document of a bandit; the caller changes one at a time."""
        path = self._folder / name / f"{document}.json"
        content = change(path.read_bytes() if path.exists() else None)
        write_bytes(path, content)
        return content

    def journal(self, name: str, lock_timeout: float) -> Journal:
        """Open the journal of a bandit."""
        path = self._folder / name / "journal.db"
        if not path.exists():  # opening it would create an empty one
            raise Refusal(503, f"bandit {name!r} cannot be opened: there is no journal.db")
        return SQLiteJournal(path, lock_timeout=lock_timeout, compress=self._compress)

    def catalogue(self, name: str, version: Version | None) -> FolderPlace:
        """Return where the catalogue of a bandit is."""
        return FolderPlace(self._folder / name)

    def delete(self, name: str) -> None:
        """Delete a bandit with its journal."""
        # Renamed first, so that a half-deleted bandit is never opened.
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".deleted-") as gone:
            os.rename(self._folder / name, Path(gone) / name)
            sync_folder(self._folder)
            shutil.rmtree(Path(gone) / name)

    def close(self) -> None:
        """Let others use the folder alone."""
        self._lock.close()

    def without_place(self, message: str) -> str:
        """Return a message without the path of the data folder."""
        return re.sub(
            rf"{re.escape(str(self._folder))}{re.escape(os.sep)}[^/\\]*[/\\]", "", message
        )


def open_storage(settings: Settings, lock_timeout: float) -> Storage:
    """Return where the bandits of a service are: in its database, or in its folder.

    Parameters
    ----------
    settings
        The settings of the service.
    lock_timeout
        Seconds to wait for another process, and for a server that restarts.
    """
    if settings.database is None:
        return FolderStorage(settings.data, compress=settings.compress)
    from rolin.service.database import database_of
    from rolin.service.database_storage import DatabaseStorage

    dsn = database_of(settings)
    return DatabaseStorage(dsn, lock_timeout, settings.data, compress=settings.compress)
