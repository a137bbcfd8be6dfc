"""MABWiser: a ridge regression per arm."""

from __future__ import annotations

import numpy as np
from mabwiser.mab import MAB, LearningPolicy

from bakeoff.contenders.base import PerArm
from bakeoff.worlds.questions import Floats

__all__ = ["CONTENDERS"]


class LinUCB(PerArm):
    """Upper confidence bounds, with the width of the documentation's example."""

    name = "MABWiser LinUCB"
    rule: LearningPolicy = LearningPolicy.LinUCB(alpha=1.25)

    def build(self, seed: int) -> None:
        """Make one model per arm, in this process."""
        self._mab = MAB(list(range(self.shape.n_arms)), self.rule, seed=seed)
        self._fitted = False

    def score_rows(self, rows: Floats) -> Floats:
        """Return the scores of all arms, before the first reward at random."""
        if not self._fitted:
            return self.rng.random((len(rows), self.shape.n_arms))
        found = self._mab.predict_expectations(rows)
        answers = found if isinstance(found, list) else [found]
        return np.array([list(answer.values()) for answer in answers])

    def learn(self, arm: int, row: Floats, reward: float) -> None:
        """Fit one more row."""
        fit = self._mab.partial_fit if self._fitted else self._mab.fit
        fit(np.array([arm]), np.array([reward]), row)
        self._fitted = True


class LinTS(LinUCB):
    """Thompson sampling, with the width of the documentation's example."""

    name = "MABWiser LinTS"
    rule = LearningPolicy.LinTS(alpha=0.25)


CONTENDERS = [LinUCB, LinTS]
