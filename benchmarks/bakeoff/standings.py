"""All outcomes that are stored for some worlds, and what follows from them: means, differences, ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from bakeoff.play import Outcome
from bakeoff.results import Results
from bakeoff.worlds.questions import Floats

__all__ = ["Standings"]


class Standings:
    """The outcomes of contenders with all runs; others are left out, because runs are paired.

    Parameters
    ----------
    results
        The stored outcomes.
    worlds
        Names of the worlds.
    names
        Names of the contenders.
    runs
        Number of runs.
    """

    def __init__(
        self, results: Results, worlds: Sequence[str], names: Iterable[str], runs: int
    ) -> None:
        self.worlds, self.runs, self.rounds = worlds, runs, results.rounds
        self._stored: dict[tuple[str, str], list[Outcome]] = {}
        for name in names:
            for world in worlds:
                found = [results.read(world, name, run) for run in range(runs)]
                complete = [outcome for outcome in found if outcome is not None]
                if len(complete) == runs:
                    self._stored[world, name] = complete

    def outcomes(self, world: str, name: str) -> list[Outcome]:
        """Return the outcomes of all runs; empty if there are not all."""
        return self._stored.get((world, name), [])

    def played(self, name: str) -> bool:
        """Return whether a contender has played, or refused, any world."""
        return any((world, name) in self._stored for world in self.worlds)

    def refusals(self, name: str) -> dict[str, list[str]]:
        """Return the worlds that a contender cannot play, by reason."""
        found: dict[str, list[str]] = {}
        for world in self.worlds:
            outcomes = self.outcomes(world, name)
            if outcomes and outcomes[0].refused is not None:
                found.setdefault(outcomes[0].refused, []).append(world)
        return found

    def why_not(self, world: str, name: str) -> str:
        """Return the text of a cell without a number."""
        outcomes = self.outcomes(world, name)
        if not outcomes:
            return ""
        return "slow" if outcomes[0].refused is None else "–"

    def means(self, world: str, name: str, horizon: int) -> Floats | None:
        """Return the (runs,) mean rewards per round, or `None` if a run did not reach the horizon."""
        outcomes = self.outcomes(world, name)
        if not outcomes or any(horizon not in outcome.means for outcome in outcomes):
            return None
        return np.array([outcome.means[horizon] for outcome in outcomes])

    def best(self, world: str, names: Iterable[str], horizon: int) -> str | None:
        """Return the contender with the highest mean reward; `None` if none has one."""
        found = {name: self.means(world, name, horizon) for name in names}
        scores = {name: float(mean.mean()) for name, mean in found.items() if mean is not None}
        return max(scores, key=scores.__getitem__) if scores else None

    def difference(self, world: str, name: str, other: str, horizon: int) -> tuple[float, float]:
        """Return how much a contender is ahead of another, and the standard error over paired runs."""
        mine, theirs = self.means(world, name, horizon), self.means(world, other, horizon)
        assert mine is not None
        assert theirs is not None
        ahead = mine - theirs
        error = ahead.std(ddof=1) / len(ahead) ** 0.5 if len(ahead) > 1 else float("nan")
        return float(ahead.mean()), float(error)

    def ranks(self, names: Sequence[str], horizon: int) -> dict[tuple[str, str], float]:
        """Return the rank of every contender in every world, 1 for the best; equal means share a rank."""
        ranks = {}
        for world in self.worlds:
            found = {name: self.means(world, name, horizon) for name in names}
            scores = {name: float(mean.mean()) for name, mean in found.items() if mean is not None}
            for name, score in scores.items():
                above = sum(other > score for other in scores.values())
                equal = sum(other == score for other in scores.values())
                ranks[world, name] = 1 + above + (equal - 1) / 2
        return ranks
