"""Restore a backup of the data folder of a service, completely or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from rolin._support.files import open_file, sync_folder, sync_folders
from rolin._support.progress import Progress, reporter
from rolin.errors import DataError
from rolin.service.backup_manifest import Manifest, StoredFile, read_manifest
from rolin.service.data_folder import UNFINISHED

__all__ = ["restore"]

_PART = 1 << 20  # bytes read at a time
_OF_A_DISK = "lost+found"  # which a new disk has


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
        If a file of the backup is missing or damaged, or if the folder is not empty or cannot be written; nothing is
        restored.
    """
    source, data = Path(source), Path(data)
    manifest = read_manifest(source)
    _check_place(source, data)
    with _explained(data):
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Inside the folder, because the folder may be a disk of its own.
        made = data / f"{UNFINISHED}{secrets.token_hex(4)}"
        made.mkdir(mode=0o700)
    with _explained(data), _emptied_on_failure(data):
        with reporter(progress, "restore", manifest.size, in_bytes=True) as advance:
            for name, known in manifest.files.items():
                (made / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                _copy_checked(source / name, made / name, known, advance)
        (made / "bandits").mkdir(exist_ok=True, mode=0o700)
        sync_folders(made)
        for path in list(made.iterdir()):
            os.rename(path, data / path.name)
        sync_folder(data)
        made.rmdir()  # until now, a service refuses the folder
        sync_folder(data)
    return manifest


def _check_place(source: Path, data: Path) -> None:
    """Reject a data folder that holds something, or that cannot be made."""
    if data.is_symlink() and not data.exists():
        raise DataError(f"{data} is a link to {data.readlink()}, which does not exist")
    if data.exists() and not data.is_dir():
        raise DataError(f"{data} is not a folder")
    backup, place = source.resolve(), data.resolve()
    if place != backup and backup in place.parents:
        raise DataError(f"{data} is inside the backup {source}, expected another place")
    if data.is_dir() and (found := [p.name for p in data.iterdir() if p.name != _OF_A_DISK]):
        raise DataError(
            f"{data} is not empty: it holds {', '.join(sorted(found)[:3])}; restore to another folder, or move this one away"
        )


@contextmanager
def _explained(data: Path) -> Iterator[None]:
    """Say what could not be done, and that nothing was restored."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename or data} cannot be used: {error.strerror}; nothing was restored"
        ) from error


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
    except OSError as error:  # such as a full disk, which names no file
        raise DataError(
            f"{source} cannot be copied to {target}: {error.strerror}; nothing was restored"
        ) from error
    except DataError as error:  # no regular file
        raise DataError(f"the backup is damaged: {error}; nothing was restored") from error
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
