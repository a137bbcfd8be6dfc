"""Upper confidence bounds with arm effects: RoLinUCB, Algorithm 1 of the paper."""

from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import count_of, number_of
from rolin.errors import ParameterError
from rolin.model.draws import Scores
from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy, Rule
from rolin.policies.options import RoLinOptions, with_shared_options

__all__ = ["RoLinUCB"]


@with_shared_options
class RoLinUCB(LinearPolicy):
    """Choose the arm with the highest upper confidence bound μ_i + width · τ_i.

    Parameters
    ----------
    horizon
        The number n of rounds, if it is known: the width is then √(2 log n), as in the paper.
    width
        The width as a number. If neither is given, the width grows with the number t of rewards:
        √(2 log(2 + t)), which is the paper's width for a horizon that has just been reached.
    seed
        A non-negative integer; it breaks ties, and determines the choices before the first estimate of learned scales. By
        default one from the operating system.
    **options
        The options of [`LinearPolicy`][rolin.LinearPolicy].

    References
    ----------
    Zhu & Kveton, *Robust Contextual Linear Bandits*, AISTATS 2023, Algorithm 1.

    Examples
    --------
    >>> policy = RoLinUCB(
    ...     n_features=2, coef_std=1.0, arm_std=0.5, noise_std=1.0, intercept_std=None, horizon=1000, seed=7
    ... )
    >>> policy.decide({"red": [1.0, 0.2], "blue": [0.3, 0.3]}).arm
    'red'
    """

    rule: Rule = "bound"

    def __init__(
        self,
        *,
        n_features: int,
        horizon: int | None = None,
        width: float | None = None,
        **options: Unpack[RoLinOptions],
    ) -> None:
        super().__init__(n_features=n_features, **options)
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
        """The number of standard deviations between the mean and the bound, at present."""
        if self._width is not None:
            return self._width
        rounds = 2.0 + self._model.count if self._horizon is None else self._horizon
        return math.sqrt(2.0 * math.log(rounds))

    @property
    def settings(self) -> dict[str, Any]:
        """The options that create this policy again, without what it has learned."""
        return {**super().settings, "horizon": self._horizon, "width": self._width}

    def draws(self, n_arms: int, key: Key) -> NDArray[np.float64]:
        """Return the width of the confidence intervals, in standard deviations."""
        return np.full(n_arms, self.width)

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Return 1 for the best arm; tied arms share it equally. At first, arms without rewards are preferred."""
        return self._certain(candidates)

    def score_with_probabilities(
        self, candidates: Candidates, key: Key
    ) -> tuple[Scores, Probabilities]:
        """Return the scores, and the probabilities that follow from them."""
        return self._certain_with_scores(candidates, key)
