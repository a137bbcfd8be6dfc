"""Binary rewards: coefficients and arm effects on the logit scale, learned online in O(d²).

Each outcome becomes one weighted Gaussian observation of the logit, called a *site*. It changes mean and variance of the
arm's normal distribution as the outcome does (docs/explanation/maths.md, "Binary rewards"). The Gaussian model, with a noise
of 1, then does the rest. A site depends on the state at its time. So the same outcomes in the same order give the
same state, and in another order nearly the same state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin._support.checks import as_floats, number_of
from rolin.errors import InputError, ParameterError
from rolin.model.adaptive import Adaptive
from rolin.model.kernels import logistic as kernels
from rolin.model.posterior import Posterior
from rolin.model.scales import Scales
from rolin.model.summaries import LogitPrediction

__all__ = ["AdaptiveLogistic", "LogisticPosterior", "Site", "probability_of"]

Floats = NDArray[np.float64]


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

    _fold = staticmethod(kernels.observe_outcome)
    _fold_many = staticmethod(kernels.observe_outcomes)

    def __init__(self, scales: Scales, n_features: int) -> None:
        if scales.noise_std != 1.0:
            raise ParameterError(
                f"noise_std={scales.noise_std!r}, expected 1: there is no noise on the logit scale"
            )
        super().__init__(scales, n_features)

    def observe(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one outcome, 0 or 1; a weight of h counts it h times."""
        super().observe(arm, context, _outcome(reward), weight)

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
        super().observe_many(arms, contexts, given, weights)

    def site(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> Site:
        """Return the site of an outcome in the current state. Nothing is learned."""
        outcome = _outcome(reward)
        name, x, _, h = self.checked_observation(arm, context, outcome, weight)
        row = self._index.row_of.get(name, 0)
        r, h = kernels.outcome_site(
            x, outcome, h, row, self._arms, self._tails, self._coef, self._factor, self._numbers
        )
        return Site(r, h)

    def predict(self, contexts: ArrayLike, arms: Iterable[Name] | None = None) -> LogitPrediction:
        """Return mean and standard deviation of each arm's probability of a yes."""
        mean, std = super().predict(contexts, arms)
        return probability_of(mean, std)


class AdaptiveLogistic(Adaptive, LogisticPosterior):
    """A logistic posterior that learns arm_std and coef_std, or forgets."""


def probability_of(mean: Floats, std: Floats) -> LogitPrediction:
    """Return mean and standard deviation of the probabilities of normally distributed logits."""
    out = np.empty((2, len(mean)))
    kernels.sigmoid_moments(np.ascontiguousarray(mean), np.ascontiguousarray(std), out)
    return LogitPrediction(out[0], out[1], mean, std)


def _outcome(reward: object) -> float:
    """Return a reward as 0.0 or 1.0, and reject all others."""
    outcome = reward if type(reward) is float else number_of("reward", reward)
    if outcome not in (0.0, 1.0):
        raise InputError(f"reward={reward!r}, expected 0 or 1")
    return outcome
