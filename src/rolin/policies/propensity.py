"""The probability that each arm is chosen, by numerical integration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.policies.kernels import fill_noise_nodes, n_noise_nodes, probabilities_of_highest

__all__ = ["Nodes", "error_of_average", "highest_of_normals", "noise_nodes"]

Floats = NDArray[np.float64]


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
    """Return the nodes of an integral over σ, where σ² ~ ν/χ²_ν, with errors of probabilities below 6e-10."""
    nodes = np.empty((2, n_noise_nodes(freedom)))
    fill_noise_nodes(freedom, nodes)
    return Nodes(*nodes)
