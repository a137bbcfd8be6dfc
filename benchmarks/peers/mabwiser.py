"""MABWiser: a ridge regression per arm, all given one shared context vector."""

from __future__ import annotations

import numpy as np
from mabwiser.mab import MAB, LearningPolicy

from peers.base import Contender, Floats


class MABWiserTS(Contender):
    """Thompson sampling."""

    name = "MABWiser LinTS"
    models = "per arm, one shared context"
    rule = LearningPolicy.LinTS(alpha=1.0, l2_lambda=1.0)

    def build(self, n_features: int, seed: int) -> None:
        """Make one model per arm, in this process (n_jobs = 1)."""
        self._mab = MAB(self.names, self.rule, seed=seed)

    def warm(self, contexts: Floats, rewards: Floats) -> None:
        """Update every arm once."""
        self._mab.fit(np.array(self.names), rewards, contexts)

    def prepare(self, contexts: Floats) -> Floats:
        """Return a batch of one context."""
        return contexts[:1]

    def decide(self, prepared: Floats) -> str:
        """Predict the best arm."""
        return self._mab.predict(prepared)  # type: ignore[no-any-return]  # untyped

    def index(self, prepared: Floats, answer: str) -> int:
        """Return the index of the name."""
        return self.number[answer]

    def update(self, prepared: Floats, answer: str, reward: float) -> None:
        """Fit one more row."""
        self._mab.partial_fit(np.array([answer]), np.array([reward]), prepared)


class MABWiserUCB(MABWiserTS):
    """Upper confidence bounds."""

    name = "MABWiser LinUCB"
    rule = LearningPolicy.LinUCB(alpha=1.0, l2_lambda=1.0)


CONTENDERS = [MABWiserTS, MABWiserUCB]
