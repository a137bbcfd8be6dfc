"""Sums of observations by arm, for the moments of a batch."""

from __future__ import annotations

from rolin._support.compile import Floats, Rows, compiled

__all__ = ["center", "pool"]


@compiled(reorder=True)
def center(
    contexts: Floats,  # (n, d)
    rewards: Floats,  # (n,)
    weights: Floats,  # (n,)
    roots: Floats,  # (n,): √h
    codes: Rows,  # (n,)
    centers: Floats,  # (K, 1 + d): a reward and a context of every arm
    sums: Floats,  # (K, 1 + d), changed: Σ h (r, x) around the center is added
    out: Floats,  # (n, 1 + d), written: √h (r, x) around the center
) -> None:
    """Subtract the center of their arm from observations, and add up the differences by arm."""
    n, d = contexts.shape
    for i in range(n):
        middle, added, to = centers[codes[i]], sums[codes[i]], out[i]
        h, root = weights[i], roots[i]
        apart = rewards[i] - middle[0]
        added[0] += h * apart
        to[0] = root * apart
        for j in range(d):
            apart = contexts[i, j] - middle[1 + j]
            added[1 + j] += h * apart
            to[1 + j] = root * apart


@compiled(reorder=True)
def pool(
    rows: Rows,  # (n,): the row of each arm in the total
    weight: Floats,  # (n,): H of the part
    mean_reward: Floats,  # (n,)
    mean_context: Floats,  # (n, d)
    total_weight: Floats,  # (K,), changed
    total_means: Floats,  # (K, 1 + d), changed: r̄, x̄
    apart: Floats,  # (n, 1 + d), written: the part's means minus those of the total
    scaled: Floats,  # (n, 1 + d), written: the same, times H_a H_b/(H_a + H_b)
) -> None:
    """Merge the means of a part into those of a total, arm by arm."""
    n, d = mean_context.shape
    for i in range(n):
        row, added = rows[i], weight[i]
        before = total_weight[row]
        # Both weights may have decayed to zero: then there is no evidence.
        pull = added / (before + added) if added > 0.0 else 0.0
        gain = before * pull
        mean = total_means[row]
        for j in range(1 + d):
            gap = (mean_reward[i] if j == 0 else mean_context[i, j - 1]) - mean[j]
            apart[i, j] = gap
            scaled[i, j] = gain * gap
            mean[j] += pull * gap
        total_weight[row] = before + added
