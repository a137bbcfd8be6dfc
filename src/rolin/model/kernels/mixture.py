"""Posterior probabilities of several models."""

from __future__ import annotations

import math

from rolin._support.compile import Floats, compiled
from rolin.model.kernels.layout import COUNT, LOG_DETERMINANTS, QUADRATIC

__all__ = ["weigh"]


@compiled(reorder=False)
def weigh(
    numbers: Floats,  # (G, 7)
    log_prior: Floats,  # (G,)
    guess: float,  # ν₀ times the guessed noise variance
    guess_count: float,  # ν₀
    out: Floats,  # (3, G), written: weights, their cumulative sums, and the noise s
) -> float:
    """Write the probability and the noise of each model; return ν (docs/explanation/maths.md, "Scales integrated out")."""
    n = numbers.shape[0]
    freedom = guess_count + float(numbers[0, COUNT])
    highest = -math.inf
    for g in range(n):
        square = guess + numbers[g, QUADRATIC]
        out[2, g] = math.sqrt(square / freedom)
        out[0, g] = log_prior[g] - 0.5 * (numbers[g, LOG_DETERMINANTS] + freedom * math.log(square))
        highest = max(highest, out[0, g])
    total = 0.0
    for g in range(n):
        out[0, g] = math.exp(out[0, g] - highest)
        total += out[0, g]
    running = 0.0
    for g in range(n):
        out[0, g] /= total
        running += out[0, g]
        out[1, g] = running
    return freedom
