"""A posterior that learns its scales, or forgets old evidence.

Both work because the posterior for any scales, and for evidence of any age, can be computed from the moments. Neither
uses a clock or random numbers, so the same observations lead to the same state.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin._support.checks import as_batch, as_floats, number_of
from rolin.errors import NotFiniteError, ParameterError
from rolin.model import kernels
from rolin.model.estimation import Method, check_method
from rolin.model.estimation_task import EstimationTask
from rolin.model.first_guess import LearnedScale, check_size, typical_of
from rolin.model.kernels import SEEN  # found faster than kernels.SEEN, on the hot path
from rolin.model.learner import Learner
from rolin.model.moments import Moments, check_factor
from rolin.model.posterior import Posterior
from rolin.model.scale_doubt import added_variance, doubt_of
from rolin.model.scale_schedule import (
    FIRST_ESTIMATE,
    FIRST_ESTIMATE_OF_SLOPES,
    MAX_HISTORY,
    LearnsScales,
    ScaleEvent,
    least_with_slopes,
    until_next,
)
from rolin.model.scales import Scales

__all__ = ["Adaptive"]

Floats = NDArray[np.float64]

# The stored evidence may be heavier by this factor before it is scaled back, which recomputes the posterior.
_PENDING = 1.01
_LEAST_HALF_LIFE = 0.01


class Adaptive(LearnsScales, Posterior):
    """The running posterior of a model whose scales are learned, or whose evidence ages.

    Parameters
    ----------
    scales
        The scales of the model; guesses for those that are learned.
    n_features
        Number d of features of a context, the intercept not counted.
    learn
        Which scales to learn.
    unknown
        Which of these have no guess but a placeholder. Nothing is learned until the first rewards have given one.
    method
        The method of estimation; see [`estimate_scales`][rolin.model.estimate_scales].
    half_life
        Number of rewards after which evidence counts half; `None` to never forget.

    Examples
    --------
    >>> posterior = Adaptive(Scales(), n_features=0, half_life=1.0)
    >>> for reward in (8.0, 4.0, 2.0):
    ...     posterior.observe("a", [], reward)
    >>> posterior.moments.weight.tolist()  # 1 + 1/2 + 1/4
    [1.75]
    """

    def __init__(
        self,
        scales: Scales,
        n_features: int,
        *,
        learn: Set[LearnedScale] = frozenset(),
        unknown: Set[LearnedScale] = frozenset(),
        method: Method = "map",
        half_life: float | None = None,
    ) -> None:
        super().__init__(scales, n_features)
        check_method("learn_by", method)
        if half_life is not None:
            half_life = number_of("half_life", half_life, ParameterError)
            if not _LEAST_HALF_LIFE <= half_life < math.inf:
                raise ParameterError(
                    f"half_life={half_life!r}, expected a number of at least {_LEAST_HALF_LIFE}"
                )
        if "arm_std" in learn - unknown and scales.arm_std == 0.0:
            raise ParameterError("arm_std=('learn', 0), expected a positive number to start with")
        if "slope_std" in learn - unknown and not scales.has_slopes:
            raise ParameterError("slope_std=('learn', 0), expected a positive number to start with")
        self.guess = scales
        """The scales before the first estimate: guesses, or placeholders where there are none."""
        self.learn, self.unknown = frozenset(learn), frozenset(unknown)
        self.method, self.half_life = method, half_life
        self.history: list[ScaleEvent] = []
        of_arms = {
            "arm_std": scales.arm_std > 0.0, "coef_std": n_features > 0, "slope_std": scales.has_slopes
        }  # fmt: skip
        known = {name for name, is_used in of_arms.items() if is_used} - self.unknown
        # Without the noise nothing is learned; without any of the others, arms are alike, unless coef_mean says otherwise.
        self._tells_at_once = (
            not self.unknown
            or ("noise_std" not in self.unknown and bool(known))
            or (n_features > 0 and bool(np.any(scales.coef_mean)))
        )
        if half_life is not None:
            self._numbers[kernels.AGEING] = 2.0 ** (1.0 / half_life)
        # The number of rewards at which scales are estimated next.
        first = FIRST_ESTIMATE_OF_SLOPES if "slope_std" in learn else FIRST_ESTIMATE
        self._due: float = first if learn else math.inf

    # -- learning ----------------------------------------------------------------------------

    def observe(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one reward; if due, also learn the scales.

        Each of these changes is made completely or not at all. If a signal comes between them, the next reward makes
        up for what is missing.
        """
        if self.unknown and not self.history:
            check_size(as_floats("context", context), number_of("reward", reward))
        super().observe(arm, context, reward, weight)
        if self.half_life is not None:
            # The kernel makes new evidence heavier, instead of making all old evidence lighter.
            grown = self._weight_of_new
            if grown > _PENDING:
                with suppress(NotFiniteError):  # then the evidence stays heavier
                    self.commit(**self.renewed(self.scales, 1.0 / grown))
        if self._numbers.item(SEEN) >= self._due and self._learns_when_due:
            self.learn_scales(roughly=True)

    @property
    def _seen(self) -> int:
        """The number of rewards, without decay."""
        return int(self._numbers[kernels.SEEN])

    @property
    def _weight_of_new(self) -> float:
        """The weight of the latest reward, relative to the stored evidence."""
        return float(self._numbers[kernels.WEIGHT_OF_NEW])

    def observe_many(
        self,
        arms: Iterable[Name],
        contexts: ArrayLike,
        rewards: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        """Learn from n rewards as from one after the other. If one is invalid, none is learned."""
        if self.half_life is not None:
            # The posterior is recomputed every few rewards, so a batch gains little.
            Learner.observe_many(self, arms, contexts, rewards, weights)
            return
        batch = as_batch(arms, contexts, rewards, weights, self.n_features)
        if self.unknown and not self.history:
            check_size(batch.contexts, batch.rewards)
        n = len(batch.arms)
        if self._seen + n < self._due or not self._learns_when_due:
            super().observe_many(*batch)
            return
        before, done = copy.deepcopy(self), 0
        try:
            while done < n:
                part = slice(done, int(min(n, done + self._due - self._seen)))
                super().observe_many(*(column[part] for column in batch))
                if self._seen >= self._due:
                    self.learn_scales(roughly=True)
                done = part.stop
        except BaseException:
            self.__setstate__(vars(before))
            raise

    def std_for_intervals(self, rows: NDArray[np.int64], std: Floats) -> Floats:
        """Return standard deviations that include the uncertainty of arm_std, if it is learned and there are no slopes."""
        scales = self.scales
        if "arm_std" not in self.learn or not self.has_scales or scales.has_slopes:
            return std
        seen, arms = self._arms[1 : 1 + len(self._index)], self._arms[rows]
        squares = np.diagonal(self._scatter.sum(axis=0))[1:]
        fitted = arms[:, kernels.CONTEXT :] @ self._coef[: self.n_features]
        if scales.has_intercept:
            fitted += self._coef[-1]
        effect = arms[:, kernels.REWARD] - fitted
        with np.errstate(all="ignore"):
            doubt = doubt_of(seen[:, kernels.WEIGHT], seen[:, kernels.CONTEXT :], squares, scales)
            added = added_variance(arms[:, kernels.WEIGHT], effect, scales, doubt)
            wider = np.sqrt(std**2 + added)
        # All evidence may be forgotten, and squares of very large numbers overflow.
        return np.where(np.isfinite(wider), wider, std)

    def decay(self, factor: float) -> None:
        """Multiply all evidence by a factor of at most 1; the prior stays."""
        factor = check_factor(factor)
        if factor < 1.0:
            self.commit(**self.renewed(self.scales, factor / self._weight_of_new))

    @property
    def moments(self) -> Moments:
        """All evidence so far, with its current weight (a copy)."""
        return self._stored().decayed(1.0 / self._weight_of_new)

    @property
    def has_scales(self) -> bool:
        """Whether there are numbers or guesses for all scales; without them nothing is learned yet."""
        return not self.unknown or bool(self.history)

    @property
    def tells_arms_apart(self) -> bool:  # type: ignore[override]  # it changes
        """Whether arms may differ with the present scales; not before anything is known of them."""
        return self._tells_at_once or bool(self.history)

    def _rewards_differ(self) -> bool:
        """Return whether any two rewards may differ. It copies nothing, because it is asked again and again."""
        means = self._arms[1 : 1 + len(self._index), kernels.REWARD]
        within = float(self._scatter[:, 0, 0].sum())
        return within > 0.0 or (len(means) > 0 and float(means.max()) > float(means.min()))

    def estimation_task(self, *, roughly: bool = False) -> EstimationTask:
        """Return `estimate_scales` as a task, which can run in another thread while this model learns.

        It holds copies. Give what it returns to `settle`; no other scales may be settled in between.
        """
        can_guess = self.has_scales or self._rewards_differ()
        return EstimationTask(
            self.moments if can_guess else None,
            self.guess,
            self.learn,
            self.unknown,
            self.method,
            max((event.scales.noise_std for event in self.history), default=0.0),
            roughly,
            self.scales if roughly and self.history else None,
        )

    def settle(self, scales: Scales | None) -> None:
        """Use estimated scales (`None` for the current ones) until the next estimate is due."""
        remembered = self.count / self._weight_of_new
        changes: dict[str, Any] = {}
        with suppress(NotFiniteError):  # then the current scales stay
            if scales is not None:
                changes = self._adopted(scales)
        # Without scales nothing is learned, so this must not last long.
        is_urgent = bool(self.unknown) and not (self.history or changes)
        least = FIRST_ESTIMATE
        if "slope_std" in self.learn:
            least = least_with_slopes(self._seen, is_urgent=is_urgent)
        more = until_next(min(self._seen, remembered), is_urgent=is_urgent, least=least)
        self.commit(**changes, _due=self._seen + more)

    def _noted(self, scales: Scales) -> Scales:
        """Return scales as the history holds them: the geometric mean, where there is one number per feature."""
        if "coef_std" in self.unknown:
            return replace(scales, coef_std=typical_of(scales.coef_std))
        return scales

    def _adopted(self, scales: Scales) -> dict[str, Any]:
        noted = self._noted(scales)
        history = [*self.history[1 - MAX_HISTORY :], ScaleEvent(self._seen, noted)]
        return {**self.renewed(scales, 1.0 / self._weight_of_new), "history": history}

    def _extended_scales(self, n_features: int) -> Scales:
        """Return the scales with more features; if they are learned, with a usual scale until the next estimate."""
        coef, one_mean = self.scales.coef_std, not isinstance(self.scales.coef_mean, tuple)
        if "coef_std" not in self.unknown or not (isinstance(coef, tuple) and one_mean):
            return super()._extended_scales(n_features)
        more = (typical_of(coef),) * (n_features - len(coef))
        return replace(self.scales, coef_std=coef + more)

    def fill(self, moments: Moments, removed: Iterable[Name] = ()) -> None:
        """Replace all evidence with `moments`, and learn the scales from it."""
        self.commit(**self.filled(moments, removed), history=[])
        if self.learn:
            self.learn_scales()

    # -- state -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays; those of the posterior are views."""
        events = [self._row_of(event) for event in self.history]
        width = len(self._row_of(ScaleEvent(0, self.guess)))
        due = self._due if self.learn else 0.0
        arrays = {
            **super().arrays(),
            "age": np.array([self._seen, due, self._weight_of_new]),
            "learned": np.array(events, dtype=np.float64).reshape(len(events), width),
        }
        if "coef_std" in self.unknown:
            arrays["coef_std"] = np.array(np.broadcast_to(self.scales.coef_std, self.n_features))
        return arrays

    def restore(
        self, names: Iterable[Name], removed: Iterable[Name], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Restore the state of a posterior that had these names and arrays."""
        self.history = [self._event_of(row) for row in arrays["learned"].tolist()]
        super().restore(names, removed, arrays)
        self.scales = self.history[-1].scales if self.history else self.guess
        if self.history and self.n_features and "coef_std" in self.unknown:
            self.scales = replace(self.scales, coef_std=tuple(arrays["coef_std"].tolist()))
        seen, due, weight_of_new = arrays["age"].tolist()
        self._numbers[kernels.SEEN], self._numbers[kernels.WEIGHT_OF_NEW] = int(seen), weight_of_new
        self._due = due if self.learn else math.inf

    def _row_of(self, event: ScaleEvent) -> list[Any]:
        """Return an event of the history as a row of numbers."""
        seen, s = event
        row = [seen, s.noise_std, s.arm_std, *np.atleast_1d(s.coef_std)]
        return row + ([s.intercept_mean, s.intercept_std] if "intercept_std" in self.learn else [])

    def _event_of(self, row: list[float]) -> ScaleEvent:
        """Return an event of the history from its row."""
        seen, noise, arm, *rest = row
        learned: dict[str, Any] = {"noise_std": noise, "arm_std": arm}
        if "intercept_std" in self.learn:
            *rest, learned["intercept_mean"], learned["intercept_std"] = rest
        learned["coef_std"] = tuple(rest) if isinstance(self.guess.coef_std, tuple) else rest[0]
        return ScaleEvent(int(seen), replace(self.guess, **learned))
