"""How far a fold has come, in a file: what was stopped goes on from there."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from rolin._support.files import check_target
from rolin.errors import ParameterError, StateFileError
from rolin.fitting.fold import Fold
from rolin.logs.files import File
from rolin.model import state_file
from rolin.model.moments import Moments
from rolin.model.state_file import FOLDED, moments_of, state_of

__all__ = ["Kept", "OtherFold"]

# Seconds between two writes, at least; and how many times longer than a write takes.
_EVERY, _TIMES = 10.0, 20.0


class OtherFold(ParameterError):
    """What was stopped is not what is asked for now."""


class Kept:
    """The file that keeps what was folded so far.

    Parameters
    ----------
    path
        The file, which need not be there.
    fold
        What is folded, and how.
    files
        The files of the log.
    n_pieces
        How many partitions they are divided into.
    """

    def __init__(
        self, path: str | PathLike[str], fold: Fold, files: list[File], n_pieces: int
    ) -> None:
        self._path = Path(path)
        if str(path) in ("", "."):
            raise ParameterError(f"checkpoint={path!r}, expected a file")
        described = [[f.path, f.size, f.stamp, f.format, f.groups] for f in files]
        self._settings = {
            "fold": json.loads(json.dumps(asdict(fold))),
            "files": hashlib.blake2b(json.dumps(described).encode(), digest_size=16).hexdigest(),
        }
        self.done, self.moments = 0, Moments.zero(fold.n_features)
        if self._path.exists():
            state = state_file.read(path)
            if FOLDED not in state.settings:
                raise ParameterError(f"{path} is not a fold that was stopped; nothing was changed")
            if differs := _difference(state.settings, self._settings):
                raise OtherFold(
                    f"{path} is a fold that was stopped, of other {differs}: take those, another place, or remove "
                    "it; nothing was changed"
                )
            self.done, self.moments = state.settings[FOLDED], moments_of(state)
            if type(self.done) is not int or not 0 <= self.done <= n_pieces:
                raise StateFileError(
                    f"{path} is damaged: it has {self.done!r} of {n_pieces} partitions"
                )
        else:
            try:
                check_target(path)
                self.note(0, self.moments)  # at once, so that it shows whether that can be done
            except (OSError, StateFileError) as error:
                raise ParameterError(f"{path} cannot be written: {error}") from error
        self._next = time.monotonic() + _EVERY

    def note(self, done: int, moments: Moments) -> None:
        """Write down how far it has come."""
        began = time.monotonic()
        state_file.write(self._path, state_of(moments, {**self._settings, FOLDED: done}))
        took = time.monotonic() - began
        self._next = time.monotonic() + max(_EVERY, _TIMES * took)

    @property
    def is_due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() >= self._next


def _difference(found: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Return in what two folds differ, or nothing."""
    for name in asked["fold"]:
        if found["fold"].get(name) != asked["fold"][name]:
            return str(name)
    return "files (or they have changed)" if found["files"] != asked["files"] else ""
