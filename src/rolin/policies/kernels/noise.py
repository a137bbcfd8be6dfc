"""The nodes of integrals over an unknown noise σ, where σ² ~ ν/χ²_ν.

A probability is a smooth function of 1/σ as σ grows, and of log σ as σ vanishes, at whatever distance the arms are. So it is
close to a polynomial of log(c + 1/σ), and the Gaussian nodes in this variable are few.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, compiled

__all__ = ["fill_noise_nodes", "n_noise_nodes"]

_EPSILON = 2.0**-52
# The step of the trapezoid rule, in standard deviations of log σ, and the log density where it ends (5e-12).
_STEP, _END = 0.35, -26.0
# More points than the rule ever has: 2 · 26/(ν · step) with ν of at least 3, and few beyond the end.
_MOST_POINTS = 256


@compiled(reorder=False)
def n_noise_nodes(freedom: float) -> int:
    """Return how many nodes are needed for errors of probabilities below 6e-10: found by trying, as the tests do again."""
    return max(4 if freedom < 1000.0 else 3, math.ceil(1.0 + 39.9 / math.sqrt(freedom)))


@compiled(reorder=False)
def _log_density(freedom: float, x: float) -> float:
    """Return the log density of x = log σ, relative to that of 0."""
    return -freedom * (x + 0.5 * math.expm1(-2.0 * x))


@compiled(reorder=False)
def _diagonalize(diagonal: Floats, beside: Floats, first: Floats) -> None:
    """Replace a symmetric tridiagonal matrix by its eigenvalues, and `first` by its product with the eigenvectors.

    The implicit QL algorithm (Dubrulle, Martin & Wilkinson, 1968), as Golub & Welsch (1969) use it. `beside` is overwritten.
    """
    n = len(diagonal)
    for k in range(n):
        while True:
            m = k
            while m < n - 1 and abs(beside[m]) > _EPSILON * (
                abs(diagonal[m]) + abs(diagonal[m + 1])
            ):
                m += 1
            if m == k:
                break
            g = (diagonal[k + 1] - diagonal[k]) / (2.0 * beside[k])
            g = diagonal[m] - diagonal[k] + beside[k] / (g + math.copysign(math.hypot(g, 1.0), g))
            s, c, p = 1.0, 1.0, 0.0
            for i in range(m - 1, k - 1, -1):
                f, b = s * beside[i], c * beside[i]
                r = math.hypot(f, g)
                beside[i + 1] = r
                s, c = f / r, g / r
                g = diagonal[i + 1] - p
                r = (diagonal[i] - g) * s + 2.0 * c * b
                p = s * r
                diagonal[i + 1] = g + p
                g = c * r - b
                f = first[i + 1]
                first[i + 1] = s * first[i] + c * f
                first[i] = c * first[i] - s * f
            diagonal[k] -= p
            beside[k], beside[m] = g, 0.0


@compiled(reorder=True)
def fill_noise_nodes(freedom: float, out: Floats) -> None:
    """Write n values of σ and their weights, which sum to 1, to the rows of `out`.

    The integral is first the trapezoid rule in x = log σ. The density exp(-νx - ν e^(-2x)/2) is analytic, so the rule
    converges faster than any power of the step. Its Gaussian nodes integrate polynomials up to degree 2n - 1 as it does:
    the Lanczos process gives the matrix of Golub & Welsch (1969), whose eigenvalues are the nodes.
    """
    n = out.shape[1]
    step = _STEP / math.sqrt(2.0 * freedom)
    # The mass of 1/σ below c is about c^ν.
    c = min(0.03 * (freedom - 2.0), 0.3)
    # y = log((c + 1/σ)/(c + 1)), so that it is precise if σ is close to 1.
    y, vectors = np.empty(_MOST_POINTS), np.empty((n, _MOST_POINTS))
    size, total = 0, 0.0
    for sign in (-1, 1):
        i = 0 if sign < 0 else 1
        log_density = 0.0
        while log_density > _END and size < _MOST_POINTS:
            x = sign * i * step
            log_density = _log_density(freedom, x)
            y[size] = math.log1p(math.expm1(-x) / (1.0 + c))
            weight = math.exp(log_density)
            vectors[0, size] = math.sqrt(weight)
            total += weight
            size += 1
            i += 1
    diagonal, beside, first = np.zeros(n), np.zeros(n), np.zeros(n)
    for j in range(size):
        vectors[0, j] /= math.sqrt(total)
    first[0] = 1.0
    new = np.empty(size)
    for k in range(n):
        for j in range(size):
            new[j] = y[j] * vectors[k, j]
            diagonal[k] += new[j] * vectors[k, j]
        if k + 1 == n:
            break
        for _ in range(2):  # twice is enough (Parlett, 1998, Section 6.9)
            for before in range(k + 1):
                share = 0.0
                for j in range(size):
                    share += new[j] * vectors[before, j]
                for j in range(size):
                    new[j] -= share * vectors[before, j]
        square = 0.0
        for j in range(size):
            square += new[j] * new[j]
        beside[k] = math.sqrt(square)
        for j in range(size):
            vectors[k + 1, j] = new[j] / beside[k]
    _diagonalize(diagonal, beside, first)
    for k in range(n):
        out[0, k] = 1.0 / (1.0 + (1.0 + c) * math.expm1(diagonal[k]))
        out[1, k] = first[k] * first[k]
