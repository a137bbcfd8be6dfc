"""RoLinTS and RoLinUCB for yes/no rewards: LogisticRoLinTS and LogisticRoLinUCB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rolin._support.arms import Name
from rolin.model.draws import Sampling
from rolin.model.estimation import Method
from rolin.model.logistic import AdaptiveLogistic, LogisticPosterior, probability_of
from rolin.model.posterior import Posterior
from rolin.model.scales import CoefScale, Numbers, Scale, Scales
from rolin.model.summaries import LogitPrediction
from rolin.policies.linear import LinearPolicy
from rolin.policies.rolin_ts import RoLinTS
from rolin.policies.rolin_ucb import RoLinUCB

__all__ = ["LogisticRoLinTS", "LogisticRoLinUCB"]


class _Logistic(LinearPolicy):
    """What both share: a posterior of logits, and predictions of probabilities."""

    binary = True
    exact = False

    def _new_posterior(self, scales: Scales, n_features: int) -> Posterior:
        return LogisticPosterior(scales, n_features)

    def _new_adaptive(self, scales: Scales, n_features: int, **options: Any) -> Posterior:
        return AdaptiveLogistic(scales, n_features, **options)

    def predict(
        self, contexts: Mapping[Any, ArrayLike] | ArrayLike, arms: Iterable[Name] | None = None
    ) -> LogitPrediction:
        """Return mean and standard deviation of each arm's probability of a yes.

        `predict(…).interval(0.9)` gives intervals that hold it with a probability of 90 %.
        """
        x, _, rows = self.candidates(contexts, arms)
        _, table = self._model.score(x, rows, np.zeros(len(x)))
        return probability_of(table[0], table[1])


class LogisticRoLinTS(_Logistic, RoLinTS):
    """RoLinTS for yes/no rewards: the model is of the logit of the probability of a yes.

    Parameters
    ----------
    n_features
        Number d of features of a context; 0 for a bandit without context.
    coef_std
        Prior standard deviation of the coefficients, on the logit scale: one number, or one per
        feature.
    coef_mean
        Prior mean of the coefficients: one number, or one per feature.
    intercept_std
        Prior standard deviation of the level; `None` for no intercept, which means a level of 50 %.
    intercept_mean
        Prior mean of the level: the logit of a usual rate, such as -3.9 for 2 %.
    arm_std
        Standard deviation of the arms' own effects on the logit.
    sampling
        `"marginal"` or `"joint"`, as of [`RoLinTS`][rolin.RoLinTS].
    learn_by
        How scales given as `"learn"` are learned; see [`estimate_scales`][rolin.model.estimate_scales].
    half_life
        Number of rewards after which what was learned counts half; `None` for ever.
    seed
        A non-negative integer; by default one from the operating system.

    Notes
    -----
    Each outcome counts as one normal observation of the logit, chosen so that mean and variance move
    as the outcome moves them. That is an approximation, as is merging two learners; the
    documentation says how near they are. A weight counts as so many outcomes.

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
        coef_std: CoefScale = 1.0,
        coef_mean: Numbers = 0.0,
        intercept_std: float | None = 2.0,
        intercept_mean: float = 0.0,
        arm_std: Scale = 0.5,
        sampling: Sampling = "marginal",
        learn_by: Method = "map",
        half_life: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            n_features=n_features,
            coef_std=coef_std,
            coef_mean=coef_mean,
            intercept_std=intercept_std,
            intercept_mean=intercept_mean,
            arm_std=arm_std,
            noise_std=1.0,
            sampling=sampling,
            learn_by=learn_by,
            half_life=half_life,
            seed=seed,
        )


class LogisticRoLinUCB(_Logistic, RoLinUCB):
    """RoLinUCB for yes/no rewards: upper bounds of the logits, which are those of the rates.

    Parameters
    ----------
    n_features
        Number d of features of a context; 0 for a bandit without context.
    coef_std
        Prior standard deviation of the coefficients, on the logit scale: one number, or one per
        feature.
    coef_mean
        Prior mean of the coefficients: one number, or one per feature.
    intercept_std
        Prior standard deviation of the level; `None` for no intercept, which means a level of 50 %.
    intercept_mean
        Prior mean of the level: the logit of a usual rate, such as -3.9 for 2 %.
    arm_std
        Standard deviation of the arms' own effects on the logit.
    horizon
        As of [`RoLinUCB`][rolin.RoLinUCB].
    width
        As of [`RoLinUCB`][rolin.RoLinUCB].
    learn_by
        How scales given as `"learn"` are learned; see [`estimate_scales`][rolin.model.estimate_scales].
    half_life
        Number of rewards after which what was learned counts half; `None` for ever.
    seed
        A non-negative integer, which only breaks ties; by default one from the operating system.

    Examples
    --------
    >>> policy = LogisticRoLinUCB(n_features=0, arm_std=1.0, seed=7)
    >>> policy.update("red", [], 1)
    >>> policy.predict({"red": [], "blue": []}).mean.round(2).tolist()
    [0.72, 0.67]
    """

    def __init__(
        self,
        *,
        n_features: int,
        coef_std: CoefScale = 1.0,
        coef_mean: Numbers = 0.0,
        intercept_std: float | None = 2.0,
        intercept_mean: float = 0.0,
        arm_std: Scale = 0.5,
        horizon: int | None = None,
        width: float | None = None,
        learn_by: Method = "map",
        half_life: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            n_features=n_features,
            coef_std=coef_std,
            coef_mean=coef_mean,
            intercept_std=intercept_std,
            intercept_mean=intercept_mean,
            arm_std=arm_std,
            noise_std=1.0,
            horizon=horizon,
            width=width,
            learn_by=learn_by,
            half_life=half_life,
            seed=seed,
        )
