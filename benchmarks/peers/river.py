"""river: a Bayesian linear regression per arm, all given one shared context."""

from __future__ import annotations

import numpy as np
from river.bandit import LinUCBDisjoint

from peers.base import Contender, Floats


class River(Contender):
    """Upper confidence bounds. `burn_in` has its default, because this version passes it on wrongly."""

    name = "river LinUCBDisjoint"
    models = "per arm, one shared context"

    def build(self, n_features: int, seed: int) -> None:
        """Make the policy."""
        self._policy = LinUCBDisjoint(seed=seed)

    def warm(self, contexts: Floats, rewards: Floats) -> None:
        """Update every arm once."""
        for name, context, reward in zip(self.names, contexts, rewards.tolist(), strict=True):
            self._policy.update(name, self._features(context), reward)

    def prepare(self, contexts: Floats) -> dict[int, float]:
        """Return the context as a dictionary."""
        return self._features(contexts[0])

    def decide(self, prepared: dict[int, float]) -> str:
        """Pull."""
        return self._policy.pull(self.names, prepared)  # type: ignore[no-any-return]  # untyped

    def index(self, prepared: dict[int, float], answer: str) -> int:
        """Return the index of the name."""
        return self.number[answer]

    def update(self, prepared: dict[int, float], answer: str, reward: float) -> None:
        """Learn from one reward."""
        self._policy.update(answer, prepared, reward)

    @staticmethod
    def _features(context: np.ndarray) -> dict[int, float]:
        return dict(enumerate(context.tolist()))


CONTENDERS = [River]
