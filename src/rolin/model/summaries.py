"""What a posterior says: predictions, coefficients, arm effects."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.checks import level_of

__all__ = ["ArmEffects", "Coefficients", "LogitPrediction", "Prediction"]

Floats = NDArray[np.float64]


class Prediction(NamedTuple):
    """Posterior of each arm's mean reward in its context."""

    mean: Floats
    """(K,)"""
    std: Floats
    """(K,)"""

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return the ends of intervals that hold the mean rewards with this probability."""
        reach = _reach(level) * self.std
        return self.mean - reach, self.mean + reach


class LogitPrediction(Prediction):
    """Posterior of each arm's probability of a yes in its context."""

    logit_mean: Floats
    """(K,): mean of the logits, which are normal"""
    logit_std: Floats
    """(K,): their standard deviation"""

    def __new__(cls, mean: Floats, std: Floats, logit_mean: Floats, logit_std: Floats) -> Self:
        """Keep the logits beside what they say of the probabilities."""
        self = super().__new__(cls, mean, std)
        self.logit_mean, self.logit_std = logit_mean, logit_std
        return self

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return the ends of intervals that hold the probabilities with this probability."""
        reach = _reach(level) * self.logit_std
        with np.errstate(over="ignore"):  # 1/∞ is 0, as it should be
            return self._rates(-reach), self._rates(reach)

    def _rates(self, apart: Floats) -> Floats:
        rates: Floats = 1.0 / (1.0 + np.exp(-self.logit_mean - apart))
        return rates

    def __getnewargs__(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return what copies and pickles are made of."""
        return self.mean, self.std, self.logit_mean, self.logit_std


def _reach(level: float) -> float:
    """Return how many standard deviations hold that much of a normal distribution."""
    number = level_of(level)
    return NormalDist().inv_cdf(0.5 + 0.5 * number)


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
