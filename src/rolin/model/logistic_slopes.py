"""Binary rewards of arms with slopes of their own, on the logit scale.

An outcome becomes a weighted Gaussian observation of the logit, as in `rolin.model.logistic`. These observations are not
computed again later: the counts of an arm do not tell how its clicks depend on its contexts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin.model.adaptive import Adaptive
from rolin.model.estimation_task import EstimationTask
from rolin.model.kernels import layout
from rolin.model.kernels import logistic_slopes as kernels
from rolin.model.logistic import AdaptiveLogistic, LogisticPosterior, Site, limited, outcome_of
from rolin.model.posterior import Posterior
from rolin.model.scales import Scales
from rolin.model.slopes import AdaptiveSlopes, SlopePosterior

__all__ = ["AdaptiveLogisticSlopes", "LogisticSlopePosterior"]

Floats = NDArray[np.float64]


class LogisticSlopePosterior(LogisticPosterior, SlopePosterior):
    """The running posterior of the model with slopes on the logit scale.

    Parameters
    ----------
    scales
        The scales of the model on the logit scale; noise_std must be 1.
    n_features
        Number d of features of a context, the intercept not counted.

    Examples
    --------
    >>> posterior = LogisticSlopePosterior(Scales(arm_std=1.0, slope_std=1.0), n_features=1)
    >>> for outcome in (1, 0):
    ...     for _ in range(10):
    ...         posterior.observe("a", [2.0 * outcome - 1.0], outcome)
    >>> posterior.predict([[1.0]], ["a"]).mean.round(1).tolist()
    [0.9]
    >>> posterior.predict([[-1.0]], ["a"]).mean.round(1).tolist()
    [0.1]
    """

    _by_arm = SlopePosterior._by_arm
    _whole = Posterior._whole

    def __init__(self, scales: Scales, n_features: int) -> None:
        super().__init__(scales, n_features)
        self._counted = False
        self._schedule[layout.DUE_YES : layout.TOTAL] = np.inf  # never

    def _scheduled(self, changes: dict[str, Any]) -> dict[str, Any]:
        return changes

    def _fold(self, *arguments: Any) -> bool:
        own = (self._own, self._parts)
        return kernels.observe_slope_outcome(*arguments, *own)  # type: ignore[call-arg]  # mypy cannot count them

    def _fold_many(self, *arguments: Any) -> int:
        own = (self._own, self._parts)
        return kernels.observe_slope_outcomes(*arguments, *own)  # type: ignore[call-arg]  # mypy cannot count them

    def site(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> Site:
        """Return the site of an outcome in the current state. Nothing is learned."""
        outcome = outcome_of(reward)
        name, x, _, h = self.checked_observation(arm, context, outcome, weight)
        row = self._index.row_of.get(name, 0)
        state = (self._arms, self._tails, self._coef, self._factor, self._own, self._parts)
        return Site(*kernels.slope_site(x, outcome, h, row, *state))


class AdaptiveLogisticSlopes(AdaptiveLogistic, AdaptiveSlopes, LogisticSlopePosterior):
    """A logistic posterior with slopes that learns arm_std, coef_std and slope_std, or forgets."""

    def estimation_task(self, *, roughly: bool = False) -> EstimationTask:
        """Return a task that finds scales on the way to those estimated from all evidence.

        A step is at most a factor, as for arms without slopes.
        """
        task = Adaptive.estimation_task(self, roughly=roughly)
        return replace(task, step=partial(_step, old=self.scales))


def _step(found: Scales, *, old: Scales) -> Scales:
    """Return scales on the way to those that were found."""
    return replace(
        found,
        arm_std=limited(found.arm_std, old.arm_std),
        coef_std=limited(found.coef_std, old.coef_std),
        slope_std=limited(found.slope_std, old.slope_std),
    )
