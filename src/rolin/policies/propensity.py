"""The probability that each arm is chosen, by numerical integration."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.policies.kernels import probabilities_of_highest

__all__ = ["Nodes", "error_of_average", "highest_of_normals", "noise_nodes"]

Floats = NDArray[np.float64]
# Degrees of freedom from which on few Gaussian nodes replace those of the trapezoid rule; their error is below 1e-9.
_WELL_KNOWN = 10.0


def highest_of_normals(mean: Floats, std: Floats, factor: float = 1.0) -> Floats:
    """Return the probability that each of several independent normal variables is the highest.

    Their standard deviations are `factor` times `std`.

    >>> highest_of_normals(np.zeros(2), np.ones(2)).round(9).tolist()
    [0.5, 0.5]
    """
    out = np.empty(len(mean))
    probabilities_of_highest(mean, std, factor, out)
    return out


def error_of_average(variance: Floats, draws: int) -> Floats:
    """Return the standard error of an average of probabilities over draws, given their variance among the draws.

    It is at least 1/draws, because one more draw could change the average by that much: an arm that no draw has
    chosen is rare, but its probability is not known to be 0.
    """
    return np.sqrt(variance / draws + 1.0 / draws**2)


class Nodes(NamedTuple):
    """The nodes of a numerical integral."""

    values: Floats
    """(n,)"""
    weights: Floats
    """(n,): they sum to 1."""


def noise_nodes(freedom: float) -> Nodes:
    """Return the nodes of an integral over σ, where σ² ~ ν/χ²_ν.

    They begin with the trapezoid rule in log σ. The density exp(-νx - ν e^(-2x)/2) is analytic, so the rule
    converges faster than any power of the step. If σ is well known, few Gaussian nodes are as good.
    """
    step = 0.5 / math.sqrt(2.0 * freedom)
    log_density = [0.0]
    x = [0.0]
    for sign in (step, -step):
        i = 1
        while (new := _log_density(freedom, sign * i)) > -23.0:  # 1e-10 of the highest
            x.append(sign * i)
            log_density.append(new)
            i += 1
    weights = np.exp(log_density)
    nodes = Nodes(np.array(x), weights / weights.sum())
    if freedom >= _WELL_KNOWN:
        nodes = _gaussian(nodes, max(3, 1 + math.ceil(38.0 / math.sqrt(freedom))))
    return nodes._replace(values=np.exp(nodes.values))


def _log_density(freedom: float, x: float) -> float:
    """Return the log density of x = log σ, relative to that of 0."""
    return -freedom * (x + 0.5 * math.expm1(-2.0 * x))


def _gaussian(nodes: Nodes, n: int) -> Nodes:
    """Return the n Gaussian nodes of the same integral: the same integrals of polynomials up to degree 2n - 1.

    The Lanczos process gives the matrix of Golub & Welsch (1969), whose eigenvalues are the nodes.
    """
    jacobi = np.zeros((n, n))
    vector, before, length = np.sqrt(nodes.weights), np.zeros(len(nodes.weights)), 0.0
    for k in range(n):
        new = nodes.values * vector
        jacobi[k, k] = vector @ new
        new -= jacobi[k, k] * vector + length * before
        length = math.sqrt(new @ new)
        if k + 1 < n:
            jacobi[k, k + 1] = jacobi[k + 1, k] = length
            before, vector = vector, new / length
    values, vectors = np.linalg.eigh(jacobi)
    return Nodes(values, vectors[0] ** 2)
