"""Sums of observations by arm, for the moments of a batch."""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, Rows, compiled

__all__ = [
    "add_scatter",
    "add_up",
    "center",
    "move_to_means",
    "pool",
    "pool_scatter",
    "spread_of_features",
]

# Rows that are copied at a time: numbers in a cache line of a column.
_LINE = 8


@compiled(reorder=True)
def center(
    contexts: Floats,  # (n, d)
    rewards: Floats,  # (n,)
    weights: Floats,  # (n,)
    roots: Floats,  # (n,): √h
    codes: Rows,  # (n,)
    at_first: bool,  # whether to center each arm at its first observation
    rewards_at: Floats,  # (K,): the center of each arm; written if `at_first`
    contexts_at: Floats,  # (K, d): the same
    weight: Floats,  # (K,), changed: Σ h is added; 0 for an arm without observations so far
    sums: Floats,  # (K, 1 + d), changed: Σ h (r, x) around the center is added
    out: Floats,  # (n, 1 + d), written: √h (r, x) around the center
) -> None:
    """Subtract the center of their arm from observations, and add up the differences by arm."""
    n, d = contexts.shape
    whole = n - n % _LINE
    # A log holds columns, but all that follows reads and writes rows.
    for start in range(0, whole, _LINE):
        for j in range(d):
            for i in range(_LINE):
                out[start + i, 1 + j] = contexts[start + i, j]
    for i in range(whole, n):
        for j in range(d):
            out[i, 1 + j] = contexts[i, j]
    for i in range(n):
        code, to = codes[i], out[i]
        middle, added = contexts_at[code], sums[code]
        if at_first and weight[code] == 0.0:
            rewards_at[code] = rewards[i]
            for j in range(d):
                middle[j] = to[1 + j]
        h, root = weights[i], roots[i]
        weight[code] += h
        apart = rewards[i] - rewards_at[code]
        added[0] += h * apart
        to[0] = root * apart
        for j in range(d):
            apart = to[1 + j] - middle[j]
            added[1 + j] += h * apart
            to[1 + j] = root * apart


@compiled(reorder=True)
def move_to_means(
    weight: Floats,  # (n,)
    sums: Floats,  # (n, 1 + d): Σ h (r, x) around the center
    rewards_at: Floats,  # (n,), changed: the center
    contexts_at: Floats,  # (n, d), changed: the same
    out: Floats,  # (n, 1 + d), written: √H times the distance from the center to the mean
) -> None:
    """Move the centers of arms to their means."""
    n, d = contexts_at.shape
    for i in range(n):
        root, middle, by = math.sqrt(weight[i]), contexts_at[i], out[i]
        for j in range(1 + d):
            by[j] = sums[i, j] / weight[i]
        rewards_at[i] += by[0]
        for j in range(d):
            middle[j] += by[1 + j]
        for j in range(1 + d):
            by[j] *= root


@compiled(reorder=True)
def pool(
    here: Rows,  # (n,): the index of each arm in the part
    rows: Rows,  # (n,): its row in the total
    weight: Floats,  # (K,): H of the part
    mean_reward: Floats,  # (K,)
    mean_context: Floats,  # (K, d)
    total_weight: Floats,  # (K,), changed
    total_means: Floats,  # (K, 1 + d), changed: r̄, x̄
    apart: Floats,  # (n, 1 + d), written: the part's means minus those of the total
    scaled: Floats,  # (n, 1 + d), written: the same, times H_a H_b/(H_a + H_b)
) -> None:
    """Merge the means of some arms of a part into those of a total, arm by arm."""
    d = mean_context.shape[1]
    for i in range(here.shape[0]):
        at, row = here[i], rows[i]
        added = weight[at]
        before = total_weight[row]
        # Both weights may have decayed to zero: then there is no evidence.
        pull = added / (before + added) if added > 0.0 else 0.0
        gain = before * pull
        mean = total_means[row]
        for j in range(1 + d):
            gap = (mean_reward[at] if j == 0 else mean_context[at, j - 1]) - mean[j]
            apart[i, j] = gap
            scaled[i, j] = gain * gap
            mean[j] += pull * gap
        total_weight[row] = before + added


@compiled(reorder=True)
def add_scatter(
    contexts: Floats,  # (n, d)
    rewards: Floats,  # (n,)
    weights: Floats,  # (n,)
    codes: Rows,  # (n,)
    means: Floats,  # (K, 1 + d): r̄ and x̄ of every arm
    columns: Rows,  # (s,): the features with slopes
    scatter: Floats,  # (K, s, 1 + d), changed: Σ h (x_S - x̄_S)(r - r̄, x - x̄)' is added
) -> None:
    """Add up by arm the products of some features with reward and features, around the means of the arm."""
    n, d = contexts.shape
    apart = np.empty(1 + d)
    for i in range(n):
        middle, added, h = means[codes[i]], scatter[codes[i]], weights[i]
        apart[0] = rewards[i] - middle[0]
        for j in range(d):
            apart[1 + j] = contexts[i, j] - middle[1 + j]
        for a in range(columns.shape[0]):
            own, row = h * apart[1 + columns[a]], added[a]
            for j in range(1 + d):
                row[j] += own * apart[j]


@compiled(reorder=True)
def pool_scatter(
    rows: Rows,  # (n,): the row of each arm in the total
    apart: Floats,  # (n, 1 + d): see `pool`
    scaled: Floats,  # (n, 1 + d): see `pool`
    columns: Rows,  # (s,): the features with slopes
    part: Floats,  # (n, s, 1 + d)
    total: Floats,  # (K, s, 1 + d), changed
) -> None:
    """Add the scatter of the arms of a part to that of a total."""
    n, width = apart.shape
    for i in range(n):
        for a in range(columns.shape[0]):
            gap, row, added = scaled[i, 1 + columns[a]], total[rows[i], a], part[i, a]
            for j in range(width):
                row[j] += added[j] + gap * apart[i, j]


@compiled(reorder=False)  # the order of the sums carries their precision
def add_up(
    scatter: Floats,  # (3, 1 + d, 1 + d), lower triangles: see `rolin.model.kernels`
    total: Floats,  # (d, d), written: C
    cross: Floats,  # (d,), written: g
) -> float:
    """Add up the parts of the stored scatter; return q."""
    d = len(cross)
    for i in range(d):
        cross[i] = scatter[0, 1 + i, 0] + (scatter[1, 1 + i, 0] + scatter[2, 1 + i, 0])
        for j in range(i + 1):
            rest = scatter[1, 1 + i, 1 + j] + scatter[2, 1 + i, 1 + j]
            total[i, j] = total[j, i] = scatter[0, 1 + i, 1 + j] + rest
    square: float = scatter[0, 0, 0] + (scatter[1, 0, 0] + scatter[2, 0, 0])
    return square


@compiled(reorder=True)
def spread_of_features(
    scatter: Floats,  # (d, d)
    weight: Floats,  # (K,)
    x: Floats,  # (K, d)
    centered: bool,
    out: Floats,  # (2, d), written: mean square, and largest absolute mean of an arm
) -> None:
    """Compute how far the features are from their means (if `centered`) or from zero."""
    n, d = x.shape
    mean, total = np.zeros(d), 0.0
    out[:] = 0.0
    for k in range(n):
        total += weight[k]
        for j in range(d):
            mean[j] += weight[k] * x[k, j]
            out[1, j] = max(out[1, j], abs(x[k, j]))
    for j in range(d):
        mean[j] = mean[j] / total if centered else 0.0
    for k in range(n):
        for j in range(d):
            apart = x[k, j] - mean[j]
            out[0, j] += weight[k] * apart * apart
    for j in range(d):
        out[0, j] = (scatter[j, j] + out[0, j]) / total
