"""The posterior of the robust linear model, updated in place in O(d²) per reward.

The shared coefficients are Gaussian, θ | data ~ N(θ̂, M⁻¹). Given them, the arm effects are independent,
v_i | θ, data ~ N(w_i (r̄_i - x̄_i'θ), s₀²(1 - w_i)). So one d × d triangle and one row per arm describe the posterior.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Self, SupportsFloat

import numpy as np
from numpy import empty  # found faster than np.empty, on the hot path
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import ArmIndex, ArmRows, Name, canonical
from rolin._support.checks import (
    FLOAT64,
    as_batch,
    as_floats,
    as_names,
    count_of,
    first_not_finite,
    number_of,
)
from rolin._support.compile import NOT_FINITE
from rolin.errors import (
    ApproximationWarning,
    InputError,
    NotFiniteError,
    ParameterError,
    ShapeError,
)
from rolin.model import kernels
from rolin.model.draws import Sampling, Scores, check_sampling
from rolin.model.kernels.moments import add_up
from rolin.model.learner import Learner
from rolin.model.moments import Moments, check_factor
from rolin.model.scales import Scales
from rolin.model.solve import CoefficientPosterior, solve_coefficients
from rolin.model.sparse import SparseContexts
from rolin.model.summaries import (
    ArmCoefficients,
    ArmEffects,
    Coefficients,
    GivenCoefficients,
    OwnCoefficients,
    Prediction,
)
from rolin.model.view import PosteriorView

__all__ = ["Posterior", "add_up_weights"]

Floats = NDArray[np.float64]
# D and K D² up to which one fused loop is faster than two loops around a BLAS product (measured).
_FUSED_SIZE = 20
_FUSED = 80_000
# D and K D² up to which a compiled loop solves for the coefficients faster than LAPACK (measured).
_SMALL_SIZE = 64
_INACCURATE = 1e-4  # relative error of a rebuilt posterior from which on to warn
_SMALL = 1_000_000


@cache
def _triangular_product() -> Callable[..., Floats]:
    """Return the product of BLAS with a triangular matrix: it takes 0.6 times as long as `np.matmul`."""
    from scipy.linalg.blas import dtrmm  # takes 0.1 s to import

    return dtrmm  # type: ignore[no-any-return]  # it has no types


class Posterior(Learner):
    """The running posterior of the robust linear model.

    Parameters
    ----------
    scales
        The scales of the model.
    n_features
        Number d of features of a context, the intercept not counted.

    Examples
    --------
    >>> posterior = Posterior(Scales(arm_std=1.0), n_features=1)
    >>> posterior.observe("a", [1.0], 3.0)
    >>> mean, std = posterior.predict([[1.0], [1.0]], ["a", "never seen"])
    >>> mean.round(3).tolist(), (std**2).round(3).tolist()
    ([2.0, 1.0], [0.667, 1.667])
    """

    # The kernels that fold one reward, and many.
    _fold = staticmethod(kernels.observe)
    _fold_many = staticmethod(kernels.observe_many)
    # The arrays that they write to: those with a row per arm, and all others.
    _by_arm: tuple[str, ...] = ("_arms", "_tails")
    _whole: tuple[str, ...] = ("_coef", "_factor", "_scatter", "_numbers")
    shares_coefficients = True
    tells_arms_apart = True
    """Whether arms may differ with the present scales; not before anything is known of them."""

    def __init__(self, scales: Scales, n_features: int) -> None:
        super().__init__(n_features)
        d = self.n_features
        self.scales = scales
        mean, std = scales.prior(d)
        self._arms = np.zeros((8, kernels.CONTEXT + d))
        self._tails = np.zeros((8, 1 + d), dtype=np.float32)
        self._coef = mean
        self._factor = np.diag(std)
        if len(mean) > _FUSED_SIZE:
            _triangular_product()  # imported now rather than at the first decision
        self._scatter = np.zeros((3, 1 + d, 1 + d))
        self._numbers = np.zeros(kernels.N_NUMBERS)
        self.stores_concentration = False
        """Whether `arrays` has the sums that `concentration` needs. They follow from the weights, except for rounding."""
        self.renewals = 0
        """How often the whole posterior has changed at once. Between two renewals, weights only grow."""
        self._numbers[kernels.NOISE_VARIANCE] = scales.noise_std**2
        self._numbers[kernels.ARM_VARIANCE] = scales.arm_std**2
        self._numbers[[kernels.AGEING, kernels.WEIGHT_OF_NEW]] = 1.0

    @classmethod
    def of(cls, scales: Scales, moments: Moments, *, removed: Iterable[Name] = ()) -> Self:
        """Return the posterior for any scales and moments: O(K d² + d³)."""
        self = cls(scales, moments.n_features)
        self.fill(moments, removed)
        return self

    def fill(self, moments: Moments, removed: Iterable[Name] = ()) -> None:
        """Replace all evidence with `moments`: O(K d² + d³)."""
        self.commit(**self.filled(moments, removed))

    def filled(self, moments: Moments, removed: Iterable[Name] = ()) -> dict[str, Any]:
        """Return the changes that replace all evidence with `moments`, for `commit`."""
        solved, own = self._solve(self.scales, moments)
        if solved.error > _INACCURATE:
            warnings.warn(
                "features are nearly collinear, and coef_std is large compared to noise_std: the posterior may have a "
                f"relative error of about {solved.error:.0e}. Standardize the features, or use a smaller coef_std",
                ApproximationWarning,
                stacklevel=4,
            )
        index, d, k = ArmIndex(moments.arms, removed), self.n_features, len(moments.arms)
        arms = np.zeros((max(k + 1, len(self._arms)), kernels.CONTEXT + d))
        rows = slice(1, 1 + k)
        arms[rows, kernels.WEIGHT] = moments.weight
        arms[rows, kernels.REWARD] = moments.mean_reward
        arms[rows, kernels.CONTEXT :] = moments.mean_context
        scatter = np.zeros_like(self._scatter)
        scatter[0, 0, 0] = moments.reward_scatter
        scatter[0, 1:, 0] = moments.cross
        scatter[0, 1:, 1:] = np.tril(moments.scatter)
        numbers = self._numbers.copy()
        numbers[kernels.COUNT] = moments.count
        numbers[kernels.SUM_LOG_WEIGHT] = moments.sum_log_weight
        numbers[kernels.LATEST] = 0.0
        numbers[kernels.LOG_DETERMINANTS] = solved.log_determinants
        numbers[kernels.QUADRATIC] = solved.quadratic
        numbers[kernels.SEEN] = moments.count
        numbers[kernels.WEIGHT_OF_NEW] = 1.0
        add_up_weights(arms, numbers)
        return {
            "_index": index,
            "_arms": arms,
            "_tails": np.zeros((len(arms), 1 + d), dtype=np.float32),
            "_scatter": scatter,
            "_numbers": numbers,
            "_coef": solved.coef,
            "_factor": solved.factor,
            "renewals": self.renewals + 1,
            **own,
        }

    def _solve(
        self, scales: Scales, moments: Moments
    ) -> tuple[CoefficientPosterior, dict[str, Any]]:
        """Return the posterior of the coefficients, and changes for `commit` that a subclass needs beside it."""
        return solve_coefficients(scales, moments), {}

    def extend(self, n_features: int) -> None:
        """Append features, initialized from the prior.

        In all earlier observations they were 0, so the rest of the state does not change by a single bit.
        """
        d, more = self.n_features, n_features - self.n_features
        scales = self._extended_scales(n_features)
        mean, std = scales.prior(n_features)
        new, old = np.arange(d, d + more), np.delete(np.arange(len(mean)), np.s_[d : d + more])
        coef, factor = mean, np.zeros((len(mean), len(mean)))
        coef[old] = self._coef  # an intercept stays last
        factor[np.ix_(old, old)] = self._factor
        factor[new, new] = std[new]
        self.commit(
            scales=scales,
            _coef=coef,
            _factor=factor,
            _arms=np.pad(self._arms, ((0, 0), (0, more))),
            _tails=np.pad(self._tails, ((0, 0), (0, more))),
            _scatter=np.pad(self._scatter, ((0, 0), (0, more), (0, more))),
            n_features=n_features,
            _shape=(n_features,),
            renewals=self.renewals + 1,
        )

    def _extended_scales(self, n_features: int) -> Scales:
        """Return the scales with more features."""
        for scales in (self.scales, getattr(self, "guess", self.scales)):
            if isinstance(scales.coef_std, tuple) or isinstance(scales.coef_mean, tuple):
                raise ParameterError(
                    "features cannot be appended: coef_std or coef_mean has one number per feature, so there is no "
                    "prior for new ones"
                )
        return self.scales

    def decay(self, factor: float) -> None:
        """Multiply all evidence by a factor of at most 1; the prior stays. O(K d² + d³)."""
        factor = check_factor(factor)
        if factor < 1.0:
            self.commit(**self.renewed(self.scales, factor))

    def renewed(self, scales: Scales, age: float) -> dict[str, Any]:
        """Return the changes to these scales and to all evidence multiplied by `age`, for `commit`."""
        k = len(self._index)
        solved, own = self._solve_stored(scales, age)
        numbers = self._numbers.copy()
        numbers[kernels.NOISE_VARIANCE] = scales.noise_std**2
        numbers[kernels.ARM_VARIANCE] = scales.arm_std**2
        numbers[kernels.LOG_DETERMINANTS] = solved.log_determinants
        numbers[kernels.QUADRATIC] = solved.quadratic
        numbers[kernels.WEIGHT_OF_NEW] = 1.0
        changes: dict[str, Any] = {
            "scales": scales,
            "renewals": self.renewals + 1,
            "_coef": solved.coef,
            "_factor": solved.factor,
            "_numbers": numbers,
            **own,
        }
        if age != 1.0:
            changes["_arms"] = arms = self._arms.copy()
            arms[1 : 1 + k, kernels.WEIGHT] *= age
            changes["_scatter"] = self._scatter * age
            numbers[kernels.COUNT] *= age
            numbers[kernels.TOTAL_WEIGHT] *= age
            numbers[kernels.SQUARED_WEIGHTS] *= age * age
            numbers[kernels.SUM_LOG_WEIGHT] *= age
        return changes

    def _solve_stored(
        self, scales: Scales, age: float
    ) -> tuple[CoefficientPosterior, dict[str, Any]]:
        """Return what `_solve` does, for the stored evidence multiplied by `age`."""
        k, size = len(self._index), len(self._coef)
        if size <= _SMALL_SIZE and k * size * size <= _SMALL:
            prior_mean, prior_std = scales.prior(self.n_features)
            coef, factor = np.empty(size), np.empty((size, size))
            determinants, quadratic = kernels.solve_coefficients(
                age, scales.noise_std**2, scales.arm_std**2, prior_mean, prior_std,
                self._arms, self._scatter, self._numbers, k, coef, factor,
            )  # fmt: skip
            new = CoefficientPosterior(coef, factor, determinants, quadratic)
            # One sum is finite only if all numbers are; a test of each would take a third of the time of solving.
            with np.errstate(invalid="ignore", over="ignore"):
                total = determinants + quadratic + float(coef.sum()) + float(factor.sum())
            if math.isfinite(total):
                return new, {}
        return self._solve(scales, self._stored().decayed(age))

    def __repr__(self) -> str:
        """Return the number of rewards, arms and features in one line."""
        seen = f"{self.count:g} rewards of {len(self._index)} arms"
        return f"<{type(self).__name__}: {self.n_features} features, {seen}>"

    # -- learning ----------------------------------------------------------------------------

    def observe(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one reward of noise variance σ²/weight, in O(d²) for any number of arms."""
        x: Any = context
        # Is it ready for the kernels? Written out here, because a function call would take 0.1 µs.
        if not (type(x) is np.ndarray and x.dtype is FLOAT64 and x.flags.carray):
            x = as_floats("context", x)
        if x.shape != self._shape:
            raise ShapeError(f"context has shape {x.shape}, expected {self._shape}")
        r = reward if type(reward) is float else number_of("reward", reward)
        h = weight if type(weight) is float else number_of("weight", weight)
        if not h > 0.0:
            raise InputError(f"weight={weight!r}, expected a positive number")
        name = arm if type(arm) is str or type(arm) is int else canonical(arm)
        row = self._index.row_of.get(name, 0)
        if not row:
            self._observe_new(name, x, r, h)
        elif not self._fold(
            x, r, h, row,
            self._arms, self._tails, self._coef, self._factor, self._scatter, self._numbers,
        ):  # fmt: skip
            raise _not_finite(x, r, h)

    def _observe_new(self, name: Name, x: Floats, r: float, h: float) -> None:
        """Learn from the first reward of an arm."""
        known, seen = len(self._index), self._numbers[kernels.SEEN]
        self._reserve(known + 1)
        try:
            row = self._index.add(name)
            if not self._fold(
                x, r, h, row,
                self._arms, self._tails, self._coef, self._factor, self._scatter, self._numbers,
            ):  # fmt: skip
                raise _not_finite(x, r, h)
        except BaseException:  # also Ctrl-C, before or after the kernel
            if self._numbers[kernels.SEEN] == seen:
                self._index.drop(known)
            raise

    def observe_many(
        self,
        arms: Iterable[Name],
        contexts: ArrayLike,
        rewards: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        """Learn from n rewards as from one after the other. If one is invalid, none is learned."""
        batch = as_batch(arms, contexts, rewards, weights, self.n_features)
        new: dict[Name, int] = {}
        rows = np.empty(len(batch.arms), dtype=np.int64)
        for i, arm in enumerate(batch.arms):
            name = canonical(arm)
            rows[i] = self._index.row_of.get(name, 0) or new.setdefault(
                name, len(self._index) + len(new) + 1
            )
        self._reserve(len(self._index) + len(new))
        touched = np.unique(rows)
        before = {name: getattr(self, name).copy() for name in self._whole}
        rows_before = {name: getattr(self, name)[touched] for name in self._by_arm}
        known = len(self._index)
        try:
            done = self._fold_many(
                batch.contexts, batch.rewards, batch.weights, rows,
                self._arms, self._tails, self._coef, self._factor, self._scatter, self._numbers,
            )  # fmt: skip
            if done < len(rows):
                raise _not_finite(batch.contexts, batch.rewards, batch.weights)
            for name in new:
                self._index.add(name)
        except BaseException:  # also Ctrl-C, which Python raises after the kernel returns
            self._index.drop(known)
            vars(self).update(before)
            for array, earlier in rows_before.items():
                getattr(self, array)[touched] = earlier
            raise

    def _reserve(self, last_row: int) -> int:
        """Allocate rows up to `last_row`, at least doubling their number, so that growth is amortized."""
        if last_row >= len(self._arms):
            more = max(last_row + 1 - len(self._arms), len(self._arms))
            grown = {}
            for name in self._by_arm:
                array = getattr(self, name)
                grown[name] = np.pad(array, [(0, more)] + [(0, 0)] * (array.ndim - 1))
            self.commit(**grown)
        # An interrupted update may have left something here.
        for name in self._by_arm:
            getattr(self, name)[1 + len(self._index) : 1 + last_row] = 0.0
        return last_row

    # -- reading -----------------------------------------------------------------------------

    @property
    def count(self) -> float:
        """Number of rewards, after decay."""
        return float(self._numbers[kernels.COUNT])

    @property
    def concentration(self) -> float:
        """How much the rewards concentrate on few arms: Σ s_i², with the arms' shares s_i of all weights.

        It is 1 if all rewards are those of one arm, 1/K for K arms with equal shares, and 0 without rewards.
        """
        total = self._numbers.item(kernels.TOTAL_WEIGHT)
        # Of very large weights, the squares overflow.
        return (
            min(self._numbers.item(kernels.SQUARED_WEIGHTS) / total / total, 1.0) if total else 0.0
        )

    @property
    def log_evidence(self) -> float:
        """Log density of all rewards seen, given the contexts and the scales."""
        numbers = self._numbers
        terms = numbers[kernels.COUNT] * math.log(2.0 * math.pi) + numbers[kernels.QUADRATIC]
        return float(-0.5 * (terms + numbers[kernels.LOG_DETERMINANTS]))

    @property
    def coefficients(self) -> Coefficients:
        """Posterior of the coefficients, with their covariance M⁻¹."""
        return Coefficients(self._coef.copy(), self._factor.T @ self._factor)

    @property
    def moments(self) -> Moments:
        """All evidence so far, without the prior (a copy)."""
        return self._stored()

    def _stored(self) -> Moments:
        """Return the evidence as it is stored."""
        rows = slice(1, 1 + len(self._index))
        d = self.n_features
        scatter, cross = np.empty((d, d)), np.empty(d)
        square = add_up(self._scatter, scatter, cross)
        return Moments(
            self.count,
            float(self._numbers[kernels.SUM_LOG_WEIGHT]),
            scatter,
            cross,
            square,
            tuple(self._index.names),
            self._arms[rows, kernels.WEIGHT].copy(),
            self._arms[rows, kernels.CONTEXT :].copy(),
            self._arms[rows, kernels.REWARD].copy(),
        )

    def shrinkage(self, arms: Iterable[Name] | None = None) -> Floats:
        """Return the shrinkage w of each arm: 0 for an unseen arm, close to 1 after many rewards."""
        return self._shrinkage(self.named_rows(arms))[0]

    def _shrinkage(self, named: ArmRows) -> tuple[Floats, Floats]:
        """Return w and 1 - w."""
        evidence: Floats = self._arms[named.rows, kernels.WEIGHT] * self.scales.arm_std**2
        noise = self.scales.noise_std**2
        return evidence / (evidence + noise), noise / (evidence + noise)

    def arm_effects(self, arms: Iterable[Name] | None = None) -> ArmEffects:
        """Return the posterior of the arm effects, by default of all seen arms."""
        named = self.named_rows(arms)
        state = self._arms[named.rows]
        w, unshrunk = self._shrinkage(named)
        mean_context = state[:, kernels.CONTEXT :]
        if self.scales.has_intercept:
            mean_context = np.column_stack([mean_context, np.ones(len(w))])
        return ArmEffects(
            tuple(named.names),
            w * (state[:, kernels.REWARD] - mean_context @ self._coef),
            self.scales.arm_std**2 * unshrunk,
            (w[:, None] * mean_context) @ self._factor.T,
        )

    def own_coefficients(self, arms: Iterable[Name] | None = None) -> OwnCoefficients:
        """Return the joint posterior of what the arms have of their own: only their effects, without slopes."""
        effects = self.arm_effects(arms)
        return OwnCoefficients(
            effects.arms,
            (),
            effects.mean[:, None],
            effects.own_variance[:, None, None],
            effects.loadings[:, None],
        )

    def slopes(self, arms: Iterable[Name] | None = None) -> ArmCoefficients:
        """Return the posterior of the arms' own slopes, by default of all seen arms.

        A slope is how much the coefficient of an arm differs from the shared one. Without slopes, the result has no
        features.
        """
        own = self.own_coefficients(arms)
        variance = np.diagonal(own.covariance, axis1=1, axis2=2)
        std = np.sqrt(variance + (own.loadings**2).sum(axis=2))
        return ArmCoefficients(own.arms, own.features, own.mean[:, 1:], std[:, 1:])

    def arm_coefficients(self, arms: Iterable[Name] | None = None) -> ArmCoefficients:
        """Return the posterior of each arm's coefficients, by default of all seen arms.

        They are the shared coefficients plus the arm's own slopes. An intercept is the last, and includes the arm
        effect. Without an intercept, the arm effect is in `arm_effects` only.
        """
        own = self.own_coefficients(arms)
        size, q = len(self._coef), own.mean.shape[1]
        selected = np.zeros((size, q))  # which coefficient each own one is added to
        selected[list(own.features), np.arange(1, q)] = 1.0
        if size > self.n_features:
            selected[self.n_features, 0] = 1.0
        loadings = self._factor.T - selected @ own.loadings
        variance = np.diagonal(selected @ own.covariance @ selected.T, axis1=1, axis2=2)
        return ArmCoefficients(
            own.arms,
            tuple(range(size)),
            self._coef + own.mean @ selected.T,
            np.sqrt(variance + (loadings**2).sum(axis=2)),
        )

    def predict(self, contexts: ArrayLike, arms: Iterable[Name] | None = None) -> Prediction:
        """Return mean and standard deviation of each arm's mean reward in its context.

        Eq. (implement-mu) and (implement-tau) of the paper. An unseen arm has mean x'θ̂ and variance
        arm_std² + x'M⁻¹x.

        Parameters
        ----------
        contexts
            (K, d) array, one row per arm.
        arms
            Their K names; by default 0 … K - 1.
        """
        x, _, rows = self.candidates(contexts, arms)
        _, out = self.score(x, rows, np.zeros(len(x)))
        return Prediction(out[0], out[1])

    def draw(
        self,
        contexts: ArrayLike,
        arms: Iterable[Name] | None = None,
        *,
        generator: np.random.Generator,
        size: int = 1,
        sampling: Sampling = "marginal",
    ) -> Floats:
        """Return (size, K) draws of the arms' mean rewards from the posterior.

        With both kinds of sampling, every arm has the distribution N(mean, std²). Marginal sampling draws the
        arms independently, as in Algorithm 1 of the paper. Joint sampling draws one set of coefficients for all
        arms, which is the true posterior.
        """
        check_sampling(sampling)
        size = count_of("size", size)
        x, names, rows = self.candidates(contexts, arms)
        if sampling == "marginal":
            mean, std = self.predict(x, names)
            return mean + std * generator.standard_normal((size, len(x)))
        return np.array(
            [
                self.score_joint(x, rows, generator.standard_normal(self.size + len(x))).values
                for _ in range(size)
            ]
        ).reshape(size, len(x))

    def draw_model(
        self, arms: Iterable[Name], generator: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Draw the (D,) shared coefficients, and the (K, q) own coefficients of arms, jointly from the posterior.

        θ = θ̂ + T'z, and v | θ ~ N(w (r̄ - x̄'θ), s₀²(1 - w)) (docs/explanation/maths.md, "Draws"). Without slopes, the arm
        effects are the only own coefficients: q = 1.
        """
        effects = self.arm_effects(arms)
        z = generator.standard_normal(self.size)
        own = np.sqrt(effects.own_variance) * generator.standard_normal(len(effects.arms))
        drawn: Floats = effects.mean - effects.loadings @ z + own
        return self._coef + self._factor.T @ z, drawn[:, None]

    # -- for policies: rows and arrays must have been checked ---------------------------------

    @property
    def size(self) -> int:
        """Number D of coefficients, the intercept included."""
        return len(self._coef)

    def score(self, contexts: Floats, rows: NDArray[np.int64], draws: Floats) -> Scores:
        """Score each arm by mean + draw * std; the rows of the table are mean, std and score."""
        n, size = len(rows), len(self._coef)
        out = empty((3, n))
        if size <= _FUSED_SIZE and n * size * size <= _FUSED:
            best = kernels.predict_fused(
                contexts, rows, draws, self._arms, self._coef, self._factor, self._numbers, out
            )
        else:
            u = np.empty((n, size))
            kernels.residuals(contexts, rows, self._arms, self._coef, self._numbers, u, out)
            # T U', written to U'. BLAS reads arrays by columns, so T is the transpose of an upper triangle there.
            # The numbers: from the left, upper, transposed, its diagonal is not 1, and U may be overwritten.
            product = _triangular_product()(1.0, self._factor.T, u.T, 0, 0, 1, 0, 1)
            best = kernels.spread(product.T, draws, out)
        if best == NOT_FINITE:
            raise first_not_finite("contexts", contexts)
        # The same as Scores(…), in half the time.
        return tuple.__new__(Scores, (best, out))

    def score_many(
        self, contexts: Floats, rows: NDArray[np.int64], draws: Floats, sizes: Sequence[int]
    ) -> list[Scores]:
        """Score the candidates of several decisions, which follow each other in the arrays, in one pass."""
        ends = np.cumsum(sizes)
        try:
            _, out = self.score(contexts, rows, draws)
        except NotFiniteError:
            for i, part in enumerate(np.split(contexts, ends[:-1])):
                if not np.isfinite(part).all():
                    error = first_not_finite("contexts", part)
                    raise NotFiniteError(f"question {i}: {error}") from None
            raise
        best = kernels.best_of_each(out[2], ends)
        return [
            Scores(b, out[:, end - n : end])
            for b, n, end in zip(best.tolist(), sizes, ends.tolist(), strict=True)
        ]

    def score_joint(
        self, contexts: Floats | SparseContexts, rows: NDArray[np.int64], draws: Floats
    ) -> Scores:
        """Score all arms by a joint draw, made from D + K standard normal numbers."""
        out = np.empty((1, len(rows)))
        state = (self._arms, self._coef, self._factor, self._numbers)
        if isinstance(contexts, SparseContexts):
            ends, columns, values = contexts.ends, contexts.columns, contexts.values
            best = kernels.score_joint_sparse(ends, columns, values, rows, draws, *state, out)
        else:
            values = contexts
            best = kernels.score_joint(contexts, rows, draws, *state, out)
        if best == NOT_FINITE:
            raise first_not_finite("contexts", values)
        return tuple.__new__(Scores, (best, out))

    def view(self) -> PosteriorView:
        """Return the arrays of the posterior as they are now, for reading only."""
        return PosteriorView(
            self._index, self._arms, self._coef, self._factor, self._numbers, self.renewals
        )

    def loadings(self, vectors: Floats) -> Floats:
        """Return T x of (n, D) vectors x: how x'θ follows the uncertainty of the coefficients.

        θ = θ̂ + T'z with standard normal z, so x'θ = x'θ̂ + (T x)'z, and its variance is |T x|².
        """
        loadings: Floats = vectors @ self._factor.T
        return loadings

    def _loadings(self, contexts: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return T u of every arm, with u = x - w x̄, and a table with the means and the own variances."""
        u, out = np.empty((len(rows), len(self._coef))), np.empty((3, len(rows)))
        kernels.residuals(contexts, rows, self._arms, self._coef, self._numbers, u, out)
        with np.errstate(invalid="ignore", over="ignore"):  # the caller reports it
            return self.loadings(u), out

    def given_coefficients(self, contexts: Floats, rows: NDArray[np.int64]) -> GivenCoefficients:
        """Return how the arms' mean rewards follow the coefficients, and their own standard deviations.

        θ = θ̂ + T'z, so the mean w r̄ + u'θ of an arm is w r̄ + u'θ̂ + (T u)'z.
        """
        loadings, out = self._loadings(contexts, rows)
        if not (np.isfinite(out[:2]).all() and np.isfinite(loadings).all()):
            raise first_not_finite("contexts", contexts)
        return GivenCoefficients(out[0], loadings, np.sqrt(out[1]))

    def own_std(self, rows: NDArray[np.int64], contexts: Floats) -> Floats:
        """Return the standard deviation of each arm's effect if the coefficients were known, in any context."""
        weight = self.weights(rows)
        noise, arm_variance = self.scales.noise_std**2, self.scales.arm_std**2
        variance: Floats = arm_variance * (noise / (noise + weight * arm_variance))
        return np.sqrt(variance)

    def weights(self, rows: NDArray[np.integer[Any]]) -> Floats:
        """Return the weight of each arm's rewards, as it is stored: with a half-life, a new reward weighs up to 1 % more."""
        weights: Floats = self._arms[rows, kernels.WEIGHT]
        return weights

    def std_for_intervals(self, rows: NDArray[np.int64], std: Floats) -> Floats:
        """Return standard deviations of mean rewards that include the uncertainty of learned scales; here none are learned."""
        return std

    def named_rows(self, arms: Iterable[Name] | None) -> ArmRows:
        """Return the names of arms with their rows in the model's arrays; by default those of all arms."""
        names = self.arms if arms is None else as_names(arms)
        if not len(names):
            return ArmRows([], np.empty(0, dtype=np.int64))
        return self._index.find(names)

    # -- state -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays (views, not copies)."""
        rows = 1 + len(self._index)
        return {
            "arms": self._arms[:rows],
            "tails": self._tails[:rows],
            "coef": self._coef,
            "factor": self._factor,
            "scatter": self._scatter,
            "numbers": self._numbers[: kernels.N_STORED],
            **self.stored_sums(self._numbers),
        }

    def stored_sums(self, numbers: Floats) -> dict[str, NDArray[Any]]:
        """Return the sums that `concentration` needs, if they are stored."""
        sums = numbers[kernels.TOTAL_WEIGHT : kernels.SQUARED_WEIGHTS + 1]
        return {"sums": sums} if self.stores_concentration else {}

    def restore(
        self, names: Iterable[Name], removed: Iterable[Name], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Restore the state of a posterior that had these names and arrays."""
        super().restore(names, removed, arrays)
        if not self.stores_concentration:
            add_up_weights(self._arms, self._numbers)


def add_up_weights(arms: Floats, numbers: Floats) -> None:
    """Write the sums of the arms' weights and of their squares, which `concentration` uses."""
    weights = arms[:, kernels.WEIGHT]
    numbers[kernels.TOTAL_WEIGHT] = weights.sum()
    numbers[kernels.SQUARED_WEIGHTS] = np.sum(weights**2)


def _not_finite(contexts: ArrayLike, rewards: ArrayLike, weights: ArrayLike) -> NotFiniteError:
    """Return the error for an observation that the kernel rejected."""
    for name, values in (("context", contexts), ("reward", rewards), ("weight", weights)):
        if not np.isfinite(values).all():
            return first_not_finite(name, np.asarray(values, dtype=np.float64))
    return NotFiniteError(
        "context, reward or weight is too large or too small to compute with, given what has been learned"
    )
