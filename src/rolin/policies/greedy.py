"""No exploration at all: Greedy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy, Rule

__all__ = ["Greedy"]


class Greedy(LinearPolicy):
    """Take the arm with the highest posterior mean: what to serve once exploring is over.

    Its options are those of [`LinearPolicy`][rolin.LinearPolicy]; the seed only breaks ties.
    """

    rule: Rule = "mean"

    def draws(self, n_arms: int, key: Key) -> NDArray[np.float64]:
        """Return zeros: an arm is scored by its mean."""
        return np.zeros(n_arms)

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Return 1 for the best arm, shared among ties."""
        return self._certain(candidates)
