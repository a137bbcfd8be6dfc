"""Upper confidence bounds with arm effects: RoLinUCB, Algorithm 1 of the paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import count_of, number_of
from rolin.errors import ParameterError
from rolin.model.estimation import Method
from rolin.model.scales import CoefScale, Numbers, Scale
from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy, Rule

__all__ = ["RoLinUCB"]


class RoLinUCB(LinearPolicy):
    """Take the arm with the highest upper confidence bound μ_i + width · τ_i.

    Parameters
    ----------
    n_features
        Number d of features of a context; 0 for a bandit without context.
    coef_std
        Prior standard deviation of the coefficients: one number, or one per feature.
    coef_mean
        Prior mean of the coefficients: one number, or one per feature.
    intercept_std
        Prior standard deviation of an intercept; `None` for no intercept.
    intercept_mean
        Prior mean of the intercept.
    arm_std
        Standard deviation of the arms' own effects, which the features miss.
    noise_std
        Standard deviation of a reward around its mean.
    learn_by
        How scales given as `"learn"` are learned; see [`estimate_scales`][rolin.model.estimate_scales].
    half_life
        Number of rewards after which what was learned counts half; `None` for ever.
    horizon
        With the number n of rounds known, the width is √(2 log n), as in the paper.
    width
        A plain number instead. With neither, the width grows with the number t of rewards
        seen: √(2 log(2 + t)), which is the paper's for a horizon that has just been reached.
    seed
        A non-negative integer, which only breaks ties; by default one from the operating system.

    References
    ----------
    Zhu & Kveton, *Robust Contextual Linear Bandits*, AISTATS 2023, Algorithm 1.

    Examples
    --------
    >>> policy = RoLinUCB(n_features=2, horizon=1000, seed=7)
    >>> policy.decide({"red": [1.0, 0.2], "blue": [0.3, 0.3]}).arm
    'red'
    """

    rule: Rule = "bound"

    def __init__(
        self,
        *,
        n_features: int,
        coef_std: CoefScale = 1.0,
        coef_mean: Numbers = 0.0,
        intercept_std: float | None = None,
        intercept_mean: float = 0.0,
        arm_std: Scale = 0.5,
        noise_std: Scale = 1.0,
        learn_by: Method = "map",
        half_life: float | None = None,
        horizon: int | None = None,
        width: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            n_features=n_features,
            coef_std=coef_std,
            coef_mean=coef_mean,
            intercept_std=intercept_std,
            intercept_mean=intercept_mean,
            arm_std=arm_std,
            noise_std=noise_std,
            learn_by=learn_by,
            half_life=half_life,
            seed=seed,
        )
        if horizon is not None and width is not None:
            raise ParameterError(f"horizon={horizon!r} and width={width!r}, expected one of them")
        if horizon is not None:
            horizon = count_of("horizon", horizon, least=1)
        if width is not None:
            width = number_of("width", width, ParameterError)
            if not 0.0 <= width < math.inf:
                raise ParameterError(f"width={width!r}, expected a number of at least 0")
        self._horizon, self._width = horizon, width

    @property
    def width(self) -> float:
        """How many standard deviations the bound lies above the mean, now."""
        if self._width is not None:
            return self._width
        rounds = 2.0 + self._model.count if self._horizon is None else self._horizon
        return math.sqrt(2.0 * math.log(rounds))

    @property
    def settings(self) -> dict[str, Any]:
        """The options that make this policy again, without what it has learned."""
        return {**super().settings, "horizon": self._horizon, "width": self._width}

    def draws(self, n_arms: int, key: Key) -> NDArray[np.float64]:
        """Return the width of the confidence intervals, in standard deviations."""
        return np.full(n_arms, self.width)

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Return 1 for the best arm, shared among ties."""
        return self._certain(candidates)
