"""Results of a posterior: predictions, coefficients, arm effects."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.checks import level_of

__all__ = [
    "ArmCoefficients",
    "ArmEffects",
    "Coefficients",
    "GivenCoefficients",
    "LogitPrediction",
    "OwnCoefficients",
    "Prediction",
    "roots_of",
]

Floats = NDArray[np.float64]


class Prediction(NamedTuple):
    """Posterior of each arm's mean reward in its context."""

    mean: Floats
    """(K,)"""
    std: Floats
    """(K,)"""

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return the ends of intervals that contain the mean rewards with this probability."""
        reach = _reach(level) * self.std
        return self.mean - reach, self.mean + reach


class GivenCoefficients(NamedTuple):
    """Posterior of each arm's mean reward if the coefficients were known: then the arms are independent.

    If the coefficients are θ̂ + T'z, with standard normal z, the means are `mean + loadings @ z`.
    """

    mean: Floats
    """(K,): the means for the coefficients θ̂"""
    loadings: Floats
    """(K, D): how they follow the uncertainty z of the coefficients"""
    std: Floats
    """(K,): the arms' own standard deviations"""


class LogitPrediction(Prediction):
    """Posterior of each arm's probability of a reward of 1 in its context."""

    logit_mean: Floats
    """(K,): mean of the logits, which are normally distributed"""
    logit_std: Floats
    """(K,): their standard deviation"""

    def __new__(cls, mean: Floats, std: Floats, logit_mean: Floats, logit_std: Floats) -> Self:
        """Store the logits beside mean and standard deviation of the probabilities."""
        self = super().__new__(cls, mean, std)
        self.logit_mean, self.logit_std = logit_mean, logit_std
        return self

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return the ends of intervals that contain the arms' probabilities with probability `level`."""
        reach = _reach(level) * self.logit_std
        with np.errstate(over="ignore"):  # 1/∞ = 0 is correct
            return self._rates(-reach), self._rates(reach)

    def _rates(self, shift: Floats) -> Floats:
        """Return the probabilities of shifted logits."""
        rates: Floats = 1.0 / (1.0 + np.exp(-self.logit_mean - shift))
        return rates

    def __getnewargs__(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the arguments for copying and pickling."""
        return self.mean, self.std, self.logit_mean, self.logit_std


def _reach(level: float) -> float:
    """Return the half-width, in standard deviations, of an interval with this probability."""
    number = level_of(level)
    return NormalDist().inv_cdf(0.5 + 0.5 * number)


class Coefficients(NamedTuple):
    """Posterior of the shared coefficients; an intercept is the last."""

    mean: Floats
    """(D,)"""
    covariance: Floats
    """(D, D): M⁻¹"""

    @property
    def std(self) -> Floats:
        """Standard deviation of each coefficient."""
        return np.sqrt(np.diag(self.covariance))


def roots_of(covariances: Floats) -> Floats:
    """Return (K, q, q) matrices R with R R' = V; V may be singular."""
    values, vectors = np.linalg.eigh(covariances)
    roots: Floats = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
    return roots


@dataclass(frozen=True)
class ArmEffects:
    """Posterior of the arm effects: what the features do not explain of each arm.

    The joint covariance is diag(own_variance) + loadings loadings'. Only these factors are stored: K × D numbers
    instead of K × K.
    """

    arms: tuple[Name, ...]
    """Their K names."""
    mean: Floats
    """(K,)"""
    own_variance: Floats
    """(K,): s₀²(1 - w), the variance that would remain if the coefficients were known"""
    loadings: Floats
    """(K, D): how each effect depends on the uncertainty of the coefficients"""

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


@dataclass(frozen=True)
class ArmCoefficients:
    """Posterior of coefficients that every arm has: its own slopes, or its slopes plus the shared coefficients."""

    arms: tuple[Name, ...]
    """Their K names."""
    features: tuple[int, ...]
    """Indices of the m features; the intercept, if it is among them, is the last and has index d."""
    mean: Floats
    """(K, m)"""
    std: Floats
    """(K, m)"""


@dataclass(frozen=True)
class OwnCoefficients:
    """Joint posterior of what the arms have of their own, u_i = (v_i, b_i): the arm effect, and then its slopes.

    The shared coefficients are θ = θ̂ + T'z with standard normal z, and u_i = mean - loadings z + an independent normal
    vector with this covariance.
    """

    arms: tuple[Name, ...]
    """Their K names."""
    features: tuple[int, ...]
    """Indices of the features that have slopes; q - 1 of them."""
    mean: Floats
    """(K, q)"""
    covariance: Floats
    """(K, q, q): V, what would remain if the shared coefficients were known"""
    loadings: Floats
    """(K, q, D): how they depend on the uncertainty of the shared coefficients"""

    @property
    def roots(self) -> Floats:
        """(K, q, q): R with R R' = V."""
        return roots_of(self.covariance)

    def entries(self, contexts: Floats) -> Floats:
        """Return (K, q): z = (1, x_S) of (K, ≥ d) contexts, the factors of u_i in the arms' mean rewards."""
        return np.column_stack([np.ones(len(contexts)), contexts[:, list(self.features)]])
