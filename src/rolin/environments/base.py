"""The interface of environments: they simulate rounds, one block of rounds at a time.

An environment is a family of bandit problems. `play` draws one problem and yields its rounds in
blocks. Blocks make drawing cheap, and memory does not grow with the number of rounds. A policy
sees the contexts and the reward of the arm that it pulls; the mean rewards only measure regret.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "Block", "Environment", "block_sizes"]

Floats = NDArray[np.float64]

BLOCK = 64
"""Rounds in a block: enough to make drawing cheap, few enough to stay in the processor's cache."""


class Block(NamedTuple):
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

    def play(self, rounds: int, generator: np.random.Generator) -> Iterator[Block]:
        """Draw one problem and yield its rounds in blocks.

        All randomness comes from the generator: equal generators give the same problem, whose
        first rounds do not depend on the number of rounds.

        Parameters
        ----------
        rounds
            Number of rounds.
        generator
            Source of randomness.
        """


def block_sizes(rounds: int) -> Iterator[int]:
    """Yield the sizes of the blocks that rounds are split into; only the last may be smaller."""
    for start in range(0, rounds, BLOCK):
        yield min(BLOCK, rounds - start)
