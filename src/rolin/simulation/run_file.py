"""Finished runs of a simulation in one file, written as they finish.

A line of JSON says what was played, and one more line per run how it went. A run is there whole or
not at all: a line that was cut short is dropped when the file is read, so a simulation that was
stopped at any instant goes on from its last finished run. Numbers are written so that they are read
back exactly.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rolin.errors import DataError, ParameterError

__all__ = ["RunFile", "difference", "read_runs"]

Floats = NDArray[np.float64]
Regrets = dict[str, Floats]
"""Regret of every policy at the checkpoints of one run."""

FORMAT = "rolin-runs"
VERSION = 1
"""Of the file, and of how a seed becomes a run: runs of another version are not added to."""
_START = f'{{"format": "{FORMAT}", "version": '.encode()


class RunFile:
    """A file to add runs to.

    Parameters
    ----------
    path
        The file; made if it is not there.
    settings
        What is played. If the file holds runs of anything else, it is refused and not touched.
    """

    def __init__(self, path: str | PathLike[str], settings: Mapping[str, Any]) -> None:
        self.runs: dict[int, Regrets] = {}
        """The runs that were in the file."""
        target = self._path = Path(path)
        try:
            # Unlike "a", writes go where they are told; unlike "w", nothing is lost on opening.
            self._file: IO[bytes] = os.fdopen(os.open(target, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        except OSError as error:
            raise ParameterError(f"{path} cannot be written: {error.strerror}") from error
        try:
            _lock(self._file, target)
            found, self.runs, end = _parsed(target, self._file.read())
            if found is not None and (text := difference(found, settings)):
                raise ParameterError(
                    f"{path} holds runs of other settings: {text}. Nothing was changed; take the old "
                    "settings or another place"
                )
        except BaseException:
            self._file.close()
            raise
        self._file.seek(end)
        self._file.truncate()
        if found is None:
            self._write({"format": FORMAT, "version": VERSION, "settings": dict(settings)})

    def add(self, run: int, regrets: Regrets) -> None:
        """Write a finished run."""
        self._write({"run": run, "regret": {name: r.tolist() for name, r in regrets.items()}})

    def _write(self, line: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Make sure that all is on the disk."""
        try:
            with self._file:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> ParameterError:
        return ParameterError(f"{self._path} cannot be written: {error.strerror}")


def read_runs(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[int, Regrets]]:
    """Return what was played, and the finished runs by number."""
    target = Path(path)
    if not target.is_file():
        raise DataError(f"there is no file {path}")
    settings, runs, _ = _parsed(target, target.read_bytes())
    if settings is None:
        raise DataError(f"{path} is empty, or was cut short in its first line")
    return settings, runs


def _parsed(path: Path, content: bytes) -> tuple[dict[str, Any] | None, dict[int, Regrets], int]:
    """Return settings, runs, and where the last whole line ends; no settings if nothing is whole."""
    end = content.rfind(b"\n") + 1
    if not end and (content.startswith(_START) or _START.startswith(content)):
        return None, {}, 0
    lines = content[:end].splitlines() or [content]
    number = 1  # of the line that is being read
    try:
        header = json.loads(lines[0])
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise ValueError("another format or version")
        settings = header["settings"]
        names, size = settings["policies"], len(settings["checkpoints"])
        if type(settings["rounds"]) is not int or not isinstance(settings["environment"], str):
            raise ValueError("the settings are not those of a simulation")
        runs: dict[int, Regrets] = {}
        for line in lines[1:]:
            number += 1
            record = json.loads(line)
            run = record["run"]
            if type(run) is not int or run < 0 or run in runs:
                raise ValueError(f"run {run!r}, expected a whole number that was not there yet")
            regrets = {name: np.array(record["regret"][name]) for name in names}
            for r in regrets.values():
                if r.shape != (size,) or r.dtype.kind not in "if" or not np.isfinite(r).all():
                    raise ValueError(f"expected {size} finite numbers per policy")
            runs[run] = {name: r.astype(np.float64) for name, r in regrets.items()}
    except (
        IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError
    ) as error:  # fmt: skip
        raise DataError(f"{path}, line {number}, is not a run of a simulation: {error}") from error
    return header["settings"], runs, end


def difference(found: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Return the first thing in which two sets of settings differ, or nothing."""
    asked = json.loads(json.dumps(dict(asked)))  # tuples are lists in the file
    for name in {**found, **asked}:
        if found.get(name) != asked.get(name):
            was, now = (json.dumps(s.get(name), ensure_ascii=False)[:200] for s in (found, asked))
            return f"{name} was {was} and is now {now}"
    return ""


def _lock(file: IO[bytes], path: Path) -> None:
    """Keep other processes from writing to the same file, where the system can."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ParameterError(f"{path} is being written to by another process") from None
