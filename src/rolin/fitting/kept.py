"""How far a fold has come, in a file: what was stopped goes on from there."""

from __future__ import annotations

import hashlib
import json
import time
from os import PathLike
from pathlib import Path

from rolin import snapshot
from rolin.errors import ParameterError
from rolin.evidence_file import FOLDED, moments_of, state_of
from rolin.fitting.fold import Fold
from rolin.fitting.pieces import File, Piece
from rolin.moments import Moments

__all__ = ["Kept"]

# Seconds between two writes, at least; and how many times longer than a write takes.
_EVERY, _TIMES = 10.0, 20.0


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
    pieces
        The pieces, in the order in which they are folded.
    """

    def __init__(
        self, path: str | PathLike[str], fold: Fold, files: list[File], pieces: list[Piece]
    ) -> None:
        self._path = Path(path)
        described = [[f.path, f.size, f.format, f.groups] for f in files]
        self._settings = {
            "fold": json.loads(json.dumps(vars(fold))),
            "files": hashlib.blake2b(json.dumps(described).encode(), digest_size=16).hexdigest(),
        }
        self.done, self.moments = 0, Moments.zero(fold.n_features)
        if self._path.exists():
            state = snapshot.read(path)
            if FOLDED not in state.settings:
                raise ParameterError(f"{path} is not a fold that was stopped; nothing was changed")
            for name, word in (("fold", "columns"), ("files", "files")):
                if state.settings[name] != self._settings[name]:
                    raise ParameterError(
                        f"{path} is a fold of other {word} that was stopped: take those, another place, or "
                        "remove it; nothing was changed"
                    )
            self.done, self.moments = int(state.settings[FOLDED]), moments_of(state)
        else:
            snapshot.check_target(path)
        self._next = time.monotonic() + _EVERY

    def note(self, done: int, moments: Moments | None) -> None:
        """Write down how far it has come."""
        if moments is None:
            return
        began = time.monotonic()
        snapshot.write(self._path, state_of(moments, {**self._settings, FOLDED: done}))
        took = time.monotonic() - began
        self._next = time.monotonic() + max(_EVERY, _TIMES * took)

    @property
    def is_due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() >= self._next

    def remove(self) -> None:
        """Remove the file: all has been folded."""
        self._path.unlink(missing_ok=True)
