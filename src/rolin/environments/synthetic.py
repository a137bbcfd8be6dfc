"""The synthetic problems of the paper's Section 6.1: robust linear bandits drawn from the prior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from rolin._support.checks import count_of
from rolin.environments.base import ROUNDS_AT_ONCE, Rounds, check_scales, split_rounds
from rolin.errors import ParameterError
from rolin.model.theory import bayes_regret_bound

__all__ = ["Synthetic"]

Contexts = Literal["fresh", "fixed"]


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Linear rewards with coefficients from N(0, coef_std²) and arm effects from N(0, arm_std²), drawn once per problem.

    Parameters
    ----------
    n_arms
        Number K of arms.
    n_features
        Number d of features, each uniform on [-1, 1].
    arm_std
        Standard deviation of the arm effects, which the features do not explain.
    coef_std
        Standard deviation of the coefficients.
    noise_std
        Standard deviation of a reward around its mean.
    contexts
        `"fresh"` draws new features in every round, `"fixed"` draws them once per problem. The
        paper does not say which it used; its statements about the results hold for fresh ones.

    Examples
    --------
    >>> world = Synthetic(n_arms=3, n_features=2)
    >>> block = next(world.play(10, np.random.default_rng(0)))
    >>> block.contexts.shape, block.means.shape, block.rewards.shape
    ((10, 3, 2), (10, 3), (10, 3))
    """

    n_arms: int = 50
    n_features: int = 10
    arm_std: float = 0.5
    coef_std: float = 1.0
    noise_std: float = 1.0
    contexts: Contexts = "fresh"

    def __post_init__(self) -> None:
        """Check the options."""
        count_of("n_arms", self.n_arms, least=1)
        count_of("n_features", self.n_features)
        check_scales(arm_std=self.arm_std, coef_std=self.coef_std, noise_std=self.noise_std)
        if self.contexts not in get_args(Contexts):
            raise ParameterError(
                f"contexts={self.contexts!r}, expected one of {get_args(Contexts)}"
            )

    def play(self, rounds: int, generator: np.random.Generator) -> Iterator[Rounds]:
        """Draw one problem and yield its rounds, several at a time."""
        theta = self.coef_std * generator.standard_normal(self.n_features)
        effects = self.arm_std * generator.standard_normal(self.n_arms)
        shape = (self.n_arms, self.n_features)
        fixed = None
        if self.contexts == "fixed":
            fixed = np.repeat(generator.uniform(-1.0, 1.0, (1, *shape)), ROUNDS_AT_ONCE, axis=0)
        for n in split_rounds(rounds):
            if fixed is None:
                # This takes half the time of `uniform`.
                contexts = generator.random((ROUNDS_AT_ONCE, *shape))
                contexts *= 2.0
                contexts -= 1.0
            else:
                contexts = fixed
            means = contexts @ theta + effects
            noise = self.noise_std * generator.standard_normal(ROUNDS_AT_ONCE)
            # One noise per round for all arms, so that all policies have the same luck.
            yield Rounds(contexts[:n], means[:n], (means + noise[:, None])[:n])

    def regret_bound(self, rounds: int) -> float:
        """Return the regret bound of Theorem 1, which holds for policies that know the three scales.

        Parameters
        ----------
        rounds
            Number of rounds.
        """
        return bayes_regret_bound(
            rounds=rounds,
            n_arms=self.n_arms,
            n_features=self.n_features,
            context_norm=self.n_features**0.5,
            coef_std=self.coef_std,
            arm_std=self.arm_std,
            noise_std=self.noise_std,
        ).total
