"""Sums of observations by arm, for the evidence of a batch."""

from __future__ import annotations

from rolin.kernels.layout import Floats, Rows, compiled

__all__ = ["centre", "sums_by_arm"]


@compiled(reorder=True)
def sums_by_arm(
    contexts: Floats,  # (n, d)
    rewards: Floats,  # (n,)
    weights: Floats,  # (n,)
    codes: Rows,  # (n,): which arm
    out: Floats,  # (K, 1 + d), added to: Σ h r, Σ h x of every arm
) -> None:
    """Add up rewards and contexts of every arm."""
    n, d = contexts.shape
    for i in range(n):
        row, h = out[codes[i]], weights[i]
        row[0] += h * rewards[i]
        for j in range(d):
            row[1 + j] += h * contexts[i, j]


@compiled(reorder=True)
def centre(
    contexts: Floats,  # (n, d)
    rewards: Floats,  # (n,)
    weights: Floats,  # (n,)
    roots: Floats,  # (n,): √h
    codes: Rows,  # (n,)
    means: Floats,  # (K, 1 + d): r̄, x̄
    left: Floats,  # (K, 1 + d), added to: Σ h (r - r̄), Σ h (x - x̄), what rounding left
    out: Floats,  # (n, 1 + d), written: √h (r - r̄), √h (x - x̄)
) -> None:
    """Centre observations within their arms."""
    n, d = contexts.shape
    for i in range(n):
        mean, rest, to = means[codes[i]], left[codes[i]], out[i]
        h, root = weights[i], roots[i]
        apart = rewards[i] - mean[0]
        rest[0] += h * apart
        to[0] = root * apart
        for j in range(d):
            apart = contexts[i, j] - mean[1 + j]
            rest[1 + j] += h * apart
            to[1 + j] = root * apart
