"""No exploration at all: Greedy."""

from __future__ import annotations

import numpy as np

from rolin.policies.base import LinearPolicy
from rolin.policies.question import Question
from rolin.randomness import Key
from rolin.sampling import Scores

__all__ = ["Greedy"]


class Greedy(LinearPolicy):
    """Take the arm with the highest posterior mean: what to serve once exploring is over.

    Its options are those of [`LinearPolicy`][rolin.LinearPolicy]; the seed only breaks ties.
    """

    def _score(self, question: Question, key: Key) -> Scores:
        x, (_, rows) = question
        return self._posterior.score(x, rows, np.zeros(len(rows)))
