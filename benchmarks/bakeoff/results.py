"""Results on disk: one small file per world, contender and run, so that an interrupted bake-off resumes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from bakeoff.play import Outcome

__all__ = ["Results"]


class Results:
    """A folder of outcomes.

    Parameters
    ----------
    folder
        The folder; it is made if it does not exist.
    rounds
        Number of rounds of a run. Outcomes of runs of another length are ignored and replaced.
    """

    def __init__(self, folder: Path, rounds: int) -> None:
        self.folder, self.rounds = folder, rounds

    def _path(self, world: str, contender: str, run: int) -> Path:
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", contender)
        return self.folder / world / plain / f"{run}.json"

    def read(self, world: str, contender: str, run: int) -> Outcome | None:
        """Return a stored outcome, or `None` if there is none with this number of rounds."""
        path = self._path(world, contender, run)
        if not path.exists():
            return None
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["asked"] != self.rounds:
            return None
        stored["means"] = {int(h): mean for h, mean in stored["means"].items()}
        return Outcome(**stored)

    def write(self, world: str, contender: str, run: int, outcome: Outcome) -> None:
        """Store an outcome, completely or not at all."""
        path = self._path(world, contender, run)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(outcome.to_dict(), indent=1), encoding="utf-8")
        part.replace(path)
