"""References without a library: chance, and LinUCB with a model per arm in NumPy."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from bakeoff.contenders.base import Group, Scored
from bakeoff.worlds.questions import Floats, Question

__all__ = ["CONTENDERS", "Uniform"]


class Uniform(Scored):
    """Chance."""

    name = "uniform"
    models = "none"
    group: ClassVar[Group] = "reference"

    def build(self, seed: int) -> None:
        """Need nothing."""

    def scores(self, prepared: Question) -> Floats:
        """Return random numbers."""
        return self.rng.random(len(prepared.arms))

    def update(self, prepared: Any, answer: int, reward: float) -> None:
        """Learn nothing."""

    def probabilities(self, question: Question) -> Floats | None:
        """Return 1/K."""
        return np.full(len(question.arms), 1.0 / len(question.arms))

    def observe(self, question: Question, index: int, reward: float, propensity: float) -> None:
        """Learn nothing."""


class PerArm(Scored):
    """LinUCB with disjoint models, Algorithm 1 of Li, Chu, Langford & Schapire (2010), with a width of 1.

    A model gets the situation, or the arm's context where there is none, and a constant. Inverses are updated by the
    formula of Sherman and Morrison.
    """

    name = "per-arm LinUCB in NumPy"
    models = "per arm"
    group: ClassVar[Group] = "reference"
    width = 1.0

    def build(self, seed: int) -> None:
        """Start every arm from a ridge of 1."""
        n, s = self.shape.n_arms, 1 + (self.shape.n_situation or self.shape.n_features)
        self._inverse = np.tile(np.eye(s), (n, 1, 1))
        self._pulled = np.zeros((n, s))
        self._theta = np.zeros((n, s))

    def prepare(self, question: Question) -> tuple[Floats, Floats]:
        """Return the arms and the (K, s) features of their models."""
        arms = np.array(question.arms)
        x = question.contexts if question.situation is None else question.situation[None]
        rows = np.broadcast_to(x, (len(arms), x.shape[1]))
        return arms, np.hstack([np.ones((len(arms), 1)), rows])

    def scores(self, prepared: tuple[Floats, Floats]) -> Floats:
        """Return the upper bounds."""
        arms, x = prepared
        variance = np.einsum("ks,kst,kt->k", x, self._inverse[arms], x)
        means: Floats = np.einsum("ks,ks->k", x, self._theta[arms])
        return means + self.width * np.sqrt(variance)

    def update(self, prepared: tuple[Floats, Floats], answer: int, reward: float) -> None:
        """Update the arm's regression."""
        arm, x = prepared[0][answer], prepared[1][answer]
        step = self._inverse[arm] @ x
        self._inverse[arm] -= np.outer(step, step) / (1.0 + x @ step)
        self._pulled[arm] += reward * x
        self._theta[arm] = self._inverse[arm] @ self._pulled[arm]


class NarrowPerArm(PerArm):
    """The same with a width of 0.25."""

    name = "per-arm LinUCB in NumPy, 0.25"
    width = 0.25


CONTENDERS = [Uniform, PerArm, NarrowPerArm]
