"""One context for all arms: a (K, d) array that holds a single row, because its first stride is 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["is_repeated", "read_only_rows", "repeated"]

Floats = NDArray[np.float64]


def repeated(row: Floats, n: int) -> Floats:
    """Return an (n, d) array whose n rows are the same memory.

    It is writable if the row is, because a read-only array is another type to Numba, for which the kernels would be
    compiled again. Nothing writes to it.
    """
    return np.ndarray((n, len(row)), np.float64, row, strides=(0, row.itemsize))


def read_only_rows(row: Floats, n: int) -> Floats:
    """Return the same for callers who might write to one row, and would change all of them."""
    rows = repeated(row, n)
    rows.flags.writeable = False
    return rows


def is_repeated(rows: object) -> bool:
    """Return whether all rows of an array are the same memory."""
    return isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.strides[0] == 0
