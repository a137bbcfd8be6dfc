"""The likelihood of the scales of a model whose arms have slopes, and its maximum.

Write ρ for arm_std²/noise_std², and φ for slope_std²/noise_std². For given ratios, the arms become rows of an ordinary
regression (`rolin.model.kernels.slope_rows`), and the rest is as in `rolin.model.likelihood`: noise and coefficients are
found by a cheap search within every step. The search over the two ratios is by Nelder and Mead's method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.model.kernels import likelihood as kernels
from rolin.model.kernels import slope_rows
from rolin.model.likelihood import (
    NEVER_ZERO,
    RISE,
    Evidence,
    Point,
    Search,
    crossing,
    prior_deviance,
)
from rolin.model.moments import Moments
from rolin.model.scales import Scales
from rolin.model.slope_solve import arm_rows

__all__ = ["SlopeEvidence", "SlopePoint", "SlopeSearch", "possible_slopes"]

Floats = NDArray[np.float64]
# The range of the logarithms of both ratios.
_LOW, _HIGH = math.log(1e-9), math.log(1e9)
# Distances from the guess at which the search begins: the factor of a ratio, as a logarithm.
_TRIED = (-4.0, 0.0, 4.0)
_FAR = 600.0  # logarithms beyond it would overflow
_STEP = 1.0  # the first step of the search
_MAX_EVALUATIONS = 500
_RANK = 1e-10  # directions of the features whose scatter is below this share of the largest are rounding errors


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
        # Entries (1, x_S) of every row, in units of the prior; without any guess, all slopes have the same scale.
        sizes = slopes / self.slope_unit if slopes.any() else np.ones_like(slopes)
        arms = arm_rows(moments)
        q = arms.n_own
        self.entries = arms.rows[:, :, :q] * np.append(1.0, sizes)
        outputs = arms.outputs(intercept=prior.has_intercept)
        outputs[:, :, -1] -= outputs[:, :, :d] @ mean
        outputs[:, :, :d] *= relative
        self.outputs = outputs
        others = arms.columns[q - 1 :]
        rest = np.zeros((d + 1, d + 1))  # features, then the reward
        where = np.append(others, d)
        order = np.append(np.arange(1, len(where)), 0)
        rest[np.ix_(where, where)] = arms.rest[np.ix_(order, order)]
        shift = np.eye(d + 1)
        shift[:d, d] = -mean
        rest = shift.T @ rest @ shift
        scale = np.append(relative, 1.0)
        self.rest = rest * np.outer(scale, scale)
        self.slope_ranks = int(
            (self._pivots(arms.rows[:, 1:, 1:q]) > 0.0).sum()
        )  # directions in which features vary within arms, added up over the arms

    @staticmethod
    def _pivots(roots: Floats) -> Floats:
        """Return which directions of each arm's scatter are more than rounding errors."""
        pivots = np.diagonal(roots, axis1=1, axis2=2) ** 2
        sizes = (roots**2).sum(axis=1)
        return np.where(pivots > _RANK * sizes, pivots, 0.0)


def possible_slopes(evidence: SlopeEvidence, method: str) -> set[str]:
    """Return the scales that there are enough data for."""
    plain = evidence.plain
    found = plain.possible(method)
    if method == "map":
        return found | ({"slope_std"} if plain.count >= 2 and len(plain.weight) >= 2 else set())
    left = plain.count - len(plain.weight) - evidence.slope_ranks
    if left < 1:  # nothing tells noise from slopes
        return found - {"noise_std", "arm_std"}
    return found | ({"slope_std"} if evidence.slope_ranks > plain.within_rank else set())


class SlopeSearch(Search):
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
        The power in the prior of arm_std and slope_std, for `"map"`.
    """

    def __init__(
        self,
        evidence: SlopeEvidence,
        learn: Set[str],
        method: str,
        *,
        power: float = NEVER_ZERO,
        tolerance: float = 1e-6,
    ) -> None:
        super().__init__(evidence.plain, learn, method, power=power)
        self._tolerance = tolerance
        self._given_slope = 0.0  # φ while an interval of other scales is computed
        prior, data = evidence.plain.prior, evidence
        self._slope = math.nan if "slope_std" in learn else data.slope_unit**2
        if not prior.has_slopes and "slope_std" not in learn:
            self._slope = 0.0
        self._slope_guess = data.slope_unit**2 / self._guess
        self._data, self._outputs, self._rest = data, data.outputs, data.rest
        if method == "reml":
            # Only the directions in which the features vary.
            total = evidence.plain.total
            axes = total.axes[:, len(total.values) - evidence.plain.rank :]
            d = len(axes)
            self._outputs = np.concatenate(
                [data.outputs[:, :, :d] @ axes, data.outputs[:, :, d:]], axis=2
            )
            wide = np.block(
                [[axes, np.zeros((d, 1))], [np.zeros((1, axes.shape[1])), np.ones((1, 1))]]
            )
            self._rest = wide.T @ data.rest @ wide

    def _profile(self, ratio: float, noise: float, numbers: Floats) -> Point:
        return self._point(ratio, self._given_slope, noise, numbers).shared

    def coef_interval_at(self, best: SlopePoint) -> tuple[float, float]:
        """Return the ends of the 95 % interval of coef_std, given arm_std and slope_std."""
        self._given_slope = best.slope
        return self.coef_interval(best.shared)

    # -- the likelihood -------------------------------------------------------------------------

    def _point(self, arm: float, slope: float, noise: float, numbers: Floats) -> SlopePoint:
        """Return the best point with these ratios, and this noise unless it is NaN."""
        data = self._data
        k, q, width = self._outputs.shape
        ratios = np.full(q, slope)
        ratios[0] = arm
        whitened = np.empty_like(self._outputs)
        log_arms = slope_rows.whiten(data.entries, ratios, self._outputs, whitened)
        rows = whitened.reshape(k * q, width)
        size = len(self._rest) - 1
        if data.plain.fixed:  # an intercept with a flat prior: project its column out of the others
            column = rows[:, size]
            square = float(column @ column)
            rows = np.delete(rows, size, axis=1)
            if square > 0.0:
                rows = rows - np.outer(column, (column @ rows) / square)
                log_arms += math.log(square)
        total = self._rest + rows.T @ rows
        tri, none = np.empty((3, size)), np.empty(0)
        kernels.reduce(
            np.ascontiguousarray(total[:size, :size]), np.ascontiguousarray(total[:size, size]),
            none, np.empty((0, size)), none, 0.0, False, tri,
        )  # fmt: skip
        deviance, variance, kappa = kernels.profile(
            tri, float(total[size, size]), log_arms, numbers, noise
        )
        deviance -= data.plain.sum_log_weight
        if self._map and math.isnan(self._arm):
            deviance += prior_deviance(arm, self._arm_guess, self._power)
        if self._map and math.isnan(self._slope):
            deviance += prior_deviance(slope, self._slope_guess, self._power)
        return SlopePoint(Point(deviance, variance, arm, kappa), slope)

    def _at(
        self, free: Sequence[float], names: Sequence[str], held: dict[str, float]
    ) -> SlopePoint:
        """Return the best point for logarithms of the free ratios, and for ratios that are held."""
        values = dict(zip(names, map(math.exp, free), strict=True)) | held
        noise = values.get("noise", self._noise)
        arm, slope = values.get("arm", math.nan), values.get("slope", math.nan)
        if math.isnan(arm):
            arm = self._arm / noise if self._arm else 0.0
        if math.isnan(slope):
            slope = self._slope / noise if self._slope else 0.0
        return self._point(arm, slope, noise, self._numbers)

    def best_slopes(self, **held: float) -> SlopePoint:
        """Return the point with the highest likelihood, with some ratios (`arm`, `slope`) held."""
        starts: dict[str, tuple[float, ...]] = {}
        if math.isnan(self._arm) and "arm" not in held:
            starts["arm"] = tuple(math.log(self._arm_guess) + t for t in _TRIED)
        if math.isnan(self._slope) and "slope" not in held:
            starts["slope"] = tuple(math.log(self._slope_guess) + t for t in _TRIED)
        # If a scale is fixed and the noise is free, its ratio depends on the noise.
        fixed = any(value > 0.0 for value in (self._arm, self._slope))  # NaN is not
        if fixed and math.isnan(self._noise):
            low, high = self._numbers[[kernels.NOISE_LOW, kernels.NOISE_HIGH]].tolist()
            starts["noise"] = (
                math.log(min(self._guess, self._evidence.mean_square)),
                0.5 * (low + high),
            )
        names = list(starts)
        if not names:
            return self._at((), (), held)
        found = _minimize(
            lambda t: self._at(t, names, held).deviance, list(starts.values()), self._tolerance
        )
        return self._at(found, names, held)

    def best_of_all(self) -> SlopePoint:
        """Return the point with the highest likelihood; ratios that are not held off zero by a prior may be zero."""
        points = [self.best_slopes()]
        if not self._map:
            free = [n for n, v in (("arm", self._arm), ("slope", self._slope)) if math.isnan(v)]
            points += [self.best_slopes(**{name: 0.0}) for name in free]
            if len(free) == 2:
                points.append(self.best_slopes(arm=0.0, slope=0.0))
        # The first of equal ones is the least: a scale of zero is preferred.
        return min(reversed(points), key=lambda point: point.deviance)

    def interval_of(self, name: str, best: SlopePoint) -> tuple[float, float]:
        """Return the ends of the 95 % profile-likelihood interval of `"arm"` or `"slope"`."""

        def at(t: float) -> SlopePoint:
            return self.best_slopes(**{name: math.exp(t)})

        zero = self.best_slopes(**{name: 0.0}).deviance
        lowest = min(best.deviance, zero)
        ratio = best.slope if name == "slope" else best.shared.arm
        middle = min(max(math.log(max(ratio, 1e-300)), _LOW), _HIGH)
        ends = []
        for end in (_LOW, _HIGH):
            if (zero if end < 0 else at(end).deviance) - lowest <= RISE:
                ends.append(0.0 if end < 0 else math.inf)
                continue
            found = at(crossing(lambda t: at(t).deviance - lowest - RISE, middle, end, 20))
            value = found.slope if name == "slope" else found.shared.arm
            ends.append(math.sqrt(value * found.shared.noise))
        return ends[0], ends[1]


def _minimize(
    f: Callable[[Sequence[float]], float], starts: Sequence[Sequence[float]], tolerance: float
) -> list[float]:
    """Return where a function of few variables is smallest: the best point of a grid, refined by a simplex.

    Nelder & Mead (1965), with their coefficients. (The overhead of SciPy's implementation, and the time of importing it,
    are larger than most evaluations of the function.)
    """
    grid = np.array(np.meshgrid(*starts)).reshape(len(starts), -1).T
    values = [f(point) for point in grid.tolist()]
    start = grid[int(np.argmin(values))]
    simplex = [(min(values), start)]
    for j in range(len(start)):
        other = start.copy()
        other[j] += _STEP
        simplex.append((f(other.tolist()), other))
    evaluations = 0

    def evaluate(point: Floats) -> tuple[float, Floats]:
        nonlocal evaluations
        evaluations += 1
        inside = np.clip(point, -_FAR, _FAR)
        return f(inside.tolist()), inside

    while evaluations < _MAX_EVALUATIONS:
        simplex.sort(key=lambda vertex: vertex[0])
        best, worst = simplex[0], simplex[-1]
        if max(np.abs(vertex[1] - best[1]).max() for vertex in simplex[1:]) < tolerance:
            break
        center = np.mean([vertex[1] for vertex in simplex[:-1]], axis=0)
        reflected = evaluate(center + (center - worst[1]))
        if reflected[0] < best[0]:
            expanded = evaluate(center + 2.0 * (center - worst[1]))
            simplex[-1] = expanded if expanded[0] < reflected[0] else reflected
        elif reflected[0] < simplex[-2][0]:
            simplex[-1] = reflected
        else:
            outer = reflected if reflected[0] < worst[0] else worst
            contracted = evaluate(center + 0.5 * (outer[1] - center))
            if contracted[0] < outer[0]:
                simplex[-1] = contracted
            else:
                simplex[1:] = [evaluate(0.5 * (v[1] + best[1])) for v in simplex[1:]]
    point: list[float] = min(simplex, key=lambda vertex: vertex[0])[1].tolist()
    return point
