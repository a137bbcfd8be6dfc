"""Store the progress of a fit in a file, so that an interrupted fit can resume."""

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

__all__ = ["Checkpoint", "CheckpointMismatch"]

# Least seconds between two writes, and least ratio of that time to the time of a write.
_EVERY, _TIMES = 10.0, 20.0


class CheckpointMismatch(ParameterError):
    """A checkpoint belongs to a fit of other files or with other options."""


class Checkpoint:
    """A file with the moments of the partitions that have been folded so far.

    Parameters
    ----------
    path
        The file. If it does not exist, it is created.
    fold
        The fold.
    files
        The files of the log.
    n_partitions
        The number of partitions of the log.
    """

    def __init__(
        self, path: str | PathLike[str], fold: Fold, files: list[File], n_partitions: int
    ) -> None:
        self._path = Path(path)
        if str(path) in ("", "."):
            raise ParameterError(f"checkpoint={path!r}, expected a file")
        described = [[f.path, f.size, f.stamp, f.format, f.groups] for f in files]
        self._settings = {
            "fold": json.loads(json.dumps(asdict(fold))),
            "files": hashlib.blake2b(json.dumps(described).encode(), digest_size=16).hexdigest(),
        }
        self.n_done = 0
        """Number of partitions that were folded before."""
        self.moments = fold.zero()
        """The sum of their moments."""
        if self._path.exists():
            self._load(n_partitions, fold)
        else:
            try:
                check_target(path)
                self.store(0, self.moments)  # at once, to see whether the file can be written
            except (OSError, StateFileError) as error:
                raise ParameterError(f"{path} cannot be written: {error}") from error
        self._next = time.monotonic() + _EVERY

    def _load(self, n_partitions: int, fold: Fold) -> None:
        path, state = self._path, state_file.read(self._path)
        if FOLDED not in state.settings:
            raise ParameterError(
                f"{path} exists and is not a checkpoint of a fit: name another file; nothing was changed"
            )
        if differs := _difference(state.settings, self._settings):
            raise CheckpointMismatch(
                f"{path} is the checkpoint of a fit with other {differs}: use the same ones again, name another "
                "checkpoint, or remove the file; nothing was changed"
            )
        self.n_done, self.moments = state.settings[FOLDED], moments_of(state)
        if type(self.n_done) is not int or not 0 <= self.n_done <= n_partitions:
            raise StateFileError(
                f"{path} is damaged: it has {self.n_done!r} of {n_partitions} partitions"
            )
        if self.moments.n_features != fold.n_features:
            raise StateFileError(
                f"{path} is damaged: its sums have {self.moments.n_features} features, expected "
                f"{fold.n_features}"
            )
        if self.moments.slopes != fold.slopes:
            raise StateFileError(
                f"{path} is damaged: its sums have slopes={list(self.moments.slopes)}, expected "
                f"{list(fold.slopes)}"
            )

    def store(self, n_done: int, moments: Moments) -> None:
        """Write the sum of the moments of the first partitions.

        Parameters
        ----------
        n_done
            Number of partitions.
        moments
            The sum of their moments.
        """
        began = time.monotonic()
        state_file.write(self._path, state_of(moments, {**self._settings, FOLDED: n_done}))
        took = time.monotonic() - began
        self._next = time.monotonic() + max(_EVERY, _TIMES * took)

    @property
    def is_due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() >= self._next


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return in what two fits differ; an empty text if they do not."""
    fold = found.get("fold")
    for name, value in wanted["fold"].items():
        # Checkpoints of earlier versions have no slopes.
        default: Any = [] if name == "slopes" else None
        if not isinstance(fold, dict) or fold.get(name, default) != value:
            return str(name)
    return "files (or they have changed)" if found.get("files") != wanted["files"] else ""
