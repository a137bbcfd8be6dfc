"""What a policy answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.policies.keyed_random import Key

__all__ = ["Decision", "Probabilities"]

Floats = NDArray[np.float64]


class Decision(NamedTuple):
    """What was decided; `policy.update(decision.arm, decision.context, reward)` learns from it."""

    arm: Name
    """The chosen arm."""
    context: Floats
    """(d,): its context."""
    ranking: tuple[Name, ...]
    """The best `top_k` arms, the chosen one first."""
    contexts: Floats
    """(top_k, d): the contexts of the ranking."""
    key: Key
    """What the draws were keyed by: with the same key and state, the decision is the same."""


class Probabilities(NamedTuple):
    """How likely each of K arms is to be chosen first."""

    values: NDArray[np.float64]
    """(K,): they sum to 1."""
    std_error: NDArray[np.float64]
    """(K,): zero where the probability is computed exactly."""
