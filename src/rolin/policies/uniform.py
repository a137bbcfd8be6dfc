"""The same probability for every arm: Uniform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import first_not_finite
from rolin.model.draws import Scores
from rolin.model.posterior import Posterior
from rolin.model.scales import Scales
from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy, Rule
from rolin.policies.options import with_shared_options

__all__ = ["Uniform"]


@with_shared_options
class Uniform(LinearPolicy):
    """Choose every arm with the same probability, and learn from the rewards.

    It is for collecting first data and for control groups.

    Parameters
    ----------
    **options
        The options of [`LinearPolicy`][rolin.LinearPolicy].
    """

    rule: Rule = "own"

    def _new_model(
        self, scales: Scales, n_features: int, options: dict[str, Any], *, has_slopes: bool
    ) -> Posterior:
        """Return the model, which need not tell arms apart: it chooses none."""
        model = super()._new_model(scales, n_features, options, has_slopes=has_slopes)
        model.shares_coefficients = False
        return model

    def draws(self, n_arms: int, key: Key) -> NDArray[np.float64]:
        """Return uniform random numbers."""
        return self._random.at(key).random(n_arms)

    def score(self, candidates: Candidates, key: Key) -> Scores:
        """Score the candidates by uniform random numbers."""
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
        """Score the arms of several questions, one after the other."""
        return self._score_each(questions, keys)
