"""The likelihood of the scales of a model whose arms have slopes, and its maximum.

Write φ for slope_std²/noise_std². For a given φ, the slopes can be integrated out arm by arm. What is left is the
evidence of a model without slopes, whose arms have other weights, means and scatter
(`rolin.model.kernels.slope_likelihood`). So the search over φ contains the search of `rolin.model.likelihood` over the other
scales.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Set
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.model.evidence import Evidence
from rolin.model.first_guess import typical_of
from rolin.model.kernels import slope_likelihood as kernels
from rolin.model.likelihood import (
    AROUND,
    AT_GUESS,
    ENOUGH,
    GRID,
    NEAR,
    NEVER_ZERO,
    RISE,
    Point,
    Search,
    prior_deviance,
)
from rolin.model.minimum import CLOSE, crossing, minimum, minimum_around
from rolin.model.moments import Moments
from rolin.model.scales import Scales
from rolin.model.slope_solve import arm_rows

__all__ = ["SlopeEvidence", "SlopePoint", "SlopeSearch", "possible_slopes"]

Floats = NDArray[np.float64]
_FEW_ARMS = 4.0  # the number of arms up to which the prior of slope_std has its mode at the guess
_RANK = 1e-10  # directions of the features whose scatter is below this share of the largest are rounding errors
# The search of a running policy: it begins this far around the guesses, as logarithms of ratios, and comes this close, which
# is 0.5 % of a standard deviation. For each φ, ρ is tried at points that are this far apart.
_AROUND, _CLOSE_ENOUGH, _APART = np.array([-4.0, 0.0, 4.0]), 0.01, 0.2
_MAX_PARABOLAS = 4
# The grid of logarithms of φ on which the search without a prior begins, and that of ρ around its best value for the φ before.
_COARSE, _NEAR_LAST = GRID[::2], np.array([-1.0, 0.0, 1.0])


class SlopePoint(NamedTuple):
    """Squared scales, relative to the noise, and -2 log likelihood at this point."""

    shared: Point
    """Noise, arm effects and coefficients."""
    slope: float
    """φ"""

    @property
    def deviance(self) -> float:
        """-2 log likelihood."""
        return self.shared.deviance

    def ratio_of(self, name: str) -> float:
        """Return ρ for `"arm"`, φ for `"slope"`."""
        return self.slope if name == "slope" else self.shared.arm


class SlopeEvidence:
    """Moments with the scatter of each arm, standardized by the prior."""

    def __init__(self, moments: Moments, prior: Scales) -> None:
        self.plain = Evidence(moments, prior)
        d = moments.n_features
        mean, std = (part[:d] for part in prior.prior(d))
        relative = std / self.plain.unit
        slopes = prior.own_stds(d)[1:]
        self.slope_unit = (
            float(np.exp(np.log(slopes[slopes > 0.0]).mean())) if slopes.any() else 1.0
        )
        # In units of the prior; without any guess, all slopes have the same scale.
        sizes = slopes / self.slope_unit if slopes.any() else np.ones_like(slopes)
        arms = arm_rows(moments)
        q = arms.n_own
        self._outputs = arms.outputs(intercept=False)
        self._outputs[:, :, d] -= self._outputs[:, :, :d] @ mean
        self._outputs[:, :, :d] *= relative
        self._reduced = np.empty((len(arms.rows), 2, q))
        kernels.tridiagonal(
            np.ascontiguousarray(arms.rows[:, :, 1:q] * sizes), self._outputs, self._reduced
        )
        self._roots = np.sqrt(moments.weight)
        rest = np.zeros((d + 1, d + 1))  # features, then the reward
        where = np.append(arms.columns[q - 1 :], d)
        order = np.append(np.arange(1, len(where)), 0)
        rest[np.ix_(where, where)] = arms.rest[np.ix_(order, order)]
        shift = np.eye(d + 1)
        shift[:d, d] = -mean
        scale = np.append(relative, 1.0)
        self._rest = shift.T @ rest @ shift * np.outer(scale, scale)
        self._slope_roots = arms.rows[:, 1:, 1:q] * sizes

    @cached_property
    def slope_ranks(self) -> int:
        """Number of directions in which features with slopes vary within arms, added up over the arms."""
        roots = self._slope_roots
        pivots = np.diagonal(roots, axis1=1, axis2=2) ** 2
        return int((pivots > _RANK * (roots**2).sum(axis=1)).sum())

    @property
    def tells_slopes_from_noise(self) -> bool:
        """Whether slopes add more to some directions within arms than to others."""
        if self.plain.count - len(self.plain.weight) > self.slope_ranks:
            return True  # noise alone varies in some
        squares = self._slope_roots @ np.swapaxes(self._slope_roots, 1, 2)
        trace = float(np.trace(squares, axis1=1, axis2=2).sum())
        return self.slope_ranks * float((squares**2).sum()) > (1.0 + _RANK) * trace**2

    def under(self, prior: Scales) -> SlopeEvidence:
        """Return the same evidence with other guesses of noise_std and arm_std."""
        other = copy.copy(self)
        other.plain = self.plain.under(prior)
        return other

    def slope_std_at(self, point: SlopePoint) -> float | tuple[float, ...]:
        """Return slope_std at a point: one number, or one per feature if the prior has as many."""
        found, given = math.sqrt(point.slope * point.shared.noise), self.plain.prior.slope_std
        if isinstance(given, tuple):
            return tuple(s * found / self.slope_unit for s in given)
        return found

    def given(self, slope: float) -> tuple[Evidence, float]:
        """Return the evidence of a model without slopes that is left for this φ, and its log determinant."""
        k, q, width = self._outputs.shape
        rows, first, pivots = np.empty((k, q - 1, width)), np.empty((k, width)), np.empty(k)
        log_det = kernels.shrink(self._reduced, slope, self._outputs, rows, first, pivots)
        flat, d = rows.reshape(-1, width), width - 1
        total = self._rest + flat.T @ flat
        first /= self._roots[:, None]
        left = copy.copy(self.plain)  # the ranks are those of the features as they are
        left.weight = self.plain.weight / pivots
        left.x, left.r = np.ascontiguousarray(first[:, :d]), first[:, d].copy()
        left.scatter, left.cross = np.ascontiguousarray(total[:d, :d]), total[:d, d].copy()
        left.square = float(total[d, d])
        return left, log_det


def possible_slopes(evidence: SlopeEvidence, method: str) -> set[str]:
    """Return the scales that there are enough data for."""
    plain = evidence.plain
    found = plain.possible(method)
    if method == "map":
        return found | ({"slope_std"} if plain.count >= 2 and len(plain.weight) >= 2 else set())
    enough = plain.within_freedom >= 1 and evidence.slope_ranks > plain.within_rank
    if not (plain.varies and enough and evidence.tells_slopes_from_noise):
        return found
    return found | {"slope_std"}


def _power_for(weight: Floats) -> float:
    """Return the power in the prior of slope_std, if its guess comes from the data.

    With few arms, the data hardly tell slopes from shared coefficients. A policy that believes in small slopes may then
    stay with one arm, and never learn better. So the mode of the prior is at the guess. With many arms they do tell, and a
    smaller mode costs less regret if there are no slopes (docs/how-to/arms.md). Unequal shares count as fewer arms.
    """
    n_arms = float(weight.sum() ** 2 / (weight**2).sum()) if weight.any() else 1.0
    return min(max(_FEW_ARMS / n_arms, NEVER_ZERO), AT_GUESS)


class SlopeSearch:
    """The maximum of a likelihood of the scales, with some of them held fixed.

    Parameters
    ----------
    evidence
        The moments, in units of the prior.
    learn
        The free scales.
    method
        `"ml"`, `"map"` or `"reml"`.
    power
        The power in the prior of arm_std, for `"map"`. That of slope_std is smaller if there are many arms.
    """

    def __init__(
        self, evidence: SlopeEvidence, learn: Set[str], method: str, *, power: float = NEVER_ZERO
    ) -> None:
        prior = evidence.plain.prior
        self._data, self._map = evidence, method == "map"
        self._power = NEVER_ZERO if power == NEVER_ZERO else _power_for(evidence.plain.weight)
        self._shared = Search(evidence.plain, learn, method, power=power)
        # Squares of the fixed scales; NaN for the free ones.
        self._noise = math.nan if "noise_std" in learn else prior.noise_std**2
        self._slope = evidence.slope_unit**2 if prior.has_slopes else 0.0
        self._slope = math.nan if "slope_std" in learn else self._slope
        self._learns_arm = "arm_std" in learn
        self._last_arm: float | None = None  # the logarithm of the best ρ for the φ before
        self._prior_noise = prior.noise_std**2
        self._guess = evidence.slope_unit**2 / self._prior_noise
        self._arm_guess = prior.arm_std**2 / self._prior_noise or 1.0
        self._coef_guess = evidence.plain.unit**2 / self._prior_noise
        few_arms = self._map and power != NEVER_ZERO and self._power == AT_GUESS
        # Guesses from the data are one number per feature. Only they have the same size for coefficients and slopes.
        from_data = isinstance(prior.coef_std, tuple) and isinstance(prior.slope_std, tuple)
        self._follows_coef = few_arms and from_data and {"slope_std", "coef_std"} <= learn

    def best(self, *, slope: float | None = None, arm: float | None = None) -> SlopePoint:
        """Return the point with the highest likelihood, with some ratios held if they are given."""
        return self._following(lambda: self._best(slope, arm))

    def _following(self, search: Callable[[], SlopePoint]) -> SlopePoint:
        """Return what a search finds; with few arms, after the guess of slope_std has followed coef_std.

        Slopes are guessed as large as coefficients, relative to the noise. With two arms, one of which is hardly ever
        chosen, the data tell the size of coefficients, but not whether they are shared. If the estimate of coef_std is
        above its guess and that of slope_std is not, the other arm seems to be known, and is not tried. So the prior is
        centered again, at the estimated coef_std.
        """
        point = search()
        if not self._follows_coef:
            return point
        guess = self._guess
        self._guess = guess * point.shared.coef / self._coef_guess
        try:
            return search()
        finally:
            self._guess = guess

    def _best(self, slope: float | None, arm: float | None) -> SlopePoint:
        if slope is not None or self._slope == 0.0:
            return self._given(slope or 0.0, arm)
        if not math.isnan(self._noise) and not math.isnan(self._slope):
            return self._given(self._slope / self._noise, arm)
        if not math.isnan(self._slope):
            # slope_std is fixed and the noise is free, so φ depends on the noise.
            fixed, grid = self._slope, np.linspace(*self._shared.noise_range, len(GRID))
            t = minimum(lambda t: self._given(fixed / math.exp(t), arm, math.exp(t)).deviance, grid)
            return self._given(fixed / math.exp(t), arm, math.exp(t))

        def deviance(t: float) -> float:
            return self._given(math.exp(t), arm).deviance

        if self._map:
            near = NEAR + math.log(self._guess)
            return self._given(math.exp(_minimum_near(deviance, near, GRID)), arm)
        found = minimum(deviance, _COARSE)
        self._last_arm = None  # so that nothing else than a local minimum is left out
        point, at_zero = self._given(math.exp(found), arm), self._given(0.0, arm)
        return at_zero if at_zero.deviance <= point.deviance else point

    def roughly_best(self, latest: Scales | None = None) -> SlopePoint:
        """Return about the best point of `"map"`, in a fraction of the time. arm_std must be free.

        For each φ, the likelihood of the best ρ is that of a parabola through three points, around the best ρ for the φ
        before. With enough data, the search begins near the latest estimate, if there is one.
        """
        return self._following(lambda: self._roughly_best(latest))

    def _roughly_best(self, latest: Scales | None) -> SlopePoint:
        if not (math.isnan(self._slope) or math.isnan(self._noise)):
            return self._best(None, None)
        if math.isnan(self._slope):
            start, wide = math.log(self._guess), GRID
        else:  # φ depends on the noise
            ends = self._shared.noise_range
            start, wide = math.log(self._prior_noise), np.linspace(*ends, len(GRID))
        log_arm = math.nan

        def over(t: float) -> tuple[Search, float]:
            if math.isnan(self._slope):
                return self._over(math.exp(t))
            return self._over(self._slope / math.exp(t), math.exp(t))

        def best_arm(search: Search, near: Floats) -> float:
            return _minimum_near(
                lambda t: search.given(math.exp(t)).deviance, near, GRID, _CLOSE_ENOUGH
            )

        def deviance(t: float) -> float:
            nonlocal log_arm
            search, others = over(t)
            if math.isnan(log_arm):
                log_arm = best_arm(search, math.log(self._arm_guess) + _AROUND)
            for _ in range(_MAX_PARABOLAS):
                low, middle, high = (
                    search.given(math.exp(log_arm + by)).deviance for by in (-_APART, 0.0, _APART)
                )
                rise, bend = 0.5 * (high - low), high - 2.0 * middle + low
                if not bend > 0.0:
                    break
                log_arm -= _APART * min(max(rise / bend, -10.0), 10.0)
                if abs(rise) < bend:
                    return others + middle - 0.5 * rise**2 / bend
            log_arm = best_arm(search, log_arm + _AROUND)
            return others + search.given(math.exp(log_arm)).deviance

        found = None
        if latest is not None and self._data.plain.count >= ENOUGH:
            noise, slope = latest.noise_std**2, typical_of(latest.slope_std) ** 2
            near = slope / noise if math.isnan(self._slope) else noise
            if near > 0.0 and latest.arm_std > 0.0:
                log_arm = math.log(latest.arm_std**2 / noise)
                found = minimum_around(deviance, math.log(near), AROUND, _CLOSE_ENOUGH)
        if found is None:
            log_arm = math.nan
            found = _minimum_near(deviance, start + _AROUND, wide, _CLOSE_ENOUGH)
        search, others = over(found)
        point = search.given(math.exp(best_arm(search, log_arm + 0.1 * _AROUND)))
        slope = math.exp(found) if math.isnan(self._slope) else self._slope / point.noise
        return SlopePoint(point._replace(deviance=point.deviance + others), slope)

    def _over(self, slope: float, noise: float | None = None) -> tuple[Search, float]:
        """Return the search over the other scales for this φ, and the part of the deviance that it does not know."""
        evidence, deviance = self._data.given(slope)
        if self._map and math.isnan(self._slope):
            deviance += prior_deviance(slope, self._guess, self._power)
        return self._shared.over(evidence, noise), deviance

    def _given(self, slope: float, arm: float | None, noise: float | None = None) -> SlopePoint:
        """Return the best point with this φ; with this ρ and this noise, if they are given."""
        search, others = self._over(slope, noise)
        point = self._best_of(search) if arm is None else search.given(arm)
        return SlopePoint(point._replace(deviance=point.deviance + others), slope)

    def _best_of(self, search: Search) -> Point:
        """Return the best point for one φ. Without a prior, ρ is tried near its best value for the φ before first."""
        if self._map or not self._learns_arm:
            return search.best()
        if self._last_arm is not None:
            near = self._last_arm + _NEAR_LAST
            found = minimum(lambda t: search.given(math.exp(t)).deviance, near)
            if near[0] + 2.0 * CLOSE < found < near[-1] - 2.0 * CLOSE:
                self._last_arm = found
                return search.given(math.exp(found))
        point = search.best()
        self._last_arm = math.log(point.arm) if point.arm > 0.0 else None
        return point

    # -- intervals ------------------------------------------------------------------------------

    def interval_of(self, name: str, best: SlopePoint) -> tuple[float, float]:
        """Return the ends of the 95 % profile-likelihood interval of `"arm"` or `"slope"`."""

        def at(t: float) -> SlopePoint:
            return self.best(**{name: math.exp(t)})

        zero = self.best(**{name: 0.0}).deviance
        lowest = min(best.deviance, zero)
        middle = min(max(math.log(max(best.ratio_of(name), 1e-300)), GRID[0]), GRID[-1])
        ends = []
        for end in (GRID[0], GRID[-1]):
            if (zero if end < 0 else at(end).deviance) - lowest <= RISE:
                ends.append(0.0 if end < 0 else math.inf)
                continue
            found = at(crossing(lambda t: at(t).deviance - lowest - RISE, middle, end, 20))
            ends.append(math.sqrt(found.ratio_of(name) * found.shared.noise))
        return ends[0], ends[1]

    def coef_interval(self, best: SlopePoint) -> tuple[float, float]:
        """Return the ends of the 95 % interval of coef_std, given arm_std and slope_std."""
        evidence, _ = self._data.given(best.slope)
        return self._shared.over(evidence).coef_interval(best.shared)


def _minimum_near(
    f: Callable[[float], float], near: Floats, wide: Floats, close: float = CLOSE
) -> float:
    """Return where a function is smallest: within a grid, or if that is at one of its ends, within a wider one."""
    found = minimum(f, near, close)
    if near[0] + 2.0 * close < found < near[-1] - 2.0 * close:
        return found
    return minimum(f, wide, close)
