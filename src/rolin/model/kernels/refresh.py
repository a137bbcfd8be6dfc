"""Compute the sites of binary rewards again, from counts of the outcomes (docs/explanation/maths.md, "Binary rewards")."""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, compiled
from rolin.model.kernels.layout import (
    ARM_VARIANCE,
    CONTEXT,
    CURVE,
    NO,
    REWARD,
    SHIFT,
    SPREAD,
    WEIGHT,
    YES,
    Tails,
)
from rolin.model.kernels.logistic import sigmoid, site_of

__all__ = ["refresh_sites"]

# Limits of what the contexts of an arm may do to its outcomes: half of the variance of their logits, and the slope.
_MOST_DOUBT, _SLOPES, _LEAST_SHARE = 3.0, (0.05, 2.0), 1e-6
_CANCELED = 1e-12  # smaller differences of numbers near 1 are rounding errors


@compiled(reorder=True)
def refresh_sites(
    last_row: int, arms: Floats, tails: Tails, coef: Floats, covariance: Floats, numbers: Floats,
    outcomes: Floats, uncertainty: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Compute the site of every arm again, one arm after the other, from all its outcomes.

    `uncertainty` is the mean of ((x - x̄)'(θ - θ̂ₜ))² over all outcomes t, under the posterior of θ. Weights, rewards and the
    coefficients are updated in place, by a rank-one step per arm. Return the sum of all weights before and after, and the
    largest change of an arm's mean in standard deviations.
    """
    size, d = coef.shape[0], arms.shape[1] - CONTEXT
    # The arrays have these rows and columns, unless threads change the state without a lock.
    last_row = min(last_row, arms.shape[0] - 1, tails.shape[0] - 1, outcomes.shape[0] - 1)
    if d > size or covariance.shape[0] < size or covariance.shape[1] < size:
        last_row = 0
    arm_variance = numbers[ARM_VARIANCE]
    x, gain = np.ones(size), np.empty(size)
    before, after, largest = 0.0, 0.0, 0.0
    spread_of_all, all_outcomes = 0.0, 0.0
    for row in range(1, last_row + 1):
        spread_of_all += outcomes[row, SPREAD]
        all_outcomes += outcomes[row, YES] + outcomes[row, NO]
    if spread_of_all > 0.0:
        uncertainty *= all_outcomes / spread_of_all
    for row in range(1, last_row + 1):
        h, r = arms[row, WEIGHT], arms[row, REWARD]
        before += h
        after += h
        yes, no = outcomes[row, YES], outcomes[row, NO]
        if not yes + no > 0.0:
            continue
        for j in range(d):
            x[j] = arms[row, CONTEXT + j]
        dot, spread = 0.0, 0.0
        for i in range(size):
            total = 0.0
            for j in range(size):
                total += covariance[i, j] * x[j]
            gain[i] = total
            dot += coef[i] * x[i]
            spread += total * x[i]
        unshrunk = 1.0 / (1.0 + h * arm_variance)
        mean = (1.0 - unshrunk) * r + unshrunk * dot
        variance = unshrunk * (arm_variance + unshrunk * spread)
        # Without the arm's own site.
        left = 1.0 - variance * h
        if not left > _CANCELED:
            continue
        cavity_mean, cavity_variance = (mean - variance * h * r) / left, variance / left
        # The outcomes as those of one context, on the scale t = slope η + offset.
        p, q = sigmoid(mean), sigmoid(-mean)
        shift, curve = outcomes[row, SHIFT] / (yes + no), outcomes[row, CURVE] / (yes + no)
        half = min(0.5 * uncertainty * outcomes[row, SPREAD] / (yes + no), _MOST_DOUBT)
        shift += (q - p) * math.expm1(half) * curve
        curve *= math.exp(half * (1.0 - 6.0 * p * q))
        more, less = max(1.0 + q * shift, _LEAST_SHARE), max(1.0 - p * shift, _LEAST_SHARE)
        slope = min(max(curve / (more * less), _SLOPES[0]), _SLOPES[1])
        offset = mean + math.log(more / less) - slope * mean
        new_r, new_h = site_of(
            slope * cavity_mean + offset, slope * slope * cavity_variance, yes / slope, no / slope
        )
        new_r, new_h = (new_r - offset) / slope, slope * slope * new_h
        part, new_part = h * unshrunk, new_h / (1.0 + new_h * arm_variance)
        change = new_part - part
        scale = 1.0 + change * spread
        if not (abs(new_r) < np.inf and 0.0 < new_h < np.inf and scale > _CANCELED):
            continue
        push = (new_part * new_r - part * r - change * dot) / scale
        for i in range(size):
            coef[i] += gain[i] * push
            for j in range(size):
                covariance[i, j] -= change / scale * gain[i] * gain[j]
        new_mean = (cavity_mean / cavity_variance + new_h * new_r) / (1.0 / cavity_variance + new_h)
        largest = max(largest, abs(new_mean - mean) / math.sqrt(variance))
        arms[row, WEIGHT], arms[row, REWARD], tails[row, 0] = new_h, new_r, 0.0
        after += new_h - h
    return before, after, largest
