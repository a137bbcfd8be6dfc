"""Play one run of one contender."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from time import process_time_ns
from typing import Any

import numpy as np

from bakeoff.contenders import Contender
from bakeoff.worlds import Questions

__all__ = ["HORIZONS", "Outcome", "play"]

HORIZONS = (500, 2000, 5000)
"""Numbers of rounds after which the mean reward is reported."""
_LOOKS = (100, *HORIZONS)
"""Numbers of rounds after which a contender stops if it will not reach the next horizon at its pace so far."""


@dataclass(frozen=True)
class Outcome:
    """What one run of one contender has given."""

    rounds: int
    """Number of rounds played; fewer than asked for if the contender is too slow."""
    asked: int
    """Number of rounds asked for."""
    means: dict[int, float]
    """The mean reward of the first rounds, by their number: the horizons that were reached."""
    microseconds: float
    """Median CPU time of decide and update."""
    coverage: float | None
    """Share of 90 % intervals that contain the mean reward, where both exist."""
    budget: float
    """Seconds of CPU time that it had."""
    refused: str | None = None
    """Why the library cannot play the world."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a JSON file."""
        return asdict(self)


def play(
    kind: type[Contender], questions: Questions, *, world: str, run: int, budget: float
) -> Outcome:
    """Play all rounds, or as many as the budget allows.

    Parameters
    ----------
    kind
        The contender.
    questions
        The rounds.
    world, run
        Name of the world and number of the run, from which the contender's seed follows.
    budget
        Seconds of CPU time. A contender stops if it has used them or will use them before the next horizon; only the
        horizons that it reached count.
    """
    reason = kind.refuses(questions.shape)
    if reason is not None:
        return Outcome(0, len(questions), {}, float("nan"), None, budget, reason)
    seed = [zlib.crc32(f"{world}/{kind.name}".encode()), run]
    contender = kind(questions.shape, np.random.default_rng(seed))
    asked = len(questions)
    rewards, times = np.zeros(asked), np.zeros(asked)
    start = process_time_ns()
    played = 0
    for t in range(asked):
        question = questions.question(t)
        prepared = contender.prepare(question)
        clock = process_time_ns()
        answer = contender.decide(prepared)
        decided = process_time_ns()
        k = contender.index(prepared, answer)
        reward = float(questions.rewards[t, k])
        contender.label(prepared, k, reward)
        labeled = process_time_ns()
        contender.update(prepared, answer, reward)
        times[t] = process_time_ns() - labeled + decided - clock
        contender.finish(prepared)
        rewards[t] = reward
        played = t + 1
        spent = (process_time_ns() - start) * 1e-9
        if spent > budget or (played in _LOOKS and spent * _next(played, asked) / played > budget):
            break
    reached = [h for h in {*HORIZONS, asked} if h <= played]
    return Outcome(
        rounds=played,
        asked=asked,
        means={h: float(rewards[:h].mean()) for h in sorted(reached)},
        microseconds=float(np.median(times[:played])) * 1e-3,
        coverage=contender.coverage(questions.probes) if played == asked else None,
        budget=budget,
    )


def _next(played: int, asked: int) -> int:
    """Return the next horizon, or the last round if it comes first."""
    return min(min((h for h in HORIZONS if h > played), default=asked), asked)
