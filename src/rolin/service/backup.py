"""Back up the data folder of a service while it runs.

A backup is a folder with the same files as the data folder, and a manifest with their checksums. Journals are copied by
SQLite, as they are at one moment; all other files are small, and the service replaces them as a whole.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

import msgspec

import rolin
from rolin._support.files import open_file, sync_folder, sync_folders, write_bytes
from rolin._support.progress import Progress, reporter
from rolin.errors import DataError, RolinError
from rolin.journal import SQLiteJournal
from rolin.service.backup_manifest import (
    FORMAT,
    JOURNAL,
    MANIFEST,
    Manifest,
    StoredBandit,
    StoredFile,
)
from rolin.service.data_folder import check_folder, check_not_moved
from rolin.service.schema import NAME_PATTERN

__all__ = ["backup"]

_PART = 1 << 20  # bytes read at a time
_ATTEMPTS = 20  # copies of a bandit whose configuration changes meanwhile


def backup(
    data: str | PathLike[str], target: str | PathLike[str], *, progress: Progress = False
) -> Manifest:
    """Copy the data folder of a service, which may be running, to a new folder.

    The new folder gets its name when it is complete and on disk. Bandits that cannot be copied are left out; `broken` of
    the manifest lists them.

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
    check_not_moved(source)  # or it would copy the same old bandits for ever
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
            bandits, broken = {}, {}
            (made / "bandits").mkdir(mode=0o700)
            for folder in _visible(source / "bandits"):
                name = folder.name
                if not re.match(NAME_PATTERN, name) or not folder.is_dir():
                    continue  # such as the folder lost+found of a disk
                try:
                    found = _copy_bandit(folder, made / "bandits" / name, advance)
                except (RolinError, OSError) as error:
                    if _is_full(error):
                        raise
                    broken[name] = str(error)  # the others are worth a backup
                    shutil.rmtree(made / "bandits" / name, ignore_errors=True)
                else:
                    if found is not None:
                        bandits[name] = found
            for file in _visible(source):
                if file.is_file() and file.suffix != ".lock":
                    _copy(file, made / file.name, advance)
        files = {path.relative_to(made).as_posix(): _described(path) for path in _files(made)}
        manifest = Manifest(FORMAT, rolin.__version__, created, bandits, files, broken)
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        write_bytes(made / MANIFEST, text)
        sync_folders(made)
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
                if file.is_file() and not file.name.startswith(JOURNAL):
                    _copy(file, target / file.name, advance)
            with SQLiteJournal(source / JOURNAL, readonly=True, verify=False) as journal:
                events = journal.copy_to(target / JOURNAL, progress=advance)
            shutil.copymode(source / JOURNAL, target / JOURNAL)
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


def _is_full(error: Exception) -> bool:
    """Return whether the copy could not be written, so that the others cannot be either."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)


def _identities(folder: Path) -> list[tuple[str, int, int]]:
    """Return what changes if a file of a bandit is replaced, other than by an event in its journal."""
    try:
        found = [(path, path.stat()) for path in _visible(folder)]
    except FileNotFoundError:
        return []
    return [
        (path.name, known.st_ino, 0 if path.name == JOURNAL else known.st_mtime_ns)
        for path, known in found
        if not path.name.startswith(f"{JOURNAL}-")  # its log, and what was computed from it
    ]


def _visible(folder: Path) -> list[Path]:
    """Return what is in a folder, without temporary files, whose names begin with a dot."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _total(folder: Path) -> int:
    """Return the bytes of all files, about: a running service may replace some of them."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
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
