"""How uncertain a learned arm_std is, and what this adds to intervals (docs/explanation/maths.md, "Uncertain scales")."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rolin.model.scales import Scales

__all__ = ["added_variance", "doubt_of"]

Floats = NDArray[np.float64]
# The prior of arm_std is worth this many arms whose effects are known: its curvature at the guess.
_PRIOR_ARMS = 0.5


def doubt_of(weight: Floats, mean_context: Floats, scatter: Floats, scales: Scales) -> float:
    """Return the standard deviation of log(arm_std²/noise_std²) given the data, approximately. O(K d).

    The logarithm of a variance that is estimated from n numbers has the variance 2/n. Here the numbers are arm effects.
    An arm whose effect is shrunk by the factor w counts as w² arms, and coefficients that are learned from differences
    between arms take their share away.

    Parameters
    ----------
    weight
        (K,): the weights H of all arms.
    mean_context
        (K, d): their mean contexts.
    scatter
        (d,): sums of squares of every feature within arms.
    scales
        The scales, without slopes.
    """
    taken = float(scales.has_intercept)
    w, unshrunk = _shrinkage(weight, scales)
    if mean_context.size:
        precision = weight * unshrunk  # of an arm's mean reward, relative to that of one reward
        center = precision @ mean_context / precision.sum() if scales.has_intercept else 0.0
        apart = mean_context - center
        between = np.einsum("k,kj,kj->j", precision, apart, apart)
        _, std = scales.prior(len(between))
        prior = (scales.noise_std / std[: len(between)]) ** 2
        taken += float(np.sum(between / (between + scatter + prior)))
    share = max(1.0 - taken / max(len(weight), 1), 0.0)
    return math.sqrt(2.0 / max(1.0, _PRIOR_ARMS + share**2 * float(w @ w)))


def added_variance(weight: Floats, effect: Floats, scales: Scales, doubt: float) -> Floats:
    """Return what the uncertainty of arm_std adds to the variances of arms' mean rewards.

    It has two parts. The mean w e of an arm effect changes with arm_std, because the shrinkage w does; the variance of w
    is that of Morris & Tang (2011). And the variance of the effect given arm_std is concave in arm_std². So at the mean
    of arm_std², it is at least its mean.

    Parameters
    ----------
    weight
        (K,): the weights H of the arms.
    effect
        (K,): their effects without shrinkage, e = r̄ - x̄'θ̂.
    scales
        The scales.
    doubt
        What `doubt_of` returned for all arms.
    """
    w, unshrunk = _shrinkage(weight, scales)
    more = math.exp(0.5 * doubt**2)  # the mean of a log-normal variable over its median
    own = scales.arm_std**2 * (more / (unshrunk + w * more) - 1.0) * unshrunk
    product = w * unshrunk
    moved: Floats = (product * effect) ** 2 / (1.0 / doubt**2 + product)
    return moved + own


def _shrinkage(weight: Floats, scales: Scales) -> tuple[Floats, Floats]:
    """Return w and 1 - w."""
    evidence, noise = weight * scales.arm_std**2, scales.noise_std**2
    return evidence / (noise + evidence), noise / (noise + evidence)
