"""What a simulation plays against: rounds, handed out in blocks.

An environment is a family of problems. Asked for rounds, it draws one problem from it and hands
out its rounds a block at a time, so that drawing them costs little and memory does not grow with
their number. A policy is shown the contexts, and the reward of the arm that it pulls; the mean
rewards are for scoring only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "Block", "Environment", "block_sizes"]

Floats = NDArray[np.float64]

BLOCK = 64
"""Rounds drawn at a time: enough that drawing is cheap, few enough that they stay in the cache."""


class Block(NamedTuple):
    """Some rounds in a row."""

    contexts: Floats
    """(B, K, d): what the policy sees."""
    means: Floats
    """(B, K): the mean reward of every arm, for scoring."""
    rewards: Floats
    """(B, K): what every arm would pay; the policy learns that of the arm it pulls."""


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
        """Draw one problem and hand out that many rounds of it.

        All randomness comes from the generator: the same one gives the same problem, and the
        first rounds of a long play are those of a short one.
        """


def block_sizes(rounds: int) -> Iterator[int]:
    """Split a number of rounds into blocks: all are full but the last."""
    for start in range(0, rounds, BLOCK):
        yield min(BLOCK, rounds - start)
