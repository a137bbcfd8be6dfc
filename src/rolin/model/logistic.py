"""Binary rewards: coefficients and arm effects on the logit scale, learned online in O(d²).

Each outcome becomes one weighted Gaussian observation of the logit, called a *site*. It changes mean and variance of the
arm's normal distribution as the outcome does (docs/explanation/maths.md, "Binary rewards"). The Gaussian model, with a noise
of 1, then does the rest. A site depends on the state at its time. So the same outcomes in the same order give the
same state, and in another order nearly the same state.

Early sites are wrong if clicks turn out to be rare. So the clicks and views of every arm are counted too, and from time
to time all sites are computed again from these counts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, SupportsFloat, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin._support.checks import as_batch, as_floats, number_of
from rolin.errors import InputError, NotFiniteError, ParameterError
from rolin.model.adaptive import Adaptive
from rolin.model.estimation_task import EstimationTask
from rolin.model.kernels import layout, refresh
from rolin.model.kernels import logistic as kernels
from rolin.model.moments import Moments
from rolin.model.posterior import Posterior, add_up_weights
from rolin.model.scales import Scales
from rolin.model.summaries import LogitPrediction

__all__ = [
    "AdaptiveLogistic",
    "LogisticPosterior",
    "Site",
    "limited",
    "outcome_of",
    "probability_of",
]

Floats = NDArray[np.float64]
# One scale, or one per feature.
AnyScale = TypeVar("AnyScale", float, float | tuple[float, ...])
# Sites are computed again each time the clicks, or the views without a click, have grown by this share.
_SHARE = 0.25
# Passes over the arms: until no mean moves by more than _SETTLED standard deviations, and at most _PASSES.
_PASSES, _SETTLED = 8, 0.01
_STEP = 1.2  # the largest factor by which an estimate changes a scale


class Site(NamedTuple):
    """The weighted Gaussian observation of a logit that stands for an outcome."""

    reward: float
    weight: float


class LogisticPosterior(Posterior):
    """The running posterior of the robust linear model on the logit scale.

    Parameters
    ----------
    scales
        The scales of the model on the logit scale; noise_std must be 1.
    n_features
        Number d of features of a context, the intercept not counted.

    Examples
    --------
    >>> posterior = LogisticPosterior(Scales(arm_std=1.0), n_features=0)
    >>> for outcome in (1, 1, 0, 1):
    ...     posterior.observe("a", [], outcome)
    >>> posterior.predict(np.empty((1, 0)), ["a"]).mean.round(2).tolist()
    [0.62]
    """

    _by_arm = (*Posterior._by_arm, "_outcomes")
    _whole = (*Posterior._whole, "_schedule", "_reference")

    def __init__(self, scales: Scales, n_features: int) -> None:
        if scales.noise_std != 1.0:
            raise ParameterError(
                f"noise_std={scales.noise_std!r}, expected 1: there is no noise on the logit scale"
            )
        super().__init__(scales, n_features)
        self._outcomes = np.zeros((len(self._arms), layout.N_OUTCOME))
        self._schedule = np.array([0.0, 0.0, 1.0, 1.0, 0.0])
        self._reference = np.zeros((2, n_features))
        # Whether all evidence is counted in `_outcomes`, so that sites can be computed again.
        self._counted = True

    def _fold(self, *arguments: Any) -> bool:
        counts = (self._outcomes, self._schedule, self._reference)
        return kernels.observe_outcome(*arguments, *counts)  # type: ignore[call-arg]  # mypy cannot count them

    def _fold_many(self, *arguments: Any) -> int:
        counts = (self._outcomes, self._schedule, self._reference)
        return kernels.observe_outcomes(*arguments, *counts)  # type: ignore[call-arg]  # mypy cannot count them

    def observe(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one outcome, 0 or 1; a weight of h counts it h times."""
        super().observe(arm, context, outcome_of(reward), weight)
        if self._is_stale:
            self._refresh()

    def observe_many(
        self,
        arms: Iterable[Name],
        contexts: ArrayLike,
        rewards: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        """Learn from n outcomes as from one after the other. If one is invalid, none is learned."""
        given = as_floats("rewards", rewards)
        if (wrong := np.flatnonzero(((given != 0.0) & (given != 1.0)).ravel())).size:
            i = int(wrong[0])
            raise InputError(f"rewards[{i}] is {given.ravel()[i]}, expected 0 or 1")
        batch = as_batch(arms, contexts, given, weights, self.n_features)
        if self._until_stale(batch.rewards) == len(batch.rewards):
            super().observe_many(*batch)
            if self._is_stale:
                self._refresh()
            return
        before, done = copy.deepcopy(self), 0
        try:
            while done < len(batch.arms):
                part = slice(done, done + self._until_stale(batch.rewards[done:]))
                super().observe_many(*(column[part] for column in batch))
                if self._is_stale:
                    self._refresh()
                done = part.stop
        except BaseException:
            self.__setstate__(vars(before))
            raise

    # -- computing sites again ------------------------------------------------------------------

    @property
    def _is_stale(self) -> bool:
        """Whether the sites should be computed again."""
        yes, no, due_yes, due_no, _ = self._schedule.tolist()
        return bool(yes >= due_yes or no >= due_no)

    def _until_stale(self, outcomes: Floats) -> int:
        """Return how many of these outcomes to learn before the sites should be computed again, or all."""
        yes, no, due_yes, due_no, _ = self._schedule.tolist()
        n_yes = np.cumsum(outcomes)
        stale = (yes + n_yes >= due_yes) | (no + np.arange(1, len(outcomes) + 1) - n_yes >= due_no)
        return int(np.argmax(stale)) + 1 if stale.any() else len(outcomes)

    def _refresh(self) -> None:
        """Compute the sites again, with what is known now."""
        changes: dict[str, Any] = {}
        if self._counted:
            age = 1.0 / float(self._numbers[layout.WEIGHT_OF_NEW])
            with suppress(NotFiniteError):  # then the sites stay
                changes = self._refreshed(self.renewed(self.scales, age))
        self.commit(**self._scheduled(changes))

    def _scheduled(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return changes for `commit` with the numbers of outcomes at which sites are computed next."""
        schedule = changes.get("_schedule", self._schedule).copy()
        seen = schedule[: layout.DUE_YES]
        remembered = self.count / float(self._numbers[layout.WEIGHT_OF_NEW])
        share = _SHARE * min(remembered / max(float(seen.sum()), 1.0), 1.0)
        due = seen + np.maximum(1.0, np.floor(share * seen))
        schedule[layout.DUE_YES : layout.TOTAL] = due
        return {**changes, "_schedule": schedule}

    def _refreshed(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return changes for `commit`, after which the sites of all arms are computed again.

        Early sites were computed when little was known. If clicks turn out to be rare, such a site says too
        much: an observation of precision p(1 - p), with a p that is much too high. Precisions only add up, so the
        mean would come too late (docs/explanation/maths.md, "Binary rewards").

        This is expectation propagation with one site per arm, for all its outcomes at its mean context (Minka 2001). What
        the arm's contexts teach about the coefficients, the scatter, gets the factor by which the weights change, and
        keeps its slope at the current coefficients.
        """
        if not self._counted or not len(self._index):
            return changes
        new = copy.copy(self)
        new.commit(**changes)
        new.commit(_arms=new._arms.copy(), _tails=new._tails.copy(), _scatter=new._scatter.copy())
        for _ in range(_PASSES):
            coef, covariance = new._coef.copy(), new._factor.T @ new._factor
            before, after, moved = refresh.refresh_sites(
                len(new._index), new._arms, new._tails, coef, covariance, new._numbers,
                new._outcomes, new._doubt(covariance),
            )  # fmt: skip
            if before > 0.0 and after > 0.0:
                _rescale(new._scatter, new._numbers, coef[: self.n_features], after / before)
            new.commit(**Posterior.renewed(new, new.scales, 1.0))
            if moved < _SETTLED:
                break
        add_up_weights(new._arms, new._numbers)
        names = ("_arms", "_tails", "_scatter", "_numbers", "_coef", "_factor")
        return changes | {name: getattr(new, name) for name in names}

    def _doubt(self, covariance: Floats) -> float:
        """Return the mean of ((x - x̄)'(θ - θ̂ₜ))² over all outcomes t, where θ̂ₜ are the coefficients at their time."""
        d = self.n_features
        total = np.tril((self._scatter[0] + (self._scatter[1] + self._scatter[2]))[1:, 1:])
        matrix = total + np.tril(total, -1).T
        apart = self._coef[:d] - self._reference[0]
        doubt = (matrix * covariance[:d, :d]).sum() + apart @ matrix @ apart
        doubt += np.diag(matrix) @ self._reference[1]
        weight = float(self._arms[:, layout.WEIGHT].sum())
        return float(doubt / weight) if weight > 0.0 else 0.0

    def renewed(self, scales: Scales, age: float) -> dict[str, Any]:
        """Return the changes to these scales and to all evidence multiplied by `age`, for `commit`."""
        changes = super().renewed(scales, age)
        if age != 1.0:
            changes["_outcomes"] = self._outcomes * age
            changes["_schedule"] = schedule = self._schedule.copy()
            schedule[layout.TOTAL] *= age
        return changes

    def filled(self, moments: Moments, removed: Iterable[Name] = ()) -> dict[str, Any]:
        """Return the changes that replace all evidence with `moments`, for `commit`; its sites stay as they are."""
        changes = super().filled(moments, removed)
        outcomes = np.zeros((len(changes["_arms"]), layout.N_OUTCOME))
        return {**changes, "_outcomes": outcomes, "_counted": False}

    def extend(self, n_features: int) -> None:
        """Append features, initialized from the prior."""
        more = ((0, 0), (0, n_features - self.n_features))

        def apply() -> None:
            super(LogisticPosterior, self).extend(n_features)
            self.commit(_reference=np.pad(self._reference, more))

        self.change(apply)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays (views, not copies)."""
        known = super().arrays()
        if self._counted:
            known |= {
                "outcomes": self._outcomes[: 1 + len(self._index)],
                "schedule": self._schedule,
                "reference": self._reference,
            }
        return known

    def restore(
        self, names: Iterable[Name], removed: Iterable[Name], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Restore the state of a posterior that had these names and arrays.

        A state of an earlier version has not counted the outcomes. It goes on as it did, without computing sites again.
        """
        self._counted = "outcomes" in arrays
        super().restore(names, removed, arrays)

    # -- reading --------------------------------------------------------------------------------

    def site(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> Site:
        """Return the site of an outcome in the current state. Nothing is learned."""
        outcome = outcome_of(reward)
        name, x, _, h = self.checked_observation(arm, context, outcome, weight)
        row = self._index.row_of.get(name, 0)
        r, h, _ = kernels.outcome_site(
            x, outcome, h, row, self._arms, self._tails, self._coef, self._factor, self._numbers
        )
        return Site(r, h)

    def predict(self, contexts: ArrayLike, arms: Iterable[Name] | None = None) -> LogitPrediction:
        """Return mean and standard deviation of each arm's probability of a yes."""
        mean, std = super().predict(contexts, arms)
        return probability_of(mean, std)


class AdaptiveLogistic(Adaptive, LogisticPosterior):
    """A logistic posterior that learns arm_std and coef_std, or forgets."""

    def estimation_task(self, *, roughly: bool = False) -> EstimationTask:
        """Return a task that finds scales on the way to those estimated from all evidence.

        The likelihood of the sites is that of the outcomes only near the scales that the sites were computed with. Far
        away it may grow without limit: an arm without clicks has a site with a very low reward. So a step is at most
        a factor, and the sites are computed again after it. arm_std grows only if the likelihood of the outcomes does:
        its derivative by log arm_std is Σ (E[v_i²]/arm_std² - 1).
        """
        task = super().estimation_task(roughly=roughly)
        if not self._counted:
            return task
        may_grow, old = True, self.scales.arm_std
        if old >= self.guess.arm_std > 0.0:
            effects = self.arm_effects()
            growth = np.sum((effects.mean / old) ** 2 + (effects.std / old) ** 2 - 1.0)
            may_grow = bool(growth > 0.0)
        return replace(task, step=partial(_step, old=self.scales, may_grow=may_grow))

    def _adopted(self, scales: Scales) -> dict[str, Any]:
        return self._scheduled(self._refreshed(super()._adopted(scales)))


def probability_of(mean: Floats, std: Floats) -> LogitPrediction:
    """Return mean and standard deviation of the probabilities of normally distributed logits."""
    out = np.empty((2, len(mean)))
    kernels.sigmoid_moments(np.ascontiguousarray(mean), np.ascontiguousarray(std), out)
    return LogitPrediction(out[0], out[1], mean, std)


def _step(found: Scales, *, old: Scales, may_grow: bool) -> Scales:
    """Return scales on the way to those that were found."""
    arm_std = found.arm_std if may_grow or found.arm_std <= old.arm_std else old.arm_std / _STEP
    return replace(
        found,
        arm_std=limited(arm_std, old.arm_std),
        coef_std=limited(found.coef_std, old.coef_std),
    )


def limited(new: AnyScale, old: AnyScale) -> AnyScale:
    """Return new scales, limited to a factor of the old ones; equal scales do not change by a bit."""
    before = np.asarray(old)
    step = np.where(new == before, before, np.clip(new, before / _STEP, before * _STEP))
    return tuple(step.tolist()) if isinstance(new, tuple) else float(step)


def _rescale(scatter: Floats, numbers: Floats, coef: Floats, factor: float) -> None:
    """Multiply the weights of the scatter by a factor. Its slope at these coefficients does not change."""
    total = np.tril(scatter[0] + (scatter[1] + scatter[2]))
    c, matrix = total[1:, 0], total[1:, 1:] + np.tril(total[1:, 1:], -1).T
    along = matrix @ coef
    slope, rest = c - along, max(total[0, 0] - 2.0 * coef @ c + coef @ along, 0.0)
    total[1:, 1:] *= factor
    total[1:, 0] = slope + factor * along
    total[0, 0] = rest / factor + 2.0 * coef @ total[1:, 0] - factor * (coef @ along)
    scatter[0], scatter[1:] = total, 0.0
    numbers[layout.LATEST] = 0.0
    numbers[layout.SUM_LOG_WEIGHT] += numbers[layout.COUNT] * np.log(factor)


def outcome_of(reward: object) -> float:
    """Return a reward as 0.0 or 1.0, and reject all others."""
    outcome = reward if type(reward) is float else number_of("reward", reward)
    if outcome not in (0.0, 1.0):
        raise InputError(f"reward={reward!r}, expected 0 or 1")
    return outcome
