"""The decision of a policy, and the probabilities of its choices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.policies.keyed_random import Key

__all__ = ["Decision", "Probabilities"]

Floats = NDArray[np.float64]


class Decision(NamedTuple):
    """The decision of a policy; `policy.update(decision.arm, decision.context, reward)` learns from it."""

    arm: Name
    """The chosen arm."""
    context: Floats
    """(d,): the context of the chosen arm."""
    ranking: tuple[Name, ...]
    """The `top_k` best arms, the chosen arm first."""
    contexts: Floats
    """(top_k, d): the contexts of the ranking."""
    key: Key
    """The key of the random numbers: the same key, state and candidates give the same decision."""


class Probabilities(NamedTuple):
    """The probability of each of K arms to be chosen first."""

    values: NDArray[np.float64]
    """(K,): the probabilities, which sum to 1."""
    std_error: NDArray[np.float64]
    """(K,): their standard errors; zero where the probability is computed rather than estimated."""
