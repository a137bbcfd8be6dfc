"""Binary rewards: a robust linear model of the logit of the click rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rolin._support.checks import count_of, number_of
from rolin.environments.base import ROUNDS_AT_ONCE, Rounds, check_scales, split_rounds
from rolin.errors import ParameterError

__all__ = ["Clicks"]


@dataclass(frozen=True, kw_only=True)
class Clicks:
    """Clicks with probability σ(level + x'θ + v); coefficients θ and arm effects v are drawn once per problem.

    Parameters
    ----------
    click_rate
        Click rate of an arm whose effect and features are 0; its logit is the level.
    n_arms
        Number K of arms.
    n_features
        Number d of features, each uniform on [-1, 1] and new in every round.
    arm_std
        Standard deviation of the arm effects, on the logit scale.
    coef_std
        Standard deviation of the coefficients.

    Examples
    --------
    >>> world = Clicks(click_rate=0.1, n_arms=3, n_features=2)
    >>> block = next(world.play(10, np.random.default_rng(0)))
    >>> sorted(set(block.rewards.ravel().tolist()))
    [0.0, 1.0]
    """

    click_rate: float = 0.1
    n_arms: int = 50
    n_features: int = 10
    arm_std: float = 0.5
    coef_std: float = 0.5

    def __post_init__(self) -> None:
        """Check the options."""
        count_of("n_arms", self.n_arms, least=1)
        count_of("n_features", self.n_features)
        check_scales(arm_std=self.arm_std, coef_std=self.coef_std)
        if not 0.0 < number_of("click_rate", self.click_rate, ParameterError) < 1.0:
            raise ParameterError(
                f"click_rate={self.click_rate!r}, expected a number between 0 and 1"
            )

    @property
    def level(self) -> float:
        """Logit of the click rate."""
        return math.log(self.click_rate / (1.0 - self.click_rate))

    def play(self, rounds: int, generator: np.random.Generator) -> Iterator[Rounds]:
        """Draw one problem and yield its rounds, several at a time."""
        theta = self.coef_std * generator.standard_normal(self.n_features)
        effects = self.level + self.arm_std * generator.standard_normal(self.n_arms)
        for n in split_rounds(rounds):
            contexts = generator.uniform(-1.0, 1.0, (ROUNDS_AT_ONCE, self.n_arms, self.n_features))
            with np.errstate(over="ignore"):  # 1/∞ is 0, the correct limit
                means = 1.0 / (1.0 + np.exp(-(contexts @ theta + effects)))
            # One random number per round for all arms, so that all policies have the same luck.
            clicks = (generator.random((ROUNDS_AT_ONCE, 1)) < means).astype(np.float64)
            yield Rounds(contexts[:n], means[:n], clicks[:n])
