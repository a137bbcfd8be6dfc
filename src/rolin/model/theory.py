"""The regret bound of the paper (Theorem 1), term by term."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rolin._support.checks import count_of, number_of
from rolin.errors import ParameterError
from rolin.model.scales import Scales

__all__ = ["RegretBound", "bayes_regret_bound"]


@dataclass(frozen=True)
class RegretBound:
    """An upper bound on the Bayes regret of n rounds, and its terms.

    R(n) ≤ σ_max √(2 c (d + K) n log n) + √(2/π) σ_max K
    """

    max_std: float
    """σ_max = √(σ₀² + L²/λ): the largest standard deviation that an arm's mean reward can have."""
    information: float
    """c (d + K): the information that n rounds can give, in units of what one round can give."""
    learning: float
    """σ_max √(2 c (d + K) n log n): the regret while learning."""
    failure: float
    """√(2/π) σ_max K: the regret when confidence intervals fail, each with probability 1/n."""

    @property
    def total(self) -> float:
        """The bound: the sum of both terms."""
        return self.learning + self.failure


def bayes_regret_bound(
    *,
    rounds: int,
    n_arms: int,
    n_features: int,
    context_norm: float,
    coef_std: float = 1.0,
    arm_std: float = 0.5,
    noise_std: float = 1.0,
) -> RegretBound:
    """Return Theorem 1's bound on the Bayes regret of RoLinUCB and of joint RoLinTS.

    Parameters
    ----------
    rounds
        Number n of rounds.
    n_arms
        Number K of arms.
    n_features
        Number d of features.
    context_norm
        L, the largest Euclidean norm of a context.
    coef_std
        Prior standard deviation of a coefficient, known to the policy: λ = 1/coef_std².
    arm_std
        Standard deviation σ₀ of the arms' effects, known to the policy.
    noise_std
        Standard deviation σ of the reward noise, known to the policy.

    Notes
    -----
    The bound holds for `RoLinUCB(horizon=rounds)` and `RoLinTS(sampling="joint")`. The proof does not cover marginal
    sampling, Algorithm 1 of the paper: it needs the chosen arm and the best arm to be identically distributed given
    the past. The bound is loose: in the setting of Figure 1 of the paper, it is about 30 times the observed regret.

    References
    ----------
    Zhu & Kveton, *Robust Contextual Linear Bandits*, AISTATS 2023, Theorem 1 and Appendix B.

    Examples
    --------
    >>> bound = bayes_regret_bound(rounds=3000, n_arms=50, n_features=10, context_norm=10**0.5)
    >>> round(bound.total)
    8856
    """
    n = count_of("rounds", rounds, least=1)
    k = count_of("n_arms", n_arms, least=1)
    d = count_of("n_features", n_features)
    scales = Scales(coef_std=coef_std, arm_std=arm_std, noise_std=noise_std)
    if isinstance(scales.coef_std, tuple):
        raise ParameterError(f"coef_std={coef_std!r}, expected one number: the theorem has one λ")
    context_norm = number_of("context_norm", context_norm, ParameterError)
    if not 0.0 <= context_norm < math.inf:
        raise ParameterError(f"context_norm={context_norm!r}, expected a number of at least 0")
    variance = scales.arm_std**2 + context_norm**2 * scales.coef_std**2
    if variance == 0.0:  # nothing is uncertain, so there is no regret
        return RegretBound(0.0, 0.0, 0.0, 0.0)
    ratio = variance / scales.noise_std**2
    information = (d + k) * math.log1p(ratio * n / (d + k)) / math.log1p(ratio)
    max_std = math.sqrt(variance)
    return RegretBound(
        max_std=max_std,
        information=information,
        learning=max_std * math.sqrt(2.0 * information * n * math.log(n)),
        failure=math.sqrt(2.0 / math.pi) * max_std * k,
    )
