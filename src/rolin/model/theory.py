"""The regret bounds of the paper (Theorems 1 and 2), term by term."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rolin._support.checks import count_of, number_of
from rolin.errors import ParameterError
from rolin.model.scales import Scales

__all__ = ["RegretBound", "bayes_regret_bound", "linear_bandit_regret_bound"]


@dataclass(frozen=True)
class RegretBound:
    """An upper bound on the Bayes regret of n rounds, and its terms."""

    max_std: float
    """σ_max: the largest standard deviation that the mean reward of an arm can have."""
    information: float
    """The information that n rounds can give, in units of what one round can give; c (d + K) in Theorem 1."""
    learning: float
    """The first term: the regret while learning."""
    failure: float
    """The second term: the regret when confidence intervals fail."""

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

    R(n) ≤ σ_max √(2 c (d + K) n log n) + √(2/π) σ_max K, where σ_max = √(σ₀² + L²/λ).

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
    k = count_of("n_arms", n_arms, least=1)
    d = count_of("n_features", n_features)
    scales = Scales(coef_std=coef_std, arm_std=arm_std, noise_std=noise_std)
    if isinstance(scales.coef_std, tuple):
        raise ParameterError(f"coef_std={coef_std!r}, expected one number: the theorem has one λ")
    norm = _at_least_zero("context_norm", context_norm)
    # Section 5.2: the model is a linear bandit with d + K coefficients, and σ_max² = σ₀² + L²/λ.
    variance = scales.arm_std**2 + norm**2 * scales.coef_std**2
    return _bound(count_of("rounds", rounds, least=1), d + k, variance, scales.noise_std, k, None)


def linear_bandit_regret_bound(
    *,
    rounds: int,
    n_features: int,
    max_std: float,
    noise_std: float = 1.0,
    n_actions: int | None = None,
    failure_probability: float | None = None,
) -> RegretBound:
    """Return Theorem 2's bound on the Bayes regret of a linear bandit, with any number of contexts.

    Parameters
    ----------
    rounds
        Number n of rounds.
    n_features
        Number d of coefficients.
    max_std
        σ_max: the largest standard deviation, given any history, of the mean reward of an action.
    noise_std
        Standard deviation σ of the reward noise, known to the policy.
    n_actions
        K, if no round has more than K actions; `None` if there is no limit.
    failure_probability
        δ, the probability with which a confidence interval may fail; by default 1/n.

    Notes
    -----
    The bound holds for linear Thompson sampling with one joint draw of the coefficients, and for Bayesian LinUCB
    with a width of √(2 log(1/δ)) if `n_actions` is given, and of √(2 d log(1/δ)) otherwise. The theorem says "for any
    δ > 0", but its logarithm needs δ ≤ 1.

    References
    ----------
    Zhu & Kveton, *Robust Contextual Linear Bandits*, AISTATS 2023, Theorem 2 (Appendix B).

    Examples
    --------
    >>> bound = linear_bandit_regret_bound(rounds=3000, n_features=10, max_std=1.0)
    >>> finite = linear_bandit_regret_bound(rounds=3000, n_features=10, max_std=1.0, n_actions=50)
    >>> round(bound.total), round(finite.total)
    (6314, 2029)
    """
    n, d = count_of("rounds", rounds, least=1), count_of("n_features", n_features)
    k = None if n_actions is None else count_of("n_actions", n_actions, least=1)
    if failure_probability is not None:
        delta = number_of("failure_probability", failure_probability, ParameterError)
        if not 0.0 < delta <= 1.0:
            raise ParameterError(
                f"failure_probability={failure_probability!r}, expected a number in (0, 1]"
            )
        failure_probability = delta
    variance = _at_least_zero("max_std", max_std) ** 2
    return _bound(n, d, variance, Scales(noise_std=noise_std).noise_std, k, failure_probability)


def _bound(
    n: int, d: int, variance: float, noise: float, k: int | None, delta: float | None
) -> RegretBound:
    """Return the bound of Theorem 2 with σ_max² = `variance`; δ is 1/n if it is `None`."""
    if d == 0 or variance == 0.0:  # nothing is uncertain, so there is no regret
        return RegretBound(0.0, 0.0, 0.0, 0.0)
    std, ratio = math.sqrt(variance), variance / noise**2
    information = d * math.log1p(ratio * n / d) / math.log1p(ratio)
    log, failing_rounds = (math.log(n), 1.0) if delta is None else (-math.log(delta), n * delta)
    # Infinitely many actions need an interval for all coefficients at once, which is wider by √d.
    wider, intervals = (d, d**1.5) if k is None else (1, k)
    return RegretBound(
        max_std=std,
        information=information,
        learning=std * math.sqrt(2.0 * wider * information * n * log),
        failure=math.sqrt(2.0 / math.pi) * std * intervals * failing_rounds,
    )


def _at_least_zero(name: str, value: object) -> float:
    number = number_of(name, value, ParameterError)
    if not 0.0 <= number < math.inf:
        raise ParameterError(f"{name}={number!r}, expected a number of at least 0")
    return number
