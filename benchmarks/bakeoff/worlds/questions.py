"""The interface of worlds: all questions and rewards of a run, drawn before any contender plays.

A round is a page of K candidates of a catalogue of arms. All contenders get the same pages and, for the
same arm, the same reward.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Blocks", "Floats", "Ints", "Probe", "Question", "Questions", "Shape", "World"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Shape(NamedTuple):
    """What a contender knows of a world before the first round."""

    n_arms: int
    """Number of arms in the catalogue; their names are 0 … n_arms - 1."""
    n_features: int
    """Number d of features of a candidate's context."""
    n_situation: int
    """Number of features of the situation; 0 if candidates share nothing."""
    items: Floats | None
    """(n_arms, p): features of the arms that never change, or `None`."""
    shared: bool
    """Whether the situation is all that is known, so that contexts are only its copies per arm."""
    binary: bool
    """Whether rewards are 0 or 1."""
    low: float = 0.0
    """A lower bound of nearly all rewards, as a user would state it."""
    high: float = 1.0
    """An upper bound of nearly all rewards."""


class Question(NamedTuple):
    """One round."""

    arms: list[int]
    """The K candidates."""
    contexts: Floats
    """(K, d): the features of every candidate: those of the situation, the arm, and their products."""
    situation: Floats | None
    """(s,): the features that all candidates share, such as those of the user."""


class Probe(NamedTuple):
    """A page whose mean rewards are known, to check intervals after the last round."""

    arms: list[int]
    """Names of the n arms, each once."""
    contexts: Floats
    """(n, d)."""
    means: Floats
    """(n,)."""
    situations: Floats | None = None
    """(n, s): the situation of every arm, where the situation is all that is known."""


@dataclass(frozen=True)
class Blocks:
    """Contexts of shared situations: the situation in the arm's own block of columns, zeros elsewhere.

    This gives every arm coefficients of its own in one linear model, for libraries that have no other way.
    """

    arms: Ints
    situations: Floats
    n_arms: int

    def __getitem__(self, t: int) -> Floats:
        """Return the (K, n_arms * s) contexts of round t."""
        return self.of(self.arms[t], self.situations[t])

    def of(self, arms: Ints, situations: Floats) -> Floats:
        """Return the contexts of arms in one situation, or each in its own."""
        s = situations.shape[-1]
        made = np.zeros((len(arms), self.n_arms, s))
        made[np.arange(len(arms)), arms] = situations
        return made.reshape(len(arms), -1)


@dataclass(frozen=True, kw_only=True)
class Questions:
    """All rounds of one run."""

    shape: Shape
    arms: Ints
    """(T, K): the candidates."""
    contexts: Floats | Blocks
    """(T, K, d), or the means to make it."""
    rewards: Floats
    """(T, K): the reward of every candidate; a contender learns only that of the arm it chooses."""
    situations: Floats | None = None
    """(T, s)."""
    probes: list[Probe]

    def __len__(self) -> int:
        return len(self.arms)

    def question(self, t: int) -> Question:
        """Return round t."""
        situation = None if self.situations is None else self.situations[t]
        return Question(self.arms[t].tolist(), self.contexts[t], situation)


class World(ABC):
    """A problem, from which runs are drawn."""

    name: str

    def generator(self, run: int) -> np.random.Generator:
        """Return the source of all randomness of a run."""
        return np.random.default_rng([zlib.crc32(self.name.encode()), run])

    @abstractmethod
    def draw(self, rounds: int, run: int) -> Questions:
        """Return the questions of a run; the first rounds do not depend on the number of rounds."""
