"""Features of many arms."""

from __future__ import annotations

from typing import Any

import numpy as np

D = 5


def array(rng: np.random.Generator, n: int = 300) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the features of n arms."""
    return rng.normal(size=(n, D))
