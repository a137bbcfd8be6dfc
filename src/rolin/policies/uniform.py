"""Every arm with the same probability: Uniform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import first_not_finite
from rolin.model.draws import Scores
from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy, Rule

__all__ = ["Uniform"]


class Uniform(LinearPolicy):
    """Choose at random, and learn all the same: for the first data, or a control group.

    Its options are those of [`LinearPolicy`][rolin.LinearPolicy].
    """

    rule: Rule = "own"

    def draws(self, n_arms: int, key: Key) -> NDArray[np.float64]:
        """Return uniform random numbers."""
        return self._random.at(key).random(n_arms)

    def score(self, candidates: Candidates, key: Key) -> Scores:
        """Score the arms by uniform random numbers alone."""
        x = candidates.contexts
        if not np.isfinite(x).all():
            raise first_not_finite("contexts", x)
        scores = self.draws(len(x), key)
        return Scores(int(scores.argmax()), scores[None])

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Return 1/K for every arm."""
        n = len(self.score(candidates, 0).values)
        return Probabilities(np.full(n, 1.0 / n), np.zeros(n))

    def score_many(self, questions: Sequence[Candidates], keys: Sequence[Key]) -> list[Scores]:
        """Score several questions one by one."""
        return self._score_each(questions, keys)
