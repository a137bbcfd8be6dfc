"""Arms that react differently to the same features, in rounds with one context for all arms or one per arm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rolin._support.checks import count_of, number_of
from rolin.environments.base import ROUNDS_AT_ONCE, Rounds, check_scales, split_rounds
from rolin.errors import ParameterError

__all__ = ["Slopes"]


@dataclass(frozen=True, kw_only=True)
class Slopes:
    """A synthetic problem whose arms have slopes of their own, drawn once per problem.

    The coefficients of an arm are the shared ones, from N(0, coef_std²), plus its slopes, from N(0, slope_std²). Its
    level is from N(0, arm_std²).

    Parameters
    ----------
    slope_std
        Standard deviation of the slopes: how differently the arms react to the same features.
    shared
        Share of the rounds in which all arms have the same context, from 0 to 1. Each round is drawn independently.
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
    >>> world = Slopes(slope_std=0.3, shared=1.0, n_arms=3, n_features=2)
    >>> block = next(world.play(10, np.random.default_rng(0)))
    >>> block.contexts.shape, bool((block.contexts == block.contexts[:, :1]).all())
    ((10, 3, 2), True)
    """

    slope_std: float = 0.3
    shared: float = 0.5
    n_arms: int = 20
    n_features: int = 8
    arm_std: float = 0.5
    coef_std: float = 1.0
    noise_std: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        count_of("n_arms", self.n_arms, least=1)
        count_of("n_features", self.n_features)
        check_scales(
            arm_std=self.arm_std,
            coef_std=self.coef_std,
            noise_std=self.noise_std,
            slope_std=self.slope_std,
        )
        if not 0.0 <= number_of("shared", self.shared, ParameterError) <= 1.0:
            raise ParameterError(f"shared={self.shared!r}, expected a number from 0 to 1")

    def play(self, rounds: int, generator: np.random.Generator) -> Iterator[Rounds]:
        """Draw one problem and yield its rounds, several at a time."""
        k, d = self.n_arms, self.n_features
        theta = self.coef_std * generator.standard_normal(d)
        effects = self.arm_std * generator.standard_normal(k)
        # (K, d)
        coefficients = theta + self.slope_std * generator.standard_normal((k, d))
        for n in split_rounds(rounds):
            contexts = generator.uniform(-1.0, 1.0, (ROUNDS_AT_ONCE, k, d))
            same = generator.random(ROUNDS_AT_ONCE) < self.shared
            contexts[same] = contexts[same, :1]
            means = np.einsum("bkd,kd->bk", contexts, coefficients) + effects
            noise = self.noise_std * generator.standard_normal((ROUNDS_AT_ONCE, 1))
            yield Rounds(contexts[:n], means[:n], (means + noise)[:n])
