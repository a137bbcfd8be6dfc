"""The likelihood of the scales, computed from moments, and its maximum.

Write ρ = arm_std²/noise_std² and κ = coef_std²/noise_std². For a given ρ, one pass over the arms
gives

    A = C + Σ_i H_i/(1 + H_i ρ) x̄_i x̄_i',   b = g + Σ_i H_i/(1 + H_i ρ) x̄_i r̄_i,
    s = q + Σ_i H_i/(1 + H_i ρ) r̄_i²

and once A is reduced to tridiagonal form, every other number costs O(d):

    -2 log p = N log 2πσ² + Σ_i log(1 + H_i ρ) + log det(I + κA) + Q/σ² - Σ log h,
    Q = s - b'(A + I/κ)⁻¹b

(docs/explanation/maths.md, "Evidence"). So the search over ρ contains a cheap search over the other scales. With fewer
arms than features it is the other way round: the search over κ contains a cheap one over ρ. With fewer rewards than
features, all is computed in as many dimensions as there are rewards.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.model import lapack
from rolin.model.evidence import SMALL, ArmSums, Evidence
from rolin.model.first_guess import typical_of
from rolin.model.kernels import evidence as reductions
from rolin.model.kernels import likelihood as kernels
from rolin.model.minimum import CLOSE, crossing, minimum, minimum_around, weights_at_minimum
from rolin.model.scales import Scales

__all__ = [
    "AROUND",
    "AT_GUESS",
    "ENOUGH",
    "GRID",
    "NEAR",
    "NEVER_ZERO",
    "RISE",
    "GivenCoef",
    "Point",
    "Search",
    "point_by_squares",
    "prior_deviance",
]

Floats = NDArray[np.float64]

# The weak prior of "map" (docs/explanation/maths.md, "Evidence"):
# - The noise has one pseudo-observation, the guess.
# - coef_std, in units of the noise, is log-normal around the guess, with a standard deviation of a factor e.
# - arm_std, in units of its guess (both relative to the noise), has the density t^a/(1 + t²). Without the power, this
#   is half-Cauchy. With it, the mode is never zero. With an arm_std of zero, the policy would stop exploring arms, and
#   would never get the data that show that arm_std is positive.
_NOISE_COUNT = 1.0
NEVER_ZERO = 0.25
# The power if the guess comes from the data. Then the mode of the prior is the guess itself, and few arms that happen to
# be alike do not end exploration: 90 % intervals after 50 rewards hold 88 % instead of 84 % (50 arms, 40 runs).
AT_GUESS = 1.0
# The guess of the noise variance is limited to this multiple of the mean square of the rewards. A guess that is too
# large by a factor f would need f² rewards to be outweighed.
_FAR_OFF = 100.0
# The range of ratios ρ, and the grid on which the search begins. The kernel uses the same range for κ.
_SMALLEST, _LARGEST = 1e-9, 1e9
GRID = np.linspace(math.log(_SMALLEST), math.log(_LARGEST), 19)
# The grid around the guess, which "map" tries first.
NEAR = np.linspace(math.log(1e-4), math.log(1e4), 9)
# The covariance of the arms' means is reduced to tridiagonal form only if their weights differ by at most this factor.
# Otherwise rounding errors of the least known arms would drown what is known of the others.
_SIMILAR = 1e5
# The arms are reduced instead of the features if they are fewer than this share of them (measured).
_FEW = 0.95
# From this many rewards on, the likelihood is tried this far around the latest estimate first, as the logarithm of a ratio;
# with many features, at most _FARTHEST. With fewer rewards there may be several maxima.
ENOUGH, AROUND, _FARTHEST = 100.0, 1.0, 0.45
# Rise of -2 log likelihood at the ends of a 95 % interval: the quantile of χ² with one degree of freedom.
RISE = 3.841459


class Point(NamedTuple):
    """Squared scales, relative to the noise, and -2 log likelihood at this point."""

    deviance: float
    noise: float  # σ²
    arm: float  # ρ
    coef: float  # κ

    @classmethod
    def of(cls, scales: Scales) -> Point:
        """Return scales as a point, without its deviance."""
        noise, coef = scales.noise_std**2, typical_of(scales.coef_std)
        return cls(math.nan, noise, scales.arm_std**2 / noise, coef**2 / noise)


class Search:
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
        The power in the prior of arm_std, for `"map"`.
    """

    def __init__(
        self, evidence: Evidence, learn: Set[str], method: str, *, power: float = NEVER_ZERO
    ) -> None:
        self._power = power
        self._evidence = evidence.on_range() if method == "reml" else evidence
        self._arm_sums: ArmSums | None = None  # for many features
        self._map = method == "map"
        prior = evidence.prior
        # Squares of the fixed scales; NaN for the free ones.
        self._noise = math.nan if "noise_std" in learn else prior.noise_std**2
        self._arm = math.nan if "arm_std" in learn else prior.arm_std**2
        self._guess = prior.noise_std**2
        self._arm_guess = prior.arm_std**2 / self._guess or 1.0
        flat = evidence.rank if method == "reml" else 0
        numbers = np.empty(kernels.N_NUMBERS)
        numbers[kernels.COUNT] = evidence.count - evidence.fixed - flat
        numbers[kernels.PSEUDO] = _NOISE_COUNT if self._map else 0.0
        numbers[kernels.NOISE_GUESS] = self._guess
        # If all rewards are equal, they do not contradict the guess.
        if self._map and evidence.varies:
            numbers[kernels.NOISE_GUESS] = min(self._guess, _FAR_OFF * evidence.mean_square)
        numbers[kernels.COEF_GUESS] = evidence.unit**2 / self._guess
        numbers[kernels.LEAST_NOISE] = evidence.least_noise
        numbers[kernels.COEF] = math.nan if "coef_std" in learn else evidence.unit**2
        numbers[kernels.HELD] = math.nan
        numbers[kernels.FLAT] = float(method == "reml")
        # The noise is at most the square of rewards and guess, and at least a rounding error of it.
        ends = evidence.mean_square, self._guess
        numbers[kernels.NOISE_LOW] = math.log(1e-9 * min(ends))
        numbers[kernels.NOISE_HIGH] = math.log(10.0 * max(ends))
        has_prior = self._map and "arm_std" in learn
        numbers[kernels.ARM_GUESS] = self._arm_guess
        numbers[kernels.POWER] = power if has_prior else math.nan
        numbers[kernels.CENTERED] = float(evidence.fixed)
        self._numbers = numbers

    def best(self, start: Point | None = None) -> Point:
        """Return the point with the highest likelihood; with a prior, it is looked for near `start` first."""
        if math.isnan(self._arm) and self._has_few_arms:
            return self._best_by_coef(start)
        if math.isnan(self._arm):
            near, h = None if start is None else start.arm, self._evidence.weight
            effects = len(h), float(h.sum())
            point = self._found(lambda t: self.given(math.exp(t)), self._arm_guess, near, effects)
            if self._map:
                return point
            at_zero = self.given(0.0)
            return at_zero if at_zero.deviance <= point.deviance else point
        if self._arm == 0.0 or not math.isnan(self._noise):
            return self.given(self._arm / self._noise if self._arm else 0.0)
        # arm_std is fixed and the noise is free, so ρ depends on the noise.
        fixed, grid = self._arm, np.linspace(*self.noise_range, len(GRID))
        found = minimum(lambda t: self.given(fixed / math.exp(t), math.exp(t)).deviance, grid)
        return self.given(fixed / math.exp(found), math.exp(found))

    @property
    def _has_few_arms(self) -> bool:
        """Whether it is faster to reduce the arms for every κ than the features for every ρ."""
        h = self._evidence.weight
        few = len(h) < _FEW * len(self._evidence.cross) and not self._numbers[kernels.FLAT]
        return few and bool(h.max() <= _SIMILAR * h.min())

    def _found(
        self,
        given: Callable[[float], Point],
        guess: float,
        start: float | None,
        effects: tuple[float, float],
    ) -> Point:
        """Return the best of the points that are given by the logarithm of a ratio.

        `effects` are the number of effects whose variance this is, and what is known of them: the sum of the inverse
        variances of their estimates, relative to the noise.
        """
        tried: dict[float, Point] = {}

        def deviance(t: float) -> float:
            tried[t] = given(t)
            return tried[t].deviance

        if not self._map:
            return tried[minimum(deviance, GRID)]
        if start and self._evidence.count >= ENOUGH:
            if len(self._evidence.cross) > SMALL:
                point = _nearest(given, start, *effects)
                if point is not None:
                    return point
            else:  # more evaluations, which take less time than a better choice of points
                found = minimum_around(deviance, math.log(start), AROUND)
                if found is not None:
                    return tried[found]
        grid = NEAR + math.log(guess)  # near the guess first: half of the work
        best = minimum(deviance, grid)
        if not grid[1] < best < grid[-2]:
            best = minimum(deviance, GRID)
        return tried[best]

    def _best_by_coef(self, start: Point | None) -> Point:
        """Return what `best` does, by a search over κ."""
        given = GivenCoef(self._evidence, self._numbers)
        coef = float(self._numbers[kernels.COEF])
        if not math.isnan(coef):
            if not math.isnan(self._noise):
                return given.best(coef / self._noise, self._noise)
            # coef_std is fixed and the noise is free, so κ depends on the noise.
            grid = np.linspace(*self.noise_range, len(GRID))
            found = minimum(lambda t: given.best(coef / math.exp(t), math.exp(t)).deviance, grid)
            return given.best(coef / math.exp(found), math.exp(found))
        guess = float(self._numbers[kernels.COEF_GUESS])
        near, data = None if start is None else start.coef, self._evidence
        effects = min(data.count, len(data.cross)), float(np.trace(data.scatter))
        return self._found(lambda t: given.best(math.exp(t), self._noise), guess, near, effects)

    @property
    def noise_range(self) -> tuple[float, float]:
        """The logarithms between which the noise variance is searched."""
        low, high = self._numbers[[kernels.NOISE_LOW, kernels.NOISE_HIGH]].tolist()
        return low, high

    def over(self, evidence: Evidence, noise: float | None = None) -> Search:
        """Return the same search over other evidence of the same rewards; with this noise variance, if it is given."""
        other = copy.copy(self)
        other._evidence = evidence.on_range() if self._numbers[kernels.FLAT] else evidence
        other._arm_sums = None
        if noise is not None:
            other._noise = noise
        return other

    def given(self, ratio: float, noise: float | None = None) -> Point:
        """Return the best point with this ρ (and this noise, if given)."""
        return self._profile(ratio, self._noise if noise is None else noise, self._numbers)

    def _profile(self, ratio: float, noise: float, numbers: Floats) -> Point:
        data = self._evidence
        d = len(data.cross)
        if d <= SMALL:
            deviance, variance, kappa = kernels.reduce_and_profile(
                data.scatter, data.cross, data.square, data.weight, data.x, data.r,
                ratio, numbers, noise,
            )  # fmt: skip
        else:
            if self._arm_sums is None:
                self._arm_sums = ArmSums(data, ratio)
            sums, log_arms = self._arm_sums.given(ratio)
            tri, square = np.empty((3, d)), float(sums[0, 0]) + data.square
            tri[2] = sums[0, 1:] + data.cross
            lapack.tridiagonal(sums[1:, 1:] + data.scatter, tri[2:], tri[:2])
            deviance, variance, kappa = kernels.profile(tri, square, log_arms, numbers, noise)
        deviance -= data.sum_log_weight
        if self._map and math.isnan(self._arm):  # arm_std is learned
            deviance += prior_deviance(ratio, self._arm_guess, self._power)
        return Point(deviance, variance, ratio, kappa)

    # -- intervals ---------------------------------------------------------------------------

    def arm_interval(self, best: Point) -> tuple[float, float]:
        """Return the ends of the 95 % profile-likelihood interval of arm_std."""

        def at(log_ratio: float) -> Point:
            return self.given(math.exp(log_ratio))

        lowest = min(best.deviance, self.given(0.0).deviance)
        middle = math.log(max(best.arm, _SMALLEST))
        ends = []
        for end in (GRID[0], GRID[-1]):
            if at(end).deviance - lowest <= RISE:
                ends.append(0.0 if end < 0 else math.inf)
                continue
            point = at(crossing(lambda t: at(t).deviance - lowest - RISE, middle, end))
            ends.append(math.sqrt(point.arm * point.noise))
        return ends[0], ends[1]

    def coef_interval(self, best: Point) -> tuple[float, float]:
        """Return the ends of the 95 % interval of coef_std, given arm_std."""

        def at(log_kappa: float) -> Point:
            """Return the best point with this κ = coef/σ², for any noise."""
            kappa, numbers = math.exp(log_kappa), self._numbers.copy()
            if math.isnan(self._noise):
                numbers[kernels.HELD] = kappa
            else:
                numbers[kernels.COEF] = kappa * self._noise
            return self._profile(best.arm, self._noise, numbers)

        middle, ends = math.log(best.coef), []
        lowest = at(middle).deviance
        for end in (GRID[0], GRID[-1]):
            if at(end).deviance - lowest <= RISE:
                ends.append(0.0 if end < 0 else math.inf)
                continue
            point = at(crossing(lambda t: at(t).deviance - lowest - RISE, middle, end))
            ends.append(math.sqrt(point.coef * point.noise))
        return ends[0], ends[1]


class GivenCoef:
    """The likelihood of ρ and the noise for a given κ: the coefficients are integrated out first, then the arm effects."""

    def __init__(self, evidence: Evidence, numbers: Floats) -> None:
        h, x, r = evidence.weight, evidence.x, evidence.r
        if evidence.fixed:  # a flat prior does not depend on the origin, and rounding does
            x, r = x - h @ x / h.sum(), r - h @ r / h.sum()
        rows = np.vstack([x, evidence.cross])
        self._tri = np.empty((2, len(evidence.cross)))
        _reduce(evidence.scatter.copy(), rows, self._tri)
        self._columns = np.ascontiguousarray(rows.T)
        self._r, self._inverse = r, 1.0 / h
        self._square, self._numbers = evidence.square, numbers
        self._logs = float(np.log(h).sum()) - evidence.sum_log_weight

    def best(self, kappa: float, noise: float) -> Point:
        """Return the best point with this κ; with this noise variance, unless it is NaN."""
        numbers = self._numbers
        d, k = len(self._columns), len(self._r)
        tri = np.ones((4, k))
        if d <= SMALL:
            logs, form = reductions.reduce_arms(
                self._tri, self._columns, 1.0 / kappa, self._r, self._inverse, tri
            )
        else:
            divided = np.empty_like(self._columns)
            logs = reductions.divide_by_root(self._tri, self._columns, 1.0 / kappa, divided)
            sums = divided.T @ divided
            tri[2], form = self._r - sums[k, :k], float(sums[k, k])
            matrix = sums[:k, :k].copy()
            matrix.flat[:: k + 1] += self._inverse
            _reduce(matrix, tri[2:], tri[:2])
        logs += self._logs + d * math.log(kappa)
        if numbers[kernels.PSEUDO] > 0.0 and math.isnan(numbers[kernels.COEF]):
            logs += 0.25 * math.log(kappa / numbers[kernels.COEF_GUESS]) ** 2
        square = self._square - form
        deviance, variance, ratio = kernels.profile_of_arms(tri, square, logs, numbers, noise)
        return Point(deviance, variance, ratio, kappa)


def _nearest(
    given: Callable[[float], Point], start: float, count: float, known: float
) -> Point | None:
    """Return the best point near a ratio, or `None` if there is none; see `Search._found`.

    If all effects were known equally well, their estimates would have the variance v = ratio + 1/information, and the
    deviance would be count (log v + s/v). In v^(-1/3) this is almost a parabola: its third derivative is 0 at the minimum.
    """
    other = count / known if known > 0.0 else math.inf
    wide = 3.0 * (1.0 + other / start)  # so that the unit is that of log(ratio)
    tried: list[Point] = []

    def deviance(s: float) -> float:
        ratio = (start + other) * (1.0 - s / wide) ** -3.0 - other if s < wide else math.nan
        if not ratio > 0.0:
            return math.nan
        tried.append(given(math.log(ratio)))
        return tried[-1].deviance

    apart = min(wide / 3.0 * math.sqrt(2.0 / count), _FARTHEST)
    weights = weights_at_minimum(deviance, apart, 2.0 * CLOSE)  # a ratio is the square of a scale
    if weights is None:
        return None
    lowest, *scales = (
        weights @ np.column_stack([[p.deviance for p in tried], np.log(np.array(tried)[:, 1:])])
    ).tolist()
    return Point(lowest, *np.exp(scales).tolist())


def point_by_squares(data: Evidence) -> Point | None:
    """Return a point that is usually near the maximum, from three sums of squares in O(K d + d²).

    Their means are linear in the squared scales of noise, arms and coefficients (the regression of Haseman & Elston):

        E q = σ² (N - K) + c² tr C,   E |g|² = σ² tr C + c² tr C²,   E Σ H r̄² = σ² K + s₀² Σ H + c² Σ H |x̄|²

    With an intercept, r̄ and x̄ are taken around their weighted means. `None` if a scale would not be positive.
    """
    (h, x), r = data.centered(), data.r
    arms, total = float(len(h)), float(h.sum())
    if data.fixed:
        r = r - h @ r / total
        arms, total = arms - 1.0, total - float(h @ h) / total
    freedom, trace = data.count - len(h), float(np.trace(data.scatter))
    square, along = float(np.vdot(data.scatter, data.scatter)), float(data.cross @ data.cross)
    determinant = freedom * square - trace * trace  # inf if it overflows
    if not (determinant > 0.0 and total > 0.0):
        return None
    noise = (data.square * square - along * trace) / determinant
    coef = (freedom * along - trace * data.square) / determinant
    between = float(h @ r**2) - noise * arms - coef * float(h @ (x**2).sum(axis=1))
    if not (noise > 0.0 and coef > 0.0 and between > 0.0):
        return None
    return Point(math.nan, noise, between / total / noise, coef / noise)


def _reduce(matrix: Floats, rows: Floats, out: Floats) -> None:
    """Reduce a matrix to tridiagonal form, and transform rows in the same way; all arrays are overwritten."""
    reduce = reductions.tridiagonal if len(matrix) <= SMALL else lapack.tridiagonal
    reduce(matrix, rows, out)


def prior_deviance(ratio: float, guess: float, power: float) -> float:
    """Return -2 log of the prior density of a scale, t^power/(1 + t²) with t² = ratio/guess, up to a constant."""
    return 2.0 * math.log1p(ratio / guess) - power * math.log(ratio)
