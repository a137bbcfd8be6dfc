"""The model of Safe-FALCON: one ridge regression per epoch, and a test whether it is safe to use."""

from __future__ import annotations

import math
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin._support.checks import count_of, first_not_finite, flag_of, number_of
from rolin.errors import NotFiniteError, ParameterError
from rolin.model.draws import tied_for_best
from rolin.model.learner import Learner

__all__ = ["EpochRegression", "inverse_gap_weights"]

Floats = NDArray[np.float64]
# What `_counts` holds: rounds, the epoch m, the safest epoch (0: none), and whether the model is safe.
_ROUNDS, _EPOCH, _SAFEST, _IS_SAFE = range(4)
# What `_sums` holds: rewards, those of the epoch, Σ √ξ, and the lower bound l of the safest epoch.
_REWARDS, _EPOCH_REWARDS, _ERRORS, _BOUND = range(4)


class EpochRegression(Learner):
    """One ridge regression per epoch, and a test whether it is safe to use. Each epoch is as long as all before it."""

    def __init__(
        self,
        n_features: int,
        *,
        first_epoch: int,
        failure_probability: float,
        ridge: float,
        complexity: float,
        all_data: bool,
        reward_range: tuple[float, float] | None,
        n_arms: int | None,
        safety_test: bool,
        split_bound: bool,
        slack_after: int,
    ) -> None:
        super().__init__(n_features)
        self._first = count_of("first_epoch", first_epoch, least=1, most=2**40)
        self._failure_probability = _positive("failure_probability", failure_probability, most=1.0)
        self._ridge = _positive("ridge", ridge)
        self._complexity = _positive("complexity", complexity)
        self._all_data = flag_of("all_data", all_data)
        self._test = flag_of("safety_test", safety_test)
        self._split = flag_of("split_bound", split_bound)
        self._slack_after = count_of("slack_after", slack_after, least=1, most=2)
        self._n_arms = None if n_arms is None else count_of("n_arms", n_arms, least=1)
        self._low, self._span = 0.0, 1.0
        if reward_range is not None:
            try:
                low, high = (number_of("reward_range", r, ParameterError) for r in reward_range)
            except TypeError:
                low = high = 0.0
            if not -math.inf < low < high < math.inf:
                raise ParameterError(f"reward_range={reward_range!r}, expected (lowest, highest)")
            reward_range = (low, high)
            self._low, self._span = low, high - low
        self.options = {
            "first_epoch": self._first,
            "failure_probability": self._failure_probability,
            "ridge": self._ridge,
            "complexity": self._complexity,
            "all_data": self._all_data,
            "reward_range": reward_range,
            "n_arms": self._n_arms,
            "safety_test": self._test,
            "split_bound": self._split,
            "slack_after": self._slack_after,
        }
        d = self.n_features
        self._gram: Floats = np.zeros((d, d))
        self._cross: Floats = np.zeros(d)
        self._fit: Floats = np.zeros(d)  # f_m
        self._safe_fit: Floats = np.zeros(d)  # of the epoch with the best lower bound
        self._counts = np.array([0, 1, 0, 1])
        self._sums = np.zeros(4)

    @property
    def is_safe(self) -> bool:
        """Whether the safety test has always passed."""
        return bool(self._counts[_IS_SAFE])

    @property
    def played_epoch(self) -> int:
        """The epoch whose choices are played."""
        return int(self._counts[_EPOCH] if self.is_safe else self._counts[_SAFEST])

    def probabilities(self, contexts: Floats) -> Floats:
        """Return the probability of each arm."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = contexts @ (self._fit if self.is_safe else self._safe_fit)
        if not np.isfinite(values).all():
            raise first_not_finite("contexts", contexts)
        m, n_arms = self.played_epoch, len(contexts)
        gamma = 1.0 if m == 1 else math.sqrt(n_arms / (8.0 * self._error(m)))
        return inverse_gap_weights(values, gamma)

    def observe(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one round, and end the epoch after its last round."""
        name, x, r, h = self.checked_observation(arm, context, reward, weight)
        r = (r - self._low) / self._span
        rounds, m, _, safe = self._counts.tolist()
        rounds += 1
        slack = math.sqrt(self._error(m)) if m > self._slack_after else 0.0
        fit = self._fit
        with np.errstate(over="ignore", invalid="ignore"):
            gram, cross = self._gram + h * np.outer(x, x), self._cross + h * r * x
            sums = self._sums + np.array([r, r, slack, 0.0])
            total = gram.trace() + cross.sum() + sums.sum()  # no entry of gram exceeds the trace
            if rounds == self._end(m) and math.isfinite(total):
                fit = self._fitted(gram, cross)
                total += fit.sum()
        if not math.isfinite(total):
            raise NotFiniteError(
                "context, reward or weight is too large or too small to compute with"
            )

        def learn() -> None:
            if not self.arm_index.row_of.get(name, 0):
                self.arm_index.add(name)
            self._counts[_ROUNDS] = rounds
            self._gram, self._cross, self._sums = gram, cross, sums
            if safe and m > 1 and self._test and self._is_checked(rounds, m):
                self._counts[_IS_SAFE] = self._sums[_REWARDS] >= self.lowest_safe_reward(rounds)
            if self.is_safe and rounds == self._end(m):
                self._end_epoch(m, fit)

        self.change(learn, {"_counts": slice(None)})

    def _fitted(self, gram: Floats, cross: Floats) -> Floats:
        """Return the coefficients of the ridge regression, or NaN if they cannot be computed."""
        try:
            penalized = gram + self._ridge * np.eye(self.n_features)
            return np.asarray(np.linalg.solve(penalized, cross), dtype=np.float64)
        except np.linalg.LinAlgError:
            return np.full(self.n_features, np.nan)

    def _end_epoch(self, m: int, fit: Floats) -> None:
        """Store the choices of this epoch if their lower bound is the best so far; start the next epoch."""
        length = self._end(m) - self._end(m - 1)
        # Choose-safe: a lower bound on the value of this epoch's choices, by Hoeffding's inequality
        delta = self._delta if self._split else self._failure_probability
        bound = self._sums[_EPOCH_REWARDS] / length - math.sqrt(
            math.log(m**2 / delta) / (2.0 * length)
        )
        if not self._counts[_SAFEST] or bound > self._sums[_BOUND]:
            self._counts[_SAFEST], self._sums[_BOUND] = m, bound
            self._safe_fit = self._fit
        self._fit = fit
        self._counts[_EPOCH] = m + 1
        self._sums[_EPOCH_REWARDS] = 0.0
        if not self._all_data:
            self._gram, self._cross = np.zeros_like(self._gram), np.zeros_like(self._cross)

    def lowest_safe_reward(self, rounds: int) -> float:
        """Return L_t: if the sum of t rewards is lower, the linear model must be wrong."""
        m = int(self._counts[_EPOCH])
        n_arms = self._n_arms or len(self.arm_index)
        log = math.log(math.ceil(m + math.log2(self._first)) ** 3 / self._delta)
        return float(
            rounds * self._sums[_BOUND]
            - self._first
            - math.sqrt(2.0 * rounds * log)
            - 20.3 * math.sqrt(n_arms) * self._sums[_ERRORS]
        )

    def _is_checked(self, rounds: int, m: int) -> bool:
        """Return whether the safety test is made after round t of epoch m."""
        since = rounds - self._end(m - 1)
        return since & (since - 1) == 0 or rounds == self._end(m)

    def _end(self, m: int) -> int:
        """Return τ_m, the last round of epoch m."""
        return self._first << (m - 1) if m > 0 else 0

    def _error(self, m: int) -> float:
        """Return ξ for the regression that epoch m plays with."""
        samples = self._end(m - 1) - self._end(m - 2)
        d = max(self.n_features, 1)
        return self._complexity * d * math.log(m**2 / self._delta) / samples

    @property
    def _delta(self) -> float:
        """δ' = δ/13: the failure probability is split among the events that must all hold."""
        return self._failure_probability / 13.0

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays (views, not copies)."""
        return {
            "gram": self._gram,
            "cross": self._cross,
            "fit": self._fit,
            "safe_fit": self._safe_fit,
            "counts": self._counts,
            "sums": self._sums,
        }


def inverse_gap_weights(values: Floats, gamma: float) -> Floats:
    """Return p(a) = 1/(K + γ (max - value)) for each arm; the best arm gets the remaining probability.

    Arms that tie for the best share it equally.

    >>> inverse_gap_weights(np.array([1.0, 0.0]), gamma=2.0).tolist()
    [0.75, 0.25]
    """
    top = values.max()
    with np.errstate(over="ignore"):  # an infinite gap has probability zero
        p: Floats = 1.0 / (len(values) + gamma * (top - values))
    best = tied_for_best(values)
    p[best] += (1.0 - p.sum()) / np.count_nonzero(best)
    return p


def _positive(name: str, value: object, most: float = math.inf) -> float:
    number = number_of(name, value, ParameterError)
    if not 0.0 < number < most:
        upper = "" if most == math.inf else f" below {most:g}"
        raise ParameterError(f"{name}={value!r}, expected a positive number{upper}")
    return number
