"""The likelihood of the scales, from moments alone, and its maximum.

Write ρ = arm_std²/noise_std² and κ = coef_std²/noise_std². For a given ρ, one pass over the arms
gives

    A = C + Σ_i H_i/(1 + H_i ρ) x̄_i x̄_i',   b = g + Σ_i H_i/(1 + H_i ρ) x̄_i r̄_i,
    s = q + Σ_i H_i/(1 + H_i ρ) r̄_i²

and with the eigenvalues e of A, and z = b along its axes, every other number costs O(d):

    -2 log p = N log 2πσ² + Σ_i log(1 + H_i ρ) + Σ_j log(1 + κ e_j) + Q/σ² - Σ log h,
    Q = s - Σ_j κ z_j²/(1 + κ e_j)

(docs/maths.md, "Evidence"). So the search is over ρ, with a cheap one inside it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.model import Scales
from rolin.moments import Moments

__all__ = ["Evidence", "Point", "Search", "Sums"]

Floats = NDArray[np.float64]

# Directions of the features whose scatter is below this share of the largest are rounding.
_RANK = 1e-10
# Of the prior that "map" adds, which is weak: one pseudo-observation of the noise, an arm_std that is
# half-Cauchy in units of the noise, and a coef_std (in those units) that is log-normal around the
# guess with this spread: within a factor of e, give or take.
_NOISE_COUNT = 1.0
_LOG_COEF_SPREAD = 1.0
# Ratios arm_std²/noise_std² and coef_std²/noise_std² that are searched.
_SMALLEST, _LARGEST = 1e-9, 1e9
_GRID = np.linspace(math.log(_SMALLEST), math.log(_LARGEST), 61)
# Rise of -2 log likelihood at the ends of a 95 % interval: the quantile of χ² with one degree.
_RISE = 3.841459


class Sums(NamedTuple):
    """All that the likelihood needs, for one ρ."""

    values: Floats  # (d,): e, rising
    along: Floats  # (d,): z
    square: float  # s
    log_arms: float  # Σ log(1 + H ρ), and what a flat intercept adds


class Point(NamedTuple):
    """Scales, squared and relative to the noise, and -2 log likelihood there."""

    deviance: float
    noise: float  # σ²
    arm: float  # ρ
    coef: float  # κ


class Evidence:
    """Moments in units of the prior: its mean subtracted, its spread divided out."""

    def __init__(self, moments: Moments, prior: Scales) -> None:
        self.prior = prior
        mean, std = prior.prior(moments.n_features)
        d = moments.n_features
        mean, std = mean[:d], std[:d]
        self.unit = float(np.exp(np.log(std).mean())) if d else 1.0  # coef_std, if it is one number
        relative = std / self.unit
        self.count, self.weight = moments.count, moments.weight
        self.sum_log_weight = moments.sum_log_weight
        self.x = moments.mean_context * relative
        self.r = moments.mean_reward - moments.mean_context @ mean
        self.scatter = moments.scatter * np.outer(relative, relative)
        self.cross = (moments.cross - moments.scatter @ mean) * relative
        shift = float(mean @ moments.scatter @ mean - 2.0 * (mean @ moments.cross))
        self.square = max(moments.reward_scatter + shift, 0.0)
        total = self.at(0.0).values
        self.rank = int(np.count_nonzero(total > _RANK * total.max(initial=0.0)))
        within = np.linalg.eigvalsh(self.scatter) if d else np.empty(0)
        self.within_rank = int(np.count_nonzero(within > _RANK * total.max(initial=0.0)))
        self.fixed = int(prior.has_intercept)  # coefficients with a flat prior
        # A perfect fit would have no noise; what rounding leaves of the rewards is the least.
        self.least_noise = max(1e-14 * self.at(0.0).square / max(self.count, 1.0), 1e-200)

    def at(self, ratio: float) -> Sums:
        """Return the sums for one ρ: the only step that looks at every arm."""
        shrunk = self.weight / (1.0 + ratio * self.weight)  # H/(1 + Hρ)
        x, r = self.x, self.r
        log_arms = float(np.log1p(ratio * self.weight).sum())
        if self.prior.has_intercept and len(r):
            # The intercept is integrated out: everything around its weighted mean.
            total = shrunk.sum()
            x, r = x - shrunk @ x / total, r - shrunk @ r / total
            log_arms += math.log(total)
        matrix = self.scatter + (x * shrunk[:, None]).T @ x
        right = self.cross + (shrunk * r) @ x
        values, axes = np.linalg.eigh(matrix)
        return Sums(
            np.maximum(values, 0.0), right @ axes, self.square + float(shrunk @ r**2), log_arms
        )

    def within_square(self) -> float:
        """Return what the regression within arms leaves of the rewards."""
        if not self.within_rank:
            return self.square
        values, axes = np.linalg.eigh(self.scatter)
        top = slice(len(values) - self.within_rank, None)
        return max(self.square - float(((self.cross @ axes)[top] ** 2 / values[top]).sum()), 0.0)

    def absorbed(self) -> float:
        """Return d₀ = tr[(Σ h xx')⁺ Σ_i H_i² x̄_i x̄_i'], the intercept included."""
        h, x = self.weight, self.x
        total = 0.0
        if self.prior.has_intercept:
            x = x - h @ x / h.sum()
            total = float(h @ h) / float(h.sum())
        values, axes = np.linalg.eigh(self.scatter + (x * h[:, None]).T @ x)
        top = slice(len(values) - self.rank, None)
        return total + float(((h[:, None] * (x @ axes)[:, top]) ** 2 / values[top]).sum())

    def under(self, prior: Scales) -> Evidence:
        """Return the same evidence beside other guesses of noise_std and arm_std."""
        other = copy.copy(self)
        other.prior = prior
        return other

    @property
    def within_freedom(self) -> float:
        """Observations beyond one per arm and one per direction that varies within arms."""
        return self.count - len(self.weight) - self.within_rank

    def possible(self) -> set[str]:
        """Return which scales there are enough data for."""
        arms, found = len(self.weight), set()
        # coefficients that only differences between arms can tell
        between = self.rank - self.within_rank + self.fixed
        if self.within_freedom >= 1:
            found.add("noise_std")
            if arms - between >= 1 and arms >= 2:
                found.add("arm_std")
        if self.rank:
            found.add("coef_std")
        return found


class Search:
    """The maximum of a likelihood of the scales, with some of them held fixed.

    Parameters
    ----------
    evidence
        The moments, in units of the prior.
    learn
        Which scales are free.
    method
        `"ml"`, `"map"` or `"reml"`.
    """

    def __init__(self, evidence: Evidence, learn: Set[str], method: str) -> None:
        self._evidence, self._method = evidence, method
        prior = evidence.prior
        # Squares of the scales that are fixed; `None` for those that are free.
        self._noise = None if "noise_std" in learn else prior.noise_std**2
        self._arm = None if "arm_std" in learn else prior.arm_std**2
        self._coef = None if "coef_std" in learn else evidence.unit**2
        flat = evidence.rank if method == "reml" else 0
        self._count = evidence.count - evidence.fixed - flat
        self._pseudo = _NOISE_COUNT if method == "map" else 0.0
        self._guess = prior.noise_std**2

    def best(self) -> Point:
        """Return the maximum."""
        if self._arm is None:
            at_zero = self._given(0.0)
            found = _minimum(lambda t: self._given(math.exp(t)).deviance, _GRID)
            point = self._given(math.exp(found))
            return at_zero if at_zero.deviance <= point.deviance else point
        if self._arm == 0.0 or self._noise is not None:
            return self._given(self._arm / (self._noise or 1.0))
        # arm_std is fixed and the noise is not: ρ moves with the noise
        fixed, grid = self._arm, _GRID / 2 + math.log(self._guess)
        found = _minimum(lambda t: self._given(fixed / math.exp(t), math.exp(t)).deviance, grid)
        return self._given(fixed / math.exp(found), math.exp(found))

    def _given(self, ratio: float, noise: float | None = None) -> Point:
        """Return the best point with this ρ (and this noise)."""
        sums = self._evidence.at(ratio)
        noise = self._noise if noise is None else noise
        if self._method == "reml":
            deviance, variance = self._restricted(sums, noise)
            coef = (self._coef or self._evidence.unit**2) / variance
            return Point(deviance, variance, ratio, coef)
        if self._coef is None:
            found = _minimum(lambda t: self._deviance(sums, ratio, noise, math.exp(t))[0], _GRID)
            kappa = math.exp(found)
        elif noise is None:  # κ moves with the noise
            coef, grid = self._coef, _GRID / 2 + math.log(self._guess)
            found = _minimum(
                lambda t: self._deviance(sums, ratio, math.exp(t), coef / math.exp(t))[0], grid
            )
            noise = math.exp(found)
            kappa = coef / noise
        else:
            kappa = self._coef / noise
        deviance, variance = self._deviance(sums, ratio, noise, kappa)
        return Point(deviance, variance, ratio, kappa)

    def _deviance(
        self, sums: Sums, ratio: float, noise: float | None, kappa: float
    ) -> tuple[float, float]:
        """Return -2 log likelihood, and the noise variance: as given, or the best."""
        stretched = 1.0 + kappa * sums.values
        rest = sums.square - float((kappa * sums.along**2 / stretched).sum())
        deviance, variance = self._gaussian(rest, noise)
        deviance += sums.log_arms + float(np.log(stretched).sum())
        if self._method == "map":
            guess = self._evidence.unit**2 / self._guess
            deviance += 2.0 * math.log1p(ratio)
            deviance += (0.5 * math.log(kappa / guess) / _LOG_COEF_SPREAD) ** 2
        return deviance, variance

    def _restricted(self, sums: Sums, noise: float | None) -> tuple[float, float]:
        """Return -2 log restricted likelihood (up to a constant), and the noise variance."""
        top = slice(len(sums.values) - self._evidence.rank, None)
        values = np.maximum(sums.values[top], 1e-300)
        rest = sums.square - float((sums.along[top] ** 2 / values).sum())
        deviance, variance = self._gaussian(rest, noise)
        return deviance + sums.log_arms + float(np.log(values).sum()), variance

    def _gaussian(self, rest: float, noise: float | None) -> tuple[float, float]:
        """Return n log 2πσ² + Q/σ² - Σ log h, and σ²."""
        rest = max(rest, 0.0) + self._pseudo * self._guess
        count = self._count + self._pseudo
        variance = (
            max(rest / max(count, 1.0), self._evidence.least_noise) if noise is None else noise
        )
        deviance = count * math.log(2.0 * math.pi * variance) + rest / variance
        return deviance - self._evidence.sum_log_weight, variance

    # -- intervals ---------------------------------------------------------------------------

    def arm_interval(self, best: Point) -> tuple[float, float]:
        """Return the ends of the 95 % profile-likelihood interval of arm_std."""

        def at(log_ratio: float) -> Point:
            return self._given(math.exp(log_ratio))

        lowest = min(best.deviance, self._given(0.0).deviance)
        middle = math.log(max(best.arm, _SMALLEST))
        ends = []
        for end in (_GRID[0], _GRID[-1]):
            if at(end).deviance - lowest <= _RISE:
                ends.append(0.0 if end < 0 else math.inf)
                continue
            point = at(_crossing(lambda t: at(t).deviance - lowest - _RISE, middle, end))
            ends.append(math.sqrt(point.arm * point.noise))
        return ends[0], ends[1]

    def coef_interval(self, best: Point) -> tuple[float, float]:
        """Return the ends of the 95 % interval of coef_std, given arm_std."""
        sums = self._evidence.at(best.arm)

        def rise(log_kappa: float) -> float:
            found, _ = self._deviance(sums, best.arm, self._noise, math.exp(log_kappa))
            return found - lowest - _RISE

        lowest, _ = self._deviance(sums, best.arm, self._noise, best.coef)
        middle, ends = math.log(best.coef), []
        for end in (_GRID[0], _GRID[-1]):
            if rise(end) <= 0.0:
                ends.append(0.0 if end < 0 else math.inf)
                continue
            kappa = math.exp(_crossing(rise, middle, end))
            _, variance = self._deviance(sums, best.arm, self._noise, kappa)
            ends.append(math.sqrt(kappa * variance))
        return ends[0], ends[1]


def _minimum(f: Callable[[float], float], grid: Floats) -> float:
    """Return where a function is smallest: the best of a grid, refined by Brent's method."""
    from scipy.optimize import minimize_scalar  # 0.2 s to import, and only needed here

    values = [f(t) for t in grid]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(f, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
    return float(found.x if found.fun <= values[best] else grid[best])


def _crossing(f: Callable[[float], float], inside: float, outside: float) -> float:
    """Return where a function that is negative inside becomes positive."""
    for _ in range(30):  # to a relative 1e-8
        middle = 0.5 * (inside + outside)
        if f(middle) > 0.0:
            outside = middle
        else:
            inside = middle
    return outside
