"""The probability that each arm is chosen, by numerical integration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.policies.kernels.propensity import probabilities_of_highest

__all__ = ["Node", "error_of_average", "highest_of_normals", "noise_nodes"]

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


class Node(NamedTuple):
    """A node of a numerical integral."""

    value: float
    weight: float


def noise_nodes(freedom: float) -> Iterator[Node]:
    """Yield the nodes of an integral over σ, where σ² ~ ν/χ²_ν.

    It is the trapezoid rule in log σ. The density exp(-νx - ν e^(-2x)/2) is analytic, so the rule
    converges faster than any power of the step.
    """

    def log_density(x: float) -> float:
        return -freedom * (x + 0.5 * math.expm1(-2.0 * x))

    step = 0.6 / math.sqrt(2.0 * freedom)
    nodes = [0.0]
    for sign in (1.0, -1.0):
        i = 1
        while log_density(sign * i * step) > -23.0:  # 1e-10 of the highest
            nodes.append(sign * i * step)
            i += 1
    weights = np.exp([log_density(x) for x in nodes])
    for x, weight in zip(nodes, weights / weights.sum(), strict=True):
        yield Node(math.exp(x), float(weight))
