"""Write files atomically: a reader sees the old content or the new, never a part."""

from __future__ import annotations

import os
import secrets
import stat
from os import PathLike
from pathlib import Path

from rolin.errors import StateFileError

__all__ = ["check_target", "write_bytes"]


def check_target(path: str | PathLike[str]) -> Path:
    """Refuse a place where no file can be written."""
    target = Path(os.path.realpath(path))  # through a link, to the file it stands for
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {target.parent}")
    if target.exists() and not target.is_file():
        raise StateFileError(f"{path} cannot be written: it is there, and is not a file")
    return target


def write_bytes(path: str | PathLike[str], data: bytes) -> None:
    """Write a file, atomically and durably."""
    target = check_target(path)
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    if os.name == "posix":  # the new name itself must reach the disk too
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
