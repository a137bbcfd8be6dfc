"""bayesianbandits: Thompson sampling with conjugate linear regressions, per arm or shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bayesianbandits import (
    Arm,
    ArmFeaturizer,
    ContextualAgent,
    LipschitzContextualAgent,
    NormalRegressor,
    ThompsonSampling,
)
from scipy.sparse import csc_array

from peers.base import Contender, Floats

# arm_std / coef_std: with this value in the one-hot column, the model is that of `rolin.RoLinTS`.
_ONE_HOT = 0.5


class PerArm(Contender):
    """A regression per arm, all given one shared context vector."""

    name = "bayesianbandits ContextualAgent"
    models = "per arm, one shared context"

    def build(self, n_features: int, seed: int) -> None:
        """Make one regression per arm."""
        arms = [Arm(name, learner=NormalRegressor(alpha=1.0, beta=1.0)) for name in self.names]
        self._agent = ContextualAgent(arms, ThompsonSampling(), random_seed=seed)

    def warm(self, contexts: Floats, rewards: Floats) -> None:
        """Update every arm once."""
        for i, name in enumerate(self.names):
            self._agent.select_for_update(name).update(contexts[i : i + 1], rewards[i : i + 1])

    def prepare(self, contexts: Floats) -> Floats:
        """Return a batch of one context."""
        return contexts[:1]

    def decide(self, prepared: Floats) -> list[str]:
        """Pull."""
        return self._agent.pull(prepared)

    def index(self, prepared: Floats, answer: list[str]) -> int:
        """Return the index of the name."""
        return self.number[answer[0]]

    def update(self, prepared: Floats, answer: list[str], reward: float) -> None:
        """Update the arm that was pulled last."""
        self._agent.update(prepared, np.array([reward]))


class _OneHot(ArmFeaturizer[str]):
    """Rows (x_k, one-hot arm) of each arm, from one row with the K contexts one after another."""

    def __init__(self, names: list[str], n_features: int) -> None:
        self.n_arms, self.d = len(names), n_features
        self.number = {name: i for i, name in enumerate(names)}
        self._rows = np.zeros((self.n_arms, n_features + self.n_arms))
        np.fill_diagonal(self._rows[:, n_features:], _ONE_HOT)

    def transform(self, X: Any, *, action_tokens: Sequence[str]) -> Any:  # noqa: N803  (its name)
        """Return the rows of all arms, or of one."""
        x = X.reshape(self.n_arms, self.d)
        if len(action_tokens) == self.n_arms:
            return self.all_rows(x)
        return self.one_row(x, self.number[action_tokens[0]])

    def all_rows(self, x: Floats) -> Any:
        """Return the rows of all arms, of which only the contexts change."""
        self._rows[:, : self.d] = x
        return self._rows

    def one_row(self, x: Floats, i: int) -> Any:
        """Return the row of arm i."""
        row = np.zeros((1, self.d + self.n_arms))
        row[0, : self.d] = x[i]
        row[0, self.d + i] = _ONE_HOT
        return row


class _SparseOneHot(_OneHot):
    """The same rows as compressed sparse columns, with index arrays that never change."""

    def __init__(self, names: list[str], n_features: int) -> None:
        super().__init__(names, n_features)
        arms, d = np.arange(self.n_arms, dtype=np.int32), n_features
        self._indices = np.concatenate([np.tile(arms, d), arms])
        self._starts = np.concatenate(
            [np.arange(d) * self.n_arms, d * self.n_arms + np.arange(self.n_arms + 1)]
        ).astype(np.int32)
        self._ones = np.full(self.n_arms, _ONE_HOT)

    def all_rows(self, x: Floats) -> Any:
        """Return the rows of all arms, of which only the contexts change."""
        values = np.concatenate([x.T.ravel(), self._ones])
        shape = (self.n_arms, self.d + self.n_arms)
        return csc_array((values, self._indices, self._starts), shape=shape)

    def one_row(self, x: Floats, i: int) -> Any:
        """Return the row of arm i."""
        return csc_array(super().one_row(x, i))


class SharedDense(PerArm):
    """The model of RoLinTS with joint sampling, as one regression in d + K dimensions."""

    name = "bayesianbandits LipschitzContextualAgent, dense"
    models = "shared linear + one-hot arms"
    sparse = False

    def build(self, n_features: int, seed: int) -> None:
        """Make one regression for all arms."""
        self._learner = NormalRegressor(alpha=1.0, beta=1.0, sparse=self.sparse)
        self._featurizer = (_SparseOneHot if self.sparse else _OneHot)(self.names, n_features)
        self._agent = LipschitzContextualAgent(
            [Arm(name, learner=None) for name in self.names],
            ThompsonSampling(),
            self._featurizer,
            self._learner,
            random_seed=seed,
        )

    def warm(self, contexts: Floats, rewards: Floats) -> None:
        """Update every arm once, in one batch."""
        rows = self._featurizer.transform(contexts.reshape(1, -1), action_tokens=self.names)
        self._learner.partial_fit(rows, rewards)

    def prepare(self, contexts: Floats) -> Floats:
        """Return one context row with the features of all arms in it."""
        return contexts.reshape(1, -1)


class SharedSparse(SharedDense):
    """The same with sparse matrices, factored by SuperLU, which is part of SciPy."""

    name = "bayesianbandits LipschitzContextualAgent, sparse"
    sparse = True


CONTENDERS = [PerArm, SharedDense, SharedSparse]
