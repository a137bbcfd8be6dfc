"""Scores of all arms of a catalogue: each arm by itself, or all by one draw of the coefficients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.catalogue import kernels
from rolin.catalogue.posterior_cache import PosteriorCache, reject_overflow
from rolin.catalogue.products import products
from rolin.catalogue.storage import ArmStore, Block
from rolin.catalogue.workers import begin, each_block
from rolin.errors import InputError
from rolin.features import FeatureMap
from rolin.model.view import PosteriorView
from rolin.policies import LinearPolicy
from rolin.policies.first_choices import first_scores, first_shares
from rolin.policies.keyed_random import Key

__all__ = [
    "ArmDraws",
    "FirstScoring",
    "JointDraw",
    "JointScoring",
    "MarginalScoring",
    "Scoring",
    "reject_situation",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
# Draws that are made ahead: one thread draws while another scores.
_AHEAD = 2
# Decisions that share a pass over the features, at most. Their scores take 16 bytes per arm each.
_MAX_SHARED = 8


class ArmDraws(NamedTuple):
    """The normal distribution that each arm is drawn from independently, and one draw."""

    mean: Floats
    """(n,)"""
    std: Floats
    """(n,)"""
    scores: Floats
    """(n,): one draw of every arm"""


class Scoring(ABC):
    """Computes the scores of all slots of a store, -∞ for slots that hold no arm.

    Parameters
    ----------
    policy
        The policy whose rule is applied.
    store
        The arms.
    cache
        What the posterior says about them.
    """

    def __init__(self, policy: LinearPolicy, store: ArmStore, cache: PosteriorCache) -> None:
        self._policy, self._store, self._cache = policy, store, cache

    @abstractmethod
    def scores(
        self, situations: Sequence[Any], keys: Sequence[Key], available: Flags | None
    ) -> Iterator[Floats]:
        """Yield the scores of all slots for each decision in turn.

        Parameters
        ----------
        situations
            The situation of each decision, `None` if contexts do not depend on it.
        keys
            The key of each decision.
        available
            (n,): which arms can be chosen now, `None` for all. The others consume no random numbers.
        """

    @abstractmethod
    def draw(self, situation: Any, key: Key, available: Flags | None) -> ArmDraws:
        """Return the distribution that each arm is drawn from independently, and one draw."""

    @property
    def nbytes(self) -> int:
        """Memory in bytes of what is kept between decisions."""
        return 0

    def _n_available(self, available: Flags | None) -> int:
        return self._store.n if available is None else int(np.count_nonzero(available))


def reject_situation(situation: Any) -> None:
    """Reject a situation where contexts do not depend on one."""
    if situation is not None:
        raise InputError(
            "a situation was given, expected none: the contexts of this catalogue do not depend on a situation"
        )


def _spread(draws: Floats, available: Flags | None) -> Floats:
    """Return an array over all slots that holds the draws at the available ones."""
    if available is None:
        return draws
    out = np.zeros(len(available))
    out[available] = draws
    return out


def _distribution(policy: LinearPolicy, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of a policy's draws, from those of the posterior."""
    exploration, optimism = policy.draw_rule()
    return mean + optimism * std, exploration * std


class FirstScoring:
    """Scores the slots before the first estimate of the scales, when only the numbers of rewards are known.

    Parameters
    ----------
    policy
        The policy that has yet to estimate its scales.
    store
        The arms.
    cache
        The rows of the arms in the posterior.
    """

    def __init__(self, policy: LinearPolicy, store: ArmStore, cache: PosteriorCache) -> None:
        self._policy, self._store, self._cache = policy, store, cache

    def scores(self, keys: Sequence[Key], available: Flags | None) -> Iterator[Floats]:
        """Yield the scores of all slots for each decision in turn."""
        weights = self._weights(available)
        for key in keys:
            exponentials = self._policy.generator(key).standard_exponential(len(weights))
            yield _spread(first_scores(weights, exponentials), available)

    def shares(self, available: Flags | None) -> Floats:
        """Return the probability of each slot, 0 for those that cannot be chosen."""
        return _spread(first_shares(self._weights(available)), available)

    def _weights(self, available: Flags | None) -> Floats:
        self._cache.find_rows()
        rows = self._cache.rows[: self._store.n]
        return self._policy.posterior.weights(rows if available is None else rows[available])


class MarginalScoring(Scoring):
    """Scores each arm by its own mean and standard deviation: upper bounds and independent draws."""

    def scores(
        self, situations: Sequence[Any], keys: Sequence[Key], available: Flags | None
    ) -> Iterator[Floats]:
        """Yield the scores of all slots for each decision in turn."""
        for situation in situations:
            reject_situation(situation)
        n, cache, n_draws = self._store.n, self._cache, self._n_available(available)
        waiting = list(reversed(keys))
        ahead: deque[Callable[[], Floats]] = deque()

        def start_draw() -> None:
            if waiting:
                ahead.append(begin(self._store, self._policy.draws, n_draws, waiting.pop()))

        cache.update(start_draw)  # drawing takes one thread half as long as the pass takes two
        for _ in range(_AHEAD - 1):
            start_draw()
        while ahead:
            scores = _spread(ahead.popleft()(), available)
            start_draw()
            # Written over the draws, which are not needed any more.
            kernels.sum_scaled(cache.mean[:n], cache.std[:n], scores, scores)
            yield scores

    def draw(self, situation: Any, key: Key, available: Flags | None) -> ArmDraws:
        """Return the distribution that each arm is drawn from independently, and one draw."""
        scores = next(self.scores([situation], [key], available))
        n = self._store.n
        mean, std = _distribution(self._policy, self._cache.mean[:n], self._cache.std[:n])
        return ArmDraws(mean, std, scores)


class JointDraw(NamedTuple):
    """What all arms of a decision are scored by."""

    situation: Any
    normals: Floats
    """(D,): the first draws of the decision; 0 if nothing is drawn"""
    theta: Floats
    """(D,): the coefficients drawn by them"""


class JointScoring(Scoring):
    """Scores all arms by one draw of the coefficients, plus a draw of each arm's effect given them.

    Parameters
    ----------
    policy
        A policy with the rule `"joint"`, or with the rule `"mean"`, which draws nothing.
    store
        The arms.
    cache
        The rows of the arms in the posterior.
    feature_map
        The map that makes contexts from a situation and the stored features; `None` if the stored features are the
        contexts.
    """

    def __init__(
        self,
        policy: LinearPolicy,
        store: ArmStore,
        cache: PosteriorCache,
        feature_map: FeatureMap | None,
    ) -> None:
        super().__init__(policy, store, cache)
        self._feature_map = feature_map
        self._draws = policy.rule == "joint"
        # Decisions that share a pass use at most half as much memory as the features.
        bytes_per_arm = store.width * store.dtype.itemsize
        self._n_shared = min(max(1, bytes_per_arm // 32), _MAX_SHARED)

    def scores(
        self, situations: Sequence[Any], keys: Sequence[Key], available: Flags | None
    ) -> Iterator[Floats]:
        """Yield the scores of all slots for each decision in turn."""
        view = self._cache.find_rows()
        for start in range(0, len(keys), self._n_shared):
            shared = slice(start, start + self._n_shared)
            draws = [
                begin(self._store, self._effect_draws, view, key, available) for key in keys[shared]
            ]
            drawn = [
                self._drawn(view, situation, key)
                for situation, key in zip(situations[shared], keys[shared], strict=True)
            ]
            for one, level, own in zip(drawn, self._linear_predictors(drawn), draws, strict=True):
                scores = own()
                self._score(view, one, level, scores, scores)
                yield scores

    def draw(self, situation: Any, key: Key, available: Flags | None) -> ArmDraws:
        """Return the distribution that each arm is drawn from independently, and one draw."""
        view = self._cache.find_rows()
        n = self._store.n
        drawn = self._drawn(view, situation, key)
        (level,) = self._linear_predictors([drawn])
        mean, scores = np.zeros(n), np.empty(n)
        self._score(view, drawn, level, mean, mean)
        std = self._own_std(view, situation)
        kernels.sum_scaled(mean, std, self._effect_draws(view, key, available), scores)
        return ArmDraws(*_distribution(self._policy, mean, std), scores)

    def _effect_draws(self, view: PosteriorView, key: Key, available: Flags | None) -> Floats:
        """Return the draws of the arms' effects, which follow those of the coefficients."""
        if not self._draws:
            return np.zeros(self._store.n)
        draws = self._policy.draws(view.size + self._n_available(available), key)
        return _spread(draws[view.size :], available)

    def _own_std(self, view: PosteriorView, situation: Any) -> Floats:
        """Return the standard deviation of each arm's own part, given the coefficients."""
        rows = self._cache.rows[: self._store.n].astype(np.int64)
        return self._policy.posterior.own_std(rows, np.empty((0, view.size)))

    def _drawn(self, view: PosteriorView, situation: Any, key: Key) -> JointDraw:
        """Return θ = θ̂ + T'z, where z are the first draws of the decision; θ̂ if nothing is drawn."""
        if not self._draws:
            return JointDraw(situation, np.zeros(view.size), view.coef)
        normals = self._policy.draws(view.size, key)
        return JointDraw(situation, normals, view.coef + view.factor.T @ normals)

    def _linear_predictors(self, drawn: Sequence[JointDraw]) -> Floats:
        """Return x'θ of all arms, for each θ and its situation, in one pass over the features."""
        d = self._policy.n_features
        # For each θ: the constant, then what each stored feature is multiplied with.
        vectors = np.empty((len(drawn), 1 + self._store.width))
        for vector, (situation, _, theta) in zip(vectors, drawn, strict=True):
            if self._feature_map is None:
                reject_situation(situation)
                vector[0], vector[1:] = 0.0, theta[:d]
            else:
                vector[:] = self._feature_map.arm_coefficients(theta[:d], situation)
            if len(theta) > d:
                vector[0] += theta[d]  # the intercept
        out = np.empty((len(drawn), self._store.n))

        def multiply(block: Block) -> None:
            products(block.features, vectors, out[:, block.slots])

        each_block(self._store, multiply)
        return out

    def _score(
        self, view: PosteriorView, drawn: JointDraw, level: Floats, draws: Floats, out: Floats
    ) -> None:
        """Write the scores given θ. `out` may be the array of the draws."""
        rows, offered, theta = self._cache.rows, self._store.offered, drawn.theta
        situated = self._feature_map is not None  # then x̄ differs from x for every arm
        moved = self._cache.one_by_one
        moved_draws = draws[moved]

        def score(block: Block) -> int:
            slots = block.slots
            wrong = kernels.score_given_coefficients(
                rows[slots], offered[slots], view.arms, view.numbers, theta, situated,
                draws[slots], level[slots], out[slots],
            )  # fmt: skip
            return block.start + wrong if wrong >= 0 else -1

        reject_overflow(self._store, each_block(self._store, score))
        if len(moved) and not situated:
            scores = np.empty(len(moved))
            kernels.score_given_coefficients(
                rows[moved], offered[moved], view.arms, view.numbers, theta, True,
                moved_draws, level[moved], scores,
            )  # fmt: skip
            out[moved] = scores
