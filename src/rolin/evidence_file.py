"""Moments as a state file: evidence without a policy, from which any policy with moments can start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rolin.errors import StateFileError
from rolin.moments import Moments
from rolin.snapshot import State

__all__ = ["FOLDED", "KIND", "moments_of", "state_of"]

KIND = "Moments"
"""What stands in place of the name of a policy."""
FOLDED = "folded"
"""The setting that says how many pieces of a log these moments are of, as long as some are missing."""


def state_of(
    moments: Moments, settings: Mapping[str, Any] | None = None, features: str | None = None
) -> State:
    """Return moments as a state."""
    numbers = [moments.count, moments.sum_log_weight, moments.reward_scatter]
    arrays = {
        "numbers": np.array(numbers),
        "scatter": moments.scatter,
        "cross": moments.cross,
        "weight": moments.weight,
        "mean_context": moments.mean_context,
        "mean_reward": moments.mean_reward,
    }
    return State(KIND, dict(settings or {}), moments.arms, (), 0, arrays, features)


def moments_of(state: State) -> Moments:
    """Return the moments of a state."""
    arrays = {name: np.array(array) for name, array in state.arrays.items()}
    try:
        k, d = arrays["mean_context"].shape
        shapes: dict[str, tuple[int, ...]] = {
            "numbers": (3,), "scatter": (d, d), "cross": (d,), "weight": (k,),
            "mean_context": (k, d), "mean_reward": (k,),
        }  # fmt: skip
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} has shape {arrays[name].shape}, expected {shape}")
            if not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} has numbers that are not finite")
        if len(state.names) != k:
            raise ValueError(f"there are {len(state.names)} names for {k} arms")
    except (KeyError, ValueError) as error:
        raise StateFileError(f"the file's parts do not fit together: {error}") from error
    count, sum_log_weight, reward_scatter = arrays["numbers"].tolist()
    return Moments(
        count,
        sum_log_weight,
        arrays["scatter"],
        arrays["cross"],
        reward_scatter,
        tuple(state.names),
        arrays["weight"],
        arrays["mean_context"],
        arrays["mean_reward"],
    )
