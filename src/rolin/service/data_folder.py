"""The data folder of a service: which version wrote it, whether this version can read it, and who uses it."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import rolin
from rolin._support.files import read_limited, write_bytes
from rolin.errors import DataError

__all__ = [
    "FORMAT",
    "UNFINISHED",
    "check_folder",
    "check_not_moved",
    "lock_folder",
    "make_folder",
    "mark_folder",
    "mark_moved",
]

FORMAT = 1
"""Version of the files of a data folder, other than journals, which have their own. Raise it when earlier versions of
rolin can no longer read them."""
UNFINISHED = ".restore-"
"""Begin of the name of a folder that exists in a data folder while it is restored."""
_NAME = "version.json"
_MOVED = "moved.json"
_MAX = 1 << 16  # bytes


def check_folder(folder: str | PathLike[str]) -> None:
    """Reject a data folder that a later version of rolin has written, or that was not restored completely.

    Parameters
    ----------
    folder
        The data folder. One that has no file `version.json` was written before there was such a file.
    """
    folder = Path(folder)
    if next(folder.glob(f"{UNFINISHED}*"), None) is not None:
        raise DataError(
            f"{folder} is incomplete, because a restore was interrupted: remove all of it, and restore again"
        )
    try:
        format, by = _read(folder / _NAME)
    except FileNotFoundError:
        return
    if format > FORMAT:
        raise DataError(
            f"{folder} was written by rolin {by} and has format {format}, but this is rolin {rolin.__version__}, which "
            f"reads formats up to {FORMAT}: use rolin {by} or later"
        )


def make_folder(folder: str | PathLike[str]) -> None:
    """Create a data folder unless it exists; reject a file in its place.

    Parameters
    ----------
    folder
        The data folder.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    except (FileExistsError, NotADirectoryError):
        raise DataError(
            f"the data folder {folder} cannot be created, because there is a file in its place, expected a folder: "
            "give another one by --data"
        ) from None


def mark_folder(folder: str | PathLike[str]) -> None:
    """Check a data folder, and note that this version of rolin writes it.

    Parameters
    ----------
    folder
        The data folder; it is created if it does not exist.
    """
    make_folder(folder)
    check_folder(folder)
    path = Path(folder) / _NAME
    if not path.exists() or _read(path) != (FORMAT, rolin.__version__):
        content = json.dumps({"format": FORMAT, "rolin": rolin.__version__})
        write_bytes(path, f"{content}\n".encode())


def check_not_moved(folder: str | PathLike[str]) -> None:
    """Reject a data folder whose bandits are in a database now.

    Parameters
    ----------
    folder
        The data folder.
    """
    path = Path(folder) / _MOVED
    if path.exists():
        found = json.loads(read_limited(path, _MAX, DataError))
        raise DataError(
            f"the bandits of {folder} were moved to {found['to']} at {found['time']}: start the service with --database, "
            f"and back it up with pg_dump. To use the bandits as they were then, remove {path}"
        )


def mark_moved(folder: str | PathLike[str], where: str) -> None:
    """Note that the bandits of a data folder are in a database now.

    Parameters
    ----------
    folder
        The data folder.
    where
        Name of the database.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write_bytes(Path(folder) / _MOVED, json.dumps({"to": where, "time": now}).encode() + b"\n")


def lock_folder(folder: str | PathLike[str], *, alone: bool = False) -> BinaryIO:
    """Return an open file that marks a data folder as in use, until it is closed.

    Parameters
    ----------
    folder
        The data folder.
    alone
        Whether nobody else may use it. Several services may use one folder.
    """
    file = (Path(folder) / "service.lock").open("ab")
    try:
        with suppress(ImportError):  # Windows
            import fcntl

            fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        why = "a service is running on it: stop it first" if alone else "it is being moved: wait"
        raise DataError(f"{folder} is in use: {why}") from None
    except BaseException:
        file.close()
        raise
    return file


def _read(path: Path) -> tuple[int, str]:
    """Return the format and the version of rolin that wrote it."""
    content = read_limited(path, _MAX, DataError)
    try:
        found = json.loads(content)
        format, by = found["format"], found["rolin"]
        if type(format) is not int or not isinstance(by, str):
            raise ValueError("format is not a whole number, or rolin is not a text")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path} cannot be read: {type(error).__name__}: {error}; restore it from a backup, or remove it if no "
            f"later version than rolin {rolin.__version__} has used the folder"
        ) from error
    return format, by
