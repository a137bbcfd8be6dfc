"""The probability that each of several normal variables is the highest, by the trapezoid rule.

With F = Π Φ_j as in `propensity`, P(i) = ∫ (φ_i/Φ_i) F du. In y = log(-log F), F' du is -e^(y - e^y) dy: the highest of many
arms has nearly a Gumbel distribution. With y = t - e^(-t), this falls doubly exponentially at both ends, and the
trapezoid rule converges exponentially (Takahasi & Mori, 1974). Here u(t) is a simple function that comes close to it.
The rule needs half as many nodes as the panels of `propensity`, but many more if the widths of the arms differ by
orders of magnitude.

Two differences tell whether the nodes are enough. The sum of all probabilities should be 1. And the relative error of
each of them, with every second node, should be about the square root of that with all nodes.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, compiled
from rolin.policies.kernels.normal_cdf import cdf_and_hazard

__all__ = ["SPACE", "integrate_all"]

SPACE = 2048
"""How many pairs of an arm and a node are computed together, in a loop that is long enough for vector registers."""
_LANES = 32  # a multiple of the length of these registers
# log(-log F) in the middle, and how close to it is close enough.
_MIDDLE, _CLOSE = -1.0, 0.5
# F at the last node, in units of the error; its log(-log F) is at most this much less.
_LAST, _TIGHT = 0.03, 0.05
_NEWTON_STEPS = 8
# Steps down are longer by this factor: the slope falls there.
_LONGER = 1.2
# So small a k is none.
_STRAIGHT = 1e-6
# The number of nodes is _NODES + _PER_E_FOLD log(1/error). If these are not enough, _MORE times as many are tried before
# giving up.
_NODES, _PER_E_FOLD, _MORE = 4.0, 1.1, 1.5
# The square of what every second node changes, relative to the probability, in units of the error. Of 21 000 random
# problems that passed, 8 had a larger error than allowed, at most 2.8 times.
_SQUARE = 4.0
# The least width of an arm, in distances between nodes.
_NARROW = 0.4


@compiled(reorder=True)
def _fill(z: Floats, hazards: Floats, n: int) -> None:
    """Replace z by Φ(z), and write φ(z)/Φ(z)."""
    for j in range(n):
        z[j], hazards[j] = cdf_and_hazard(z[j])


@compiled(reorder=True)
def _log_depth(mean: Floats, rate: Floats, n: int, space: Floats, u: float) -> tuple[float, float]:
    """Return log(-log F) at u, and its derivative."""
    cdf, hazards = space[0], space[1]
    padded = (n + _LANES - 1) // _LANES * _LANES
    for i in range(n):
        cdf[i] = (u - mean[i]) * rate[i]
    for i in range(n, padded):
        cdf[i] = 0.0
    _fill(cdf, hazards, padded)
    below, hazard = 1.0, 0.0
    for i in range(n):
        below *= cdf[i]
        hazard += hazards[i] * rate[i]
    depth = max(-math.log(max(below, 1e-300)), 1e-15)
    return math.log(depth), -hazard / depth


@compiled(reorder=True)
def _find(
    mean: Floats, rate: Floats, n: int, space: Floats, u: float, last: float
) -> tuple[float, float]:
    """Return about where log(-log F) is `_MIDDLE`, and where it is `last`; NaN if they are not found.

    By Newton's method from u. The slope falls towards the end, so longer steps are better there.
    """
    y, slope = _log_depth(mean, rate, n, space, u)
    for _ in range(_NEWTON_STEPS):
        if abs(y - _MIDDLE) < _CLOSE:
            break
        u -= (y - _MIDDLE) / slope
        y, slope = _log_depth(mean, rate, n, space, u)
    else:
        return math.nan, math.nan
    middle = u
    for _ in range(_NEWTON_STEPS):
        u -= (y - last) / slope * (_LONGER if y < last else 1.0)
        y, slope = _log_depth(mean, rate, n, space, u)
        if last - _TIGHT < y < last + 2.0 * _CLOSE:
            return middle, u
    return middle, math.nan


@compiled(reorder=True)
def _add_up(
    work: Floats, n: int, ends: tuple[float, float, float], nodes: int, space: Floats, error: float
) -> bool:
    """Write the probabilities with this number of nodes, which is even; return whether the error is small enough."""
    mean, p, rate, change = work[0], work[2], work[3], work[4]
    high, middle, low = ends
    # u(t) = middle + (high - middle) (e^(-kt) - 1)/(e^k - 1) for t from -1 to 1. It falls, and is linear if k is 0.
    k = math.log((high - middle) / (middle - low))
    bends = abs(k) > _STRAIGHT
    slope = (high - middle) * k / math.expm1(k) if bends else high - middle
    step = 2.0 / (nodes - 1)
    growth, ratio = math.exp(k), math.exp(-k * step)
    cdf, hazards = space[0], space[1]
    weights = np.empty(nodes)
    for i in range(n):
        p[i] = change[i] = 0.0
        # Between two nodes, du is step (slope + k (u - middle)). An arm that is much narrower would be missed.
        between = step * (slope + k * (mean[i] - middle))
        if mean[i] > low and work[1, i] < _NARROW * between:
            return False
    done, together = 0, max(SPACE // n, 1)
    while done < nodes:
        count = min(together, nodes - done)
        for q in range(count):
            u = middle + slope * ((growth - 1.0) / k if bends else 1.0 - (done + q) * step)
            weights[q] = step * slope * growth
            growth *= ratio
            for i in range(n):
                cdf[q * n + i] = (u - mean[i]) * rate[i]
        size = count * n
        padded = (size + _LANES - 1) // _LANES * _LANES
        for j in range(size, padded):
            cdf[j] = 0.0
        _fill(cdf, hazards, padded)
        for q in range(count):
            weight = weights[q]
            for i in range(n):
                weight *= cdf[q * n + i]
            sign = 1.0 - 2.0 * ((done + q) % 2)
            for i in range(n):
                term = weight * hazards[q * n + i] * rate[i]
                p[i] += term
                change[i] += sign * term  # what the rule with every second node would add
        done += count
    total, worst = 0.0, 0.0
    for i in range(n):
        total += p[i]
        worst = max(worst, change[i] * change[i] / (p[i] + error))
    return abs(total - 1.0) <= error and worst <= _SQUARE * error


@compiled(reorder=True)
def integrate_all(work: Floats, n: int, high: float, space: Floats, error: float) -> bool:
    """Integrate from `high` down to where F vanishes; return whether the error is small enough.

    The rows of `work` are means, standard deviations, the probabilities, which are written, and two that are overwritten.
    `space` is (2, K + SPACE).
    """
    mean, rate = work[0], work[3]
    # About where Σ (1 - Φ_j) is 0.1 for n equal arms.
    quantile = max(1.0, math.sqrt(2.0 * math.log(n)))
    first = 0.0
    for i in range(n):
        rate[i] = 1.0 / work[1, i]
        first = max(first, mean[i] + quantile * work[1, i])
    last = math.log(-math.log(_LAST * error))
    middle, low = _find(mean, rate, n, space, first, last)
    if not low < middle < high:  # also if one of them was not found
        return False
    nodes = _NODES - _PER_E_FOLD * math.log(error)
    for _ in range(2):  # once more with more nodes takes less time than to give up
        if _add_up(work, n, (high, middle, low), 2 * math.ceil(0.5 * nodes), space, error):
            return True
        nodes *= _MORE
    return False
