"""RoLinTS and RoLinUCB for binary rewards: LogisticRoLinTS and LogisticRoLinUCB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from rolin._support.arms import Name
from rolin.errors import ParameterError
from rolin.model.draws import Sampling
from rolin.model.logistic import AdaptiveLogistic, LogisticPosterior, probability_of
from rolin.model.logistic_slopes import AdaptiveLogisticSlopes, LogisticSlopePosterior
from rolin.model.posterior import Posterior
from rolin.model.scales import CoefScale, Scale, Scales
from rolin.model.summaries import LogitPrediction
from rolin.policies.exploration import Exploration
from rolin.policies.linear import LinearPolicy
from rolin.policies.options import SlopeOptions, with_shared_options
from rolin.policies.rolin_ts import RoLinTS
from rolin.policies.rolin_ucb import RoLinUCB
from rolin.policies.stored import check_logistic

__all__ = ["LogisticRoLinTS", "LogisticRoLinUCB"]


# The guess is large, because estimates of arm_std from few clicks are too small more often than too large
# (docs/how-to/clicks.md, "After few rounds").
_ARM_STD: Scale = ("learn", 1.0)


class _Logistic(LinearPolicy):
    """A linear model of the logit of the probability that the reward is 1.

    Parameters
    ----------
    coef_std
        Prior standard deviation of the coefficients, on the logit scale: one number, or one per
        feature.
    intercept_std
        Prior standard deviation of the intercept; `None` for no intercept, which means a base rate of 50 %.
        The default suits base rates from 1 in 10 000 to 50 %.
    intercept_mean
        Prior mean of the intercept: the logit of a usual rate, such as -3.9 for 2 %.
    arm_std
        Standard deviation of the arms' own effects on the logit.
    """

    binary = True
    exact = False
    # Each outcome becomes an observation of the logit given what is known at its time, so there must be guesses.
    _guess: ClassVar[dict[str, float]] = {"arm_std": 0.5, "coef_std": 1.0, "slope_std": 1.0}

    _check_stored = staticmethod(check_logistic)

    def _new_model(
        self, scales: Scales, n_features: int, options: dict[str, Any], *, has_slopes: bool
    ) -> Posterior:
        if options.get("unknown"):
            raise ParameterError(
                "intercept_std='learn', expected a number or None: a logistic policy does not learn it"
            )
        if options:
            adaptive = AdaptiveLogisticSlopes if has_slopes else AdaptiveLogistic
            return adaptive(scales, n_features, **options)
        return (LogisticSlopePosterior if has_slopes else LogisticPosterior)(scales, n_features)

    def predict(
        self, contexts: Mapping[Any, ArrayLike] | ArrayLike, arms: Iterable[Name] | None = None
    ) -> LogitPrediction:
        """Return mean and standard deviation of each arm's probability of a reward of 1.

        `predict(…).interval(0.9)` returns intervals that contain it with a probability of 90 %. If `arm_std` is learned
        and there are no slopes, they include its uncertainty; the mean is that without it.
        """
        x, _, rows = self.candidates(contexts, arms)
        _, (logit, given, _) = self._model.score(x, rows, np.zeros(len(x)))
        std = self._model.std_for_intervals(rows, given)
        return LogitPrediction(
            probability_of(logit, given).mean, probability_of(logit, std).std, logit, std
        )


@with_shared_options
class LogisticRoLinTS(_Logistic, RoLinTS):
    """RoLinTS for rewards of 0 or 1: a linear model of the logit of their probability.

    Parameters
    ----------
    **options
        The options of [`RoLinTS`][rolin.RoLinTS] without `noise_std`, on the logit scale. The prior mean of the
        intercept is the logit of a usual rate, such as -3.9 for 2 %. Without an intercept, the base rate is 50 %.

    Notes
    -----
    Each outcome counts as one normal observation of the logit. The observation is chosen so that mean and variance of
    the logit match the mean and variance of the exact update. Each time the clicks, or the views without a click, have
    grown by a quarter, the observations of every arm are computed again from its counts. This is an approximation,
    as is merging two learners; [Learn from clicks](../how-to/clicks.md) shows how close it is. A weight counts as that
    many outcomes.

    With slopes (`slope_std`), the observations are not computed again. Rates far below 1 % are then overestimated at
    first.

    Examples
    --------
    >>> policy = LogisticRoLinTS(n_features=2, seed=7)
    >>> decision = policy.decide({"red": [1.0, 0.2], "blue": [0.3, 0.9]})
    >>> policy.update(decision.arm, decision.context, reward=1)
    >>> low, high = policy.predict({"red": [1.0, 0.2], "blue": [0.3, 0.9]}).interval(0.9)
    """

    def __init__(
        self,
        *,
        n_features: int,
        coef_std: CoefScale = "learn",
        intercept_std: float | None = 4.0,
        arm_std: Scale = _ARM_STD,
        sampling: Sampling = "marginal",
        exploration: Exploration = "auto",
        **options: Unpack[SlopeOptions],
    ) -> None:
        super().__init__(
            n_features=n_features,
            coef_std=coef_std,
            intercept_std=intercept_std,
            arm_std=arm_std,
            noise_std=1.0,
            sampling=sampling,
            exploration=exploration,
            **options,
        )


@with_shared_options
class LogisticRoLinUCB(_Logistic, RoLinUCB):
    """RoLinUCB for rewards of 0 or 1: upper confidence bounds of the logits.

    Parameters
    ----------
    **options
        The options of [`RoLinUCB`][rolin.RoLinUCB] without `noise_std`, on the logit scale. The prior mean of the
        intercept is the logit of a usual rate, such as -3.9 for 2 %. Without an intercept, the base rate is 50 %.

    Examples
    --------
    >>> policy = LogisticRoLinUCB(n_features=0, arm_std=1.0, seed=7)
    >>> policy.update("red", [], 1)
    >>> policy.predict({"red": [], "blue": []}).mean.round(2).tolist()
    [0.82, 0.79]
    """

    def __init__(
        self,
        *,
        n_features: int,
        coef_std: CoefScale = "learn",
        intercept_std: float | None = 4.0,
        arm_std: Scale = _ARM_STD,
        horizon: int | None = None,
        width: float | None = None,
        **options: Unpack[SlopeOptions],
    ) -> None:
        super().__init__(
            n_features=n_features,
            coef_std=coef_std,
            intercept_std=intercept_std,
            arm_std=arm_std,
            noise_std=1.0,
            horizon=horizon,
            width=width,
            **options,
        )
