"""The base of all models: they learn from the rewards of named arms."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
from numpy import ndarray  # found faster than np.ndarray, on the hot path
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
from rolin._support.repeated import is_repeated, repeated
from rolin.errors import (
    InputError,
    NotFiniteError,
    ShapeError,
    SharedContextWarning,
    Unsupported,
)
from rolin.model.sparse import SparseContexts

__all__ = ["Candidates", "Learner"]

Floats = NDArray[np.float64]


def _level_of_caller() -> int:
    """Return the `stacklevel` of the code that called this package, for a warning of the function that asks."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("rolin."):
        frame, level = frame.f_back, level + 1
    return level


class Candidates(NamedTuple):
    """The K arms of one decision, checked."""

    contexts: Floats
    """(K, d), an array or `SparseContexts`"""
    names: Sequence[Name]
    rows: NDArray[np.int64]
    """(K,): row of each arm in the model's arrays, 0 for an arm that was never observed"""


class Learner(ABC):
    """Base class of all models: names of arms, checks of arguments, and the methods that every model has.

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
        """Learn from n rewards as from one after the other. If one is invalid, none is learned."""
        batch = as_batch(arms, contexts, rewards, weights, self.n_features)
        before = copy.deepcopy(self)
        try:
            for arm, x, r, h in zip(*batch, strict=True):
                self.observe(arm, x, r, h)
        except BaseException:
            self.__setstate__(vars(before))
            raise

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state: after copying, after unpickling, or to undo a batch that failed."""
        vars(self).update(state)

    def commit(self, **changes: Any) -> None:
        """Set several attributes. If a signal such as Ctrl-C interrupts this, none of them is changed.

        A change of state prepares all new values and then commits them.
        """
        # `vars(self).update(changes)` would be one call of C code, but makes every later access to an attribute slower.
        before = {name: getattr(self, name, None) for name in changes}
        try:
            for name, value in changes.items():
                setattr(self, name, value)
        except BaseException:
            for name, value in before.items():
                setattr(self, name, value)
            raise

    def change(
        self, apply: Callable[[], None], rows: Mapping[str, int | slice] | None = None
    ) -> None:
        """Make a change of several steps. If it fails or is interrupted, undo it.

        Parameters
        ----------
        apply
            Makes the change.
        rows
            The arrays that it writes to, by attribute, and which rows of them. All others must be replaced.
        """
        state, known = dict(vars(self)), len(self._index)
        saved = {name: state[name][row].copy() for name, row in (rows or {}).items()}
        try:
            apply()
        except BaseException:
            vars(self).update(state)
            for name, row in (rows or {}).items():
                state[name][row] = saved[name]
            self._index.drop(known)
            raise

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays (views, not copies).

        Together with names and settings, they are the whole state.
        """

    def restore(
        self, names: Iterable[Name], removed: Iterable[Name], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Restore the state of a model that had these names and arrays."""
        self.commit(_index=ArmIndex(names, removed))
        self._reserve(len(self._index))
        for name, own in self.arrays().items():
            given = arrays[name]
            if given.shape != own.shape or not np.isfinite(given).all():
                raise ShapeError(
                    f"{name} has shape {given.shape}, expected {own.shape} and finite numbers"
                )
            own[...] = given

    def extend(self, n_features: int) -> None:
        """Append features, initialized from the prior."""
        raise Unsupported(f"features cannot be appended to a {type(self).__name__}")

    def _reserve(self, last_row: int) -> int:
        """Allocate rows up to `last_row`, if the model has one per arm; return `last_row`."""
        return last_row

    def checked_observation(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat
    ) -> tuple[Name, Floats, float, float]:
        """Return a checked observation. The sums of the model may still overflow."""
        x: Any = context
        if not (type(x) is ndarray and x.dtype is FLOAT64 and x.flags.carray):
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
        """Remove an arm, so that it cannot be chosen. What it taught about the coefficients stays."""
        self._index.remove(arm)

    def restore_arm(self, arm: Name, *, with_past: bool = True) -> None:
        """Restore a removed arm, with its past or as a new arm of the same name."""
        self._index.restore(arm, with_past=with_past)

    @property
    def arm_index(self) -> ArmIndex:
        """The names of all arms with their rows, for subclasses that have arrays of their own."""
        return self._index

    @arm_index.setter
    def arm_index(self, index: ArmIndex) -> None:
        self._index = index

    @property
    def arms(self) -> list[Name]:
        """Arms that were observed and not removed, in order of appearance."""
        return self._index.active

    @property
    def removed_arms(self) -> list[Name]:
        """Arms that were removed and not restored."""
        return self._index.removed

    @property
    def names(self) -> list[Name]:
        """Name of every row of the state, including past lives and removed arms (a copy)."""
        return list(self._index.names)

    def rows_of(self, arms: Sequence[Name]) -> NDArray[np.int64]:
        """Return the row of each arm in the model's arrays, removed arms included; 0 if never observed.

        The names must be in their plain form; an arm may occur several times.
        """
        return np.fromiter(map(self._index.row_of.get, arms, repeat(0)), np.int64, len(arms))

    def _read_contexts(self, given: ArrayLike) -> Floats:
        """Return contexts as the kernels need them; one row for all arms stays one row, if the model takes it."""
        if self.takes_shared_context and is_repeated(given) and len(given):  # type: ignore[arg-type]  # an array
            return repeated(as_floats("contexts", given[0]), len(given))  # type: ignore[arg-type,index]
        return as_floats("contexts", given)

    def candidates(self, contexts: ArrayLike, arms: Iterable[Name] | None) -> Candidates:
        """Return checked contexts and arms. Whether the contexts are finite is checked by the kernels."""
        x: Any = contexts
        # Is it ready for the kernels? Written out here, because a function call would take 0.1 µs.
        if not (type(x) is ndarray and x.dtype is FLOAT64 and x.flags.carray):
            x = x if type(x) is SparseContexts else self._read_contexts(x)
        shape = x.shape
        if len(shape) != 2 or shape[1] != self.n_features:
            if shape == self._shape and arms is not None:
                return self._with_one_context(x, arms)
            hint = f"; or ({self.n_features},) with arms=…: one context for all arms"
            if shape == self._shape:
                hint = "; to use one context for all arms, pass their names: arms=[…]"
            raise ShapeError(
                f"contexts has shape {shape}, expected (K, {self.n_features}): one row per arm, one "
                f"column per feature{hint}"
            )
        if arms is None:
            found = self._index.find(range(shape[0]))
        else:
            names = arms if type(arms) is list else as_names(arms)
            if len(names) != shape[0]:
                hint = "; pass a vector for one context that all arms share" * (shape[0] == 1)
                raise ShapeError(
                    f"arms has {len(names)} names, expected {shape[0]}, one per context{hint}"
                )
            found = self._index.find(names)
        # The same as Candidates(…), in half the time. Named tuples are read by attribute on the hot
        # path: unpacking one takes twice as long, because it is not exactly a tuple.
        return tuple.__new__(Candidates, (x, found.names, found.rows))

    takes_shared_context = False
    """Whether one context for all arms may be given as an array with one row in memory (of stride 0)."""
    shares_coefficients = False
    """Whether all arms have the same coefficients, so that one context for all arms does not change which is best."""
    _has_warned = False

    def warn_of_shared_context(self, context: Any, n_arms: int) -> None:
        """Say once that the features, if there are any, cannot change which arm is best."""
        if self.shares_coefficients and n_arms > 1 and not self._has_warned and np.any(context):
            self._has_warned = True
            warnings.warn(
                "all arms share one context and have the same coefficients, so the features cannot change which arm is best: "
                'only the best arm on average is learned. Use RoLinTS(…, slope_std="learn"), or pass one context per arm',
                SharedContextWarning,
                stacklevel=_level_of_caller(),
            )

    def _with_one_context(self, context: Floats, arms: Iterable[Name]) -> Candidates:
        """Return the candidates of a question in which all arms have the same context."""
        found = self._index.find(arms if type(arms) is list else as_names(arms))
        if self.takes_shared_context:
            contexts = repeated(context, len(found.rows))
        else:
            self.warn_of_shared_context(context, len(found.rows))
            contexts = np.empty((len(found.rows), self.n_features))
            contexts[:] = context
        return tuple.__new__(Candidates, (contexts, found.names, found.rows))
