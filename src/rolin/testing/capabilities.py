"""Protocols for what policies can do: all decide and update, some also predict or save."""

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
    """A policy that decides and learns, as all do."""

    def decide(
        self,
        contexts: Mapping[Any, ArrayLike] | ArrayLike,
        arms: Iterable[Name] | None = None,
        *,
        top_k: int | None = None,
        exclude: Iterable[Name] = (),
        key: Key | None = None,
    ) -> Decision:
        """Choose an arm; nothing is learned."""

    def update(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one reward."""


@runtime_checkable
class Predicts(Decides, Protocol):
    """A policy that predicts the mean reward of each arm, with its uncertainty."""

    def predict(
        self, contexts: Mapping[Any, ArrayLike] | ArrayLike, arms: Iterable[Name] | None = None
    ) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of each arm's mean reward."""


@runtime_checkable
class Saves(Decides, Protocol):
    """A policy that saves its state to a file."""

    def save(self, path: str) -> None:
        """Write the state to a file."""


MakePolicy = Callable[..., Any]
"""Creates a policy from `n_features` and `seed`: a class, or another callable."""
