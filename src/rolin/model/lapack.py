"""Parts of BLAS and LAPACK that NumPy does not have. Unlike SciPy's wrappers, they let other threads run meanwhile."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["add_products", "inverse_of_triangle", "root_rows", "triangle_with", "tridiagonal"]

Floats = NDArray[np.float64]
_BLOCK = 64  # columns that LAPACK reduces at a time, for the size of its work space
_QR_BLOCK = 32  # columns of a QR decomposition at a time (measured)
# Pivots below this share of the diagonal element they began with are rounding errors.
_NEGLIGIBLE = 1e-13


@functools.cache
def _function(name: str, n_arguments: int) -> Any:
    """Return a function of BLAS or LAPACK, all of whose arguments are pointers."""
    from numba.extending import get_cython_function_address  # imports SciPy, which takes 0.2 s

    library = "blas" if name == "dsyrk" else "lapack"
    address = get_cython_function_address(f"scipy.linalg.cython_{library}", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


def _call(name: str, *arguments: Any) -> None:
    """Call a function of BLAS or LAPACK with letters, integers, numbers, and arrays, which it may change."""
    pointers: list[Any] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            pointers.append(value.ctypes.data)
        elif isinstance(value, bytes):
            pointers.append(value)
        else:
            kind = ctypes.c_int if isinstance(value, int) else ctypes.c_double
            pointers.append(ctypes.byref(kind(value)))
    _function(name, len(pointers))(*pointers)


def add_products(rows: Floats, out: Floats, factor: float = 1.0) -> None:
    """Add factor * rows.T @ rows to a matrix: to its diagonal and what is above it. NumPy would fill the other half, too."""
    n, k = len(out), len(rows)
    if n and k:
        _call("dsyrk", b"L", b"N", n, k, factor, np.ascontiguousarray(rows), n, 1.0, out, n)


def tridiagonal(matrix: Floats, rows: Floats, out: Floats) -> None:
    """Reduce a symmetric matrix by an orthogonal transformation, and apply this to the rows of `rows`.

    Parameters
    ----------
    matrix
        (n, n), overwritten. What is below the diagonal is not read.
    rows
        (p, n), transformed in place.
    out
        (2, n), written: the diagonal, and the subdiagonal from 1 on.
    """
    n, info = len(matrix), np.zeros(1, dtype=np.int32)
    diagonal, below, factors = np.empty(n), np.empty(n), np.empty(n)
    work = np.empty(_BLOCK * max(n, len(rows)))
    _call("dsytrd", b"L", n, matrix, n, diagonal, below, factors, work, len(work), info)
    # The reflections begin one row below the diagonal. C order of the rows is the transpose in LAPACK's order.
    start, shifted = matrix.reshape(-1)[1:], rows.reshape(-1)[1:]
    if n > 1 and len(rows):
        _call(
            "dormqr", b"L", b"T", n - 1, len(rows), n - 1, start, n, factors, shifted, n, work, len(work), info,
        )  # fmt: skip
    out[0], out[1, 1:] = diagonal, below[: n - 1]
    out[1, :1] = 0.0


def root_rows(matrix: Floats) -> Floats:
    """Return (r, n) rows whose products add up to a positive semidefinite matrix of rank r, except for rounding."""
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    unit = np.where(size > 0.0, size, 1.0)
    n, scaled = len(matrix), matrix / np.outer(unit, unit)  # rounding is relative to each feature
    if not np.isfinite(scaled).all():
        raise np.linalg.LinAlgError("a matrix is not finite")
    order, rank = np.zeros(n, dtype=np.int32), np.zeros(1, dtype=np.int32)
    info = np.zeros(1, dtype=np.int32)
    _call("dpstrf", b"L", n, scaled, n, order, rank, _NEGLIGIBLE, np.empty(2 * n), info)
    # In LAPACK's order, the lower triangle of `scaled` is the upper one here.
    rows = np.empty((int(rank[0]), n))
    rows[:, order - 1] = np.triu(scaled)[: len(rows)]
    return rows * unit


def triangle_with(triangle: Floats, rows: Floats) -> Floats:
    """Return upper-triangular R with R'R = triangle'triangle + rows'rows, also for an upper triangle.

    This is the QR decomposition of both, one above the other, without the work for the zeros of the triangle.
    """
    r, below = np.array(triangle, order="F"), np.array(rows, order="F")
    n, k = len(r), len(below)
    if not k:
        return r
    nb, info = min(_QR_BLOCK, n), np.zeros(1, dtype=np.int32)
    factors, work = np.empty((2, nb * n))
    _call("dtpqrt", k, n, 0, nb, r, n, below, k, factors, nb, work, info)
    return r


def inverse_of_triangle(triangle: Floats) -> Floats:
    """Return the inverse of an upper triangle, in half the time of solving for the columns of the identity."""
    inverse, info = np.array(triangle, order="F"), np.zeros(1, dtype=np.int32)
    n = len(inverse)
    _call("dtrtri", b"U", b"N", n, inverse, n, info)
    if info[0]:
        raise np.linalg.LinAlgError("a triangle is singular")
    return inverse
