"""Thompson sampling with arm effects: RoLinTS, Algorithm 1 of the paper."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from rolin.model.draws import Sampling, Scores, check_sampling
from rolin.policies.candidates import Candidates
from rolin.policies.decision import Probabilities
from rolin.policies.exploration import Exploration, WithExploration
from rolin.policies.kernels import COARSE, FINE, average_over_pairs, scale_draws
from rolin.policies.keyed_random import Key
from rolin.policies.linear import LinearPolicy, Rule
from rolin.policies.options import RoLinOptions, with_shared_options
from rolin.policies.propensity import error_of_average, highest_of_normals

__all__ = ["RoLinTS"]

Floats = NDArray[np.float64]
# Number of pairs of coefficients over which joint probabilities are averaged if they are asked for.
_PAIRS = 256
# The same if an arm is drawn from them, and during the first rewards, when the coefficients are least certain.
_PAIRS_OF_A_KEY, _MORE_PAIRS_OF_A_KEY, _EARLY = 32, 64, 100
# The stream of a decision's key that draws these coefficients. Policies use 0 and 1, and a `Bandit` 2 and 3.
_COEFFICIENTS = 4


@with_shared_options
class RoLinTS(WithExploration, LinearPolicy):
    """Thompson sampling in the robust linear model: draw every arm's mean reward, choose the highest.

    Parameters
    ----------
    sampling
        `"marginal"` draws the arms independently from N(μ_i, τ_i²), as in the paper.
        `"joint"` draws one set of coefficients for all arms. Each arm has the same distribution, the arms are
        correlated as in the posterior, and a decision takes O(K d) instead of O(K d²).
    exploration
        Factor on the posterior's standard deviations in all draws: 1 is Thompson sampling as in the paper, 0 chooses
        the highest mean. Smaller factors explore less, which pays if there are few rounds. With `"auto"`, the default,
        the factor is small, and half a standard deviation is added to every mean, as long as the rewards are spread over
        many arms. The more they concentrate on few arms, the closer this is to Thompson sampling. If arms have slopes
        and share one context, more is added; see [Choose how much to explore](../how-to/exploration.md).
    **options
        The options of [`LinearPolicy`][rolin.LinearPolicy].

    Notes
    -----
    With numbers for all scales, `intercept_std=None` and `exploration=1.0`, this is exactly the policy of the paper.

    The paper's regret bound (Theorem 1) is proved for joint sampling. The proof needs the pulled and the best arm to be
    identically distributed given the past. With independent draws they are not.

    References
    ----------
    Zhu & Kveton, *Robust Contextual Linear Bandits*, AISTATS 2023, Algorithm 1.

    Examples
    --------
    >>> policy = RoLinTS(n_features=2, seed=7)
    >>> decision = policy.decide({"red": [1.0, 0.2], "blue": [0.3, 0.9]})
    >>> policy.update(decision.arm, decision.context, reward=1.0)
    >>> mean, std = policy.predict({"red": [1.0, 0.2], "blue": [0.3, 0.9]})
    """

    rule: Rule = "marginal"  # or "joint", by the option `sampling`

    def __init__(
        self,
        *,
        n_features: int,
        sampling: Sampling = "marginal",
        exploration: Exploration = "auto",
        **options: Unpack[RoLinOptions],
    ) -> None:
        super().__init__(n_features=n_features, **options)
        check_sampling(sampling)
        self.sampling = sampling
        self.exploration = exploration
        if self.rule == "marginal":
            self.rule = sampling
        self._takes_sparse = sampling == "joint" and not self._model.takes_shared_context

    @property
    def settings(self) -> dict[str, Any]:
        """The options that create this policy again, without what it has learned."""
        return {**super().settings, "sampling": self.sampling, "exploration": self._exploration}

    def with_sampling(self, sampling: Sampling) -> Self:
        """Return a policy that draws from the same posterior in another way: what one of them learns, both know.

        Parameters
        ----------
        sampling
            `"marginal"` or `"joint"`.
        """
        check_sampling(sampling)
        other = copy.copy(self)
        other.sampling = sampling
        if self.rule in ("marginal", "joint"):
            other.rule = sampling
        other._takes_sparse = sampling == "joint" and not self._model.takes_shared_context
        return other

    def draws(self, n_arms: int, key: Key) -> Floats:
        """Return independent normal numbers, with the mean `optimism` and the standard deviation `exploration`.

        With the rule `"joint"`, the first `posterior.size` numbers draw the coefficients, and have the mean 0.
        """
        return self._draws(n_arms, key, None, self._model.size if self.rule == "joint" else 0)

    def _draws(self, n: int, key: Key, candidates: Candidates | None, n_coef: int) -> Floats:
        """Return n draws; the first `n_coef` are those of the coefficients."""
        normals = self._random.normals(key, n)
        if self._exploration != 1.0:  # the rule takes 0.5 µs
            scale_draws(normals, *self.draw_rule(candidates), n_coef)
        return normals

    def score(self, candidates: Candidates, key: Key) -> Scores:
        """Draw the mean reward of every candidate; at first, a number that depends on its rewards so far."""
        x, rows = candidates.contexts, candidates.rows
        posterior = self._model
        if not posterior.tells_arms_apart and self.chooses_by_counts:
            return self._score_by_counts(candidates, key)
        if self.sampling == "marginal":
            return posterior.score(x, rows, self._draws(len(rows), key, candidates, 0))
        draws = self._draws(posterior.size + len(rows), key, candidates, posterior.size)
        return posterior.score_joint(x, rows, draws)

    def first_probabilities(self, candidates: Candidates) -> Probabilities:
        """Return the probability of each candidate, integrated over the draws; see `probabilities`."""
        x, _, rows = candidates
        if self.chooses_by_counts:
            return self._probabilities_by_counts(candidates)
        if self.sampling == "marginal":
            scores = self._model.score(x, rows, np.zeros(len(x)))
            return self._marginal_probabilities(scores, candidates)
        normals = self.generator("probabilities").standard_normal((_PAIRS, self._model.size))
        return self._joint_probabilities(candidates, normals, FINE)

    def score_with_probabilities(
        self, candidates: Candidates, key: Key
    ) -> tuple[Scores, Probabilities]:
        """Draw the mean reward of every candidate, and return their probabilities.

        With joint sampling, the probabilities are averages over 64 draws of the coefficients, which belong to the key, or
        over 128 before there are 100 rewards. An arm that is drawn from these averages is chosen as often as by `score`,
        for any number of draws.
        """
        if self.chooses_by_counts:
            return self._certain_with_scores(candidates, key)
        scores = self.score(candidates, key)
        if self.sampling == "marginal":
            return scores, self._marginal_probabilities(scores, candidates)
        pairs = _MORE_PAIRS_OF_A_KEY if self._model.count < _EARLY else _PAIRS_OF_A_KEY
        normals = self._random.at(key, _COEFFICIENTS).standard_normal((pairs, self._model.size))
        return scores, self._joint_probabilities(candidates, normals, COARSE)

    def _marginal_probabilities(self, scores: Scores, candidates: Candidates) -> Probabilities:
        """Return the probabilities of independent draws, from the rows mean and std of the scores."""
        mean, std = scores.table[0], scores.table[1]
        exploration, optimism = self.draw_rule(candidates)
        drawn = highest_of_normals(mean + optimism * std, std, exploration)
        return Probabilities(drawn, np.zeros(len(mean)))

    def _joint_probabilities(
        self, candidates: Candidates, normals: Floats, precision: tuple[float, float]
    ) -> Probabilities:
        """Average over draws of the coefficients; given the coefficients, the arms are independent.

        Draws come in pairs θ̂ ± T'z, so that much of their error cancels. The rows of `normals` are the z.
        """
        given = self._model.given_coefficients(candidates.contexts, candidates.rows)
        out = np.empty((2, len(given.mean)))
        shifts = normals @ given.loadings.T
        exploration, optimism = self.draw_rule(candidates)
        mean = given.mean + optimism * given.std
        average_over_pairs(mean, shifts, given.std, exploration, precision, out)
        return Probabilities(out[0], error_of_average(out[1], len(normals)))

    def score_many(self, questions: Sequence[Candidates], keys: Sequence[Key]) -> list[Scores]:
        """Score the arms of several questions; with marginal sampling, in one pass."""
        if self.sampling == "marginal" and not self._model.takes_shared_context:
            return super().score_many(questions, keys)
        return self._score_each(questions, keys)
