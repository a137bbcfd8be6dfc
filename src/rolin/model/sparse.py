"""Sparse contexts, such as those of crossed and one-hot features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.errors import ShapeError

__all__ = ["SparseContexts", "is_sparse"]

Floats = NDArray[np.float64]


def is_sparse(contexts: object) -> bool:
    """Return whether contexts are a sparse matrix or array of SciPy."""
    return hasattr(contexts, "tocsr") and hasattr(contexts, "toarray")


class SparseContexts:
    """(K, d) contexts in compressed sparse rows. Indexing returns dense rows.

    Parameters
    ----------
    matrix
        A sparse matrix or array of SciPy.
    """

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            raise ShapeError(
                f"contexts is a sparse array of shape {matrix.shape} and type {matrix.dtype}, "
                "expected numbers, (K, d)"
            )
        csr = matrix.tocsr()
        if not csr.has_canonical_format:  # duplicate entries mean their sum
            csr = csr.copy()
            csr.sum_duplicates()
        self.shape: tuple[int, ...] = csr.shape
        self.ends = np.require(csr.indptr, np.int64, ["C", "A", "W"])
        self.columns = np.require(csr.indices, np.int64, ["C", "A", "W"])
        self.values = np.require(csr.data, np.float64, ["C", "A", "W"])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Floats:
        """Return one row or several rows as a dense array."""
        if isinstance(rows, (int, np.integer)):
            x = np.zeros(self.shape[1])
            own = slice(self.ends[rows], self.ends[rows + 1])
            x[self.columns[own]] = self.values[own]
            return x
        return np.array([self[int(k)] for k in rows]).reshape(len(rows), self.shape[1])
