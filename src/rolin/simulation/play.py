"""One run of a simulation: all policies play the same problem."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rolin._support.blas import one_thread_for_good
from rolin.environments.base import Environment, Rounds
from rolin.errors import ArmError, InputError, NotFiniteError, RolinError, ShapeError
from rolin.simulation.run_file import Regrets

__all__ = ["MakePolicy", "Play", "pull"]


class MakePolicy(Protocol):
    """A function that returns the policy of a run."""

    def __call__(self, *, seed: int) -> Any:
        """Return a new policy with this seed."""


class Play:
    """A function from the number of a run to its regrets, which can be sent to another process.

    Parameters
    ----------
    policies
        By name: the function that makes the policy.
    environment
        The environment of all runs.
    rounds
        Number of rounds in a run.
    recorded_rounds
        (C,) rounds after which the regret is recorded.
    seed
        Seed of the simulation.
    """

    def __init__(
        self,
        policies: dict[str, MakePolicy],
        environment: Environment,
        rounds: int,
        recorded_rounds: NDArray[np.int64],
        seed: int,
    ) -> None:
        self._policies, self._environment = policies, environment
        self._rounds, self._recorded_rounds, self._seed = rounds, recorded_rounds, seed
        self._process = os.getpid()

    def __call__(self, run: int) -> tuple[int, Regrets]:
        """Play one run with all policies; return its number and its regrets."""
        if os.getpid() != self._process:
            one_thread_for_good()
        for_environment, for_policies = np.random.SeedSequence([self._seed, run]).spawn(2)
        policy_seed = int(for_policies.generate_state(1, np.uint64)[0])
        policies = {name: make(seed=policy_seed) for name, make in self._policies.items()}
        regret = {name: np.empty(self._rounds) for name in policies}
        # The fastest of NumPy's generators: it draws the contexts of every arm in every round.
        generator = np.random.Generator(np.random.SFC64(for_environment))
        start = 0
        for block in self._environment.play(self._rounds, generator):
            stop = start + self._check_block(block, run, start)
            best = block.means.max(axis=1)
            rows = np.arange(len(best))
            for name, policy in policies.items():
                # Each policy gets a copy, so that one that writes to its contexts does not affect the others.
                contexts = block.contexts if len(policies) == 1 else block.contexts.copy()
                try:
                    pulled = pull(policy, contexts, block.rewards)
                except RolinError as error:
                    raise type(error)(f"{name}, run {run}: {error}") from error
                _check_pulled(pulled, self._environment.n_arms, name, run, start)
                regret[name][start:stop] = best - block.means[rows, pulled]
            start = stop
        if start != self._rounds:
            raise InputError(
                f"run {run}: the environment ended after {start} rounds, expected {self._rounds}"
            )
        return run, {name: np.cumsum(r)[self._recorded_rounds - 1] for name, r in regret.items()}

    def _check_block(self, block: Any, run: int, start: int) -> int:
        """Reject a block of rounds with wrong types, shapes or values; return its number of rounds."""
        k, d = self._environment.n_arms, self._environment.n_features
        source = f"run {run}, rounds from {start}: the environment"
        if not (isinstance(block, Rounds) and all(isinstance(part, np.ndarray) for part in block)):
            raise InputError(f"{source} gave a {type(block).__name__}, expected Rounds of arrays")
        n = len(block.means)
        for part, shape in zip(block, ((n, k, d), (n, k), (n, k)), strict=True):
            if part.shape != shape:
                raise ShapeError(f"{source} gave an array of shape {part.shape}, expected {shape}")
        if start + n > self._rounds:
            raise InputError(f"{source} gave more than {self._rounds} rounds")
        if not (np.isfinite(block.means).all() and np.isfinite(block.rewards).all()):
            raise NotFiniteError(f"{source} gave means or rewards that are not finite")
        return n


def _check_pulled(pulled: list[Any], n_arms: int, name: str, run: int, start: int) -> None:
    """Reject arms that the environment does not have."""
    if set(map(type, pulled)) == {int} and min(pulled) >= 0 and max(pulled) < n_arms:
        return
    for t, arm in enumerate(pulled):
        if type(arm) is not int or not 0 <= arm < n_arms:
            raise ArmError(
                f"{name}, run {run}, round {start + t}: the policy pulled arm {arm!r}, expected one of "
                f"0 to {n_arms - 1}"
            )


def pull(policy: Any, contexts: NDArray[np.float64], rewards: NDArray[np.float64]) -> list[int]:
    """Let a policy decide and update in a block of rounds; return the arms that it pulled.

    Parameters
    ----------
    policy
        The policy.
    contexts
        (n, K, d) contexts of all arms in each round.
    rewards
        (n, K) rewards of all arms in each round; the policy receives those of the arms that it pulls.
    """
    decide, update, reward = policy.decide, policy.update, rewards.item
    pulled = []
    try:
        for t, context in enumerate(contexts):
            decision = decide(context)
            arm = decision.arm
            pulled.append(arm)
            update(arm, decision.context, reward(t, arm))
    except (AttributeError, IndexError, TypeError) as error:
        raise InputError(f"the policy cannot be simulated: {error}") from error
    return pulled
