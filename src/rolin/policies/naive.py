"""RoLinTS as one dense linear model that is inverted every round: a reference for tests and timings.

With z_i = (x_i, e_i) and γ = (θ, v) the model is an ordinary Bayesian linear regression in d + K
dimensions (Section 5.2 of the paper). With slopes for s features, e_i becomes e_i ⊗ (1, x_S), and the dimension
d + K (1 + s). It shares no formula with the fast posterior.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, SupportsFloat, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import ArmIndex, Name, canonical
from rolin._support.checks import as_batch, as_floats, first_not_finite, number_of
from rolin.errors import NotFiniteError, ParameterError
from rolin.model.draws import Sampling, Scores
from rolin.model.learner import Learner
from rolin.model.moments import Moments
from rolin.model.posterior import Posterior
from rolin.model.scales import Numbers, Scales
from rolin.model.slopes import SlopePosterior
from rolin.model.sparse import SparseContexts
from rolin.model.summaries import (
    ArmCoefficients,
    ArmEffects,
    Coefficients,
    GivenCoefficients,
    OwnCoefficients,
)
from rolin.policies.options import SlopeOptions, with_shared_options
from rolin.policies.rolin_ts import RoLinTS
from rolin.policies.stored import check_dense

__all__ = ["DensePosterior", "NaiveRoLinTS"]

Floats = NDArray[np.float64]
# Stands for the index of the best arm, which is not computed: the caller ranks the scores.
_UNRANKED = -1


@with_shared_options
class NaiveRoLinTS(RoLinTS):
    """`RoLinTS` with dense matrices, in O((d + K)³) per decision, or O((d + K d)³) with slopes; for checks and timings, not for production.

    With marginal sampling it makes the same decisions as `RoLinTS` with the same numbers. It neither learns scales nor
    forgets: `"learn"` as a scale, `exploration="auto"` and a number as `half_life` raise `ParameterError`.

    Parameters
    ----------
    learn_by
        Not supported: values other than `"map"` raise `ParameterError`.
    half_life
        Not supported: a number raises `ParameterError`.
    **options
        The options of [`RoLinTS`][rolin.RoLinTS].
    """

    _check_stored = staticmethod(check_dense)
    _unset_scales = "estimate"
    rule = "own"  # its posterior is dense, so the formulas of the other rules do not apply
    _is_ever_automatic = (
        False  # the numbers of a joint draw do not belong to arms, so none can be added for each
    )

    def __init__(
        self,
        *,
        n_features: int,
        coef_std: Numbers = 1.0,
        intercept_std: float | None = None,
        arm_std: float = 0.5,
        noise_std: float = 1.0,
        sampling: Sampling = "marginal",
        exploration: float = 1.0,
        **options: Unpack[SlopeOptions],
    ) -> None:
        super().__init__(
            n_features=n_features,
            coef_std=coef_std,
            intercept_std=intercept_std,
            arm_std=arm_std,
            noise_std=noise_std,
            sampling=sampling,
            exploration=exploration,
            **options,
        )

    def _new_model(
        self, scales: Scales, n_features: int, options: dict[str, Any], *, has_slopes: bool
    ) -> Posterior:
        if options:
            raise ParameterError(
                "NaiveRoLinTS neither learns scales nor forgets, expected numbers as scales, and no half_life"
            )
        return DensePosterior(scales, n_features)


class _Solution(NamedTuple):
    """The posterior of γ = (θ, u), with the q own coefficients u of every arm: its effect, and its slopes."""

    mean: Floats  # (D + K q,)
    covariance: Floats  # (D + K q, D + K q): Σ
    log_evidence: float


class _ArmMeans(NamedTuple):
    """The joint distribution of the mean rewards of some arms: covariance (Z Σ) Z' + diag(unseen)."""

    mean: Floats  # (n,): z'γ
    z: Floats  # (n, D + K q)
    product: Floats  # (n, D + K q): Z Σ
    unseen: Floats  # (n,): prior variance of the own part of arms that were never observed


# What `_sums` holds: the number N of rewards, Σ log h, and r'Hr.
_COUNT, _LOG_WEIGHTS, _SQUARES = range(3)


class DensePosterior(Posterior):
    """The posterior from the raw sums Z'HZ, Z'Hr and r'Hr of the (D + K q)-dimensional model."""

    def __init__(self, scales: Scales, n_features: int) -> None:
        super().__init__(scales, n_features)
        size = self.size
        self._slopes = scales.slope_indices(n_features if scales.has_slopes else 0)
        self._q = 1 + len(self._slopes)
        self.shares_coefficients = not scales.has_slopes
        self._gram = np.zeros((size, size))  # (D + K q, D + K q): Z'HZ
        self._pulled = np.zeros(size)  # (D + K q,): Z'Hr
        self._sums = np.zeros(3)

    def _weights(self) -> Floats:
        """Return the (K,) weights of the arms: what multiplies the squares of their effects."""
        weights: Floats = np.diag(self._gram)[self.size :: self._q].copy()
        return weights

    def weights(self, rows: NDArray[np.integer[Any]]) -> Floats:
        """Return the weight of each arm's rewards; row 0 stands for arms without any."""
        weights: Floats = np.append(0.0, self._weights())[rows]
        return weights

    @property
    def concentration(self) -> float:
        """How much the rewards concentrate on few arms: Σ s_i², with the arms' shares s_i of all weights."""
        weights = self._weights()
        total = float(weights.sum())
        return float(np.sum((weights / total) ** 2)) if total else 0.0

    def fill(self, moments: Moments, removed: Iterable[Name] = ()) -> None:
        """Build the raw sums from centered ones."""
        moments = moments.with_slopes(self._slopes.tolist())
        d, size, q, k = self.n_features, self.size, self._q, len(moments.arms)
        self.arm_index = ArmIndex(moments.arms, removed)
        h, x, r = moments.weight, moments.mean_context, moments.mean_reward
        z = self._rows(x, np.arange(1, 1 + k), k)  # one row per arm
        self._gram = (h[:, None] * z).T @ z
        self._gram[:d, :d] += moments.scatter
        self._pulled = (h * r) @ z
        self._pulled[:d] += moments.cross
        for i, part in enumerate(() if moments.arm_scatter is None else moments.arm_scatter):
            own = slice(size + i * q + 1, size + (i + 1) * q)  # the arm's slopes
            self._gram[own, own] += part[:, 1 + self._slopes]
            self._gram[own, :d] += part[:, 1:]
            self._gram[:d, own] += part[:, 1:].T
            self._pulled[own] += part[:, 0]
        self._sums = np.array(
            [moments.count, moments.sum_log_weight, moments.reward_scatter + h @ r**2]
        )

    extend = Learner.extend  # unsupported: this model is for comparisons only

    def renewed(self, scales: Scales, age: float) -> dict[str, Any]:
        """Return the changes to these scales and to all evidence multiplied by `age`."""
        sums = {name: age * getattr(self, name) for name in ("_gram", "_pulled", "_sums")}
        return {"scales": scales, **sums}

    # -- learning ----------------------------------------------------------------------------

    def observe(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one reward."""
        x = as_floats("context", context)
        r, h = number_of("reward", reward), number_of("weight", weight)
        self.observe_many([arm], x[None], [r], [h])

    def observe_many(
        self,
        arms: Iterable[Name],
        contexts: ArrayLike,
        rewards: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        """Learn from n rewards; if one is invalid, from none."""
        batch = as_batch(arms, contexts, rewards, weights, self.n_features)
        names = [canonical(arm) for arm in batch.arms]
        new = list(dict.fromkeys(name for name in names if not self.arm_index.row_of.get(name, 0)))
        row_of = {name: len(self.arm_index) + 1 + i for i, name in enumerate(new)}
        rows = np.array(
            [self.arm_index.row_of.get(n, 0) or row_of[n] for n in names], dtype=np.int64
        )
        n_rows, r, h = len(self.arm_index) + len(new), batch.rewards, batch.weights
        z = self._rows(batch.contexts, rows, n_rows)
        with np.errstate(over="ignore", invalid="ignore"):
            gram = (h[:, None] * z).T @ z
            pulled = (h * r) @ z
            sums = self._sums + np.array([len(r), np.log(h).sum(), h @ r**2])
            old = len(self._gram)
            gram[:old, :old] += self._gram
            pulled[:old] += self._pulled
        if not (np.isfinite(gram).all() and np.isfinite(pulled).all() and np.isfinite(sums).all()):
            raise NotFiniteError("context, reward or weight is too large to compute with")

        def learn() -> None:
            for name in new:
                self.arm_index.add(name)
            self.commit(_gram=gram, _pulled=pulled, _sums=sums)

        self.change(learn)

    def _rows(self, contexts: Floats, rows: NDArray[np.int64], n_rows: int) -> Floats:
        """Return z = (x, 1 if there is an intercept, e_i ⊗ (1, x_S)); an unseen arm has no e_i."""
        n = len(rows)
        ones = np.ones((n, self.size - self.n_features))
        entries = np.column_stack([np.ones(n), contexts[:, self._slopes]])  # (n, q)
        own = np.eye(n_rows + 1)[rows, 1:, None] * entries[:, None]  # (n, K, q)
        return np.column_stack([contexts, ones, own.reshape(n, n_rows * self._q)])

    # -- reading -----------------------------------------------------------------------------

    def _own_stds(self) -> Floats:
        """Return the (q,) standard deviations of an arm's effect and slopes."""
        return self.scales.own_stds(self.n_features)[: self._q]

    def _solution(self) -> _Solution:
        """Solve the regression."""
        noise, size, k = self.scales.noise_std**2, self.size, len(self.arm_index)
        mean, std = self.scales.prior(self.n_features)
        std = np.concatenate([std, np.tile(self._own_stds(), k)])
        # Coefficients with a standard deviation of zero are zero: there is nothing to infer.
        free = np.flatnonzero(std > 0.0)
        prior_mean, prior_precision = (
            np.append(mean, np.zeros(len(std) - size))[free],
            std[free] ** -2,
        )
        precision = np.diag(prior_precision) + self._gram[np.ix_(free, free)] / noise
        right = prior_precision * prior_mean + self._pulled[free] / noise
        try:
            covariance = np.asarray(np.linalg.inv(precision), float)
        except np.linalg.LinAlgError:
            raise NotFiniteError(
                "the dense model cannot be solved: scales and data differ by too many orders of magnitude"
            ) from None
        gamma = covariance @ right
        count, sum_log_weight, square = self._sums
        log_evidence = -0.5 * (
            count * np.log(2.0 * np.pi * noise)
            - sum_log_weight
            + np.linalg.slogdet(precision)[1]
            - np.log(prior_precision).sum()
            + square / noise
            + prior_mean @ (prior_precision * prior_mean)
            - right @ gamma
        )
        every, square_of_all = np.zeros(len(std)), np.zeros((len(std), len(std)))
        every[free], square_of_all[np.ix_(free, free)] = gamma, covariance
        return _Solution(every, square_of_all, float(log_evidence))

    def _joint(self, contexts: Floats, rows: NDArray[np.int64]) -> _ArmMeans:
        """Return the joint distribution of the arms' mean rewards."""
        if not np.isfinite(contexts).all():
            raise first_not_finite("contexts", contexts)
        gamma, covariance, _ = self._solution()
        z = self._rows(contexts, rows, len(self.arm_index))
        own = np.column_stack([np.ones(len(rows)), contexts[:, self._slopes]]) * self._own_stds()
        unseen = np.where(rows == 0, (own**2).sum(axis=1), 0.0)
        return _ArmMeans(z @ gamma, z, z @ covariance, unseen)

    def score(self, contexts: Floats, rows: NDArray[np.int64], draws: Floats) -> Scores:
        """Score each arm by mean + draw * std; the table's rows are mean, std and score."""
        mean, z, product, unseen = self._joint(contexts, rows)
        std = np.sqrt(np.maximum((product * z).sum(axis=1) + unseen, 0.0))
        return Scores(_UNRANKED, np.stack([mean, std, mean + draws * std]))

    def score_joint(
        self, contexts: Floats | SparseContexts, rows: NDArray[np.int64], draws: Floats
    ) -> Scores:
        """Score each arm by a draw from the joint (K, K) covariance of the candidates."""
        if isinstance(contexts, SparseContexts):
            contexts = contexts[range(len(contexts))]
        mean, z, product, unseen = self._joint(contexts, rows)
        values, axes = np.linalg.eigh(product @ z.T + np.diag(unseen))
        half = axes * np.sqrt(np.maximum(values, 0.0))
        return Scores(_UNRANKED, (mean + half @ draws[self.size :])[None])

    @property
    def count(self) -> float:
        """Number of observations."""
        return float(self._sums[_COUNT])

    @property
    def log_evidence(self) -> float:
        """Log density of all rewards seen, given the contexts and the scales."""
        return self._solution().log_evidence

    @property
    def coefficients(self) -> Coefficients:
        """Posterior of the coefficients."""
        gamma, covariance, _ = self._solution()
        return Coefficients(gamma[: self.size], covariance[: self.size, : self.size])

    @property
    def moments(self) -> Moments:
        """All evidence so far, centered from the raw sums, which loses some accuracy."""
        d, size, q, k = self.n_features, self.size, self._q, len(self.arm_index)
        h = self._weights()
        # The rows of each arm: its effect, then its slopes.
        own = self._gram[size:].reshape(k, q, size + k * q)
        pulled = self._pulled[size:].reshape(k, q)
        x, r = own[:, 0, :d] / h[:, None], pulled[:, 0] / h
        arm_scatter = None
        if q > 1:
            raw = np.concatenate([pulled[:, 1:, None], own[:, 1:, :d]], axis=2)
            means = np.column_stack([r, x])
            arm_scatter = raw - (h[:, None] * x[:, self._slopes])[:, :, None] * means[:, None]
        return Moments(
            self.count,
            float(self._sums[_LOG_WEIGHTS]),
            self._gram[:d, :d] - (h[:, None] * x).T @ x,
            self._pulled[:d] - (h * r) @ x,
            float(self._sums[_SQUARES] - h @ r**2),
            tuple(self.arm_index.names),
            h,
            x,
            r,
            tuple(self._slopes.tolist()),
            arm_scatter,
        )

    def shrinkage(self, arms: Iterable[Name] | None = None) -> Floats:
        """Return the shrinkage w of each arm."""
        rows, q, noise = self.named_rows(arms).rows, self._q, self.scales.noise_std**2
        stds, k = self._own_stds(), len(self.arm_index)
        own = self._gram[self.size :, self.size :].reshape(k, q, k, q)
        left = np.ones(1 + k)  # of the prior variance of the effect, given θ
        for i in range(k):
            relative = np.eye(q) + np.outer(stds, stds) * own[i, :, i] / noise
            left[1 + i] = np.linalg.inv(relative)[0, 0]
        shrinkage: Floats = 1.0 - left[rows]
        return shrinkage

    def arm_effects(self, arms: Iterable[Name] | None = None) -> ArmEffects:
        """Return the posterior of the arms' effects, by default of all observed arms."""
        named = self.named_rows(arms)
        gamma, covariance, _ = self._solution()
        effects = slice(self.size, None, self._q)
        pick = np.eye(len(self.arm_index) + 1)[named.rows, 1:]  # zero for an unseen arm
        values, axes = np.linalg.eigh(pick @ covariance[effects, effects] @ pick.T)
        return ArmEffects(
            tuple(named.names),
            pick @ gamma[effects],
            np.where(named.rows == 0, self.scales.arm_std**2, 0.0),
            axes * np.sqrt(np.maximum(values, 0.0)),
        )

    # -- what depends on the coefficients and the arms separately: from the fast posterior -----

    def _fast(self) -> Posterior:
        """Return the fast posterior of the same evidence."""
        kind = SlopePosterior if self.scales.has_slopes else Posterior
        return kind.of(self.scales, self.moments)

    def own_coefficients(self, arms: Iterable[Name] | None = None) -> OwnCoefficients:
        """Return the joint posterior of what the arms have of their own."""
        return self._fast().own_coefficients(self.arms if arms is None else arms)

    def slopes(self, arms: Iterable[Name] | None = None) -> ArmCoefficients:
        """Return the posterior of the arms' own slopes."""
        return self._fast().slopes(self.arms if arms is None else arms)

    def arm_coefficients(self, arms: Iterable[Name] | None = None) -> ArmCoefficients:
        """Return the posterior of each arm's coefficients."""
        return self._fast().arm_coefficients(self.arms if arms is None else arms)

    def draw_model(
        self, arms: Iterable[Name], generator: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Draw all coefficients jointly from the posterior."""
        return self._fast().draw_model(arms, generator)

    def loadings(self, vectors: Floats) -> Floats:
        """Return how x'θ follows the uncertainty of the coefficients."""
        return self._fast().loadings(vectors)

    def given_coefficients(self, contexts: Floats, rows: NDArray[np.int64]) -> GivenCoefficients:
        """Return how the arms' mean rewards follow the coefficients, and their own standard deviations."""
        return self._fast().given_coefficients(contexts, rows)

    # -- state -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the raw sums."""
        return {"gram": self._gram, "pulled": self._pulled, "sums": self._sums}

    def _reserve(self, last_row: int) -> int:
        n = self.size + last_row * self._q
        self._gram, self._pulled = np.zeros((n, n)), np.zeros(n)
        return last_row
