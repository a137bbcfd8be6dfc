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
    budget
        Seconds of CPU time for a run. Outcomes that ended early with less are ignored and replaced.
    """

    def __init__(self, folder: Path, rounds: int, budget: float) -> None:
        self.folder, self.rounds, self.budget = folder, rounds, budget

    def _path(self, world: str, contender: str, run: int) -> Path:
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", contender)
        return self.folder / world / plain / f"{run}.json"

    def read(self, world: str, contender: str, run: int) -> Outcome | None:
        """Return a stored outcome, or `None` if there is none for these rounds and this budget."""
        path = self._path(world, contender, run)
        if not path.exists():
            return None
        stored = json.loads(path.read_text(encoding="utf-8"))
        stored["means"] = {int(h): mean for h, mean in stored["means"].items()}
        outcome = Outcome(**stored)
        ended_early = outcome.rounds < outcome.asked and outcome.refused is None
        if outcome.asked != self.rounds or (ended_early and outcome.budget < self.budget):
            return None
        return outcome

    def write(self, world: str, contender: str, run: int, outcome: Outcome) -> None:
        """Store an outcome, completely or not at all."""
        path = self._path(world, contender, run)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(outcome.to_dict(), indent=1), encoding="utf-8")
        part.replace(path)
