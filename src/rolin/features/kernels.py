"""Loops over what is not zero, compiled: slots of two sides, multiplied and put in place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rolin._support.compile import Floats, compiled

__all__ = ["count_crossed", "cross", "cross_hashed", "cross_sparse", "mixed", "scale"]

Places = NDArray[np.int32]
Hashes = NDArray[np.uint64]


@compiled(reorder=False)
def scale(
    raw: Floats,  # (n, q)
    center: Floats,  # (q,)
    unit: Floats,  # (q,)
    largest: float,
    out: Floats,  # (n, q), written
) -> bool:
    """Bring numbers to their scales; return whether none is too large, or NaN."""
    n, q = out.shape
    good = True
    for k in range(n):
        for j in range(q):
            value = (raw[k, j] - center[j]) / unit[j]
            out[k, j] = value
            good &= abs(value) <= largest
    return good


@compiled(reorder=False)
def cross(
    left: Places,  # (1 or n, slots): places of the situation, 0 for its constant
    left_values: Floats,
    right: Places,  # (n, slots): those of the arm
    right_values: Floats,
    place: Places,  # (left, right): where a product goes, -1 for nowhere
    out: Floats,  # (n, d), zeros, written
) -> None:
    """Put the products of all slots of two sides where they belong."""
    n, own, theirs = right.shape[0], right.shape[1], left.shape[1]
    shared = left.shape[0] == 1
    for k in range(n):
        s = 0 if shared else k
        for j in range(theirs):
            u = left_values[s, j]
            if u == 0.0:
                continue
            row = left[s, j]
            for i in range(own):
                v = right_values[k, i]
                p = place[row, right[k, i]]
                if p >= 0 and v != 0.0:
                    out[k, p] = u * v


@compiled(reorder=False)
def count_crossed(
    left: Places, left_values: Floats, right: Places, right_values: Floats, place: Places
) -> NDArray[np.int64]:
    """Return where the non-zeros of each row end."""
    n, shared = right.shape[0], left.shape[0] == 1
    ends = np.zeros(n + 1, dtype=np.int64)
    for k in range(n):
        s = 0 if shared else k
        count = 0
        for j in range(left.shape[1]):
            if left_values[s, j] != 0.0:
                for i in range(right.shape[1]):
                    if right_values[k, i] != 0.0 and place[left[s, j], right[k, i]] >= 0:
                        count += 1
        ends[k + 1] = ends[k] + count
    return ends


@compiled(reorder=False)
def cross_sparse(
    left: Places,
    left_values: Floats,
    right: Places,
    right_values: Floats,
    place: Places,
    ends: NDArray[np.int64],
    columns: Places,  # (non-zeros,), written
    values: Floats,  # (non-zeros,), written
) -> None:
    """Write the products of all slots as compressed rows."""
    n, shared = right.shape[0], left.shape[0] == 1
    for k in range(n):
        s = 0 if shared else k
        at = ends[k]
        for j in range(left.shape[1]):
            u = left_values[s, j]
            if u != 0.0:
                for i in range(right.shape[1]):
                    v = right_values[k, i]
                    p = place[left[s, j], right[k, i]]
                    if p >= 0 and v != 0.0:
                        columns[at] = p
                        values[at] = u * v
                        at += 1


@compiled(reorder=False)
def mixed(left: np.uint64, right: np.uint64) -> np.uint64:
    """Return the hash of a pair from those of its two parts: a round of splitmix64 between them."""
    h = left + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    h = (h ^ (h >> np.uint64(31))) ^ right
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@compiled(reorder=False)
def cross_hashed(
    left: Hashes,  # (L,): of the situation
    left_values: Floats,
    right: Hashes,  # of all arms, one after the other
    right_values: Floats,
    ends: NDArray[np.int64],  # (K,): where those of an arm end
    crossed: bool,
    first: int,  # the first place that is hashed to
    out: Floats,  # (K, d), added to
) -> None:
    """Add all tokens, and the products of tokens of the two sides, at the places of their hashes.

    The lowest bit of a hash is the sign, so that tokens that share a place do not add up on average
    (Weinberger et al. 2009).
    """
    size = np.uint64(out.shape[1] - first)
    start = 0
    for k in range(len(ends)):
        for j in range(len(left)):
            _add(out[k], left[j], left_values[j], first, size)
        for i in range(start, ends[k]):
            _add(out[k], right[i], right_values[i], first, size)
            if crossed:
                for j in range(len(left)):
                    h = mixed(left[j], right[i])
                    _add(out[k], h, left_values[j] * right_values[i], first, size)
        start = ends[k]


@compiled(reorder=False, inline=True)
def _add(row: Floats, h: np.uint64, value: float, first: int, size: np.uint64) -> None:
    sign = 1.0 - 2.0 * float(h & np.uint64(1))
    row[first + np.int64((h >> np.uint64(1)) % size)] += sign * value
