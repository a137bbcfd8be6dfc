"""No exploration at all: Greedy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rolin.policies.candidates import Question
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy

__all__ = ["Greedy"]


class Greedy(LinearPolicy):
    """Take the arm with the highest posterior mean: what to serve once exploring is over.

    Its options are those of [`LinearPolicy`][rolin.LinearPolicy]; the seed only breaks ties.
    """

    def _draws(self, n_arms: int, key: Key) -> NDArray[np.float64]:
        return np.zeros(n_arms)

    def _probabilities(self, question: Question) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._certain(question)
