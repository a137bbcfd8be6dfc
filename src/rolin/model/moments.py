"""Moments: all evidence of a set of observations as sums, without any prior.

Everything that the model needs is a function of sums. They can be added over shards, processes, machines and late
batches, and they determine the posterior for *any* scales. They are **centered within each arm**, because raw sums
of x x' would cancel catastrophically if features are offset.

    N, Σ log h,  C = Σ h (x - x̄_i)(x - x̄_i)',  g = Σ h (x - x̄_i)(r - r̄_i),  q = Σ h (r - r̄_i)²
    per arm:  H_i = Σ h,  x̄_i,  r̄_i   (weighted means)

If arms have slopes of their own for some features S, each arm also needs its own part of these sums:

    per arm:  S_i = Σ h (x_S - x̄_S,i)(r - r̄_i, x - x̄_i)'   (`rolin.model.slope_moments`)

Merging two parts adds, per arm, H_a H_b/(H_a + H_b) (x̄_a - x̄_b)(x̄_a - x̄_b)' to C, and likewise
to g and q (Chan, Golub & LeVeque 1983).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import ArmIndex, Name, canonical
from rolin._support.checks import as_batch, number_of
from rolin.errors import MergeError, NotFiniteError, ParameterError
from rolin.model import slope_moments
from rolin.model.kernels.moments import center, move_to_means, pool
from rolin.model.subtraction import check_same_features, subtracted

__all__ = ["Moments", "Total", "check_factor"]

Floats = NDArray[np.float64]

# Numbers multiplied at a time: enough for BLAS to be efficient, few enough to stay in the cache and for plain sums to
# be accurate.
_CHUNK = 131_072
# When a part of a sum of squares is subtracted, it may be this many times larger than the remainder.
_FAR = 100.0


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums of a set of observations; `a + b` is the evidence of both.

    Make one with [`zero`][rolin.Moments.zero] or [`of`][rolin.Moments.of]. The arrays are read-only.

    Parameters
    ----------
    count
        Number N of observations.
    sum_log_weight
        Sum of the logarithms of their weights.
    scatter
        (d, d): C, the scatter of contexts around the mean of their arm.
    cross
        (d,): g, the cross products of contexts and rewards around the means of their arm.
    reward_scatter
        q, the scatter of rewards around the mean of their arm.
    arms
        Names of the arms.
    weight
        (K,): H, sum of the weights of each arm.
    mean_context
        (K, d): x̄ of each arm.
    mean_reward
        (K,): r̄ of each arm.
    slopes
        Indices of the s features that arms may have slopes for; empty if there are none.
    arm_scatter
        (K, s, 1 + d): the scatter of these features with the reward and with all features, around the means of each
        arm. Only with `slopes`.

    Examples
    --------
    >>> first = Moments.of(["a", "a", "b"], [[1.0], [3.0], [5.0]], [1.0, 2.0, 0.0])
    >>> late = Moments.of(["b"], [[7.0]], [1.0])
    >>> both = first + late
    >>> both.arms, both.weight.tolist(), both.mean_context[:, 0].tolist()
    (('a', 'b'), [2.0, 2.0], [2.0, 6.0])
    >>> (both - late).weight.tolist()
    [2.0, 1.0]
    """

    count: float
    sum_log_weight: float
    scatter: Floats
    cross: Floats
    reward_scatter: float
    arms: tuple[Name, ...]
    weight: Floats
    mean_context: Floats
    mean_reward: Floats
    slopes: tuple[int, ...] = ()
    arm_scatter: Floats | None = None

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def n_features(self) -> int:
        """Number d of features."""
        return len(self.scatter)

    @classmethod
    def zero(cls, n_features: int, *, slopes: Iterable[int] = ()) -> Moments:
        """Return the moments of no observation.

        Parameters
        ----------
        n_features
            Number d of features.
        slopes
            Indices of the features to keep the scatter of each arm for; see `of`.
        """
        d, slopes = n_features, slope_moments.slopes_below(slopes, n_features)
        return cls(
            0.0, 0.0, np.zeros((d, d)), np.zeros(d), 0.0, (), np.zeros(0), np.zeros((0, d)),
            np.zeros(0), slopes, np.zeros((0, len(slopes), 1 + d)) if slopes else None,
        )  # fmt: skip

    @classmethod
    def of(
        cls,
        arms: Iterable[Name],
        contexts: ArrayLike,
        rewards: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        slopes: Iterable[int] = (),
    ) -> Moments:
        """Return the moments of a batch.

        Parameters
        ----------
        arms
            Names of n arms.
        contexts
            (n, d): their contexts.
        rewards
            Their n rewards.
        weights
            The n weights of the rewards; by default every weight is 1.
        slopes
            Indices of the features to keep the scatter of each arm for, so that arms can have slopes for them: O(s d)
            numbers for each arm.
        """
        batch = as_batch(arms, contexts, rewards, weights)
        code_of: dict[Name, int] = {}
        codes = np.fromiter(
            (code_of.setdefault(canonical(name), len(code_of)) for name in batch.arms),
            np.int64,
            len(batch.arms),
        )
        return cls.of_codes(
            tuple(code_of), codes, batch.contexts, batch.rewards, batch.weights, slopes=slopes
        )

    @classmethod
    def of_codes(
        cls,
        arms: tuple[Name, ...],
        codes: NDArray[np.int64],
        contexts: Floats,
        rewards: Floats,
        weights: Floats,
        *,
        slopes: Iterable[int] = (),
    ) -> Moments:
        """Return the moments of a batch whose n arms are given as indices into K names, all of them used.

        The data must have been checked, except for numbers that are not finite: these raise `NotFiniteError`.
        """
        slopes = slope_moments.slopes_below(slopes, contexts.shape[1])
        n, k, d = len(codes), len(arms), contexts.shape[1]
        roots = np.sqrt(weights)
        # Center at the first observation of each arm. It is usually as close to the mean as the others, so that this
        # loses one or two bits of precision and saves a pass. If it was far away, repeat around the means.
        mean_context, mean_reward = np.empty((k, d)), np.empty(k)
        chunk = max(_CHUNK // (1 + d), 64)
        around = np.empty((min(max(n, k), chunk), 1 + d))
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            for turn in range(3):
                total, dropped = np.zeros((2, 1 + d, 1 + d))
                weight, sums = np.zeros(k), np.zeros((k, 1 + d))
                for start in range(0, n, chunk):
                    part = slice(start, min(n, start + chunk))
                    some = around[: part.stop - start]
                    center(
                        contexts[part], rewards[part], weights[part], roots[part], codes[part],
                        turn == 0, mean_reward, mean_context, weight, sums, some,
                    )  # fmt: skip
                    term = some.T @ some + dropped
                    before = total
                    total = before + term
                    dropped = term - (total - before)  # Kahan's compensation
                off = np.zeros((1 + d, 1 + d))
                for start in range(0, k, chunk):
                    part = slice(start, min(k, start + chunk))
                    some = around[: part.stop - start]
                    move_to_means(
                        weight[part], sums[part], mean_reward[part], mean_context[part], some
                    )
                    off += some.T @ some
                total = total + (dropped - off)
                if not (np.diag(off) > _FAR * np.diag(total)).any():
                    break
        np.fill_diagonal(total, np.maximum(np.diag(total), 0.0))
        if not (np.isfinite(total).all() and np.isfinite(weight).all()):
            raise NotFiniteError(
                "contexts, rewards or weights are too large to add up, or not finite"
            )
        arm_scatter = None
        if slopes:
            means = np.column_stack([mean_reward, mean_context])
            arm_scatter = slope_moments.scatter_of_arms(
                slopes, codes, contexts, rewards, weights, means
            )
        return cls(
            float(n),
            float(np.log(weights).sum()),
            total[1:, 1:].copy(),
            total[0, 1:].copy(),
            float(total[0, 0]),
            arms,
            weight,
            mean_context,
            mean_reward,
            slopes,
            arm_scatter,
        )

    @classmethod
    def sum(cls, parts: Iterable[Moments]) -> Moments:
        """Return the evidence of all parts, with one part in memory at a time.

        The result is `a + b + c + …`, but the time per part does not grow with the number of arms in the parts
        before it.
        """
        total: Total | None = None
        waiting: list[Moments] = []  # the first part, which is the sum if there is no other
        for part in parts:
            if not isinstance(part, Moments):
                raise MergeError(f"a part is {part!r}, expected Moments")
            waiting.append(part)
            if total is None and len(waiting) == 2:
                total = Total(waiting[0].n_features, waiting[0].slopes)
            while total is not None and waiting:
                total.add(waiting.pop(0))
        if total is not None:
            return total.moments()
        if not waiting:
            raise ParameterError("there are no moments to add up, expected at least one")
        return waiting[0]

    def with_slopes(self, slopes: Iterable[int]) -> Moments:
        """Return the same evidence, with the scatter of each arm for fewer features only.

        Parameters
        ----------
        slopes
            Indices of the features, which must be among those of these moments; empty for none.
        """
        slopes = slope_moments.slopes_below(slopes, self.n_features)
        if slopes == self.slopes:
            return self
        some = slope_moments.selected(self.slopes, self.arm_scatter, slopes)
        return replace(self, slopes=slopes, arm_scatter=some)

    def decayed(self, factor: float) -> Moments:
        """Return the evidence with all sums multiplied by a factor of at most 1."""
        factor = check_factor(factor)
        if factor == 1.0:
            return self
        return Moments(
            self.count * factor,
            self.sum_log_weight * factor,
            self.scatter * factor,
            self.cross * factor,
            self.reward_scatter * factor,
            self.arms,
            self.weight * factor,
            self.mean_context,
            self.mean_reward,
            self.slopes,
            None if self.arm_scatter is None else self.arm_scatter * factor,
        )

    def __add__(self, other: Moments) -> Moments:
        """Return the evidence of both."""
        if not isinstance(other, Moments):
            return NotImplemented
        total = Total(self.n_features, self.slopes)
        total.add(self)
        total.add(other)
        return total.moments()

    def __sub__(self, other: Moments) -> Moments:
        """Subtract a batch that was added by mistake: the inverse of `+`, up to rounding."""
        if not isinstance(other, Moments):
            return NotImplemented
        return subtracted(self, other)


class Total:
    """A running sum of moments, updated in place.

    Parameters
    ----------
    n_features
        Number d of features.
    slopes
        Indices of the features that the moments have the scatter of each arm for.
    """

    def __init__(self, n_features: int, slopes: tuple[int, ...] = ()) -> None:
        self._d, self._slopes = n_features, slopes
        self._index = ArmIndex()
        self._count = self._sum_log_weight = 0.0
        # q, g and C in one matrix, and its rounding errors.
        self._total, self._dropped = np.zeros((2, 1 + n_features, 1 + n_features))
        self._weight, self._means = np.zeros(0), np.zeros((0, 1 + n_features))
        self._arm_scatter = np.zeros((0, len(slopes), 1 + n_features))

    def add(self, part: Moments) -> None:
        """Add moments: O(K d²) for their K arms, independent of the arms of the sum."""
        check_same_features(self._d, part.n_features)
        slope_moments.check_same_slopes(self._slopes, part.slopes)
        index = self._index
        mine = np.fromiter(map(index.row_of.get, part.arms, repeat(0)), np.int64, len(part.arms))
        mine -= 1
        known, new = np.flatnonzero(mine >= 0), np.flatnonzero(mine < 0)
        if len(new):
            self._add_arms(part, new)
        term = np.empty_like(self._total)
        term[0, 0], term[1:, 1:] = part.reward_scatter, part.scatter
        term[0, 1:] = term[1:, 0] = part.cross
        term += self._dropped
        chunk = max(_CHUNK // (1 + self._d), 64)
        # `moments` reports overflows.
        apart, scaled = np.empty((2, min(len(known), chunk), 1 + self._d))
        for start in range(0, len(known), chunk):
            here = known[start : start + chunk]
            rows, n = mine[here], len(here)
            pool(
                here, rows, part.weight, part.mean_reward, part.mean_context,
                self._weight, self._means, apart[:n], scaled[:n],
            )  # fmt: skip
            if part.arm_scatter is not None:
                slope_moments.pool_arms(
                    self._slopes, rows, apart[:n], scaled[:n], part.arm_scatter[here],
                    self._arm_scatter,
                )  # fmt: skip
            with np.errstate(over="ignore", invalid="ignore"):
                term += scaled[:n].T @ apart[:n]
        with np.errstate(over="ignore", invalid="ignore"):
            total = self._total + term
            self._dropped = term - (total - self._total)  # Kahan's compensation
        self._total = total
        self._count += part.count
        self._sum_log_weight += part.sum_log_weight

    def _add_arms(self, part: Moments, new: NDArray[np.int64]) -> None:
        """Give the arms of a part that are new the next rows."""
        index = self._index
        rows = slice(len(index), len(index) + len(new))
        some: NDArray[np.int64] | slice = new
        if len(new) == len(part.arms):
            some = slice(None)  # all of them, without a copy in between
        index.extend([part.arms[i] for i in new.tolist()])
        if len(index) > len(self._weight):
            size = max(len(index), 2 * len(self._weight))
            self._weight, self._means, self._arm_scatter = (
                _grown(array, size) for array in (self._weight, self._means, self._arm_scatter)
            )
        self._weight[rows] = part.weight[some]
        self._means[rows, 0] = part.mean_reward[some]
        self._means[rows, 1:] = part.mean_context[some]
        if part.arm_scatter is not None:
            self._arm_scatter[rows] = part.arm_scatter[some]

    def moments(self) -> Moments:
        """Return the sum so far (a copy)."""
        k, total = len(self._index), self._total
        sums = (total, self._weight[:k], self._means[:k], self._arm_scatter[:k])
        if not all(np.isfinite(part).all() for part in sums):
            raise NotFiniteError("the moments are too large to add up")
        return Moments(
            self._count,
            self._sum_log_weight,
            total[1:, 1:].copy(),
            total[0, 1:].copy(),
            float(total[0, 0]),
            tuple(self._index.names),
            self._weight[:k].copy(),
            self._means[:k, 1:].copy(),
            self._means[:k, 0].copy(),
            self._slopes,
            self._arm_scatter[:k].copy() if self._slopes else None,
        )


def _grown(array: Floats, size: int) -> Floats:
    """Return an array with more rows, which hold zeros."""
    grown = np.zeros((size, *array.shape[1:]))
    grown[: len(array)] = array
    return grown


def check_factor(factor: object) -> float:
    """Return a checked decay factor."""
    number = number_of("factor", factor, ParameterError)
    if not 0.0 < number <= 1.0:
        raise ParameterError(f"factor={factor!r}, expected a number above 0 and at most 1")
    return number
