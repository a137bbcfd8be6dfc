"""The probability that each of several independent normal variables is the highest.

With F = Π Φ_j, the distribution function of the highest, it is

    P(i) = ∫ φ_i Π_{j≠i} Φ_j du = ∫ (log Φ_i)' exp(Σ_j log Φ_j) du.

So one look-up of log Φ and its derivative per arm and node gives the probabilities of all arms. The sum of all
integrands is F', whose integral is known: it checks every panel.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, Rows, compiled
from rolin.policies.kernels.log_cdf import DEGREE, LOWEST, PER_UNIT, SIZE, TABLE

__all__ = ["average_over_models", "average_over_pairs", "probabilities_of_highest"]

# In standard deviations: 3e-14 of a normal distribution lies above.
_REACH = 7.5
# -log F where the walk ends: 1e-14 of the distribution of the highest lies below.
_LAST = 32.2
# An arm narrower than this, compared to the widest arm or to its distance from the best mean, is known exactly.
_EXACT = 1e-14
# Panels are at most this many standard deviations of an arm wide.
_WIDEST = 6.0
# A panel ends where -log F is about this; from then on, it grows by a factor of about e^3.5 per panel. With 16 nodes, the
# error of a panel is then below 1e-12 for 2 to 10⁶ equal arms.
_FIRST, _GROWTH = 0.2, 3.5
# The largest error of a panel, and how often to halve a panel with a larger one.
_ERROR, _HALVINGS = 1e-11, 8
_STRIDE = DEGREE + 1
_NODES = 16


def _lobatto(n: int) -> tuple[Floats, Floats]:
    """Return the nodes and weights of Gauss-Lobatto quadrature on [0, 1]: both ends are nodes."""
    legendre = np.polynomial.legendre.Legendre.basis(n - 1)
    inner = np.sort(legendre.deriv().roots().real)
    nodes = np.concatenate([[-1.0], inner, [1.0]])
    return 0.5 + 0.5 * nodes, 1.0 / (n * (n - 1) * legendre(nodes) ** 2)


_AT, _WEIGHTS = _lobatto(_NODES)


@compiled(reorder=True)
def _integrate(work: Floats, n: int, high: float, slopes: Floats) -> float:
    """Integrate over the arms of `work`, from `high` down to 0; return F where the walk ends.

    The rows of `work` are means, standard deviations, the probabilities, which are written, and those of one panel.
    """
    mean, std, p, part = work[0], work[1], work[2], work[3]
    at, total, density = np.empty(_NODES), np.empty(_NODES), np.empty(_NODES)
    # About where Σ (1 - Φ_j) is 0.1 for n equal arms, which is the end of the first panel.
    quantile = max(1.3, math.sqrt(2.0 * math.log(n)))
    first = 0.0
    for i in range(n):
        p[i] = 0.0
        first = max(first, mean[i] + quantile * std[i])
    u, width, below = high, high - first, 1.0
    error = _ERROR + 1e-14 * n  # the table has rounding errors too
    while u > 0.0:
        width = min(width, u)
        for i in range(n):  # up to where the arm begins to matter, or one panel of the arm
            width = min(width, max(u - (mean[i] + _REACH * std[i]), _WIDEST * std[i]))
        for halving in range(_HALVINGS + 1):
            bottom = u - width
            for q in range(_NODES):
                at[q] = bottom + width * _AT[q]
                total[q] = 0.0
            for i in range(n):
                if mean[i] + _REACH * std[i] > bottom:
                    middle, rate = mean[i], PER_UNIT / std[i]
                    for q in range(_NODES):
                        # Horner's scheme, for the polynomial and its derivative
                        t = (at[q] - middle) * rate - LOWEST * PER_UNIT
                        t = min(max(t, 0.0), SIZE - 1e-9)
                        piece = np.int64(t)
                        t -= piece + 0.5
                        c = np.uint64(_STRIDE * piece)  # unsigned: no check for negative indices
                        value = TABLE[c + 7]
                        slope = value
                        value = value * t + TABLE[c + 6]
                        slope = slope * t + value
                        value = value * t + TABLE[c + 5]
                        slope = slope * t + value
                        value = value * t + TABLE[c + 4]
                        slope = slope * t + value
                        value = value * t + TABLE[c + 3]
                        slope = slope * t + value
                        value = value * t + TABLE[c + 2]
                        slope = slope * t + value
                        value = value * t + TABLE[c + 1]
                        slope = slope * t + value
                        value = value * t + TABLE[c]
                        total[q] += value
                        slopes[i, q] = slope
            for q in range(_NODES):
                density[q] = math.exp(total[q])
            below, above = density[0], density[_NODES - 1]
            for q in range(_NODES):
                density[q] *= width * _WEIGHTS[q]
            mass, hazard = 0.0, 0.0
            for i in range(n):
                part[i] = 0.0
                if mean[i] + _REACH * std[i] > bottom:
                    rate, product = PER_UNIT / std[i], 0.0
                    for q in range(_NODES):
                        product += slopes[i, q] * density[q]
                    part[i] = rate * product
                    mass += part[i]
                    hazard += rate * slopes[i, 0]
            if abs(mass - (above - below)) <= error or halving == _HALVINGS:
                break
            width *= 0.5
        for i in range(n):
            p[i] += part[i]
        u, depth = bottom, -total[0]
        if depth > _LAST:
            break
        # By how much log(-log F) grows in the next panel. Its derivative is hazard/depth.
        growth = _GROWTH if depth > 0.25 * _FIRST else math.log(_FIRST / max(depth, 1e-30))
        width = growth * depth / max(hazard, 1e-300)
    return below


# Not reordered: the compiler must not turn x/unit into x · (1/unit), which may overflow.
@compiled(reorder=False)
def _highest(
    mean: Floats, std: Floats, factor: float, out: Floats, work: Floats, arms: Rows, slopes: Floats
) -> None:
    """Do what `probabilities_of_highest` does, in arrays of the caller: (4, K), (K,) and (K, nodes)."""
    n = mean.shape[0]
    best, unit = -np.inf, 0.0
    for k in range(n):
        best = max(best, mean[k])
        unit = max(unit, factor * std[k])
    # Shifted to the highest mean and scaled by the largest std, so that no number is too large or too small.
    low, high, known = -np.inf, -np.inf, -np.inf
    for k in range(n):
        m, s = mean[k] - best, 0.0
        if unit > 0.0:
            m, s = max(m / unit, -1e100), factor * std[k] / unit  # so far below, P is 0
            if s < _EXACT * max(1.0, -m):
                s = 0.0
        if s == 0.0:
            known = max(known, m)
        work[0, k], work[1, k] = m, s
        low, high = max(low, m - _REACH * s), max(high, m + _REACH * s)
        out[k] = 0.0
    rest = 1.0
    if known == low:  # the arms known exactly that share what is left
        ties = 0
        for k in range(n):
            if work[1, k] == 0.0 and work[0, k] == known:
                out[k] = 1.0
                ties += 1
    # Only arms that can be the highest. From `low` on, so that the numbers of narrow arms have few rounding errors.
    count = 0
    for k in range(n):
        if work[1, k] > 0.0 and work[0, k] + _REACH * work[1, k] > low:
            arms[count] = k
            work[0, count], work[1, count] = work[0, k] - low, work[1, k]
            count += 1
    if count:
        rest = _integrate(work, count, high - low, slopes)
    total = 0.0
    for i in range(count):
        total += work[2, i]
    if known == low:
        total += rest
        for k in range(n):
            out[k] *= rest / (ties * total)
    for i in range(count):
        out[arms[i]] = max(work[2, i] / total, 0.0)


@compiled(reorder=False)
def probabilities_of_highest(mean: Floats, std: Floats, factor: float, out: Floats) -> None:
    """Write the probability that each arm is the highest; the standard deviations are `factor` · `std`.

    The values of arms with standard deviation 0 are known exactly. The highest of them is the lower limit of the
    integral, and the arms that have it share the remaining probability.
    """
    n = mean.shape[0]
    _highest(mean, std, factor, out, np.empty((4, n)), np.empty(n, np.int64), np.empty((n, _NODES)))


@compiled(reorder=False)
def average_over_pairs(
    mean: Floats,  # (K,)
    shifts: Floats,  # (P, K)
    std: Floats,  # (K,)
    factor: float,
    out: Floats,  # (2, K), written: averages, and variances among the pairs
) -> None:
    """Average the probabilities for the means `mean` ± `factor` · `shifts`; both signs make a pair."""
    n = mean.shape[0]
    work, arms, slopes = np.empty((4, n)), np.empty(n, np.int64), np.empty((n, _NODES))
    moved, first, second = np.empty(n), np.empty(n), np.empty(n)
    out[:] = 0.0
    for pair in range(shifts.shape[0]):
        for k in range(n):
            moved[k] = mean[k] + factor * shifts[pair, k]
        _highest(moved, std, factor, first, work, arms, slopes)
        for k in range(n):
            moved[k] = mean[k] - factor * shifts[pair, k]
        _highest(moved, std, factor, second, work, arms, slopes)
        for k in range(n):  # Welford's update
            p = 0.5 * (first[k] + second[k])
            difference = p - out[0, k]
            out[0, k] += difference / (pair + 1)
            out[1, k] += difference * (p - out[0, k])
    for k in range(n):
        out[1, k] /= max(shifts.shape[0] - 1, 1)


@compiled(reorder=False)
def average_over_models(
    means: Floats,  # (G, K)
    stds: Floats,  # (G, K)
    models: Rows,  # (N,): a row of these
    factors: Floats,  # (N,): factors on its standard deviations
    weights: Floats,  # (N,)
    out: Floats,  # (K,), written
) -> None:
    """Average the probabilities over several models and several factors on their standard deviations."""
    n = means.shape[1]
    work, arms, slopes = np.empty((4, n)), np.empty(n, np.int64), np.empty((n, _NODES))
    p = np.empty(n)
    out[:] = 0.0
    for i in range(models.shape[0]):
        _highest(means[models[i]], stds[models[i]], factors[i], p, work, arms, slopes)
        for k in range(n):
            out[k] += weights[i] * p[k]
