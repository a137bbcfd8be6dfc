"""Every arm with the same probability: Uniform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import first_not_finite
from rolin.model.draws import Scores
from rolin.policies.candidates import Question
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy

__all__ = ["Uniform"]


class Uniform(LinearPolicy):
    """Choose at random, and learn all the same: for the first data, or a control group.

    Its options are those of [`LinearPolicy`][rolin.LinearPolicy].
    """

    def _draws(self, n_arms: int, key: Key) -> NDArray[np.float64]:
        return self._random.at(key).random(n_arms)

    def _score(self, question: Question, key: Key) -> Scores:
        x, _ = question
        if not np.isfinite(x).all():
            raise first_not_finite("contexts", x)
        scores = self._draws(len(x), key)
        return int(scores.argmax()), scores[None]

    def _probabilities(self, question: Question) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        n = len(self._score(question, 0)[1][-1])
        return np.full(n, 1.0 / n), np.zeros(n)

    def _score_many(self, questions: Sequence[Question], keys: Sequence[Key]) -> list[Scores]:
        return self._score_each(questions, keys)
