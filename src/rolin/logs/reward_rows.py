"""Rewards of a batch as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["RewardRows"]

Floats = NDArray[np.float64]


class RewardRows(NamedTuple):
    """The rewards of a batch, with the arms and contexts that they belong to."""

    names: Sequence[Any]
    """The K distinct arms."""
    codes: NDArray[np.int64]
    """(n,): index of each reward's arm in `names`."""
    contexts: Floats
    """(n, d)"""
    rewards: Floats
    """(n,)"""
    weights: Floats
    """(n,)"""
    rows: NDArray[np.int64] | None = None
    """(n,): the row of the batch that each reward is from; `None` if they are all rows, in order."""
