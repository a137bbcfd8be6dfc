"""Which arm is chosen, and how likely each was: a policy, with what is mixed in.

The probabilities are those of the very draw that chooses: of the policy, of the mixture of policy
and uniform exploration, or of the control group.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.checks import first_not_finite
from rolin.errors import CannotTell, ParameterError
from rolin.policies import Policy
from rolin.policies.question import Question
from rolin.randomness import Key, KeyedGenerator

__all__ = ["Explorer"]

Floats = NDArray[np.float64]
# Streams of a key; the policy itself draws from 0 and 1.
_FLOOR, _CONTROL = 2, 3


class Explorer:
    """Chooses by a policy, now and then at random.

    Parameters
    ----------
    seed
        That of the policy.
    floor
        The least probability of every arm.
    control_share
        Share of those for whom arms are drawn uniformly.
    propensities
        Whether to compute the probability of every arm.
    """

    def __init__(self, seed: int, floor: float, control_share: float, propensities: bool) -> None:
        if floor and not propensities:
            raise ParameterError("floor is for propensities, expected propensities=True with it")
        self._random = KeyedGenerator(seed)
        self._floor, self._control_share = floor, control_share
        self._propensities = propensities

    def in_control(self, unit: Key) -> bool:
        """Return whether somebody belongs to the control group: now and, while it grows, ever."""
        if not self._control_share:
            return False
        return bool(self._random.at(unit, _CONTROL).random() < self._control_share)

    def choose(
        self, policy: Policy[Any], question: Question, key: Key, top_k: int, *, control: bool
    ) -> tuple[tuple[int, ...], Floats | None]:
        """Return the places of the chosen arms, and the probability of each to be the first."""
        x, (names, _) = question
        n = len(names)
        if control:
            if not np.isfinite(x).all():
                raise first_not_finite("contexts", x)
            order = self._random.at(key, _FLOOR).permutation(n)[:top_k]
            return tuple(order.tolist()), np.full(n, 1.0 / n)
        p = None
        if self._propensities:
            with suppress(CannotTell):
                p, _ = policy._probabilities(question)
        first: list[int] = []
        if self._floor:
            p, first = self._mixed(policy, p, n, key)
        if len(first) == top_k:
            return tuple(first), p
        # Behind the arm that exploration put first, the others come in the policy's order.
        scores = policy._score(question, key)
        ranked = policy._ranking(scores, key, min(top_k + len(first), n))
        return (*first, *[k for k in ranked if k not in first][: top_k - len(first)]), p

    def _mixed(
        self, policy: Policy[Any], p: Floats | None, n: int, key: Key
    ) -> tuple[Floats, list[int]]:
        """Return the mixture's probabilities, and the arm that exploration draws, if it does."""
        floor = self._floor
        if p is None:
            raise CannotTell(
                f"floor={floor:g}, but {type(policy).__name__} does not know its probabilities"
            )
        share = n * floor
        if share > 1.0 + 1e-12:
            raise ParameterError(
                f"floor={floor:g} with {n} arms, expected at most 1/{n} = {1 / n:.3g}"
            )
        u = self._random.at(key, _FLOOR).random()
        drawn = [min(int(u / floor), n - 1)] if u < share else []
        return np.maximum(1.0 - share, 0.0) * p + floor, drawn
