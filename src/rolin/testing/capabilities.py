"""What policies can do, as protocols: every policy decides and updates, some do more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, SupportsFloat, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin.policies.decision import Decision
from rolin.policies.keyed_random import Key

__all__ = ["Decides", "MakePolicy", "Predicts", "Saves"]

Floats = NDArray[np.float64]


@runtime_checkable
class Decides(Protocol):
    """What every policy can do."""

    def decide(
        self,
        contexts: Mapping[Any, ArrayLike] | ArrayLike,
        arms: Iterable[Name] | None = None,
        *,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
        key: Key | None = None,
    ) -> Decision:
        """Choose an arm, without learning anything."""

    def update(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one reward."""


@runtime_checkable
class Predicts(Decides, Protocol):
    """A policy that knows how good each arm is, and how sure it is."""

    def predict(
        self, contexts: Mapping[Any, ArrayLike] | ArrayLike, arms: Iterable[Name] | None = None
    ) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of each arm's mean reward."""


@runtime_checkable
class Saves(Decides, Protocol):
    """A policy whose state is one file."""

    def save(self, path: str) -> None:
        """Write the state, for `rolin.load`."""


MakePolicy = Callable[..., Any]
"""Makes a policy from `n_features` and `seed`: a class will do."""
