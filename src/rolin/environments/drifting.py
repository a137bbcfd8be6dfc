"""A changing problem: coefficients and arm effects move a little in every round."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rolin._support.checks import count_of, number_of
from rolin.environments.base import ROUNDS_AT_ONCE, Rounds, check_scales, split_rounds
from rolin.errors import ParameterError

__all__ = ["Drifting"]


@dataclass(frozen=True, kw_only=True)
class Drifting:
    """A synthetic problem whose coefficients and arm effects drift.

    Each of them moves as z ← a z + √(1 - a²) · std · noise with a = 2^(-1/half_life). At any time its
    distribution is N(0, std²), and its correlation with its value `half_life` rounds ago is one half.

    Parameters
    ----------
    half_life
        Number of rounds after which the correlation is one half.
    n_arms
        Number K of arms.
    n_features
        Number d of features, each uniform on [-1, 1] and new in every round.
    arm_std
        Standard deviation of the arm effects.
    coef_std
        Standard deviation of the coefficients.
    noise_std
        Standard deviation of a reward around its mean.

    Examples
    --------
    >>> world = Drifting(half_life=500, n_arms=3, n_features=2)
    >>> block = next(world.play(10, np.random.default_rng(0)))
    >>> block.contexts.shape, block.means.shape
    ((10, 3, 2), (10, 3))
    """

    half_life: float = 1000.0
    n_arms: int = 50
    n_features: int = 10
    arm_std: float = 0.5
    coef_std: float = 1.0
    noise_std: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        count_of("n_arms", self.n_arms, least=1)
        count_of("n_features", self.n_features)
        check_scales(arm_std=self.arm_std, coef_std=self.coef_std, noise_std=self.noise_std)
        if not 0.0 < number_of("half_life", self.half_life, ParameterError) < math.inf:
            raise ParameterError(f"half_life={self.half_life!r}, expected a positive number")

    def play(self, rounds: int, generator: np.random.Generator) -> Iterator[Rounds]:
        """Draw one problem and yield its rounds, several at a time."""
        d = self.n_features
        std = np.concatenate([np.full(d, self.coef_std), np.full(self.n_arms, self.arm_std)])
        decay = 2.0 ** (-1.0 / self.half_life)
        now = std * generator.standard_normal(d + self.n_arms)
        for n in split_rounds(rounds):
            contexts = generator.uniform(-1.0, 1.0, (ROUNDS_AT_ONCE, self.n_arms, d))
            moves = (
                math.sqrt(1.0 - decay**2)
                * std
                * generator.standard_normal((ROUNDS_AT_ONCE, len(std)))
            )
            path = np.empty_like(moves)
            for b in range(ROUNDS_AT_ONCE):
                path[b] = now = decay * now + moves[b]
            means = np.einsum("bkd,bd->bk", contexts, path[:, :d]) + path[:, d:]
            noise = self.noise_std * generator.standard_normal((ROUNDS_AT_ONCE, 1))
            yield Rounds(contexts[:n], means[:n], (means + noise)[:n])
