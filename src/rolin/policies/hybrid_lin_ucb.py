"""LinUCB with shared coefficients and coefficients of every arm: the hybrid model of Li et al. (2010)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin._support.checks import count_of, first_not_finite, flag_of, number_of
from rolin.errors import NotFiniteError, ParameterError
from rolin.model.draws import Scores, best_of
from rolin.model.learner import Learner
from rolin.model.summaries import Prediction
from rolin.policies.arm_rows import with_row
from rolin.policies.base import Policy
from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy
from rolin.policies.options import with_options_of
from rolin.policies.stored import check_hybrid

__all__ = ["HybridLinUCB", "HybridRegression"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@with_options_of(LinearPolicy)
class HybridLinUCB(Policy["HybridRegression"]):
    """LinUCB with a hybrid linear model: some coefficients are shared, others belong to one arm.

    The mean reward of arm a is z'β + x'θ_a, where z are the shared features of its context, x are its own features,
    and x also has a constant 1 if there is an intercept. All coefficients have the same ridge penalty. The arm with
    the highest mean + width · std is chosen.

    Parameters
    ----------
    shared
        Indices of the features with shared coefficients; by default all.
    own
        Indices of the features for which every arm has a coefficient of its own; by default all. A feature can be
        both: an arm's coefficient is then the sum of β and its own θ_a.
    intercept
        Whether every arm has an intercept of its own.
    width
        Number of standard deviations between the mean and the bound, α in the reference.
    ridge
        Penalty of all coefficients.
    seed
        A non-negative integer, which only breaks ties; by default one from the operating system.

    Notes
    -----
    With `own=()` and a ridge of 1, an arm has only an intercept of its own, and the decisions are those of
    `RoLinUCB(arm_std=1, coef_std=1, noise_std=1, width=width)`: that model is a hybrid one whose only own feature is
    a constant. An update takes O(d²), a decision O(K d²). Memory is O(d²) per arm.

    References
    ----------
    Li, Chu, Langford & Schapire, *A Contextual-Bandit Approach to Personalized News Article Recommendation*,
    WWW 2010, Algorithm 2.

    Examples
    --------
    >>> policy = HybridLinUCB(n_features=2, own=[1], seed=7)
    >>> decision = policy.decide({"red": [1.0, 0.2], "blue": [0.3, 0.9]})
    >>> policy.update(decision.arm, decision.context, reward=1.0)
    """

    def __init__(
        self,
        *,
        n_features: int,
        shared: Sequence[int] | None = None,
        own: Sequence[int] | None = None,
        intercept: bool = True,
        width: float = 1.0,
        ridge: float = 1.0,
        seed: int | None = None,
    ) -> None:
        self._width = number_of("width", width, ParameterError)
        if not 0.0 <= self._width < math.inf:
            raise ParameterError(f"width={width!r}, expected a number of at least 0")
        super().__init__(HybridRegression(n_features, shared, own, intercept, ridge), seed)

    _check_stored = staticmethod(check_hybrid)

    @property
    def settings(self) -> dict[str, Any]:
        """The options that create this policy again, without what it has learned."""
        model = self._model
        return {
            "n_features": self.n_features,
            "shared": model.shared.tolist(),
            "own": model.own.tolist(),
            "intercept": model.intercept,
            "width": self._width,
            "ridge": model.ridge,
            "seed": self.seed,
        }

    def score(self, candidates: Candidates, key: Key) -> Scores:
        """Return the upper confidence bounds."""
        x, _, rows = candidates
        mean, std = self._model.read(x, rows)
        with np.errstate(over="ignore", invalid="ignore"):
            bounds = mean + self._width * std
        if not np.isfinite(bounds).all():
            raise first_not_finite("contexts", x)
        return best_of(bounds)

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Return 1 for the best arm; tied arms share it equally."""
        return self._certain(candidates)

    def score_with_probabilities(
        self, candidates: Candidates, key: Key
    ) -> tuple[Scores, Probabilities]:
        """Return the scores, and the probabilities that follow from them."""
        return self._certain_with_scores(candidates, key)


class _Features(NamedTuple):
    """Contexts, split into the features of the two kinds of coefficients."""

    shared: Floats
    own: Floats


class HybridRegression(Learner):
    """Ridge regression with shared coefficients β and coefficients θ_a of every arm.

    Given β, the arms are separate regressions. The state keeps, for every arm, A_a⁻¹, T_a = A_a⁻¹B_a and
    c_a = A_a⁻¹b_a, and for the shared part β and A₀⁻¹ (the symbols of Algorithm 2 in Li et al. 2010). Then θ_a is
    c_a - T_a β, and a reward changes both inverses by one rank-one step.

    Parameters
    ----------
    n_features
        Number d of features of a context.
    shared, own
        Indices of the features of each kind; `None` for all.
    intercept
        Whether every arm has an intercept of its own.
    ridge
        Penalty of all coefficients.
    """

    def __init__(
        self,
        n_features: int,
        shared: Sequence[int] | None,
        own: Sequence[int] | None,
        intercept: bool,
        ridge: float,
    ) -> None:
        super().__init__(n_features)
        self.shared = _indices("shared", shared, self.n_features)
        self.own = _indices("own", own, self.n_features)
        self.intercept = flag_of("intercept", intercept)
        self.ridge = number_of("ridge", ridge, ParameterError)
        if not 0.0 < self.ridge < math.inf:
            raise ParameterError(f"ridge={ridge!r}, expected a positive number")
        k, m = len(self.shared), len(self.own) + self.intercept
        self._coef = np.zeros(k)  # β
        self._inverse = np.eye(k) / self.ridge  # A₀⁻¹
        # Row 0 belongs to no arm: it is the state of an arm that was never pulled.
        self._own_inverse = np.eye(m)[None] / self.ridge  # A_a⁻¹
        self._cross = np.zeros((1, m, k))  # T_a
        self._own_coef = np.zeros((1, m))  # c_a

    def observe(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one reward."""
        name, given, r, h = self.checked_observation(arm, context, reward, weight)
        z, x = self._split(given)
        row = self.arm_index.row_of.get(name, 0)
        # The row of a new arm equals the prior row until the arm has learned something.
        target = row or self._reserve(len(self.arm_index) + 1)
        own_inverse, cross = self._own_inverse[target], self._cross[target]
        with np.errstate(over="ignore", invalid="ignore"):
            q = own_inverse @ x
            rest = z - x @ cross  # what is left of z, given the arm's own coefficients
            error = r - x @ self._own_coef[target]
            own_variance = 1.0 / h + x @ q
            u = self._inverse @ rest
            variance = own_variance + rest @ u
            # Li et al. 2010, Algorithm 2, lines 18 to 23: the two changes of A₀ are one rank-one step.
            new = (
                own_inverse - np.outer(q, q) / own_variance,
                cross + np.outer(q, rest) / own_variance,
                self._own_coef[target] + q * (error / own_variance),
                self._inverse - np.outer(u, u) / variance,
                self._coef + u * ((error - rest @ self._coef) / variance),
            )
        if not all(np.isfinite(array).all() for array in new):
            raise NotFiniteError("context, reward or weight is too large to compute with")

        def learn() -> None:
            if not row:
                self.arm_index.add(name)
            self._own_inverse[target], self._cross[target], self._own_coef[target] = new[:3]
            self._inverse, self._coef = new[3:]

        self.change(learn, {"_own_inverse": target, "_cross": target, "_own_coef": target})

    def read(self, contexts: Floats, rows: Integers) -> Prediction:
        """Return mean and standard deviation of arms, given their contexts and rows."""
        z, x = self._split(contexts)
        with np.errstate(over="ignore", invalid="ignore"):
            rest = z - np.einsum("km,kms->ks", x, self._cross[rows])
            mean = rest @ self._coef + (x * self._own_coef[rows]).sum(axis=1)
            own = np.einsum("km,kmn,kn->k", x, self._own_inverse[rows], x)
            variance = own + ((rest @ self._inverse) * rest).sum(axis=1)
            return Prediction(mean, np.sqrt(np.maximum(variance, 0.0)))

    def _split(self, contexts: Floats) -> _Features:
        own = contexts[..., self.own]
        if self.intercept:
            own = np.concatenate([own, np.ones((*own.shape[:-1], 1))], axis=-1)
        return _Features(contexts[..., self.shared], own)

    def _reserve(self, last_row: int) -> int:
        names = ("_own_inverse", "_cross", "_own_coef")
        self.commit(**{name: with_row(getattr(self, name), last_row) for name in names})
        return last_row

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays (views, not copies)."""
        rows = 1 + len(self.arm_index)
        return {
            "coef": self._coef,
            "inverse": self._inverse,
            "own_inverse": self._own_inverse[:rows],
            "cross": self._cross[:rows],
            "own_coef": self._own_coef[:rows],
        }


def _indices(name: str, given: Sequence[int] | None, n_features: int) -> Integers:
    """Return checked indices of features; `None` means all."""
    if given is None:
        return np.arange(n_features)
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise ParameterError(f"{name}={given!r}, expected a list of indices of features")
    indices = [count_of(name, index) for index in given]
    for index in indices:
        if index >= n_features or indices.count(index) > 1:
            raise ParameterError(
                f"{name}={list(given)!r}, expected different indices below n_features={n_features}"
            )
    return np.array(indices, dtype=np.int64)
