"""Sums of observations by arm, for the evidence of a batch."""

from __future__ import annotations

from rolin.kernels.layout import Floats, Rows, compiled

__all__ = ["centre"]


@compiled(reorder=True)
def centre(
    contexts: Floats,  # (n, d)
    rewards: Floats,  # (n,)
    weights: Floats,  # (n,)
    roots: Floats,  # (n,): √h
    codes: Rows,  # (n,)
    centres: Floats,  # (K, 1 + d): a reward and a context of every arm
    sums: Floats,  # (K, 1 + d), added to: Σ h (r, x) around the centre
    out: Floats,  # (n, 1 + d), written: √h (r, x) around the centre
) -> None:
    """Take observations around a centre of their arm, and add them up by arm."""
    n, d = contexts.shape
    for i in range(n):
        middle, added, to = centres[codes[i]], sums[codes[i]], out[i]
        h, root = weights[i], roots[i]
        apart = rewards[i] - middle[0]
        added[0] += h * apart
        to[0] = root * apart
        for j in range(d):
            apart = contexts[i, j] - middle[1 + j]
            added[1 + j] += h * apart
            to[1 + j] = root * apart
