"""What learns from the rewards of named arms: the part that all models share."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import ArmIndex, Name, canonical
from rolin._support.checks import (
    FLOAT64,
    as_batch,
    as_floats,
    as_names,
    count_of,
    first_not_finite,
    number_of,
)
from rolin.errors import InputError, NotFiniteError, ShapeError, Unsupported
from rolin.model.sparse import SparseContexts

__all__ = ["Candidates", "Learner"]

Floats = NDArray[np.float64]


class Candidates(NamedTuple):
    """K arms to choose from."""

    contexts: Floats
    """(K, d), or a sparse matrix that stands for it."""
    names: Sequence[Name]
    rows: NDArray[np.int64]
    """Row of each arm in the model's arrays; 0 for an arm that was never observed."""


class Learner(ABC):
    """Names of arms, the questions about them, and the calls that every model answers.

    Parameters
    ----------
    n_features
        Number d of features of a context.
    """

    def __init__(self, n_features: int) -> None:
        self.n_features = count_of("n_features", n_features, most=100_000)
        self._shape = (self.n_features,)  # of a context
        self._index = ArmIndex()

    @abstractmethod
    def observe(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one reward."""

    def observe_many(
        self,
        arms: Iterable[Name],
        contexts: ArrayLike,
        rewards: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        """Learn from n rewards, the same as from one after the other; all or none."""
        batch = as_batch(arms, contexts, rewards, weights, self.n_features)
        before = copy.deepcopy(self)
        try:
            for arm, x, r, h in zip(*batch, strict=True):
                self.observe(arm, x, r, h)
        except BaseException:
            self.__setstate__(vars(before))
            raise

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state: of what was copied, pickled, or there before a batch that failed."""
        vars(self).update(state)

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays (views, not copies).

        With names and settings, it is all there is.
        """

    def restore(
        self, names: Iterable[Name], removed: Iterable[Name], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Take the place of the model that had these names and arrays."""
        self._index = ArmIndex(names, removed)
        self._reserve(len(self._index))
        for name, own in self.arrays().items():
            given = arrays[name]
            if given.shape != own.shape or not np.isfinite(given).all():
                raise ShapeError(f"{name} has shape {given.shape}, expected {own.shape}, finite")
            own[...] = given

    def extend(self, n_features: int) -> None:
        """Have more features, behind those that there are, of which nothing is known but the prior."""
        raise Unsupported(f"{type(self).__name__} cannot have more features than it began with")

    def _reserve(self, last_row: int) -> int:
        """Make room for rows up to `last_row`, of models that keep one per arm; return it."""
        return last_row

    def _observed(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat
    ) -> tuple[Name, Floats, float, float]:
        """Check an observation; a model's own sums may still overflow."""
        x: Any = context
        if not (type(x) is np.ndarray and x.dtype is FLOAT64 and x.flags.carray):
            x = as_floats("context", x)
        if x.shape != self._shape:
            raise ShapeError(f"context has shape {x.shape}, expected {self._shape}")
        r, h = number_of("reward", reward), number_of("weight", weight)
        if not h > 0.0:
            raise InputError(f"weight={weight!r}, expected a positive number")
        if not np.isfinite(x).all():
            raise first_not_finite("context", x)
        for what, value in (("reward", r), ("weight", h)):
            if not math.isfinite(value):
                raise NotFiniteError(f"{what} is {value}, expected finite numbers")
        return canonical(arm), x, r, h

    def remove_arm(self, arm: Name) -> None:
        """Take an arm out of the game. What it taught about the coefficients stays."""
        self._index.remove(arm)

    def restore_arm(self, arm: Name, *, with_past: bool = True) -> None:
        """Bring a removed arm back: as what it was, or as a new arm of the same name."""
        self._index.restore(arm, with_past=with_past)

    @property
    def arms(self) -> list[Name]:
        """Arms that have been observed and not removed, in order of appearance."""
        return self._index.active

    @property
    def removed_arms(self) -> list[Name]:
        """Arms that were removed and have not come back."""
        return self._index.removed

    @property
    def names(self) -> list[Name]:
        """Name of every row of the state, past lives and removed arms included (a copy)."""
        return list(self._index.names)

    def rows_of(self, arms: Sequence[Name]) -> NDArray[np.int64]:
        """Return the row of each arm in the model's arrays, removed arms included; 0 if never observed.

        The names must be in their plain form; an arm may occur several times.
        """
        return np.fromiter(map(self._index.row_of.get, arms, repeat(0)), np.int64, len(arms))

    def candidates(self, contexts: ArrayLike, arms: Iterable[Name] | None) -> Candidates:
        """Check contexts and arms; whether the contexts are finite shows when they are used."""
        x: Any = contexts
        # Ready for the kernels as it is? Written out: a call would take 0.1 µs.
        if not (type(x) is np.ndarray and x.dtype is FLOAT64 and x.flags.carray):
            x = x if type(x) is SparseContexts else as_floats("contexts", x)
        shape = x.shape
        if len(shape) != 2 or shape[1] != self.n_features:
            raise ShapeError(f"contexts has shape {shape}, expected (K, {self.n_features})")
        if arms is None:
            found = self._index.find(range(shape[0]))
            return tuple.__new__(Candidates, (x, *found))
        names = arms if type(arms) is list else as_names(arms)
        if len(names) != shape[0]:
            raise ShapeError(f"arms has {len(names)} names, expected {shape[0]}, one per context")
        # what Candidates(…) does, in half the time
        return tuple.__new__(Candidates, (x, *self._index.find(names)))
