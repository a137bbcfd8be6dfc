"""What one process does at a time; in a module of its own, because other processes import it by name."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from bakeoff import openbandit
from bakeoff.contenders import available
from bakeoff.play import play
from bakeoff.results import Results
from bakeoff.worlds import Questions, world
from rolin.offline import Evaluation

__all__ = ["evaluate_one", "play_one"]


def play_one(name: str, run: int, contender: str, data: Path | None, results: Results) -> None:
    """Play one run of one contender, and store its outcome.

    Parameters
    ----------
    name, run
        Name of the world and number of the run.
    contender
        Name of the contender.
    data
        Folder that contains the data of the world.
    results
        Where to store the outcome.
    """
    kind = available()[0][contender]
    questions = _questions(name, data, results.rounds, run)
    outcome = play(kind, questions, world=name, run=run, budget=results.budget)
    results.write(name, contender, run, outcome)


@lru_cache(maxsize=1)
def _questions(name: str, data: Path | None, rounds: int, run: int) -> Questions:
    """Return the questions of a run, which the next contender gets, too."""
    return world(name, data).draw(rounds, run)


def evaluate_one(contender: str, data: Path) -> Evaluation | None:
    """Estimate the value of one contender on the Open Bandit Dataset; `None` if it has no probabilities.

    Parameters
    ----------
    contender
        Name of the contender.
    data
        Folder that contains `obd`.
    """
    return openbandit.evaluate(available()[0][contender], data)
