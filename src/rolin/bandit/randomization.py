"""Choose an arm by a policy mixed with uniform draws: the floor and the control group.

The recorded probabilities are exactly those of the draw that chooses the arm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import first_not_finite
from rolin.errors import ParameterError, Unsupported
from rolin.journal.events import SettingsChanged
from rolin.model.draws import Scores
from rolin.policies import Policy
from rolin.policies.candidates import Candidates
from rolin.policies.keyed_random import Key, KeyedGenerator

__all__ = ["Choice", "Randomization", "check_settings"]

Floats = NDArray[np.float64]
# Streams of a key; the policy itself draws from 0, 1 and 4.
_FLOOR, _CONTROL, _SHARE = 2, 3, 5


class Choice(NamedTuple):
    """The arms that were chosen, and how likely each arm was."""

    chosen: tuple[int, ...]
    """Indices of the ranking, the chosen arm first."""
    propensities: Floats | None
    """(K,): probability of each arm to be chosen first; `None` if not computed."""


def check_settings(settings: SettingsChanged) -> None:
    """Reject settings that exclude each other."""
    if settings.floor and not settings.propensities:
        raise ParameterError(
            f"floor={settings.floor:g} with propensities=False, expected propensities=True: a floor "
            "needs recorded propensities",
            argument="floor",
        )


class Randomization:
    """Chooses by a policy, mixed with uniform draws for the floor and the control group.

    Parameters
    ----------
    seed
        The seed of the policy.
    settings
        Floor, control share, share of the policy, and whether to compute propensities.
    """

    def __init__(self, seed: int, settings: SettingsChanged) -> None:
        self._random = KeyedGenerator(seed)
        self._floor, self._control_share = settings.floor, settings.control_share
        self._share, self._propensities = settings.share, settings.propensities

    def in_control(self, unit: Key) -> bool:
        """Return whether a person or decision is in the control group; it stays so if the share grows."""
        if not self._control_share:
            return False
        return bool(self._random.at(unit, _CONTROL).random() < self._control_share)

    def in_share(self, unit: Key) -> bool:
        """Return whether the policy decides for a person or decision; it stays so if the share grows."""
        if self._share == 1.0:
            return True
        # A stream of its own, so that it does not depend on who is in the control group.
        return bool(self._random.at(unit, _SHARE).random() < self._share)

    def choose(
        self, policy: Policy[Any], candidates: Candidates, key: Key, top_k: int, *, control: bool
    ) -> Choice:
        """Choose `top_k` arms and compute the probability of each arm to be chosen first."""
        x, names, _ = candidates
        n = len(names)
        if n * self._floor > 1.0 + 1e-12:
            raise ParameterError(
                f"floor={self._floor:g} with {n} arms, expected at most 1/{n} = {1 / n:.5g}"
            )
        if control:
            if not np.isfinite(x).all():
                raise first_not_finite("contexts", x)
            order = self._random.at(key, _FLOOR).permutation(n)[:top_k]
            return Choice(tuple(order.tolist()), np.full(n, 1.0 / n))
        scores, p, first = self._first(policy, candidates, key)
        if len(first) == top_k:
            return Choice(tuple(first), p)
        # After an arm that was drawn here, the others follow in the policy's order.
        ranked = policy.rank(scores, key, min(top_k + len(first), n))
        if not first and p is not None and p[ranked[0]] <= 0.0:
            # So unlikely that its computed probability is 0, which no log may hold for a chosen arm.
            first = [_draw(p, self._random.at(key, _FLOOR))]
            ranked = policy.rank(scores, key, min(top_k + 1, n))
        rest = [index for index in ranked if index not in first]
        return Choice((*first, *rest[: top_k - len(first)]), p)

    def _first(
        self, policy: Policy[Any], candidates: Candidates, key: Key
    ) -> tuple[Scores, Floats | None, list[int]]:
        """Return the scores, the probability of every arm, and the first arm unless the scores choose it."""
        if not self._propensities:
            return policy.score(candidates, key), None, []
        n, floor = len(candidates.names), self._floor
        try:
            scores, (p, error) = policy.score_with_probabilities(candidates, key)
        except Unsupported:
            if not floor:
                return policy.score(candidates, key), None, []
            raise
        share, averaged = n * floor, np.count_nonzero(error) > 0  # faster than error.any()
        if not share and not averaged:
            return scores, p, []
        generator = self._random.at(key, _FLOOR)
        u = generator.random()
        if u < share:
            drawn = [min(int(u / floor), n - 1)]
        elif averaged:  # draw from the logged probabilities, so that they are exact
            drawn = [_draw(p, generator)]
        else:
            drawn = []
        return scores, np.maximum(1.0 - share, 0.0) * p + floor, drawn


def _draw(p: Floats, generator: np.random.Generator) -> int:
    """Draw the index of an arm with these probabilities; never one with probability 0."""
    total = p.cumsum()
    # The product may be rounded up to the total.
    u = min(generator.random() * total[-1], np.nextafter(total[-1], 0.0))
    return int(np.searchsorted(total, u, side="right"))
