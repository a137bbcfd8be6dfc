"""The posterior of a model whose arms also have slopes of their own, updated in place in O((d + q)²) per reward.

    r = x'θ + z'u_i + ε,   z = (1, x_S),   u_i = (v_i, b_i) ~ N(0, D),   D = diag(arm_std², slope_std²)

With no feature in S it is the model of `rolin.model.posterior`. With large scales of u_i, and small ones of θ, it is one
linear model per arm. Given θ, the arms are independent: u_i | θ, data ~ N(a_i - B_i θ, V_i)
(docs/explanation/maths.md, "Slopes per arm").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import ArmRows, Name
from rolin._support.checks import first_not_finite
from rolin._support.compile import NOT_FINITE
from rolin.errors import ParameterError
from rolin.model.adaptive import Adaptive
from rolin.model.draws import Scores
from rolin.model.first_guess import typical_of
from rolin.model.kernels import slope_predict
from rolin.model.kernels import slopes as slope_kernels
from rolin.model.moments import Moments
from rolin.model.posterior import Posterior
from rolin.model.scale_schedule import ScaleEvent
from rolin.model.scales import Scales
from rolin.model.slope_solve import feature_order, own_stds, solve_slopes
from rolin.model.solve import CoefficientPosterior
from rolin.model.sparse import SparseContexts
from rolin.model.summaries import ArmEffects, OwnCoefficients, roots_of
from rolin.model.view import PosteriorView

__all__ = ["AdaptiveSlopes", "SlopePosterior"]

Floats = NDArray[np.float64]


def _once(contexts: Floats) -> Floats:
    """Return one context that all arms share as one row."""
    return contexts[:1] if contexts.strides[0] == 0 else contexts


class _Own(NamedTuple):
    """The own coefficients of some arms: u = mean - (loading of θ) (θ - θ̂) + noise of this covariance."""

    arms: tuple[Name, ...]
    mean: Floats  # (K, q)
    covariance: Floats  # (K, q, q): V
    on_shared: Floats  # (K, q, D): B


class OwnArrays(NamedTuple):
    """The arrays of the arms' own coefficients, as `rolin.model.kernels.slopes` describes them."""

    own: Floats
    """(rows, q, d + 2)"""
    parts: Floats
    """(rows, q, 1 + d)"""


def own_arrays(stds: Floats, columns: NDArray[np.int64], n_rows: int) -> OwnArrays:
    """Return the arrays of the arms' own coefficients, with the prior in row 0 and zeros in all other rows."""
    q, d = len(stds), len(columns)
    own, parts = np.zeros((n_rows, q, d + 2)), np.zeros((n_rows, q, 1 + d))
    own[0, :, :q] = np.eye(q)
    parts[0, 0, :d] = columns
    parts[0, :, d] = stds
    return OwnArrays(own, parts)


class SlopePosterior(Posterior):
    """The running posterior of a model whose arms have slopes of their own.

    Parameters
    ----------
    scales
        The scales of the model, with `slope_std` and `slopes`.
    n_features
        Number d of features of a context, the intercept not counted.

    Examples
    --------
    >>> posterior = SlopePosterior(Scales(arm_std=1.0, slope_std=1.0), n_features=1)
    >>> for x in (-1.0, 1.0):
    ...     posterior.observe("a", [x], 3.0 * x)
    >>> mean, std = posterior.predict([[1.0], [1.0]], ["a", "never seen"])
    >>> mean.round(3).tolist(), (std**2).round(3).tolist()
    ([2.4, 1.2], [0.733, 2.6])
    """

    _by_arm = (*Posterior._by_arm, "_own", "_parts")
    takes_shared_context = True
    shares_coefficients = False

    def __init__(self, scales: Scales, n_features: int) -> None:
        super().__init__(scales, n_features)
        d = self.n_features
        slopes = scales.slope_indices(d)
        self._stds = own_stds(scales, d)
        self._columns = feature_order(slopes, d)
        self._own, self._parts = own_arrays(self._stds, self._columns, len(self._arms))

    @property
    def slope_indices(self) -> tuple[int, ...]:
        """Indices of the features that have slopes."""
        return tuple(self._columns[: len(self._stds) - 1].tolist())

    def _fold(
        self, x: Floats, r: float, h: float, row: int, arms: Floats, tails: Any, coef: Floats,
        factor: Floats, scatter: Floats, numbers: Floats,
    ) -> bool:  # fmt: skip
        # All arguments by name: packing and unpacking them takes 0.2 µs.
        return slope_kernels.observe_slopes(
            x, r, h, row, arms, tails, coef, factor, scatter, numbers,
            self._own, self._parts,
        )  # fmt: skip

    def _fold_many(self, *arguments: Any) -> int:
        own = (self._own, self._parts)
        return slope_kernels.observe_slopes_many(*arguments, *own)  # type: ignore[call-arg]  # mypy cannot count them

    # -- all evidence at once ----------------------------------------------------------------

    def filled(self, moments: Moments, removed: Iterable[Name] = ()) -> dict[str, Any]:
        """Return the changes that replace all evidence with `moments`, for `commit`."""
        moments = moments.with_slopes(self.slope_indices)
        if moments.arm_scatter is None:  # no feature has slopes
            none = np.zeros((len(moments.arms), 0, 1 + self.n_features))
            moments = replace(moments, arm_scatter=none)
        return super().filled(moments, removed)

    def _solve(
        self, scales: Scales, moments: Moments
    ) -> tuple[CoefficientPosterior, dict[str, Any]]:
        solved, stds = solve_slopes(scales, moments), own_stds(scales, self.n_features)
        rows = slice(1, 1 + len(solved.own))
        own, parts = own_arrays(stds, self._columns, max(rows.stop, len(self._own)))
        own[rows] = solved.own
        parts[rows, 1:] = moments.arm_scatter
        return solved.shared, {"_own": own, "_parts": parts, "_stds": stds}

    def _solve_stored(
        self, scales: Scales, age: float
    ) -> tuple[CoefficientPosterior, dict[str, Any]]:
        return self._solve(scales, self._stored().decayed(age))

    def _stored(self) -> Moments:
        return replace(
            super()._stored(),
            slopes=self.slope_indices,
            arm_scatter=self._parts[1 : 1 + len(self._index), 1:].copy(),
        )

    def extend(self, n_features: int) -> None:
        """Append features, initialized from the prior; they have slopes if all features have."""
        d, q = self.n_features, len(self._stds)
        scales = self._extended_scales(n_features)
        stds = own_stds(scales, n_features)
        columns = feature_order(scales.slope_indices(n_features), n_features)
        new_q = len(stds)
        own, parts = own_arrays(stds, columns, len(self._own))
        own[1:, :q, :q] = self._own[1:, :, :q]
        own[1:, :q, new_q : new_q + d + 2 - q] = self._own[1:, :, q:]
        parts[1:, :q, : 1 + d] = self._parts[1:]
        new = np.arange(q, new_q)
        own[1:, new, new] = 1.0

        def apply() -> None:
            super(SlopePosterior, self).extend(n_features)
            self.commit(
                _own=own,
                _parts=parts,
                _stds=stds,
                _columns=columns,
            )

        self.change(apply)

    def _extended_scales(self, n_features: int) -> Scales:
        return self._with_new_slopes(super()._extended_scales(n_features), n_features)

    def _with_new_slopes(self, scales: Scales, n_features: int) -> Scales:
        """Return scales with a number for the slopes of appended features, if there is one number per slope."""
        stds = scales.slope_std
        if scales.slopes is not None or not isinstance(stds, tuple) or len(stds) == n_features:
            return scales
        return replace(scales, slope_std=stds + self._new_slope_stds(n_features - len(stds)))

    def _new_slope_stds(self, n: int) -> tuple[float, ...]:
        """Return the scales of the slopes of n appended features."""
        raise ParameterError(
            "features cannot be appended: slope_std has one number per feature, so there is no prior for the slopes of "
            "new ones"
        )

    # -- reading -----------------------------------------------------------------------------

    def _own_of(self, named: ArmRows) -> _Own:
        """Return the posterior of the own coefficients of some arms, in the units of the data."""
        own, stds, d = self._own[named.rows], self._stds, self.n_features
        q, size = len(stds), len(self._coef)
        root = own[:, :, :q]
        relative = np.swapaxes(root, 1, 2) @ root  # V in units of the prior
        # B: the columns of features with slopes, and of the intercept, follow from V.
        known = (np.eye(q) - relative) / stds
        on_shared = np.zeros((len(own), q, size))
        on_shared[:, :, self._columns[: q - 1]] = known[:, :, 1:]
        on_shared[:, :, self._columns[q - 1 :]] = own[:, :, q + 1 :]
        if size > d:
            on_shared[:, :, d] = known[:, :, 0]
        on_shared *= stds[:, None]
        mean = stds * own[:, :, q] - on_shared @ self._coef
        return _Own(tuple(named.names), mean, relative * np.outer(stds, stds), on_shared)

    def _shrinkage(self, named: ArmRows) -> tuple[Floats, Floats]:
        """Return the share of the arm effect's prior variance that the rewards have removed, and the rest."""
        unshrunk: Floats = (self._own[named.rows, :, 0] ** 2).sum(axis=1)
        return 1.0 - unshrunk, unshrunk

    def arm_effects(self, arms: Iterable[Name] | None = None) -> ArmEffects:
        """Return the posterior of the arm effects, by default of all seen arms: the arms' own levels at x = 0."""
        own = self._own_of(self.named_rows(arms))
        return ArmEffects(
            own.arms, own.mean[:, 0], own.covariance[:, 0, 0], own.on_shared[:, 0] @ self._factor.T
        )

    def own_coefficients(self, arms: Iterable[Name] | None = None) -> OwnCoefficients:
        """Return the joint posterior of what the arms have of their own: their effects and slopes."""
        own = self._own_of(self.named_rows(arms))
        return OwnCoefficients(
            own.arms, self.slope_indices, own.mean, own.covariance, own.on_shared @ self._factor.T
        )

    def draw_model(
        self, arms: Iterable[Name], generator: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Draw the (D,) shared coefficients, and the (K, q) own coefficients of arms, jointly from the posterior.

        θ = θ̂ + T'z, and u | θ ~ N(a - B θ, V) (docs/explanation/maths.md, "Slopes per arm").
        """
        own = self._own_of(self.named_rows(arms))
        away = self._factor.T @ generator.standard_normal(len(self._coef))  # θ - θ̂
        noise = (roots_of(own.covariance) @ generator.standard_normal((*own.mean.shape, 1)))[
            :, :, 0
        ]
        return self._coef + away, own.mean - own.on_shared @ away + noise

    # -- for policies: rows and arrays must have been checked ---------------------------------

    def _products(self, contexts: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return u'θ̂ and T u of every arm, and a table with z'a and the own variances z'V z."""
        n, width = len(rows), contexts.shape[1] + 1
        entries, vectors = np.empty((n, width)), np.empty((1 + len(self._coef), width))
        out = np.empty((3, n))
        slope_predict.entries_of_arms(
            _once(contexts), rows, self._coef, self._factor, self._own, self._parts, entries, vectors, out
        )  # fmt: skip
        with np.errstate(invalid="ignore", over="ignore"):  # the caller reports it
            return entries @ vectors.T, out

    def _loadings(self, contexts: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return T u of every arm, and a table with the means and the own variances z'V z."""
        products, out = self._products(contexts, rows)
        out[0] += products[:, 0]
        return products[:, 1:], out

    def score(self, contexts: Floats, rows: NDArray[np.int64], draws: Floats) -> Scores:
        """Score each arm by mean + draw * std; the rows of the table are mean, std and score."""
        products, out = self._products(contexts, rows)
        best = slope_predict.spread_products(products, draws, out)
        if best == NOT_FINITE:
            raise first_not_finite("contexts", contexts)
        return tuple.__new__(Scores, (best, out))

    def score_joint(
        self, contexts: Floats | SparseContexts, rows: NDArray[np.int64], draws: Floats
    ) -> Scores:
        """Score all arms by a joint draw, made from D + K standard normal numbers."""
        size = len(self._coef)
        x = contexts[range(len(rows))] if isinstance(contexts, SparseContexts) else contexts
        theta = self._coef + draws[:size] @ self._factor
        best, out = self._score_given(x, rows, theta, draws[size:])
        if best == NOT_FINITE:
            raise first_not_finite("contexts", x)
        return tuple.__new__(Scores, (best, out))

    def _score_given(
        self, contexts: Floats, rows: NDArray[np.int64], theta: Floats, draws: Floats
    ) -> tuple[int, Floats]:
        """Return `best_of` the scores given the coefficients, and a table with means, own variances and scores."""
        out = np.empty((3, len(rows)))
        best = slope_predict.score_drawn(
            _once(contexts), rows, theta, draws, self._own, self._parts, out
        )
        return best, out

    def own_std(self, rows: NDArray[np.int64], contexts: Floats) -> Floats:
        """Return the standard deviation of each arm's own part z'u_i if the coefficients were known."""
        none = np.zeros(len(self._coef))
        _, out = self._score_given(contexts, rows, none, np.zeros(len(rows)))
        std: Floats = np.sqrt(out[1])
        return std

    def share_of_slopes(self, context: Floats) -> float:
        """Return the share of the slopes in the prior variance of an arm's own part z'u_i, from 0 to 1."""
        return slope_predict.share_of_slopes(context, self._parts)

    def view(self) -> PosteriorView:
        """Return the arrays of the posterior as they are now, for reading only."""
        variance = np.zeros(len(self._coef))
        variance[self._columns[: len(self._stds) - 1]] = self._stds[1:] ** 2
        return super().view()._replace(slope_variance=variance)

    # -- state -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays (views, not copies)."""
        rows = 1 + len(self._index)
        return {
            **super().arrays(),
            "own": self._own[:rows],
            "own_stds": self._stds,
            "arm_scatter": self._parts[1:rows, 1:],
        }

    def restore(
        self, names: Iterable[Name], removed: Iterable[Name], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Restore the state of a posterior that had these names and arrays."""
        super().restore(names, removed, arrays)
        self._own[:1], self._parts[:1] = own_arrays(self._stds, self._columns, 1)


class AdaptiveSlopes(Adaptive, SlopePosterior):
    """A posterior with slopes that learns its scales, or forgets."""

    def _noted(self, scales: Scales) -> Scales:
        noted = super()._noted(scales)
        if "slope_std" in self.unknown:
            return replace(noted, slope_std=typical_of(scales.slope_std))
        return noted

    def _extended_scales(self, n_features: int) -> Scales:
        # `Adaptive` does not ask its base class if it learns coef_std.
        return self._with_new_slopes(super()._extended_scales(n_features), n_features)

    def _new_slope_stds(self, n: int) -> tuple[float, ...]:
        if "slope_std" not in self.unknown:
            return super()._new_slope_stds(n)
        return (typical_of(self.scales.slope_std),) * n  # until the next estimate

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays; those of the posterior are views."""
        arrays = super().arrays()
        if "slope_std" in self.unknown:
            n = len(self.slope_indices)
            arrays["slope_std"] = np.array(np.broadcast_to(self.scales.slope_std, n))
        return arrays

    def restore(
        self, names: Iterable[Name], removed: Iterable[Name], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Restore the state of a posterior that had these names and arrays."""
        super().restore(names, removed, arrays)
        if self.history and "slope_std" in self.unknown:
            self.scales = replace(self.scales, slope_std=tuple(arrays["slope_std"].tolist()))

    def _row_of(self, event: ScaleEvent) -> list[Any]:
        return [*super()._row_of(event), *np.atleast_1d(event.scales.slope_std)]

    def _event_of(self, row: list[float]) -> ScaleEvent:
        n = np.size(self.guess.slope_std)
        seen, scales = super()._event_of(row[: len(row) - n])
        slopes = tuple(row[len(row) - n :])
        slope_std = slopes if isinstance(self.guess.slope_std, tuple) else slopes[0]
        return ScaleEvent(seen, replace(scales, slope_std=slope_std))
