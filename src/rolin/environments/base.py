"""The interface of environments: they simulate rounds, several at a time.

An environment is a family of bandit problems. `play` draws one problem and yields its rounds, several
at a time. This makes drawing cheap, and memory does not grow with the number of rounds. A policy sees
the contexts and the reward of the arm that it pulls; the mean rewards only measure regret.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import number_of
from rolin.errors import ParameterError
from rolin.model.scales import Scales

__all__ = ["ROUNDS_AT_ONCE", "Environment", "Rounds", "check_scales", "split_rounds"]

Floats = NDArray[np.float64]

ROUNDS_AT_ONCE = 64
"""Rounds that are drawn at once: enough to make drawing cheap, few enough to stay in the processor's cache."""


class Rounds(NamedTuple):
    """Consecutive rounds of one problem."""

    contexts: Floats
    """(B, K, d): what the policy sees."""
    means: Floats
    """(B, K): the mean reward of every arm, to measure regret."""
    rewards: Floats
    """(B, K): the reward of every arm; the policy learns only that of the arm it pulls."""


@runtime_checkable
class Environment(Protocol):
    """A family of bandit problems with arms 0 … K - 1."""

    @property
    def n_arms(self) -> int:
        """Number K of arms."""

    @property
    def n_features(self) -> int:
        """Number d of features of an arm."""

    def play(self, rounds: int, generator: np.random.Generator) -> Iterator[Rounds]:
        """Draw one problem and yield its rounds, several at a time.

        All randomness comes from the generator: equal generators give the same problem, whose
        first rounds do not depend on the number of rounds.

        Parameters
        ----------
        rounds
            Number of rounds.
        generator
            Source of randomness.
        """


def split_rounds(rounds: int) -> Iterator[int]:
    """Yield how many rounds to draw at once, until all are drawn; only the last number may be smaller."""
    for start in range(0, rounds, ROUNDS_AT_ONCE):
        yield min(ROUNDS_AT_ONCE, rounds - start)


def check_scales(**scales: float) -> None:
    """Reject standard deviations that are not those of a model; an environment has one number for each.

    Parameters
    ----------
    scales
        `noise_std`, `arm_std` or `coef_std`, by name.
    """
    for name, value in scales.items():
        number_of(name, value, ParameterError)  # a model also accepts a list of them
    Scales(**scales)  # type: ignore[arg-type]  # none of these names is that of a list
