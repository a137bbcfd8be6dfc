"""Where the catalogue of a bandit is stored: in the folder of the bandit, or in a database."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from rolin._support.files import sync_folder
from rolin.service.catalogue import StoredCatalogue
from rolin.service.errors import Refusal

__all__ = ["CATALOGUE", "CataloguePlace", "FolderPlace", "NumberedCatalogue"]

CATALOGUE = "catalogue.ndjson"
"""Name of the file, in the folder of a bandit."""

_UNFINISHED = ".catalogue-"  # begin of the name of a folder that exists while a catalogue arrives


class NumberedCatalogue(NamedTuple):
    """A catalogue, and by which number its place knows it."""

    number: int
    """0 if there is none. Another catalogue of the same bandit has another one, if several processes share the place."""
    stored: StoredCatalogue | None


class CataloguePlace(ABC):
    """Where the catalogue of one bandit is."""

    @abstractmethod
    def arriving(self) -> AbstractContextManager[BinaryIO]:
        """Open a new file for a catalogue that arrives. At the end it is deleted, unless it was put into its place."""

    @abstractmethod
    def put(self, file: BinaryIO, found: StoredCatalogue) -> int:
        """Let a catalogue replace the present one, so that a crash leaves one of the two; return its number.

        Parameters
        ----------
        file
            A file that has arrived completely.
        found
            What is in it.
        """

    @abstractmethod
    def number(self) -> int:
        """Return the number of the present catalogue."""

    @abstractmethod
    def read(self) -> NumberedCatalogue:
        """Return the present catalogue; refuse a damaged one."""

    @abstractmethod
    def delete(self) -> bool:
        """Delete the present catalogue; return whether there was one."""


class FolderPlace(CataloguePlace):
    """The folder of a bandit, which one process uses.

    Parameters
    ----------
    folder
        The folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / CATALOGUE
        # Not later, because others may be arriving then.
        for left in folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left)  # of a process that was killed

    @contextmanager
    def arriving(self) -> Iterator[BinaryIO]:
        """Open a new file for a catalogue that arrives."""
        with (
            tempfile.TemporaryDirectory(dir=self._path.parent, prefix=_UNFINISHED) as folder,
            (Path(folder) / self._path.name).open("w+b") as file,
        ):
            yield file

    def put(self, file: BinaryIO, found: StoredCatalogue) -> int:
        """Let a catalogue replace the present one, so that a power failure leaves one of the two."""
        file.flush()
        os.fsync(file.fileno())
        try:
            os.replace(file.name, self._path)
        except FileNotFoundError as error:
            raise Refusal(404, "the bandit was deleted meanwhile") from error
        sync_folder(self._path.parent)
        return self.number()

    def number(self) -> int:
        """Return 1 if there is a catalogue: nobody else changes it."""
        return int(self._path.exists())

    def read(self) -> NumberedCatalogue:
        """Return the present catalogue."""
        path = self._path
        if not path.exists():
            return NumberedCatalogue(0, None)
        try:
            with path.open("rb") as file:
                return NumberedCatalogue(1, StoredCatalogue(file))
        except (OSError, Refusal) as error:
            reason = error.strerror if isinstance(error, OSError) else error  # without the path
            raise Refusal(
                503, f"bandit {path.parent.name!r} cannot be opened: {path.name}: {reason}"
            ) from error

    def delete(self) -> bool:
        """Delete the present catalogue; return whether there was one."""
        existed = self._path.exists()
        self._path.unlink(missing_ok=True)
        return existed
