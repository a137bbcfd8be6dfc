"""Read and write files safely.

Writing is atomic: a reader sees the old content or the new content, never a part of it. Reading looks at the kind and
the size of a file first, so that a pipe cannot block it and a huge file cannot fill the memory.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from rolin.errors import RolinError, StateFileError

__all__ = ["check_target", "open_file", "read_limited", "replace_file", "write_bytes"]


@contextmanager
def open_file(
    path: str | PathLike[str], error: type[RolinError] = StateFileError
) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file for reading; give the file and its size in bytes.

    Folders, pipes and devices raise `error` at once: to open a pipe would wait for a writer.
    """
    try:
        # O_NONBLOCK: a pipe is opened, and rejected below, although nobody writes to it. Windows has neither.
        found = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as why:
        is_file = os.path.isfile(path)
        raise error(
            f"{path} cannot be read: {why}" if is_file else f"{path} is not a file"
        ) from why
    known = os.fstat(found)
    if not stat.S_ISREG(known.st_mode):
        os.close(found)
        raise error(f"{path} is not a file")
    with os.fdopen(found, "rb") as file:
        yield file, known.st_size


def read_limited(
    path: str | PathLike[str], most: int, error: type[RolinError] = StateFileError
) -> bytes:
    """Return the content of a regular file; raise `error` at once if it has more than `most` bytes."""
    with open_file(path, error) as (file, size):
        if size > most:
            raise error(
                f"{path} has {size} bytes, expected at most {most}: it is another kind of file"
            )
        return file.read(size)


def check_target(path: str | PathLike[str]) -> Path:
    """Return the file that a path leads to, links resolved; raise if no file can be written there."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {target.parent}")
    if target.exists() and not target.is_file():
        raise StateFileError(f"{path} cannot be written: it exists and is not a file")
    return target


@contextmanager
def replace_file(path: str | PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; at the end of the block, that file replaces `path`.

    The replacement is atomic and durable. If the block raises, `path` does not change and the temporary file is
    removed. The temporary file is hidden, is in the same folder, and has the same ending, which some writers need.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.txt")
    ...     with replace_file(path) as temporary:
    ...         _ = temporary.write_text("all of it")
    ...     path.read_text(), len(list(Path(folder).iterdir()))
    ('all of it', 1)
    """
    target = check_target(path)
    temporary = target.with_name(f".{secrets.token_hex(8)}.part{target.suffix}")
    try:
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    finally:
        with suppress(OSError):  # a folder that cannot be written to holds no temporary file
            temporary.unlink(missing_ok=True)
    if os.name == "posix":  # the new directory entry must reach the disk too
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_bytes(path: str | PathLike[str], data: bytes) -> None:
    """Write a file atomically and durably."""
    with replace_file(path) as temporary:
        temporary.write_bytes(data)
