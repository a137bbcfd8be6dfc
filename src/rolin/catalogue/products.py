"""Products of the features of all arms with some vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.compile import Floats, compiled

__all__ = ["products"]

Features = NDArray[Any]  # (K, p), float32 or float64


@compiled(reorder=True)
def products(
    x: Features,  # (K, p)
    vectors: Floats,  # (m, 1 + p): v; the first number belongs to a constant feature 1
    out: Floats,  # (m, K), written: x'v
) -> None:
    """Multiply the features of all arms with some vectors, in double precision."""
    n = vectors.shape[0]
    for v in range(0, n - 1, 2):
        _by_two(x, vectors[v : v + 2], out[v : v + 2])
    if n % 2:
        _by_one(x, vectors[n - 1], out[n - 1])


@compiled(reorder=True)
def _by_two(x: Features, vectors: Floats, out: Floats) -> None:
    """Multiply with two vectors at a time, which takes two thirds of the time of one after the other."""
    first, second = vectors[0, 1:], vectors[1, 1:]
    for k in range(x.shape[0]):
        own, total, other = x[k], vectors[0, 0], vectors[1, 0]
        for j in range(x.shape[1]):
            value = np.float64(own[j])
            total += value * first[j]
            other += value * second[j]
        out[0, k], out[1, k] = total, other


@compiled(reorder=True)
def _by_one(x: Features, vector: Floats, out: Floats) -> None:
    weights = vector[1:]
    for k in range(x.shape[0]):
        own, total = x[k], vector[0]
        for j in range(x.shape[1]):
            total += np.float64(own[j]) * weights[j]
        out[k] = total
