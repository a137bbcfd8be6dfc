"""What every contender is asked to do, and what of it is timed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Contender(ABC):
    """A bandit library behind its public calls.

    One round is `prepare`, `decide`, `index`, `label`, `update`, `finish`, in this order; only
    `decide` and `update` are inside the clock.

    Parameters
    ----------
    names
        The K arms.
    n_features
        Number d of features.
    rng
        For the seed, and for what a library leaves to its caller.
    """

    name: ClassVar[str]
    models: ClassVar[str]
    """What is modelled, in a few words: no ratio means anything without it."""
    peer: ClassVar[str] = "Python"
    """"rolin", "Python", "engine" or "reference": which target it belongs to."""

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
        """See every arm once, arm k with row k of the (K, d) contexts."""

    def prepare(self, contexts: Floats) -> Any:
        """Return a question in the library's own form; not timed."""
        return contexts

    @abstractmethod
    def decide(self, question: Any) -> Any:
        """Choose an arm; timed."""

    @abstractmethod
    def index(self, question: Any, answer: Any) -> int:
        """Return the index of the chosen arm; not timed."""

    def label(self, question: Any, index: int, reward: float) -> None:  # noqa: B027  (may be empty)
        """Write the reward where the library wants it; not timed."""

    @abstractmethod
    def update(self, question: Any, answer: Any, reward: float) -> None:
        """Learn the reward; timed."""

    def finish(self, question: Any) -> None:  # noqa: B027  (may be empty)
        """Give back what `prepare` took; not timed."""
