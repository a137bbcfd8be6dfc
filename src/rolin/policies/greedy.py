"""No exploration at all: Greedy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rolin.model.draws import Scores
from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy, Rule
from rolin.policies.options import with_shared_options

__all__ = ["Greedy"]


@with_shared_options
class Greedy(LinearPolicy):
    """Choose the arm with the highest posterior mean, without exploration.

    Parameters
    ----------
    seed
        A non-negative integer; it breaks ties, and determines the choices before the first estimate of learned scales. By
        default one from the operating system.
    **options
        The options of [`LinearPolicy`][rolin.LinearPolicy].
    """

    rule: Rule = "mean"

    def draws(self, n_arms: int, key: Key) -> NDArray[np.float64]:
        """Return zeros: an arm's score is its mean."""
        return np.zeros(n_arms)

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Return 1 for the best arm; tied arms share it equally. At first, arms without rewards are preferred."""
        return self._certain(candidates)

    def score_with_probabilities(
        self, candidates: Candidates, key: Key
    ) -> tuple[Scores, Probabilities]:
        """Return the scores, and the probabilities that follow from them."""
        return self._certain_with_scores(candidates, key)
