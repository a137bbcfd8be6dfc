"""The file in which a simulation stores each completed run.

The first line is JSON with the settings of the simulation. Each further line is JSON with one run. A
line that was cut short is dropped when the file is read, so a run is stored completely or not at all,
and a simulation can resume after an interruption at any moment. Numbers are read back exactly as they
were written.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.files import read_limited
from rolin.errors import DataError, ParameterError

__all__ = ["RunFile", "completed_runs", "difference", "read_runs"]

Floats = NDArray[np.float64]
Regrets = dict[str, Floats]
"""By the name of the policy: (C,) regret of one run at the recorded rounds."""

FORMAT = "rolin-runs"
VERSION = 1
"""Version of the file and of the way in which a seed determines a run. Versions are never mixed in a file."""
_LARGEST = 4 << 30  # bytes of a file: a million runs of 200 numbers
# O_NONBLOCK: opening a pipe must not wait for its other end.
_READ_AND_WRITE = os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
_START = f'{{"format": "{FORMAT}", "version": '.encode()


class RunFile:
    """A file of runs that is open for appending.

    Parameters
    ----------
    path
        The file; created if it does not exist.
    settings
        What is simulated. A file with runs of other settings is rejected and left unchanged.
    """

    def __init__(self, path: str | PathLike[str], settings: Mapping[str, Any]) -> None:
        self.runs: dict[int, Regrets] = {}
        """The runs that the file contained when it was opened."""
        target = self._path = Path(path)
        try:
            # Mode "a" would ignore the seek below, and mode "w" would erase the file.
            self._file: IO[bytes] = os.fdopen(os.open(target, _READ_AND_WRITE, 0o666), "r+b")
        except OSError as error:
            raise ParameterError(f"{path} cannot be written: {error.strerror}") from error
        try:
            if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                raise ParameterError(f"{path} cannot be written: it exists and is not a file")
            _lock(self._file, target)
            stored = _parse(target, read_limited(target, _LARGEST, DataError))
            self.runs = stored.runs
            if stored.settings is not None and (text := difference(stored.settings, settings)):
                raise ParameterError(
                    f"{path} contains runs of other settings: {text}. The file was not changed; use the "
                    "old settings or another file"
                )
        except BaseException:
            self._file.close()
            raise
        self._file.seek(stored.end)
        self._file.truncate()
        if stored.settings is None:
            self._write({"format": FORMAT, "version": VERSION, "settings": dict(settings)})

    def add(self, run: int, regrets: Regrets) -> None:
        """Append a completed run."""
        self._write({"run": run, "regret": {name: r.tolist() for name, r in regrets.items()}})

    def _write(self, line: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Flush everything to the disk and close the file."""
        try:
            with self._file:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> ParameterError:
        return ParameterError(f"{self._path} cannot be written: {error.strerror}")


def read_runs(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[int, Regrets]]:
    """Return the settings of a simulation, and its completed runs by number."""
    target = Path(path)
    if not target.is_file():
        raise DataError(f"there is no file {path}")
    stored = _parse(target, read_limited(target, _LARGEST, DataError))
    if stored.settings is None:
        raise DataError(f"{path} is empty, or was cut short in its first line")
    return stored.settings, stored.runs


def completed_runs(path: Path) -> set[int]:
    """Return the numbers of the runs in a file; none if the file does not exist yet."""
    return (
        set(_parse(path, read_limited(path, _LARGEST, DataError)).runs) if path.is_file() else set()
    )


class _Stored(NamedTuple):
    """The content of a file of runs."""

    settings: dict[str, Any] | None
    """What was simulated; `None` if the file has no complete line."""
    runs: dict[int, Regrets]
    end: int
    """Number of bytes up to the end of the last complete line."""


def _parse(path: Path, content: bytes) -> _Stored:
    """Return the content of a file, without a last line that was cut short."""
    end = content.rfind(b"\n") + 1
    if not end and (content.startswith(_START) or _START.startswith(content)):
        return _Stored(None, {}, 0)
    lines = content[:end].splitlines() or [content]
    number = 1  # of the line that is being read
    try:
        header = json.loads(lines[0])
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise ValueError(f"expected format {FORMAT!r}, version {VERSION}")
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
                raise ValueError(
                    f"run {run!r}, expected a non-negative integer that is not repeated"
                )
            regrets = {name: np.array(record["regret"][name]) for name in names}
            for r in regrets.values():
                if r.shape != (size,) or r.dtype.kind not in "if" or not np.isfinite(r).all():
                    raise ValueError(f"expected {size} finite numbers for each policy")
            runs[run] = {name: r.astype(np.float64) for name, r in regrets.items()}
    except (
        IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError
    ) as error:  # fmt: skip
        raise DataError(f"{path}, line {number}, is not a run of a simulation: {error}") from error
    return _Stored(settings, runs, end)


def difference(stored: Mapping[str, Any], requested: Mapping[str, Any]) -> str:
    """Describe the first setting in which two sets of settings differ; empty if they are equal."""
    requested = json.loads(json.dumps(dict(requested)))  # tuples are lists in the file
    for name in {**stored, **requested}:
        if stored.get(name) != requested.get(name):
            was, now = (
                json.dumps(settings.get(name), ensure_ascii=False)[:200]
                for settings in (stored, requested)
            )
            return f"{name} was {was} and is now {now}"
    return ""


def _lock(file: IO[bytes], path: Path) -> None:
    """Lock the file against other processes, if the system supports it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ParameterError(f"{path} is being written to by another process") from None
