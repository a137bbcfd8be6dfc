"""What a backup holds: a folder with the files of a data folder, and a manifest with their checksums."""

from __future__ import annotations

import os
import re
from os import PathLike
from pathlib import Path

import msgspec

import rolin
from rolin._support.files import read_limited
from rolin.errors import DataError
from rolin.service.schema import NAME_PATTERN

__all__ = [
    "FORMAT",
    "JOURNAL",
    "MANIFEST",
    "Manifest",
    "StoredBandit",
    "StoredFile",
    "read_manifest",
]

FORMAT = 1
"""Version of the manifest. Raise it when earlier versions of rolin can no longer restore a backup."""
MANIFEST = "manifest.json"
"""Its name."""
JOURNAL = "journal.db"
"""The journal in the folder of a bandit."""
_MAX = 64 << 20  # bytes of a manifest


class StoredFile(msgspec.Struct, frozen=True):
    """A file of a backup."""

    size: int
    sha256: str


class StoredBandit(msgspec.Struct, frozen=True):
    """A bandit of a backup."""

    events: int
    """Number of events in its journal."""


class Manifest(msgspec.Struct, frozen=True):
    """What a backup holds."""

    format: int
    rolin: str
    """Version of rolin that made it."""
    created: str
    """When it was begun: everything that was acknowledged before is in it. Date and time in UTC, ISO 8601."""
    bandits: dict[str, StoredBandit]
    files: dict[str, StoredFile]
    broken: dict[str, str] = {}
    """Bandits that could not be copied and are not in the backup, with the reason."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())


def read_manifest(source: str | PathLike[str]) -> Manifest:
    """Return what a backup holds, if the manifest is complete and fits the folder.

    Parameters
    ----------
    source
        The backup.
    """
    if not os.path.isdir(source):
        raise DataError(f"{source} is not a backup: there is no such folder")
    path = Path(source) / MANIFEST
    try:
        content = read_limited(path, _MAX, DataError)
    except FileNotFoundError:
        raise DataError(f"{source} is not a backup: it has no {MANIFEST}") from None
    try:
        format, by = (msgspec.json.decode(content).get(key) for key in ("format", "rolin"))
        if type(format) is not int or format < 1:
            raise DataError(
                f"{path} is damaged: format is {format!r}, expected a whole number of at least 1"
            )
        if format > FORMAT:
            raise DataError(_too_new(source, format, by))
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, AttributeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    _check_names(path, manifest)
    _check_bandits(path, manifest)
    return manifest


def _too_new(source: str | PathLike[str], format: int, by: object) -> str:
    where = f"rolin {by} or later"
    if by == rolin.__version__:
        where = f"the build of rolin {by} that made it, or a later version"
    return (
        f"{source} was made by rolin {by} and has format {format}, but this rolin {rolin.__version__} reads formats up "
        f"to {FORMAT}: restore it with {where}"
    )


def _check_names(path: Path, manifest: Manifest) -> None:
    """Reject names that are no names of visible files inside a folder."""
    for name in manifest.files:
        parts = name.split("/")
        if "\\" in name or "\0" in name or any(part[:1] in ("", ".") for part in parts):
            raise DataError(f"{path} is damaged: {name!r} is not the name of a file in the backup")
        for n in range(1, len(parts)):
            if (parent := "/".join(parts[:n])) in manifest.files:
                raise DataError(f"{path} is damaged: {name!r} is below {parent!r}, which is a file")


def _check_bandits(path: Path, manifest: Manifest) -> None:
    """Reject a manifest that does not list exactly the bandits in the folder, each with its journal."""
    listed = manifest.bandits.keys()
    for name in listed:
        if not re.match(NAME_PATTERN, name):
            raise DataError(f"{path} is damaged: {name!r} is not the name of a bandit")
        if (journal := f"bandits/{name}/{JOURNAL}") not in manifest.files:
            raise DataError(
                f"{path} is damaged: {journal} of a listed bandit is not among its files"
            )
    found = {name.split("/")[1] for name in manifest.files if name.startswith("bandits/")}
    found |= {folder.parent.name for folder in path.parent.glob(f"bandits/*/{JOURNAL}")}
    if unlisted := sorted(found - listed):
        raise DataError(f"{path} is damaged: it does not list the bandit {unlisted[0]!r}")
