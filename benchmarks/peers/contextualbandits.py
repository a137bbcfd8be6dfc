"""contextualbandits: a linear regression per arm, all given one shared context vector."""

from __future__ import annotations

import numpy as np
from contextualbandits.online import LinTS

from peers.base import Contender, Floats


class ContextualBandits(Contender):
    """Thompson sampling with the settings that were fastest in a trial.

    These are integer arms (names go through a data frame in every call), sampled coefficients instead
    of intervals, and Sherman-Morrison updates. Rewards are 0 or 1.
    """

    name = "contextualbandits LinTS"
    models = "per arm, one shared context"

    def build(self, n_features: int, seed: int) -> None:
        """Make one regression per arm."""
        self._policy = LinTS(
            len(self.names), fit_intercept=False, method="sm", sample_from="coef", random_state=seed
        )

    def warm(self, contexts: Floats, rewards: Floats) -> None:
        """Update every arm once."""
        numbers = np.arange(len(self.names))
        self._policy.partial_fit(contexts, numbers, (rewards > 0).astype(np.float64))

    def prepare(self, contexts: Floats) -> Floats:
        """Return a batch of one context."""
        return contexts[:1]

    def decide(self, prepared: Floats) -> np.ndarray:
        """Predict the best arm."""
        return self._policy.predict(prepared)  # type: ignore[no-any-return]  # untyped

    def index(self, prepared: Floats, answer: np.ndarray) -> int:
        """Return the answer, which is the index."""
        return int(answer[0])

    def update(self, prepared: Floats, answer: np.ndarray, reward: float) -> None:
        """Fit one more row."""
        self._policy.partial_fit(prepared, answer, np.array([float(reward > 0)]))


CONTENDERS = [ContextualBandits]
