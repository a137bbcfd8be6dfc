"""The data folder of a service: which version wrote it, and whether this version can read it."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path

import rolin
from rolin._support.files import read_limited, write_bytes
from rolin.errors import DataError

__all__ = ["FORMAT", "UNFINISHED", "check_folder", "mark_folder"]

FORMAT = 1
"""Version of the files of a data folder, other than journals, which have their own. Raise it when earlier versions of
rolin can no longer read them."""
UNFINISHED = ".restore-"
"""Begin of the name of a folder that exists in a data folder while it is restored."""
_NAME = "version.json"
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


def mark_folder(folder: str | PathLike[str]) -> None:
    """Check a data folder, and note that this version of rolin writes it.

    Parameters
    ----------
    folder
        The data folder; it is created if it does not exist.
    """
    Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    check_folder(folder)
    path = Path(folder) / _NAME
    if not path.exists() or _read(path) != (FORMAT, rolin.__version__):
        content = json.dumps({"format": FORMAT, "rolin": rolin.__version__})
        write_bytes(path, f"{content}\n".encode())


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
