"""The Open Bandit Dataset: learn from one half of its random log, and estimate the value on the other half."""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path

import numpy as np

import rolin
from bakeoff.contenders import Contender
from bakeoff.worlds.questions import Question, Shape
from rolin.errors import OverlapWarning
from rolin.offline import DecisionLog, Evaluation

__all__ = ["NAME", "evaluate"]

NAME = "open-bandit"


def evaluate(kind: type[Contender], data: Path) -> Evaluation | None:
    """Return the estimated value of a contender, or `None` if it gives no probabilities.

    Parameters
    ----------
    kind
        The contender.
    data
        Folder that contains `obd`.
    """
    log = rolin.offline.read_obd(Path(data) / "obd" / "random" / "all")
    half = len(log) // 2
    training, test = log.take(np.arange(half)), log.take(np.arange(half, len(log)))
    shape = Shape(len(log.arms[0]), log.n_features, 0, None, False, True)
    contender = kind(shape, np.random.default_rng(zlib.crc32(kind.name.encode())))
    if contender.probabilities(_question(training, 0)) is None:
        return None
    for i in range(len(training)):
        contender.observe(
            _question(training, i),
            int(training.chosen[i]),
            float(training.rewards[i]),
            float(training.propensity[i]),
        )
    targets = [contender.probabilities(_question(test, i)) for i in range(len(test))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)  # the report prints these notes
        return rolin.offline.evaluate(test, targets, label=kind.name)


def _question(log: DecisionLog, i: int) -> Question:
    """Return a logged decision as a question; arms are numbered by their index."""
    return Question(list(range(len(log.arms[i]))), log.contexts[i], None)
