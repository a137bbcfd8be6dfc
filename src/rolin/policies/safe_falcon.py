"""Inverse gap weighting with a safety test: Safe-FALCON, a baseline of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.model.draws import Scores, best_of
from rolin.policies.base import Policy
from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.epoch_regression import EpochRegression
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy
from rolin.policies.options import with_options_of
from rolin.policies.stored import check_epochs

__all__ = ["SafeFALCON"]

Floats = NDArray[np.float64]


@with_options_of(LinearPolicy)
class SafeFALCON(Policy[EpochRegression]):
    """Inverse gap weighting in epochs, with a test that detects when the linear model is wrong.

    Epoch m plays with a ridge regression f_m that was fitted to the epoch before it. Of K arms with predicted rewards
    f, every arm but the best is chosen with probability 1/(K + γ_m · gap), and the best with the remaining
    probability. γ_m = √(K / 8ξ) grows as the regression gets better: ξ(n, ζ) = complexity · d log(1/ζ)/n bounds its
    error after n samples. The rewards of every epoch give a lower bound on the value of its choices. If the sum of
    rewards falls below the best such bound by more than a linear model can explain, the policy stops learning and
    plays the choices of that epoch from then on.

    Parameters
    ----------
    first_epoch
        Rounds τ₁ of the first epoch; epoch m ends at round τ₁ 2^(m-1).
    failure_probability
        δ, the probability with which the guarantees may fail.
    ridge
        Penalty of the regression.
    complexity
        Factor of ξ.
    all_data
        Whether to fit to all rounds so far instead of only to the last epoch.
    reward_range
        Lowest and highest reward, which are mapped to [0, 1] as the theory requires; by default rewards are used as
        they are.
    n_arms
        Number K of arms in the safety test; by default the number of arms observed so far.
    safety_test
        Whether to make the safety test; without it, the policy is FALCON+.
    split_bound
        Whether the lower bound on the value of an epoch has δ/13 in its logarithm, or δ.
    slack_after
        Epoch, 1 or 2, after which the test's allowance for the error of the regression begins to add up.

    Notes
    -----
    A round is an update, so rewards may come late. A weight counts only in the regression.
    The published sources do not determine `split_bound` and `slack_after`.

    References
    ----------
    Krishnamurthy, Hadad & Athey, *Adapting to Misspecification in Contextual Bandits with Offline
    Regression Oracles*, ICML 2021; Simchi-Levi & Xu, *Bypassing the Monster*, 2022 (FALCON+).

    Examples
    --------
    >>> policy = SafeFALCON(n_features=2, seed=7)
    >>> policy.probabilities({"red": [1.0, 0.2], "blue": [0.3, 0.9]}).tolist()
    [0.5, 0.5]
    """

    def __init__(
        self,
        *,
        n_features: int,
        first_epoch: int = 2,
        failure_probability: float = 0.05,
        ridge: float = 1.0,
        complexity: float = 1.0,
        all_data: bool = False,
        reward_range: tuple[float, float] | None = None,
        n_arms: int | None = None,
        safety_test: bool = True,
        split_bound: bool = True,
        slack_after: int = 1,
        seed: int | None = None,
    ) -> None:
        model = EpochRegression(
            n_features,
            first_epoch=first_epoch,
            failure_probability=failure_probability,
            ridge=ridge,
            complexity=complexity,
            all_data=all_data,
            reward_range=reward_range,
            n_arms=n_arms,
            safety_test=safety_test,
            split_bound=split_bound,
            slack_after=slack_after,
        )
        super().__init__(model, seed)

    _check_stored = staticmethod(check_epochs)

    @property
    def settings(self) -> dict[str, Any]:
        """The options that create this policy again, without what it has learned."""
        return {"n_features": self.n_features, **self._model.options, "seed": self.seed}

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Return the inverse gap weights of the epoch that is played."""
        x = candidates.contexts
        return Probabilities(self._model.probabilities(x), np.zeros(len(x)))

    @property
    def epoch(self) -> int:
        """Number m of the epoch whose choices are played; the first is 1."""
        return self._model.played_epoch

    @property
    def is_safe(self) -> bool:
        """Whether the safety test has always passed."""
        return self._model.is_safe

    def score(self, candidates: Candidates, key: Key) -> Scores:
        """Score the candidates so that each is the best with the probability of its inverse gap weight."""
        x = candidates.contexts
        # The smallest of K exponential variables with rates p is that of arm i with probability p_i; the order of
        # the others is a ranking by the same rule.
        clocks = self._random.at(key).standard_exponential(len(x))
        return best_of(self._model.probabilities(x) / clocks)
