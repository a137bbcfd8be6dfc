"""The formulas of the paper as printed, in NumPy, with a matrix inversion in every round.

Zhu & Kveton, *Robust Contextual Linear Bandits*, AISTATS 2023, Section 3.3. Sums over arms are
matrix products, the fastest way in NumPy: O(d³ + K d²) per round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.base import Contender, Floats

# The defaults of `rolin.RoLinTS`, so that both compute the same.
_NOISE, _ARM, _RIDGE = 1.0, 0.25, 1.0  # σ², σ₀², λ


class Formulas(Contender):
    """RoLinTS from eq. (implement-theta), (implement-mu) and (implement-tau)."""

    name = "the paper's formulas in NumPy"
    models = "shared linear + arm effects"
    peer = "reference"

    def build(self, n_features: int, seed: int) -> None:
        """Allocate the statistics."""
        n_arms, d = len(self.names), n_features
        self._draws = np.random.default_rng(seed)
        self._gram = np.zeros((d, d))  # Σ X_i'X_i
        self._pulled = np.zeros(d)  # Σ X_i'r_i
        self._count = np.zeros(n_arms)  # n_i
        self._x = np.zeros((n_arms, d))  # x̄_i
        self._r = np.zeros(n_arms)  # r̄_i

    def warm(self, contexts: Floats, rewards: Floats) -> None:
        """Update every arm once."""
        for k, reward in enumerate(rewards.tolist()):
            self.update(contexts, k, reward)

    def decide(self, prepared: Floats) -> int:
        """Invert M, then score all arms."""
        x = prepared
        w = _ARM * self._count / (_ARM * self._count + _NOISE)
        weighted = (w * self._count)[:, None] * self._x  # (K, d): w n x̄
        precision = _RIDGE * np.eye(x.shape[1]) + (self._gram - weighted.T @ self._x) / _NOISE
        covariance = np.linalg.inv(precision)
        # eq. (implement-theta)
        theta = covariance @ (self._pulled - self._r @ weighted) / _NOISE
        u = x - w[:, None] * self._x  # (K, d)
        mean = w * self._r + u @ theta  # eq. (implement-mu)
        variance = _ARM * (1.0 - w) + np.einsum("kd,kd->k", u @ covariance, u)  # (implement-tau)
        draws = self._draws.standard_normal(len(x))
        return int(np.argmax(mean + np.sqrt(variance) * draws))

    def index(self, prepared: Any, answer: int) -> int:
        """Return the answer, which is the index."""
        return answer

    def update(self, prepared: Floats, answer: int, reward: float) -> None:
        """Update the statistics of the pulled arm, and the sums."""
        x = prepared[answer]
        self._gram += np.outer(x, x)
        self._pulled += reward * x
        self._count[answer] += 1.0
        self._x[answer] += (x - self._x[answer]) / self._count[answer]
        self._r[answer] += (reward - self._r[answer]) / self._count[answer]


CONTENDERS = [Formulas]
