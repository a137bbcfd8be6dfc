"""How the arms of a catalogue are scored: each by itself, or all by one draw of the coefficients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.catalogue import kernels as passes
from rolin.catalogue.posterior_cache import Following, refuse_overflow, threads
from rolin.catalogue.storage import Shelf
from rolin.errors import InputError
from rolin.features import FeatureMap
from rolin.policies import LinearPolicy
from rolin.policies.keyed_random import Key
from rolin.policies.rolin_ts import RoLinTS

__all__ = ["Joint", "Marginal", "Scoring"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
# Draws that are made ahead: while one thread scores, another draws.
_AHEAD = 2
# Decisions that share a pass over the features, at most; their scores take 16 bytes an arm each.
_SHARED = 8


class Scoring(ABC):
    """Scores of all places of a shelf, -∞ where no arm is offered.

    Parameters
    ----------
    policy
        Whose rule it is.
    shelf
        The arms.
    following
        What the policy says of them.
    """

    def __init__(self, policy: LinearPolicy, shelf: Shelf, following: Following) -> None:
        self._policy, self._shelf, self._following = policy, shelf, following

    @abstractmethod
    def scores(
        self, situations: Sequence[Any], keys: Sequence[Key], left: Flags | None
    ) -> Iterator[Floats]:
        """Yield the scores of all places, decision by decision.

        Parameters
        ----------
        situations
            What contexts depend on, for each decision.
        keys
            What each decision is keyed by.
        left
            (n,): which arms can be chosen now, if not all: the others draw no numbers.
        """

    @abstractmethod
    def given(self, situation: Any, key: Key, left: Flags | None) -> tuple[Floats, Floats, Floats]:
        """Return what is drawn independently for every arm: means, standard deviations, a draw."""

    def _number(self, left: Flags | None) -> int:
        return self._shelf.n if left is None else int(np.count_nonzero(left))


def _spread(draws: Floats, left: Flags | None) -> Floats:
    """Give every arm that can be chosen its draw."""
    if left is None:
        return draws
    out = np.zeros(len(left))
    out[left] = draws
    return out


class Marginal(Scoring):
    """Every arm by its own mean and standard deviation: upper bounds, and independent draws."""

    def scores(
        self, situations: Sequence[Any], keys: Sequence[Key], left: Flags | None
    ) -> Iterator[Floats]:
        """Yield the scores of all places, decision by decision."""
        if any(situation is not None for situation in situations):
            raise InputError("a situation was given, but the contexts of this catalogue have none")
        n, following, drawn = self._shelf.n, self._following, self._number(left)
        waiting = list(reversed(keys))
        ahead: deque[Future[Floats]] = deque()

        def draw() -> None:
            if waiting:
                ahead.append(threads().submit(self._policy.draws, drawn, waiting.pop()))

        following.update(draw)  # which takes a thread as long as half of the pass takes two
        for _ in range(_AHEAD - 1):
            draw()
        while ahead:
            scores = _spread(ahead.popleft().result(), left)
            draw()
            # in place: the draws are needed no more
            passes.sum_scaled(following.mean[:n], following.std[:n], scores, scores)
            yield scores

    def given(self, situation: Any, key: Key, left: Flags | None) -> tuple[Floats, Floats, Floats]:
        """Return what is drawn independently for every arm: means, standard deviations, a draw."""
        scores = next(self.scores([situation], [key], left))
        n = self._shelf.n
        return self._following.mean[:n].copy(), self._following.std[:n], scores


class Joint(Scoring):
    """All arms by one draw of the coefficients, and each by a draw of its own effect given them.

    Parameters
    ----------
    policy
        Whose rule it is: `RoLinTS`, or `Greedy`, which draws nothing.
    shelf
        The arms.
    following
        What the policy says of them.
    crossed
        The map that makes contexts of a situation and the arms' features; `None` if the features are the contexts.
    """

    def __init__(
        self,
        policy: LinearPolicy,
        shelf: Shelf,
        following: Following,
        crossed: FeatureMap | None,
    ) -> None:
        super().__init__(policy, shelf, following)
        self._crossed = crossed
        # Half of the features' own memory is for decisions that share a pass.
        bytes_of_arm = shelf.width * shelf.dtype.itemsize
        self._at_once = min(max(1, bytes_of_arm // 32), _SHARED)

    def scores(
        self, situations: Sequence[Any], keys: Sequence[Key], left: Flags | None
    ) -> Iterator[Floats]:
        """Yield the scores of all places, decision by decision."""
        self._following.find_rows()
        for start in range(0, len(keys), self._at_once):
            some = keys[start : start + self._at_once]
            draws = [threads().submit(self._own, key, left) for key in some]
            thetas = [self._theta(key) for key in some]
            levels = self._levels(thetas, situations[start : start + self._at_once])
            for theta, level, own in zip(thetas, levels, draws, strict=True):
                scores = own.result()
                self._score(theta, level, scores, scores)
                yield scores

    def given(self, situation: Any, key: Key, left: Flags | None) -> tuple[Floats, Floats, Floats]:
        """Return what is drawn independently for every arm: means, standard deviations, a draw."""
        self._following.find_rows()
        n = self._shelf.n
        theta = self._theta(key)
        (level,) = self._levels([theta], [situation])
        mean, scores = np.zeros(n), np.empty(n)
        self._score(theta, level, mean, mean)
        std = self._policy.posterior.own_std(self._following.rows[:n].astype(np.int64))
        passes.sum_scaled(mean, std, self._own(key, left), scores)
        return mean, std, scores

    def _own(self, key: Key, left: Flags | None) -> Floats:
        """Return the draws of the arms' effects, which come after those of the coefficients."""
        n = self._number(left)
        if not isinstance(self._policy, RoLinTS):
            return np.zeros(self._shelf.n)
        size = self._policy.posterior.size
        return _spread(self._policy._random.normals(key, size + n)[size:], left)

    def _theta(self, key: Key) -> Floats:
        """Return θ̂ + T'z, with the first draws of the decision."""
        posterior = self._policy.posterior
        if not isinstance(self._policy, RoLinTS):
            return posterior._coef
        theta: Floats = posterior._coef + posterior._factor.T @ self._policy._random.normals(
            key, posterior.size
        )
        return theta

    def _levels(self, thetas: Sequence[Floats], situations: Sequence[Any]) -> Floats:
        """Return x'θ of all arms for some θ, in one pass."""
        d = self._policy.n_features
        worth = np.empty((len(thetas), 1 + self._shelf.width))
        for own, theta, situation in zip(worth, thetas, situations, strict=True):
            if self._crossed is None:
                if situation is not None:
                    raise InputError(
                        "a situation was given, but the contexts of this catalogue have none"
                    )
                own[0], own[1:] = 0.0, theta[:d]
            else:
                own[:] = self._crossed.arm_coefficients(theta[:d], situation)
            own[0] += theta[d:].sum()  # the intercept
        out = np.empty((len(thetas), self._shelf.n))

        def multiply(block: tuple[int, int, Any]) -> None:
            start, stop, x = block
            passes.levels(x, worth, out[:, start:stop])

        list(threads().map(multiply, self._shelf.blocks()))
        return out

    def _score(self, theta: Floats, level: Floats, draws: Floats, out: Floats) -> None:
        posterior, rows = self._policy.posterior, self._following.rows
        offered, crossed = self._shelf.offered, self._crossed is not None
        apart = self._following.apart
        kept = draws[apart]

        def score(block: tuple[int, int, Any]) -> int:
            start, stop, _ = block
            part = slice(start, stop)
            wrong = passes.score_given(
                rows[part], offered[part], posterior._arms, posterior._numbers, theta, crossed,
                draws[part], level[part], out[part],
            )  # fmt: skip

            return start + wrong if wrong >= 0 else -1

        refuse_overflow(self._shelf, threads().map(score, self._shelf.blocks()))
        if len(apart) and not crossed:  # they have been seen elsewhere than where they are now
            scores = np.empty(len(apart))
            passes.score_given(
                rows[apart], offered[apart], posterior._arms, posterior._numbers, theta, True,
                kept, level[apart], scores,
            )  # fmt: skip
            out[apart] = scores
