"""Which arm is chosen, and how likely each was: a policy, with what is mixed in.

The probabilities are those of the very draw that chooses: of the policy, of the mixture of policy
and uniform exploration, or of the control group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import first_not_finite
from rolin.errors import ParameterError, Unsupported
from rolin.policies import Policy
from rolin.policies.candidates import Candidates
from rolin.policies.keyed_random import Key, KeyedGenerator

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
        self, policy: Policy[Any], candidates: Candidates, key: Key, top_k: int, *, control: bool
    ) -> tuple[tuple[int, ...], Floats | None]:
        """Return the places of the chosen arms, and the probability of each to be the first."""
        x, names, _ = candidates
        n = len(names)
        if n * self._floor > 1.0 + 1e-12:
            raise ParameterError(
                f"floor={self._floor:g} with {n} arms, expected at most 1/{n} = {1 / n:.3g}"
            )
        if control:
            if not np.isfinite(x).all():
                raise first_not_finite("contexts", x)
            order = self._random.at(key, _FLOOR).permutation(n)[:top_k]
            return tuple(order.tolist()), np.full(n, 1.0 / n)
        p, first = self._first(policy, candidates, key)
        if len(first) == top_k:
            return tuple(first), p
        # Behind an arm that was drawn here, the others come in the policy's order.
        scores = policy.score(candidates, key)
        ranked = policy.rank(scores, key, min(top_k + len(first), n))
        return (*first, *[k for k in ranked if k not in first][: top_k - len(first)]), p

    def _first(
        self, policy: Policy[Any], candidates: Candidates, key: Key
    ) -> tuple[Floats | None, list[int]]:
        """Return the probability of every arm, and the first arm if it is not for the policy to draw."""
        if not self._propensities:
            return None, []
        n, floor = len(candidates.names), self._floor
        try:
            p, error = policy.first_probabilities(candidates)
        except Unsupported:
            if not floor:
                return None, []
            raise
        share, averaged = n * floor, bool(error.any())
        if not share and not averaged:
            return p, []
        generator = self._random.at(key, _FLOOR)
        u = generator.random()
        if u < share:
            drawn = [min(int(u / floor), n - 1)]
        elif averaged:  # what is logged is exact if it is also what is drawn from
            total = p.cumsum()
            drawn = [int(np.searchsorted(total, generator.random() * total[-1], side="right"))]
        else:
            drawn = []
        return np.maximum(1.0 - share, 0.0) * p + floor, drawn
