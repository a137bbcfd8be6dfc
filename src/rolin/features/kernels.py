"""Compiled loops that multiply the non-zero entries of situation and arm, and write the products to vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rolin._support.compile import Floats, Rows, compiled

__all__ = [
    "count_crossed",
    "cross",
    "cross_hashed",
    "cross_sparse",
    "fill_rows",
    "mix_hashes",
    "scale",
    "sort_hashes",
]

Indices = NDArray[np.int32]
Hashes = NDArray[np.uint64]


@compiled(reorder=False)
def scale(
    raw: Floats,  # (n, q)
    center: Floats,  # (q,)
    unit: Floats,  # (q,)
    largest: float,
    out: Floats,  # (n, q), written
) -> bool:
    """Write (raw - center) / unit; return whether every number is at most `largest`, and not NaN."""
    n, q = out.shape
    good = True
    for k in range(n):
        for j in range(q):
            value = (raw[k, j] - center[j]) / unit[j]
            out[k, j] = value
            good &= abs(value) <= largest
    return good


@compiled(reorder=False)
def fill_rows(
    raw: Floats,  # (·, n): numbers and booleans, whole columns
    sources: Rows,  # (q,): which of them are used
    center: Floats,  # (q,)
    unit: Floats,  # (q,)
    largest: float,
    number_entries: Rows,  # (q,): where they are in a row
    texts: Indices,  # (c n,): feature indices of categories, whole columns
    text_entries: Rows,  # (c,): where they are in a row
    first: Indices,  # (m,): the first feature index of each entry
    indices: Indices,  # (n, m), written
    values: Floats,  # (n, m), written
) -> bool:
    """Write the entries of n rows; return whether every scaled number is at most `largest`, and not NaN."""
    good, n = True, indices.shape[0]
    for k in range(n):
        for j in range(len(first)):
            indices[k, j] = first[j]
            values[k, j] = 1.0
        for j in range(len(number_entries)):
            value = (raw[sources[j], k] - center[j]) / unit[j]
            values[k, number_entries[j]] = value
            good &= abs(value) <= largest
        for j in range(len(text_entries)):
            indices[k, text_entries[j]] = texts[j * n + k]
    return good


@compiled(reorder=False)
def cross(
    left: Indices,  # (1 or n, ·): feature indices of the situation, 0 for its constant
    left_values: Floats,
    right: Indices,  # (n, ·): feature indices of the arm, 0 for its constant
    right_values: Floats,
    indices: Indices,  # (left, right): the feature index of each product, -1 for none
    out: Floats,  # (n, d), zeros, written
) -> None:
    """Write the products of all entries of the situation with all entries of the arm."""
    n, m_right, m_left = right.shape[0], right.shape[1], left.shape[1]
    shared = left.shape[0] == 1
    for k in range(n):
        s = 0 if shared else k
        for j in range(m_left):
            u = left_values[s, j]
            if u == 0.0:
                continue
            row = left[s, j]
            for i in range(m_right):
                v = right_values[k, i]
                index = indices[row, right[k, i]]
                if index >= 0 and v != 0.0:
                    out[k, index] = u * v


@compiled(reorder=False)
def count_crossed(
    left: Indices, left_values: Floats, right: Indices, right_values: Floats, indices: Indices
) -> NDArray[np.int64]:
    """Return (n + 1,): where the non-zeros of each row begin and end, as in a CSR matrix."""
    n, shared = right.shape[0], left.shape[0] == 1
    ends = np.zeros(n + 1, dtype=np.int64)
    for k in range(n):
        s = 0 if shared else k
        count = 0
        for j in range(left.shape[1]):
            if left_values[s, j] != 0.0:
                for i in range(right.shape[1]):
                    if right_values[k, i] != 0.0 and indices[left[s, j], right[k, i]] >= 0:
                        count += 1
        ends[k + 1] = ends[k] + count
    return ends


@compiled(reorder=False)
def cross_sparse(
    left: Indices,
    left_values: Floats,
    right: Indices,
    right_values: Floats,
    indices: Indices,
    ends: NDArray[np.int64],
    out_indices: Indices,  # (non-zeros,), written
    out_values: Floats,  # (non-zeros,), written
) -> None:
    """Write the same products as `cross`, as the rows of a CSR matrix."""
    n, shared = right.shape[0], left.shape[0] == 1
    for k in range(n):
        s = 0 if shared else k
        at = ends[k]
        for j in range(left.shape[1]):
            u = left_values[s, j]
            if u != 0.0:
                for i in range(right.shape[1]):
                    v = right_values[k, i]
                    index = indices[left[s, j], right[k, i]]
                    if index >= 0 and v != 0.0:
                        out_indices[at] = index
                        out_values[at] = u * v
                        at += 1


@compiled(reorder=False)
def mix_hashes(left: np.uint64, right: np.uint64) -> np.uint64:
    """Return the hash of a pair from the hashes of its two parts, by two rounds of splitmix64."""
    h = left + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    h = (h ^ (h >> np.uint64(31))) ^ right
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@compiled(reorder=False)
def sort_hashes(
    columns: Hashes,  # (m, n): the hashes of m fields in n rows
    numbers: Floats,  # (·, n): columns of numbers
    sources: Rows,  # (m,): which of them are the values of a field, -1 if these are all 1
    hashes: Hashes,  # (n m,), written: row by row, the lowest hash of each row first
    values: Floats,  # (n m,), written: their values
) -> None:
    """Write the hashes of each row in ascending order, with their values."""
    m, n = columns.shape
    for k in range(n):
        start = k * m
        for j in range(m):
            h = columns[j, k]
            value = numbers[sources[j], k] if sources[j] >= 0 else 1.0
            i = start + j
            while i > start and hashes[i - 1] > h:
                hashes[i], values[i] = hashes[i - 1], values[i - 1]
                i -= 1
            hashes[i], values[i] = h, value


@compiled(reorder=False)
def cross_hashed(
    left: Hashes,  # (L,): tokens of the situation
    left_values: Floats,
    right: Hashes,  # tokens of all arms, one arm after the other
    right_values: Floats,
    ends: NDArray[np.int64],  # (K,): where the tokens of each arm end
    crossed: bool,
    first: int,  # the first feature index that tokens are hashed to
    out: Floats,  # (K, d), added to
) -> None:
    """Add all tokens, and the products of tokens of situation and arm, to the features of their hashes.

    The lowest bit of a hash is the sign, so that tokens that share a feature cancel on average
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
                    h = mix_hashes(left[j], right[i])
                    _add(out[k], h, left_values[j] * right_values[i], first, size)
        start = ends[k]


@compiled(reorder=False, inline=True)
def _add(row: Floats, h: np.uint64, value: float, first: int, size: np.uint64) -> None:
    sign = 1.0 - 2.0 * float(h & np.uint64(1))
    row[first + np.int64((h >> np.uint64(1)) % size)] += sign * value
