"""Features and fields of many arms."""

from __future__ import annotations

from typing import Any

import numpy as np

import rolin
from rolin.features import Category, Number, Tags

D = 5
# Numbers as scales. Without them, the first decisions depend on nothing but the numbers of rewards.
SCALES: dict[str, Any] = {"coef_std": 1.0, "arm_std": 0.5, "noise_std": 1.0}


def array(rng: np.random.Generator, n: int = 300) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the features of n arms."""
    return rng.normal(size=(n, D))


def crossed_map() -> rolin.FeatureMap:
    """Return a map with situations, names, numbers and tags."""
    return rolin.FeatureMap(
        situation={
            "device": Category(["phone", "desktop"]),
            "hour": Number(center=12.0, scale=6.0),
        },
        arm={
            "price": Number(),
            "colour": Category(["red", "blue"]),
            "tags": Tags(["new", "old"]),
            "_arm": Category(["a0", "a1"]),
        },
    )


def fields(rng: np.random.Generator, n: int) -> list[dict[str, Any]]:
    """Return the fields of n arms."""
    return [
        {
            "price": float(rng.normal()),
            "colour": ["red", "blue", "green"][int(rng.integers(3))],
            "tags": ["new", "old", "other"][: int(rng.integers(4))],
        }
        for _ in range(n)
    ]
