"""Read and write files safely.

Writing is atomic: a reader sees the old content or the new content, never a part of it. Reading looks at the kind and
the size of a file first, so that a pipe cannot block it and a huge file cannot fill the memory.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from rolin.errors import DataError, RolinError, StateFileError

__all__ = [
    "check_output",
    "check_target",
    "is_figure",
    "is_report",
    "open_file",
    "read_limited",
    "replace_file",
    "sync_folder",
    "sync_folders",
    "write_bytes",
    "write_figure",
]

_MOST = 64 << 20  # bytes of a report or a figure


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


def check_output(
    path: str | PathLike[str],
    is_ours: Callable[[Path], bool],
    kind: str,
    inputs: Iterable[str | PathLike[str]] = (),
) -> None:
    """Reject a file to write a result to, before anything is computed.

    The result may replace an earlier one. It never replaces the input, by whatever name, nor any other file.

    Parameters
    ----------
    path
        The file to write.
    is_ours
        Says whether an existing file is such a result. It may raise errors of rolin if the file is not.
    kind
        What messages call such a result.
    inputs
        Files that the result is computed from, or other results.
    """
    target = Path(os.path.realpath(path))
    for given in inputs:
        known = Path(os.path.realpath(given))
        beside = (f"{known}{ending}" for ending in ("-wal", "-shm", "-journal"))  # of a journal
        if target == known or str(target) in beside or _same(target, known):
            raise DataError(
                f"{path} cannot be written: it is {given}, which is read, or belongs to it; name another file"
            )
    if target.is_dir():
        raise DataError(f"{path} cannot be written: it is a folder, expected a file")
    if not target.parent.is_dir():
        raise DataError(f"{path} cannot be written: there is no folder {target.parent}")
    if not target.is_file() or not target.stat().st_size:
        return  # nothing is lost; a device, such as /dev/stdout, is written to
    try:
        ours = is_ours(target)
    except (RolinError, OSError, ValueError):
        ours = False
    if not ours:
        raise DataError(
            f"{path} cannot be written: it exists and is not {kind}; name another file, or remove it first"
        )


def _same(a: Path, b: Path) -> bool:
    try:
        return a.samefile(b)
    except OSError:
        return False


def is_report(*keys: str) -> Callable[[Path], bool]:
    """Return a function that says whether a file is JSON with these keys, or a list of such."""

    def check(path: Path) -> bool:
        try:
            found = json.loads(read_limited(path, _MOST))
        except RecursionError:
            return False
        items = found if isinstance(found, list) else [found]
        return all(isinstance(item, dict) and item.keys() >= set(keys) for item in items)

    return check


def is_figure(path: Path) -> bool:
    """Return whether a file is a figure that Matplotlib drew: PNG, PDF, SVG or PostScript."""
    content = read_limited(path, _MOST)
    magic = (b"\x89PNG\r\n", b"%PDF-", b"<?xml", b"%!PS")
    return content.startswith(magic) and b"atplotlib" in content


def write_figure(path: str | PathLike[str], figure: Any, **options: Any) -> None:
    """Write a figure of Matplotlib to a file, atomically."""
    with replace_file(path) as temporary:
        figure.savefig(temporary, **options)


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
    sync_folder(target.parent)


def sync_folder(path: Path) -> None:
    """Have the names in a folder reach the disk, after a file was created or renamed."""
    if os.name == "posix":
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def sync_folders(path: Path) -> None:
    """Do the same for a folder and all folders in it."""
    for each in [path, *(found for found in path.rglob("*") if found.is_dir())]:
        sync_folder(each)


def write_bytes(path: str | PathLike[str], data: bytes) -> None:
    """Write a file atomically and durably; write to a device, such as /dev/stdout, as it is."""
    if Path(path).is_char_device():
        Path(path).write_bytes(data)
        return
    with replace_file(path) as temporary:
        temporary.write_bytes(data)
