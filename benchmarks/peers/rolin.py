"""`rolin` itself, and its naive reference implementation."""

from __future__ import annotations

from typing import Any

from known import BOUNDS, LINEAR_SAMPLING, SAMPLING

import rolin
from peers.base import Contender, Floats


class RolinMarginal(Contender):
    """The baseline of all ratios: Algorithm 1 of the paper."""

    name = "rolin RoLinTS, marginal"
    models = "shared linear + arm effects"
    peer = "rolin"

    def build(self, n_features: int, seed: int) -> None:
        """Make the policy."""
        self.policy: rolin.LinearPolicy = rolin.RoLinTS(
            n_features=n_features, seed=seed, **SAMPLING
        )

    def warm(self, contexts: Floats, rewards: Floats) -> None:
        """Update every arm once."""
        self.policy.update_many(self.names, contexts, rewards)

    def decide(self, prepared: Floats) -> rolin.Decision:
        """Decide from a float64 array, with the same named arms in every call."""
        return self.policy.decide(prepared, self.names)

    def index(self, prepared: Any, answer: rolin.Decision) -> int:
        """Return the index of the name."""
        return self.number[answer.arm]  # type: ignore[index]  # names are strings here

    def update(self, prepared: Any, answer: rolin.Decision, reward: float) -> None:
        """Learn from the decision."""
        self.policy.update(answer.arm, answer.context, reward)


class RolinJoint(RolinMarginal):
    """One draw of the coefficients for all arms."""

    name = "rolin RoLinTS, joint"

    def build(self, n_features: int, seed: int) -> None:
        """Make the policy."""
        self.policy = rolin.RoLinTS(n_features=n_features, sampling="joint", seed=seed, **SAMPLING)


class RolinUCB(RolinMarginal):
    """Upper confidence bounds."""

    name = "rolin RoLinUCB"

    def build(self, n_features: int, seed: int) -> None:
        """Make the policy."""
        self.policy = rolin.RoLinUCB(n_features=n_features, seed=seed, **BOUNDS)


class RolinLinTS(RolinMarginal):
    """Without arm effects."""

    name = "rolin LinTS"
    models = "shared linear, no arm effect"

    def build(self, n_features: int, seed: int) -> None:
        """Make the policy."""
        self.policy = rolin.LinTS(n_features=n_features, seed=seed, **LINEAR_SAMPLING)


class RolinNaive(RolinMarginal):
    """The same model with one (d + K)-dimensional inversion in every round."""

    name = "rolin NaiveRoLinTS"
    models = "shared linear + arm effects, O((d + K)³)"
    peer = "reference"

    def build(self, n_features: int, seed: int) -> None:
        """Make the policy."""
        self.policy = rolin.NaiveRoLinTS(n_features=n_features, seed=seed)


CONTENDERS = [RolinMarginal, RolinJoint, RolinUCB, RolinLinTS, RolinNaive]
