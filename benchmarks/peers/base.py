"""The interfaces of players and contenders: what a round consists of, and which parts are timed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Player(ABC):
    """What answers questions and learns from rewards, through the public calls of a library.

    One round is `prepare`, `decide`, `index`, `label`, `update`, `finish`, in this order; only
    `decide` and `update` are inside the clock.
    """

    name: ClassVar[str]
    models: ClassVar[str]
    """The model in a few words; neither times nor rewards can be interpreted without it."""

    def prepare(self, question: Any) -> Any:
        """Return the question in the form that the library takes; not timed."""
        return question

    @abstractmethod
    def decide(self, prepared: Any) -> Any:
        """Choose an arm; timed."""

    @abstractmethod
    def index(self, prepared: Any, answer: Any) -> int:
        """Return the index of the chosen arm; not timed."""

    def label(self, prepared: Any, index: int, reward: float) -> None:  # noqa: B027  (may be empty)
        """Store the reward in the prepared candidates if the library needs it there; not timed."""

    @abstractmethod
    def update(self, prepared: Any, answer: Any, reward: float) -> None:
        """Learn from the reward; timed."""

    def finish(self, prepared: Any) -> None:  # noqa: B027  (may be empty)
        """Release what `prepare` allocated; not timed."""


class Contender(Player):
    """A player that is timed: the same K arms in every round, all with an update before the first.

    Its questions are (K, d) contexts.

    Parameters
    ----------
    names
        The K arms.
    n_features
        Number d of features.
    rng
        Source of the seed, and of random numbers that a library leaves to its caller.
    """

    peer: ClassVar[str] = "Python"
    """"rolin", "Python", "engine" or "reference": the group of contenders that a target refers to."""

    def __init__(self, names: list[str], n_features: int, rng: np.random.Generator) -> None:
        self.names = names
        self.number = {name: i for i, name in enumerate(names)}
        self.rng = rng
        self.build(n_features, int(rng.integers(2**31)))

    @abstractmethod
    def build(self, n_features: int, seed: int) -> None:
        """Make the policy."""

    @abstractmethod
    def warm(self, contexts: Floats, rewards: Floats) -> None:
        """Update every arm once, arm k with row k of the (K, d) contexts; not timed."""
