"""The probability that each of several independent normal variables is the highest.

With F = Π Φ_j, the distribution function of the highest, it is

    P(i) = ∫ φ_i Π_{j≠i} Φ_j du = ∫ (φ_i/Φ_i) F du.

So one evaluation of Φ and φ/Φ per arm and node gives the probabilities of all arms. The sum of all
integrands is F', whose integral is known: it checks every panel.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, Rows, compiled
from rolin.policies.kernels.normal_cdf import cdf_and_hazard
from rolin.policies.kernels.trapezoid import SPACE, integrate_all

__all__ = [
    "COARSE",
    "FINE",
    "average_over_models",
    "average_over_pairs",
    "probabilities_of_highest",
]

# How far an arm reaches, in standard deviations, and the largest error of a panel. The first is exact: 3e-14 of a normal
# distribution lies above. With the second, probabilities are right to about 1e-4, even of hundreds of arms,
# in half the time.
FINE, COARSE = (7.5, 1e-11), (4.9, 1e-5)
# The largest error of an average over models, without that of the nodes of the noise.
_AVERAGE = 3e-10
# F where the integral ends, in units of this error.
_LAST = 1e-3
# An arm narrower than this, compared to the widest arm or to its distance from the best mean, is known exactly.
_EXACT = 1e-14
# Panels are at most this many standard deviations of an arm wide.
_WIDEST = 6.0
# A panel ends where -log F is about this; from then on, it grows by a factor of about e^3.5 per panel. Chosen so that
# panels of 16 nodes seldom have to be halved: 3 to 5 panels are enough for 2 to 20 000 arms of similar width.
_FIRST, _GROWTH = 0.2, 3.5
# How often to halve a panel whose error is too large.
_HALVINGS = 8
_NODES = 16


def _lobatto(n: int) -> tuple[Floats, Floats]:
    """Return the nodes and weights of Gauss-Lobatto quadrature on [0, 1]: both ends are nodes."""
    legendre = np.polynomial.legendre.Legendre.basis(n - 1)
    inner = np.sort(legendre.deriv().roots().real)
    nodes = np.concatenate([[-1.0], inner, [1.0]])
    return 0.5 + 0.5 * nodes, 1.0 / (n * (n - 1) * legendre(nodes) ** 2)


_AT, _WEIGHTS = _lobatto(_NODES)


@compiled(reorder=True)
def _integrate(
    work: Floats, n: int, high: float, hazards: Floats, reach: float, error: float
) -> float:
    """Integrate over the arms of `work`, from `high` down to 0; return F where the walk ends.

    The rows of `work` are means, standard deviations, the probabilities, which are written, and those of one panel.
    """
    mean, std, p, part = work[0], work[1], work[2], work[3]
    at, weighted = np.empty(_NODES), np.empty(_NODES)
    below = np.ones(_NODES)  # F at the nodes
    # About where Σ (1 - Φ_j) is 0.1 for n equal arms, which is the end of the first panel.
    quantile = max(1.3, math.sqrt(2.0 * math.log(n)))
    first = 0.0
    for i in range(n):
        p[i] = 0.0
        first = max(first, mean[i] + quantile * std[i])
    u, width = high, high - first
    rounding = 1e-14 * n
    while u > 0.0:
        width = min(width, u)
        for i in range(n):  # up to where the arm begins to matter, or one panel of the arm
            width = min(width, max(u - (mean[i] + reach * std[i]), _WIDEST * std[i]))
        for halving in range(_HALVINGS + 1):
            bottom = u - width
            for q in range(_NODES):
                at[q] = bottom + width * _AT[q]
                below[q] = 1.0
            for i in range(n):
                if mean[i] + reach * std[i] > bottom:
                    middle, rate = mean[i], 1.0 / std[i]
                    for q in range(_NODES):
                        cdf, hazards[i, q] = cdf_and_hazard((at[q] - middle) * rate)
                        below[q] *= cdf
            for q in range(_NODES):
                weighted[q] = width * _WEIGHTS[q] * below[q]
            mass, hazard = 0.0, 0.0
            for i in range(n):
                part[i] = 0.0
                if mean[i] + reach * std[i] > bottom:
                    rate, product = 1.0 / std[i], 0.0
                    for q in range(_NODES):
                        product += hazards[i, q] * weighted[q]
                    part[i] = rate * product
                    mass += part[i]
                    hazard += rate * hazards[i, 0]
            if (
                abs(mass - (below[_NODES - 1] - below[0])) <= error + rounding
                or halving == _HALVINGS
            ):
                break
            width *= 0.5
        for i in range(n):
            p[i] += part[i]
        u = bottom
        if below[0] < _LAST * error:
            break
        depth = -math.log(below[0])
        if depth < 1e-9:  # too close to 0 for its logarithm
            width = u - first if u > first else u
        else:  # by how much log(-log F) grows in the next panel; its derivative is hazard/depth
            growth = _GROWTH if depth > 0.25 * _FIRST else math.log(_FIRST / depth)
            width = growth * depth / hazard
    return below[0]  # type: ignore[no-any-return]  # an array's number


# Not reordered: the compiler must not turn x/unit into x · (1/unit), which may overflow.
@compiled(reorder=False)
def _highest(
    mean: Floats, std: Floats, factor: float, precision: tuple[float, float], out: Floats, work: Floats, arms: Rows,
    hazards: Floats, space: Floats,
) -> None:  # fmt: skip
    """Do what `probabilities_of_highest` does, in arrays of the caller: (5, K), (K,), (K, nodes) and (2, K + SPACE)."""
    n, (reach, error) = mean.shape[0], precision
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
        low, high = max(low, m - reach * s), max(high, m + reach * s)
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
        if work[1, k] > 0.0 and work[0, k] + reach * work[1, k] > low:
            arms[count] = k
            work[0, count], work[1, count] = work[0, k] - low, work[1, k]
            count += 1
    if count and (
        known == low or error <= FINE[1] or not integrate_all(work, count, high - low, space, error)
    ):
        rest = _integrate(work, count, high - low, hazards, reach, error)
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
    _highest(
        mean,
        std,
        factor,
        FINE,
        out,
        np.empty((5, n)),
        np.empty(n, np.int64),
        np.empty((n, _NODES)),
        np.empty((2, 0)),
    )


@compiled(reorder=False)
def average_over_pairs(
    mean: Floats,  # (K,)
    shifts: Floats,  # (P, K)
    std: Floats,  # (K,)
    factor: float,
    precision: tuple[float, float],  # FINE or COARSE
    out: Floats,  # (2, K), written: averages, and variances among the pairs
) -> None:
    """Average the probabilities for the means `mean` ± `factor` · `shifts`; both signs make a pair."""
    n = mean.shape[0]
    work, arms, hazards = np.empty((5, n)), np.empty(n, np.int64), np.empty((n, _NODES))
    space = np.empty((2, n + SPACE))
    moved, first, second = np.empty(n), np.empty(n), np.empty(n)
    out[:] = 0.0
    for pair in range(shifts.shape[0]):
        for k in range(n):
            moved[k] = mean[k] + factor * shifts[pair, k]
        _highest(moved, std, factor, precision, first, work, arms, hazards, space)
        for k in range(n):
            moved[k] = mean[k] - factor * shifts[pair, k]
        _highest(moved, std, factor, precision, second, work, arms, hazards, space)
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
    noises: Floats,  # (N,): factors on its standard deviations
    weights: Floats,  # (N,)
    exploration: float,  # factor on all standard deviations
    optimism: float,  # number of standard deviations, times their noise, to add to the means
    out: Floats,  # (K,), written
) -> None:
    """Average the probabilities over several models and several factors on their standard deviations.

    Those of a small weight need fewer digits. Each weight times its error is an equal share of `_AVERAGE`.
    """
    n = means.shape[1]
    work, arms, hazards = np.empty((5, n)), np.empty(n, np.int64), np.empty((n, _NODES))
    space = np.empty((2, n + SPACE))
    p, mean = np.empty(n), np.empty(n)
    out[:] = 0.0
    for i in range(models.shape[0]):
        std = stds[models[i]]
        for k in range(n):
            mean[k] = means[models[i], k] + optimism * noises[i] * std[k]
        # 1 - Φ(x) is about exp(-x²/2).
        reach = math.sqrt(max(FINE[0] ** 2 + 2.0 * math.log(weights[i]), COARSE[0] ** 2))
        share = _AVERAGE / (models.shape[0] * weights[i])
        precision = reach, max(min(share, COARSE[1]), FINE[1])
        factor = exploration * noises[i]
        _highest(mean, std, factor, precision, p, work, arms, hazards, space)
        for k in range(n):
            out[k] += weights[i] * p[k]
