"""contextualbandits: a regression or classifier per arm, for rewards of 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from contextualbandits.online import BootstrappedUCB, LinTS, LinUCB
from sklearn.linear_model import SGDClassifier

from bakeoff.contenders.base import PerArm
from bakeoff.worlds.questions import Floats, Shape

__all__ = ["CONTENDERS"]


class ContextualLinUCB(PerArm):
    """Upper confidence bounds, with a prior for new arms and a small width, as its documentation recommends."""

    name = "contextualbandits LinUCB"
    constant = False

    @classmethod
    def refuses(cls, shape: Shape) -> str | None:
        """Reject rewards that are not binary."""
        return None if shape.binary else "rewards must be 0 or 1"

    def build(self, seed: int) -> None:
        """Make one model per arm."""
        self._policy = self.policy(seed)
        self._fitted = False

    def policy(self, seed: int) -> Any:
        """Return the policy."""
        return LinUCB(
            self.shape.n_arms, alpha=0.1, ucb_from_empty=False, beta_prior="auto", random_state=seed
        )

    def score_rows(self, rows: Floats) -> Floats:
        """Return the scores of all arms, before the first reward at random."""
        if not self._fitted:
            return self.rng.random((len(rows), self.shape.n_arms))
        return self._policy.decision_function(rows)  # type: ignore[no-any-return]  # untyped

    def learn(self, arm: int, row: Floats, reward: float) -> None:
        """Fit one more row."""
        self._policy.partial_fit(row, np.array([arm]), np.array([reward]))
        self._fitted = True


class ContextualLinTS(ContextualLinUCB):
    """Thompson sampling, with a smaller variance than the default, as its documentation recommends.

    It samples predictions. Sampled coefficients, the default, are far too dispersed in this version: after 1500
    rounds of the world `iris` it still chooses like chance.
    """

    name = "contextualbandits LinTS"

    def policy(self, seed: int) -> Any:
        """Return the policy."""
        return LinTS(
            self.shape.n_arms, v_sq=0.1, sample_from="ci", beta_prior="auto", random_state=seed
        )


class Bootstrapped(ContextualLinUCB):
    """Bounds from bootstrapped logistic regressions that learn online, with its defaults."""

    name = "contextualbandits BootstrappedUCB"
    models = "per arm, logistic; SGD"

    def policy(self, seed: int) -> Any:
        """Return the policy."""
        base = SGDClassifier(loss="log_loss", random_state=seed)
        return BootstrappedUCB(
            base, self.shape.n_arms, batch_train=True, random_state=seed, njobs_arms=1
        )


CONTENDERS = [ContextualLinUCB, ContextualLinTS, Bootstrapped]
