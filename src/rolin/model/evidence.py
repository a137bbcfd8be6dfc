"""Moments in units of the prior, for the likelihood of the scales."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.model import lapack
from rolin.model.first_guess import typical_of
from rolin.model.kernels.evidence import standardize
from rolin.model.moments import Moments
from rolin.model.scales import Scales

__all__ = ["SMALL", "ArmSums", "Evidence", "Spectrum"]

Floats = NDArray[np.float64]

# Directions of the features whose scatter is below this share of the largest are rounding errors.
_RANK = 1e-10
# Up to this size, compiled loops are about as fast as LAPACK (measured), and do not import SciPy.
SMALL = 64
# Arms of equal weight are added up once and for all, if there are at least so many (measured), for the most frequent weights.
_GROUP, _MOST_GROUPS = 32, 8


class Spectrum(NamedTuple):
    """A regression in the basis of the eigenvectors of its matrix."""

    values: Floats  # (d,): eigenvalues, ascending
    along: Floats  # (d,): the right-hand side in this basis
    axes: Floats  # (d, d): eigenvectors
    square: float  # sum of squares of the rewards

    def rest(self, rank: int) -> float:
        """Return the residual sum of squares of the best fit in the `rank` largest directions."""
        top = slice(len(self.values) - rank, None)
        return max(self.square - float((self.along[top] ** 2 / self.values[top]).sum()), 0.0)


class Evidence:
    """Moments standardized by the prior: its mean subtracted, its standard deviations divided out."""

    def __init__(self, moments: Moments, prior: Scales) -> None:
        self.prior = prior
        d, arms = moments.n_features, len(moments.weight)
        mean, std = (part[:d] for part in prior.prior(d))
        self.unit = typical_of(prior.coef_std) if d else 1.0
        self.count, self.weight = moments.count, moments.weight
        self.sum_log_weight = moments.sum_log_weight
        self.x, self.r = np.empty((arms, d)), np.empty(arms)
        self.scatter, self.cross = np.empty((d, d)), np.empty(d)
        # `_size` is the largest square of the features, not centered: constant ones vary by a rounding error of it.
        shift, between, apart, self._size = standardize(
            (
                moments.scatter,
                moments.cross,
                self.weight,
                moments.mean_context,
                moments.mean_reward,
            ),
            mean,
            std / self.unit,
            self.scatter,
            self.cross,
            self.x,
            self.r,
        )
        self.square = max(moments.reward_scatter + shift, 0.0)
        self.fixed = int(prior.has_intercept)  # coefficients with a flat prior
        # A perfect fit would have no noise. The smallest noise is the rounding error of the rewards.
        self.mean_square = max((self.square + between) / max(self.count, 1.0), 1e-190)
        # A level that all arms share does not count.
        square = self.square + (apart if self.fixed else between)
        self.varies = square > 0.0
        self.least_noise = max(1e-14 * square / max(self.count, 1.0), 1e-200)

    def compressed(self) -> Evidence:
        """Return the same evidence in the space of all rows, if they are fewer than the features.

        The coefficients are independent and equally wide, so any orthogonal basis is as good as the features. Directions in
        which there are no data change nothing.
        """
        if self.count >= len(self.cross) or len(self.cross) <= SMALL:
            return self
        inner = lapack.root_rows(self.scatter)
        rows = np.vstack([inner, self.x, self.cross])
        n = len(rows) - 1
        if n >= len(self.cross):
            return self
        triangle: Floats = np.linalg.qr(rows.T, mode="r")  # type: ignore[assignment]  # mode "r" gives R alone
        inner, other = triangle.T[: len(inner), :n], copy.copy(self)
        other.scatter = inner.T @ inner
        other.x, other.cross = triangle.T[len(inner) : n, :n].copy(), triangle.T[n, :n].copy()
        return other

    @property
    def has_full_rank(self) -> bool:
        """Whether features and level are linearly independent."""
        h, x = self.centered()
        matrix = self.scatter + (x * h[:, None]).T @ x
        square = np.diag(matrix)
        if (
            square <= _RANK * (np.diag(self.scatter) + h @ self.x**2)
        ).any():  # a feature is constant
            return False
        size = np.sqrt(square)
        values = np.linalg.eigvalsh(matrix / np.outer(size, size))  # free of units
        return not len(values) or bool(values[0] > _RANK * values[-1])

    def centered(self) -> tuple[Floats, Floats]:
        """Return weights and mean contexts of the arms; centered if there is an intercept."""
        h, x = self.weight, self.x
        return h, x - h @ x / h.sum() if self.fixed and len(h) else x

    @cached_property
    def total(self) -> Spectrum:
        """The regression of all rewards, without arm effects."""
        (h, x), r = self.centered(), self.r
        if self.fixed and len(r):
            r = r - h @ r / h.sum()
        values, axes = np.linalg.eigh(self.scatter + (x * h[:, None]).T @ x)
        right = (self.cross + (h * r) @ x) @ axes
        return Spectrum(values, right, axes, self.square + float(h @ r**2))

    @cached_property
    def within(self) -> Spectrum:
        """The regression within arms."""
        values, axes = np.linalg.eigh(self.scatter)
        return Spectrum(values, self.cross @ axes, axes, self.square)

    @cached_property
    def rank(self) -> int:
        """Number of directions in which the features vary."""
        values = self.total.values
        most = max(values.max(initial=0.0), self._size)
        return int(np.count_nonzero(values > _RANK * most))

    @cached_property
    def within_rank(self) -> int:
        """Number of directions in which the features vary within arms."""
        most = max(self.total.values.max(initial=0.0), self._size)
        return int(np.count_nonzero(self.within.values > _RANK * most))

    @property
    def _features_vary(self) -> bool:
        """Whether the rank is positive. The trace usually tells."""
        h, x = self.centered()
        trace = float(np.trace(self.scatter) + h @ (x**2).sum(axis=1))
        return trace > len(self.cross) * _RANK * self._size or self.rank > 0

    def on_range(self) -> Evidence:
        """Return the same evidence, restricted to the directions in which the features vary."""
        axes = self.total.axes[:, len(self.total.values) - self.rank :]
        other = copy.copy(self)
        other.x, other.cross = np.ascontiguousarray(self.x @ axes), self.cross @ axes
        other.scatter = np.ascontiguousarray(axes.T @ self.scatter @ axes)
        return other

    def absorbed(self) -> float:
        """Return d₀ = tr[(Σ h xx')⁺ Σ_i H_i² x̄_i x̄_i'], the intercept included."""
        h, x = self.weight, self.x
        total = 0.0
        if self.fixed:
            x = x - h @ x / h.sum()
            total = float(h @ h) / float(h.sum())
        values, axes = self.total.values, self.total.axes
        top = slice(len(values) - self.rank, None)
        return total + float(((h[:, None] * (x @ axes)[:, top]) ** 2 / values[top]).sum())

    def under(self, prior: Scales) -> Evidence:
        """Return the same evidence with other guesses of noise_std and arm_std."""
        other = copy.copy(self)
        other.prior = prior
        return other

    @property
    def within_freedom(self) -> float:
        """Degrees of freedom within arms: observations minus arms minus directions that vary within arms."""
        return self.count - len(self.weight) - self.within_rank

    def possible(self, method: str) -> set[str]:
        """Return the scales that there are enough data for.

        `"map"` can separate noise and arm effects by their priors. Without priors, this needs arms with more than one
        reward.
        """
        arms, d = len(self.weight), len(self.cross)
        if not self.varies and method != "map":
            return set()
        everything = {"noise_std", "arm_std", "coef_std"}
        # Enough for any ranks. This avoids computing the ranks, which takes half of the time.
        if self.count - arms - d >= 1 and arms - d - self.fixed >= 2:
            if np.trace(self.scatter) > 0.0:
                return everything
        found = {"coef_std"} if self._features_vary else set()
        if method == "map":
            enough, separable = self.count >= 2, arms >= 2
        else:
            # Coefficients that only differences between arms determine.
            between = self.rank - self.within_rank + self.fixed
            enough, separable = self.within_freedom >= 1, arms >= 2 and arms - between >= 1
        if enough:
            found |= {"noise_std", "arm_std"} if separable else {"noise_std"}
        return found


class ArmSums:
    """The sums over all arms for any ρ, for many features. Arms of equal weight are added up only once.

    Parameters
    ----------
    evidence
        The arms.
    ratio
        A usual ρ. With an intercept, sums are computed around the means for this ρ, to avoid cancellation.
    """

    def __init__(self, evidence: Evidence, ratio: float) -> None:
        h, self._centered = evidence.weight, evidence.fixed > 0
        rows = np.column_stack([np.ones(len(h)), evidence.r, evidence.x])
        if self._centered and len(h):
            shrunk = h / (1.0 + ratio * h)
            rows[:, 1:] -= shrunk @ rows[:, 1:] / shrunk.sum()
        weights, group, size = np.unique(h, return_inverse=True, return_counts=True)
        common = np.argsort(-size, kind="stable")[:_MOST_GROUPS]
        common = common[size[common] >= _GROUP]
        self._weight, self._common = h, weights[common]
        self._sums = np.zeros((len(common), *rows.shape[1:] * 2))
        for sums, k in zip(self._sums, common.tolist(), strict=True):
            lapack.add_products(rows[group == k], sums)
        rest = ~np.isin(group, common)
        self._rest, self._rows = h[rest], rows[rest]

    def given(self, ratio: float) -> tuple[Floats, float]:
        """Return the sums of squares and products of r̄ and x̄, times H/(1 + Hρ), and Σ log(1 + Hρ).

        With an intercept, they are taken around the weighted means, which integrates out an intercept with a flat prior.
        What is below the diagonal is not computed.
        """
        log_arms = float(np.log1p(ratio * self._weight).sum())
        rows = self._rows * np.sqrt(self._rest / (1.0 + ratio * self._rest))[:, None]
        sums = np.tensordot(self._common / (1.0 + ratio * self._common), self._sums, axes=1)
        lapack.add_products(rows, sums)
        total, inner = float(sums[0, 0]), sums[1:, 1:]
        if self._centered and total > 0.0:
            lapack.add_products(sums[:1] / math.sqrt(total), sums, -1.0)
            log_arms += math.log(total)
        return inner, log_arms
