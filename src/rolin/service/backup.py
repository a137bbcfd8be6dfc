"""Back up the data folder of a service while it runs, and restore it.

A backup is a folder with the same files as the data folder, and a manifest with their checksums. Journals are copied by
SQLite, as they are at one moment; all other files are small, and the service replaces them as a whole.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

import msgspec

import rolin
from rolin._support.files import open_file, read_limited, sync_folder, write_bytes
from rolin._support.progress import Progress, reporter
from rolin.errors import DataError
from rolin.journal import SQLiteJournal
from rolin.service.data_folder import UNFINISHED, check_folder

__all__ = ["Manifest", "backup", "read_manifest", "restore"]

_MANIFEST = "manifest.json"
_JOURNAL = "journal.db"
_FORMAT = 1
_MAX_MANIFEST = 64 << 20  # bytes
_ATTEMPTS = 20  # copies of a bandit whose configuration changes meanwhile
_PART = 1 << 20  # bytes read at a time
_OF_A_DISK = "lost+found"  # which a new disk has


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

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())


def backup(
    data: str | PathLike[str], target: str | PathLike[str], *, progress: Progress = False
) -> Manifest:
    """Copy the data folder of a service, which may be running, to a new folder.

    The new folder gets its name when it is complete and on disk.

    Parameters
    ----------
    data
        The data folder.
    target
        The folder to make; it must not exist.
    progress
        `True` shows a bar; a function is called with the number of bytes copied since its last call.
    """
    source, target = Path(data), Path(target)
    if not (source / "bandits").is_dir():
        raise DataError(f"{source} is not the data folder of a service: it has no folder bandits")
    check_folder(source)
    if os.path.lexists(target):
        raise DataError(f"{target} exists already, expected the name of a new folder")
    if not target.parent.is_dir():
        raise DataError(f"{target} cannot be made: there is no folder {target.parent}")
    if source.resolve() in target.resolve().parents:
        raise DataError(f"{target} is inside the data folder {source}, expected another place")
    created = datetime.now(UTC).isoformat(timespec="milliseconds")
    made = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    made.mkdir(mode=0o700)
    try:
        with reporter(progress, "backup", _total(source), in_bytes=True) as advance:
            bandits = {}
            (made / "bandits").mkdir(mode=0o700)
            for name in sorted(each.name for each in _visible(source / "bandits") if each.is_dir()):
                found = _copy_bandit(source / "bandits" / name, made / "bandits" / name, advance)
                if found is not None:
                    bandits[name] = found
            for file in _visible(source):
                if file.is_file() and file.suffix != ".lock":
                    _copy(file, made / file.name, advance)
        files = {path.relative_to(made).as_posix(): _described(path) for path in _files(made)}
        manifest = Manifest(_FORMAT, rolin.__version__, created, bandits, files)
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        write_bytes(made / _MANIFEST, text)
        _sync_folders(made)
        os.rename(made, target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    sync_folder(target.parent)
    return manifest


def _copy_bandit(source: Path, target: Path, advance: Callable[[int], None]) -> StoredBandit | None:
    """Copy a bandit so that its configuration is that of the moment of its journal; `None` if it was deleted."""
    for _ in range(_ATTEMPTS):
        before = _identities(source)
        target.mkdir(mode=0o700)
        try:
            for file in _visible(source):
                if file.is_file() and not file.name.startswith(_JOURNAL):
                    _copy(file, target / file.name, advance)
            with SQLiteJournal(source / _JOURNAL, readonly=True, verify=False) as journal:
                events = journal.copy_to(target / _JOURNAL, progress=advance)
            shutil.copymode(source / _JOURNAL, target / _JOURNAL)
        except Exception:
            if _identities(source) == before:
                raise
        else:
            if _identities(source) == before:
                return StoredBandit(events)
        shutil.rmtree(target)
        if not source.is_dir():
            return None
    raise DataError(
        f"bandit {source.name!r} was changed {_ATTEMPTS} times while it was copied; try again later"
    )


def _identities(folder: Path) -> list[tuple[str, int, int]]:
    """Return what changes if a file of a bandit is replaced, other than by an event in its journal."""
    try:
        found = [(path, path.stat()) for path in _visible(folder)]
    except FileNotFoundError:
        return []
    return [
        (path.name, known.st_ino, 0 if path.name == _JOURNAL else known.st_mtime_ns)
        for path, known in found
        if path.name not in (f"{_JOURNAL}-wal", f"{_JOURNAL}-shm")
    ]


def restore(
    source: str | PathLike[str], data: str | PathLike[str], *, progress: Progress = False
) -> Manifest:
    """Copy a backup to an empty or a new folder, from which a service can be started.

    Parameters
    ----------
    source
        The backup.
    data
        The data folder to make. It may exist if it is empty.
    progress
        `True` shows a bar; a function is called with the number of bytes copied since its last call.

    Raises
    ------
    DataError
        If a file of the backup is missing or damaged, or if the folder is not empty; nothing is restored.
    """
    source, data = Path(source), Path(data)
    manifest = read_manifest(source)
    if data.exists() and not data.is_dir():
        raise DataError(f"{data} is not a folder")
    if data.is_dir() and (found := [p.name for p in data.iterdir() if p.name != _OF_A_DISK]):
        raise DataError(
            f"{data} is not empty: it holds {', '.join(sorted(found)[:3])}; restore to another folder, or move this one away"
        )
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Inside the folder, because the folder may be a disk of its own.
    made = data / f"{UNFINISHED}{secrets.token_hex(4)}"
    made.mkdir(mode=0o700)
    with _emptied_on_failure(data):
        with reporter(progress, "restore", manifest.size, in_bytes=True) as advance:
            for name, known in manifest.files.items():
                (made / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                _copy_checked(source / name, made / name, known, advance)
        (made / "bandits").mkdir(exist_ok=True, mode=0o700)
        _sync_folders(made)
        for path in list(made.iterdir()):
            os.rename(path, data / path.name)
        sync_folder(data)
        made.rmdir()  # until now, a service refuses the folder
        sync_folder(data)
    return manifest


def read_manifest(source: str | PathLike[str]) -> Manifest:
    """Return what a backup holds.

    Parameters
    ----------
    source
        The backup.
    """
    path = Path(source) / _MANIFEST
    try:
        content = read_limited(path, _MAX_MANIFEST, DataError)
    except FileNotFoundError:
        raise DataError(f"{source} is not a backup: it has no {_MANIFEST}") from None
    try:
        format, by = (msgspec.json.decode(content).get(key) for key in ("format", "rolin"))
        if type(format) is not int or format > _FORMAT:
            raise DataError(
                f"{source} was made by rolin {by} and has format {format!r}, but rolin {rolin.__version__} reads formats "
                f"up to {_FORMAT}: restore it with rolin {by} or later"
            )
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, AttributeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    for name in manifest.files:
        parts = name.split("/")
        if not name or "\\" in name or any(part in ("", ".", "..") for part in parts):
            raise DataError(f"{path} is damaged: {name!r} is not the name of a file in the backup")
    return manifest


def _copy_checked(
    source: Path, target: Path, known: StoredFile, advance: Callable[[int], None]
) -> None:
    """Copy a file of a backup, if it is as the manifest says."""
    digest, size = hashlib.sha256(), 0
    try:
        with open_file(source, DataError) as (file, _), target.open("wb") as copy:
            while part := file.read(_PART):
                digest.update(part)
                copy.write(part)
                size += len(part)
                advance(len(part))
            copy.flush()
            os.fsync(copy.fileno())
    except FileNotFoundError:
        raise DataError(
            f"the backup is damaged: {source} is missing; nothing was restored"
        ) from None
    if (size, digest.hexdigest()) != (known.size, known.sha256):
        raise DataError(
            f"the backup is damaged: {source} is not as it was written, by its size or its SHA-256; nothing was restored"
        )
    shutil.copymode(source, target)


@contextmanager
def _emptied_on_failure(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for path in folder.iterdir():
            if path.is_dir() and path.name != _OF_A_DISK:
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_file():
                path.unlink()
        raise


def _visible(folder: Path) -> list[Path]:
    """Return what is in a folder, without temporary files, whose names begin with a dot."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _total(folder: Path) -> int:
    """Return the bytes of all files, about: a running service may replace some of them."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _copy(source: Path, target: Path, advance: Callable[[int], None]) -> None:
    with open_file(source, DataError) as (file, _), target.open("wb") as copy:
        while part := file.read(_PART):
            copy.write(part)
            advance(len(part))
        copy.flush()
        os.fsync(copy.fileno())
    shutil.copymode(source, target)


def _described(path: Path) -> StoredFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return StoredFile(path.stat().st_size, digest)


def _sync_folders(folder: Path) -> None:
    for path in [folder, *(each for each in folder.rglob("*") if each.is_dir())]:
        sync_folder(path)
