"""Estimate from later rewards by which factor the standard deviations of a posterior are off.

A posterior says θ = θ̂ + δ with δ ~ N(0, M⁻¹), and v_i = w_i (r̄_i - x̄_i'θ) + η_i with η_i ~ N(0, s₀²(1 - w_i)). A later
reward differs from its predicted mean by

    e = (x - w_i x̄_i)'δ + η_i + ε,   ε ~ N(0, σ²/h).

Suppose that δ and η are in truth f times as large as the posterior says, and the noise g times. The density of all later
residuals is then a function of f and g, and f = g = 1 if the posterior is right. It is the density of an ordinary
robust linear model, so it is computed from moments, in O(K d² + d³).

The density does not depend on how arms were chosen, as long as the choice used only the past and chance. So the
likelihood ratio test of f = 1 is also valid for the log of a bandit, where the mean of an arm's later rewards is biased:
a bandit stops pulling an arm after bad luck (Nie, Tian, Taylor & Zou 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.model.estimation import Interval
from rolin.model.moments import Moments
from rolin.model.residuals import Residuals, SlopeSums

__all__ = ["HeldOut", "WidthEstimate", "estimate_width"]

Floats = NDArray[np.float64]
_THRESHOLD = 3.841458820694124  # of a likelihood ratio statistic, for a 95 % interval: the quantile of χ² with 1 d.f.
_RATIOS = 12.0  # the same of (f/g)²
_ROOM = 1.5  # how far log g is searched around its unrestricted estimate
# Tolerances of log g and log f. With a million rewards, the first one changes a statistic by less than 1e-3.
_NOISE_TOLERANCE, _FACTOR_TOLERANCE = 1e-5, 1e-4


class _Density(NamedTuple):
    """-2 log density of residuals, up to a constant, is n log g² + log_determinants + quadratic/g²."""

    log_determinants: float
    quadratic: float


class HeldOut:
    """Residuals of rewards that a posterior has not seen, as sums.

    Parameters
    ----------
    residuals
        The residuals.
    weights
        (n,): weights of the rewards.
    noise_std
        σ, the noise that the posterior assumes.
    """

    def __init__(self, residuals: Residuals, weights: Floats, noise_std: float) -> None:
        self.arms = residuals.arms
        self._variance, self._noise = residuals.own_variance, noise_std**2
        self._own = None
        if residuals.entries is not None:
            self._own = SlopeSums.of(residuals, weights)
            self._variance = self._own.mean_variance
        self._sums = Moments.of_codes(
            residuals.arms, residuals.codes, residuals.loadings, residuals.values, weights
        )
        self.count = self._sums.count
        self._counts = np.bincount(residuals.codes, minlength=len(residuals.arms))

    @property
    def weight(self) -> Floats:
        """(K,): sum of the weights of each arm."""
        return self._sums.weight

    @property
    def mean(self) -> Floats:
        """(K,): weighted mean residual of each arm."""
        return self._sums.mean_reward

    @property
    def _known_variance(self) -> Floats:
        """(K,): variance of the mean residuals, without noise."""
        variance: Floats = self._variance + (self._sums.mean_context**2).sum(axis=1)
        return variance

    @property
    def std(self) -> Floats:
        """(K,): predicted standard deviations of the mean residuals, noise included."""
        return np.sqrt(self._known_variance + self._noise / self._sums.weight)

    def score_variance(self, ratio: float, kurtosis: float) -> tuple[float, float]:
        """Return the variance of the derivative of the log density by log f, and the same for normal noise.

        The terms of the arms are λ_i (z_i² - 1), where z_i is the standardized mean residual of an arm and λ_i the share of
        its variance that is not noise. z_i² has the variance 2 + (1 - λ_i)² kurtosis/n_i. Correlations between arms are
        left out: the two are only compared.
        """
        known = ratio * self._known_variance
        share = known / (known + self._noise / self._sums.weight)
        excess = (1.0 - share) ** 2 * kurtosis / self._counts
        return float(share**2 @ (2.0 + excess)), float(2.0 * (share**2).sum())

    def density(self, ratio: float) -> _Density:
        """Return the parts of the density for (f/g)² = ratio.

        With a_i = ratio · var(η_i)/σ² and κ_i = 1/(1 + H_i a_i), as for the evidence of the model
        (docs/explanation/maths.md): A = C + Σ H_i κ_i ℓ̄ ℓ̄', b = g + Σ H_i κ_i ℓ̄ ē and c = q + Σ H_i κ_i ē² give
        Σ log(1 + H_i a_i) + log det(I + ratio A/σ²) and (c - b'(A + σ²/ratio I)⁻¹ b)/σ².
        """
        sums, share = self._sums, ratio / self._noise
        if self._own is not None:
            grown, a, b, c = self._own.marginal(share)
            return self._density(share, grown, a, b, c)
        h, mean, loading = sums.weight, sums.mean_reward, sums.mean_context
        grown = h * self._variance * share
        kept = h / (1.0 + grown)
        a = sums.scatter + (loading * kept[:, None]).T @ loading
        b = sums.cross + loading.T @ (kept * mean)
        c = sums.reward_scatter + float(kept @ mean**2)
        return self._density(share, grown, a, b, c)

    def _density(self, share: float, grown: Floats, a: Floats, b: Floats, c: float) -> _Density:
        """Return the parts of the density from the sums that are left when the arms' own numbers are integrated out."""
        factor = np.linalg.cholesky(np.eye(len(a)) + share * a)
        solved = np.linalg.solve(factor, b)
        determinants = float(np.log1p(grown).sum() + 2.0 * np.log(np.diag(factor)).sum())
        return _Density(determinants, (c - share * float(solved @ solved)) / self._noise)


class WidthEstimate(NamedTuple):
    """By which factor the standard deviations of a posterior are off."""

    factor: Interval
    """f: multiply the standard deviations by it."""
    noise_factor: float
    """g: the noise is this many times what was assumed."""
    statistic: float
    """The likelihood ratio statistic of f = 1, divided by `inflation`."""
    p_value: float
    """Probability of at least this statistic if f = 1."""
    inflation: float
    """How much more the statistic varies than with normal noise."""


def estimate_width(blocks: Sequence[HeldOut], *, kurtosis: float = 0.0) -> WidthEstimate:
    """Estimate f and g by maximum likelihood, and test f = 1.

    Each block holds rewards that its own posterior has not seen, and that the posterior of the next block may have
    seen. The densities of the blocks given their past multiply.

    Parameters
    ----------
    blocks
        The blocks, one or more.
    kurtosis
        Excess kurtosis of the noise, 0 if it is normal. A rare click is an outlier: without this, one click of an arm with
        few rewards would look like an interval that is too narrow. The likelihood ratio is divided by the factor by
        which the variance of its score grows (Satorra & Bentler 1994).
    """
    from scipy.optimize import minimize_scalar  # takes 0.1 s to import

    n = sum(block.count for block in blocks)

    def density(log_ratio: float) -> _Density:
        parts = [block.density(math.exp(log_ratio)) for block in blocks]
        # Residuals that are all zero have no likely noise.
        quadratic = max(sum(part.quadratic for part in parts), 1e-300)
        return _Density(sum(part.log_determinants for part in parts), quadratic)

    def free(log_ratio: float) -> float:
        determinants, quadratic = density(log_ratio)
        return n * math.log(quadratic / n) + n + determinants  # g² = quadratic/n

    log_ratio = float(_lowest(free, -_RATIOS, _RATIOS))
    best = free(log_ratio)
    log_noise = 0.5 * math.log(density(log_ratio).quadratic / n)

    def given(log_factor: float) -> float:
        """Return the lowest deviance with this f, over all g."""

        def deviance(log_g: float) -> float:
            ratio = 2.0 * (log_factor - log_g)
            determinants, quadratic = density(min(max(ratio, -30.0), 30.0))
            return 2.0 * n * log_g + determinants + quadratic * math.exp(-2.0 * log_g)

        found = minimize_scalar(
            deviance,
            bounds=(log_noise - _ROOM, log_noise + _ROOM),
            method="bounded",
            options={"xatol": _NOISE_TOLERANCE},
        )
        return float(found.fun)

    parts = [block.score_variance(math.exp(log_ratio), kurtosis) for block in blocks]
    true, normal = (sum(part) for part in zip(*parts, strict=True))
    inflation = true / normal if normal > 0.0 else 1.0
    log_factor = 0.5 * log_ratio + log_noise
    statistic = max(given(0.0) - best, 0.0) / inflation
    limit = best + inflation * _THRESHOLD
    low = _end(given, limit, log_factor, log_noise - 0.5 * _RATIOS)
    high = _end(given, limit, log_factor, log_noise + 0.5 * _RATIOS)
    none, all_ = (abs(log_ratio - edge) < 0.01 for edge in (-_RATIOS, _RATIOS))
    value = 0.0 if none else math.inf if all_ else math.exp(log_factor)
    return WidthEstimate(
        Interval(value, 0.0 if low is None else math.exp(low), math.inf if high is None else math.exp(high)),
        math.exp(log_noise),
        statistic,
        math.erfc(math.sqrt(0.5 * statistic)),  # P(χ²₁ > statistic)
        inflation,
    )  # fmt: skip


def _lowest(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function is lowest: the best of a coarse grid, refined."""
    from scipy.optimize import minimize_scalar

    grid = np.linspace(low, high, 25)
    values = [function(at) for at in grid.tolist()]
    j = int(np.argmin(values))
    ends = grid[max(j - 1, 0)], grid[min(j + 1, len(grid) - 1)]
    found = minimize_scalar(function, bounds=ends, method="bounded", options={"xatol": 1e-6})
    return float(found.x) if found.fun <= values[j] else float(grid[j])


def _end(
    given: Callable[[float], float], deviance: float, inside: float, limit: float
) -> float | None:
    """Return where the deviance rises to the end of an interval; `None` if it does not, up to the limit."""
    from scipy.optimize import brentq

    def above(log_factor: float) -> float:
        return given(log_factor) - deviance

    if above(limit) <= 0.0 or above(inside) >= 0.0:
        return None
    return float(brentq(above, inside, limit, xtol=_FACTOR_TOLERANCE))
