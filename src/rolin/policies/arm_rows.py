"""Arrays with one row per arm, which grow as arms appear."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["with_row"]

Floats = NDArray[np.float64]


def with_row(array: Floats, row: int) -> Floats:
    """Return an array that has a row with this index: itself, or a larger copy.

    New rows are copies of row 0, which holds the values of an arm that was never observed. The number of rows at
    least doubles, so that n arms cost O(n).
    """
    old = len(array)
    if row < old:
        return array
    grown = np.empty((max(row + 1, 2 * old), *array.shape[1:]))
    grown[:old], grown[old:] = array, array[0]
    return grown
