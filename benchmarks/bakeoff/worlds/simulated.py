"""Worlds from rolin's own environments, whose mean rewards are known."""

from __future__ import annotations

import numpy as np

from bakeoff.worlds.questions import Probe, Questions, Shape, World
from rolin.environments import Environment

__all__ = ["Simulated"]

# Rounds behind the last one, at which intervals are checked.
_PROBED = 16


class Simulated(World):
    """The rounds of an environment: the same arms in every round, with contexts of their own."""

    def __init__(self, name: str, environment: Environment, *, binary: bool) -> None:
        self.name = name
        self._environment, self._binary = environment, binary
        # Mean rewards of the other environments have a standard deviation of about 2, with noise of 1.
        self._range = (0.0, 1.0) if binary else (-6.0, 6.0)

    def draw(self, rounds: int, run: int) -> Questions:
        """Return the rounds of one problem."""
        world = self._environment
        blocks = list(world.play(rounds + _PROBED, self.generator(run)))
        contexts, means, rewards = (np.concatenate(part) for part in zip(*blocks, strict=True))
        arms = np.arange(world.n_arms)
        return Questions(
            shape=Shape(world.n_arms, world.n_features, 0, None, False, self._binary, *self._range),
            arms=np.broadcast_to(arms, (rounds, world.n_arms)),
            contexts=contexts[:rounds],
            rewards=rewards[:rounds],
            probes=[
                Probe(arms.tolist(), x, mean)
                for x, mean in zip(contexts[rounds:], means[rounds:], strict=True)
            ],
        )
