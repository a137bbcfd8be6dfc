"""What a posterior says: predictions, coefficients, arm effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.arms import Name

__all__ = ["ArmEffects", "Coefficients", "Prediction"]

Floats = NDArray[np.float64]


class Prediction(NamedTuple):
    """Posterior of each arm's mean reward in its context."""

    mean: Floats
    """(K,)"""
    std: Floats
    """(K,)"""


class Coefficients(NamedTuple):
    """Posterior of the shared coefficients; with an intercept, it is the last of them."""

    mean: Floats
    """(D,)"""
    covariance: Floats
    """(D, D): M⁻¹"""

    @property
    def std(self) -> Floats:
        """Standard deviation of each coefficient."""
        return np.sqrt(np.diag(self.covariance))


@dataclass(frozen=True)
class ArmEffects:
    """Posterior of the arms' effects: what the features do not explain of each.

    The joint covariance is diag(own variance) + loadings loadings', of which only the factors
    are kept: K × D numbers, not K × K.
    """

    arms: tuple[Name, ...]
    """Their K names."""
    mean: Floats
    """(K,)"""
    own_variance: Floats
    """(K,): s₀²(1 - w), what is left even if the coefficients were known"""
    loadings: Floats
    """(K, D): how each follows the coefficients' uncertainty"""

    @property
    def std(self) -> Floats:
        """Standard deviation of each effect."""
        variance: Floats = self.own_variance + (self.loadings**2).sum(axis=1)
        return np.sqrt(variance)

    def covariance(self) -> Floats:
        """Return the joint (K, K) covariance."""
        covariance: Floats = self.loadings @ self.loadings.T
        covariance[np.diag_indices_from(covariance)] += self.own_variance
        return covariance
