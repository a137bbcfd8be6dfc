"""bayesianbandits: Thompson sampling in one regression for all arms, the model of `rolin` with one-hot arms.

The actions are the slots of the page. A featurizer turns them into the contexts and one-hot arms in these slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from bayesianbandits import (
    Arm,
    ArmFeaturizer,
    EmpiricalBayesGLM,
    EmpiricalBayesNormalRegressor,
    LipschitzContextualAgent,
    NormalRegressor,
    ThompsonSampling,
)

from bakeoff.contenders.base import Contender
from bakeoff.worlds.questions import Floats, Question, Shape

__all__ = ["CONTENDERS"]


class _Page(NamedTuple):
    """A batch of one question: its length is the number of contexts, which the agent asks for."""

    question: Question


class _Slots(ArmFeaturizer[int]):
    """Rows (1, context, one-hot arm) of slots of the page."""

    def __init__(self, shape: Shape) -> None:
        self._d, self._size = shape.n_features, 1 + shape.n_features + shape.n_arms

    def transform(self, X: Any, *, action_tokens: Sequence[int]) -> Floats:  # noqa: N803  (its name)
        """Return the rows of these slots."""
        arms, contexts, _ = X.question
        rows = np.zeros((len(action_tokens), self._size))
        rows[:, 0] = 1.0
        rows[:, 1 : 1 + self._d] = contexts[list(action_tokens)]
        for row, slot in zip(rows, action_tokens, strict=True):
            row[1 + self._d + arms[slot]] = 1.0
        return rows


class Hybrid(Contender):
    """A normal regression with prior and noise variance 1."""

    name = "bayesianbandits hybrid"
    models = "shared linear + one-hot arms"

    def build(self, seed: int) -> None:
        """Make no agent yet: its actions are the slots, whose number the first page tells."""
        self._seed = seed
        self._agent: LipschitzContextualAgent[int] | None = None

    def learner(self) -> Any:
        """Return the regression."""
        return NormalRegressor(alpha=1.0, beta=1.0)

    def prepare(self, question: Question) -> _Page:
        """Return a batch of one question."""
        if self._agent is None:
            self._agent = LipschitzContextualAgent(
                [Arm(slot, learner=None) for slot in range(len(question.arms))],
                ThompsonSampling(),
                _Slots(self.shape),
                self.learner(),
                random_seed=self._seed,
            )
        return _Page(question)

    def decide(self, prepared: _Page) -> int:
        """Pull."""
        assert self._agent is not None
        return self._agent.pull(prepared)[0]

    def index(self, prepared: _Page, answer: int) -> int:
        """Return the answer, which is the slot."""
        return answer

    def update(self, prepared: _Page, answer: int, reward: float) -> None:
        """Update the slot that was pulled last."""
        assert self._agent is not None
        self._agent.update(prepared, np.array([reward]))


class EmpiricalBayes(Hybrid):
    """A normal regression that tunes both variances."""

    name = "bayesianbandits hybrid, empirical Bayes"

    def learner(self) -> Any:
        """Return the regression."""
        return EmpiricalBayesNormalRegressor()


class Logistic(Hybrid):
    """A logistic regression that tunes the prior variance, for binary rewards."""

    name = "bayesianbandits hybrid, empirical Bayes, logistic"

    @classmethod
    def refuses(cls, shape: Shape) -> str | None:
        """Reject rewards that are not binary."""
        return None if shape.binary else "rewards must be 0 or 1"

    def learner(self) -> Any:
        """Return the regression."""
        return EmpiricalBayesGLM()


CONTENDERS = [Hybrid, EmpiricalBayes, Logistic]
