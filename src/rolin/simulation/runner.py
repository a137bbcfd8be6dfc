"""Policies × environment × runs: paired comparisons of policies by simulation."""

from __future__ import annotations

import importlib.metadata
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rolin._support.blas import controller, one_thread, one_thread_for_good
from rolin._support.checks import count_of
from rolin._support.optional import needs
from rolin._support.parallel import Engine, check_engine, check_n_jobs, each
from rolin.environments.base import Block, Environment
from rolin.errors import (
    ArmError,
    InputError,
    NotFiniteError,
    ParameterError,
    RolinError,
    ShapeError,
)
from rolin.simulation.result import Result
from rolin.simulation.run_file import Regrets, RunFile

__all__ = ["MOST", "MakePolicy", "pull", "simulate"]


# Rounds, runs or checkpoints: the regret of every round of a run is held in memory.
MOST = 10**8


class MakePolicy(Protocol):
    """Makes the policy of a run."""

    def __call__(self, *, seed: int) -> Any:
        """Return a new policy that draws from this seed."""


def simulate(
    policies: Mapping[str, MakePolicy],
    environment: Environment,
    *,
    rounds: int,
    runs: int,
    seed: int = 0,
    n_jobs: int | None = None,
    engine: Engine | None = None,
    address: str | None = None,
    n_points: int = 100,
    progress: bool | str = True,
    checkpoint: str | PathLike[str] | None = None,
) -> Result:
    """Let policies play the same problems, and note their regret.

    Run i is the same whatever the other policies, the number of runs or of workers: its problem,
    contexts and noise depend on `seed` and i alone, and all policies get the same seed of their
    own. The policies are shown contexts and the rewards of the arms that they pull, through
    `decide` and `update`, and nothing else.

    Parameters
    ----------
    policies
        A function for each name that makes the policy of a run from its seed, such as
        `lambda seed: rolin.RoLinTS(n_features=10, seed=seed)`.
    environment
        What to play against.
    rounds
        Rounds of a run.
    runs
        Number of runs.
    seed
        A non-negative integer.
    n_jobs
        Number of processes, -1 for all cores; by default what `joblib.parallel_config` says, or
        one. With an engine, number of workers of a cluster on this machine, by default all cores.
    engine
        `"dask"` or `"ray"`, to play on a cluster; by default processes of this machine. The numbers are the same.
    address
        Of the engine's cluster; by default the one that this process is connected to, or else one on this
        machine.
    n_points
        How many times the regret is noted in a run, evenly spaced (and at half and three quarters).
    progress
        Show a bar with the time left; a text is its label.
    checkpoint
        A file to write each run to as it finishes. Asked again with the same settings, only runs
        that are not in it are played.

    Notes
    -----
    Interrupted by the keyboard, it warns and returns the runs that have finished.

    Examples
    --------
    >>> import rolin
    >>> result = simulate(
    ...     {
    ...         "RoLinTS": lambda seed: rolin.RoLinTS(n_features=2, seed=seed),
    ...         "LinTS": lambda seed: rolin.LinTS(n_features=2, seed=seed),
    ...     },
    ...     rolin.environments.Synthetic(n_arms=5, n_features=2),
    ...     rounds=100, runs=4, progress=False,
    ... )
    >>> result.regret["LinTS"].shape
    (4, 100)
    """
    rounds = count_of("rounds", rounds, least=1, most=MOST)
    runs = count_of("runs", runs, least=1, most=MOST)
    seed = count_of("seed", seed)
    check_n_jobs(n_jobs)
    check_engine(engine, address)
    at = _recorded_rounds(rounds, count_of("n_points", n_points, least=1, most=MOST))
    if not isinstance(policies, Mapping) or not policies:
        raise ParameterError(f"policies={policies!r}, expected a mapping from names to functions")
    if isinstance(environment, type) or not isinstance(environment, Environment):
        raise ParameterError(f"environment={environment!r}, expected one of rolin.environments")
    controller()  # before anything is written: it may be missing
    settings = {
        "rolin": importlib.metadata.version("rolin"),
        "policies": {name: repr(_made(name, make)) for name, make in policies.items()},
        "environment": repr(environment),
        "rounds": rounds,
        "seed": seed,
        "checkpoints": at.tolist(),
        "bound": _bound(environment, at),
    }
    if checkpoint is not None:
        _check_described(settings)
    file = None if checkpoint is None else RunFile(checkpoint, settings)
    done = {} if file is None else {r: found for r, found in file.runs.items() if r < runs}
    missing = [run for run in range(runs) if run not in done]
    play = _Play(dict(policies), environment, rounds, at, seed)
    try:
        # One BLAS thread: the sums come out the same wherever and beside whatever it runs.
        played = _played(play, missing, n_jobs, engine, address)
        with one_thread():
            for run, regrets in _shown(played, runs, len(done), progress):
                done[run] = regrets
                if file is not None:
                    file.add(run, regrets)
    except KeyboardInterrupt:
        if not done:
            raise
        warnings.warn(f"interrupted: {len(done)} of {runs} runs have finished", stacklevel=2)
    finally:
        if file is not None:
            file.close()
    return Result.of(settings, done)


def _made(name: object, make: object) -> Any:
    """Make a policy once, to see whether it is one and what it calls itself."""
    if not isinstance(name, str) or not callable(make):
        raise ParameterError(
            f"policies[{name!r}]={make!r}, expected a text and a function of the seed"
        )
    try:
        policy = make(seed=0)
    except RolinError as error:
        raise type(error)(f"{name}: {error}") from error
    except TypeError as error:
        raise ParameterError(f"policies[{name!r}] cannot be called with seed=0: {error}") from error
    if not (hasattr(policy, "decide") and hasattr(policy, "update")):
        raise ParameterError(f"policies[{name!r}] makes {policy!r}, which is not a policy")
    return policy


def _check_described(settings: Mapping[str, Any]) -> None:
    """Refuse to keep runs of things that do not say what they are: they could not be told apart."""
    for text in (settings["environment"], *settings["policies"].values()):
        if re.search(r" at 0x[0-9a-f]+", text, re.IGNORECASE):
            raise ParameterError(
                f"{text} does not say what it is, so its runs cannot be kept; give it a __repr__ "
                "that shows its settings"
            )


class _Play:
    """One run, as a function of its number that can be sent to another process."""

    def __init__(
        self,
        policies: dict[str, MakePolicy],
        environment: Environment,
        rounds: int,
        at: NDArray[np.int64],
        seed: int,
    ) -> None:
        self._policies, self._environment = policies, environment
        self._rounds, self._at, self._seed = rounds, at, seed
        self._process = os.getpid()

    def __call__(self, run: int) -> tuple[int, Regrets]:
        """Play one run with all policies."""
        if os.getpid() != self._process:
            one_thread_for_good()
        world, own = np.random.SeedSequence([self._seed, run]).spawn(2)
        policy_seed = int(own.generate_state(1, np.uint64)[0])
        players = {name: make(seed=policy_seed) for name, make in self._policies.items()}
        regret = {name: np.empty(self._rounds) for name in players}
        # The fastest of NumPy's generators, for the contexts of every arm in every round.
        generator = np.random.Generator(np.random.SFC64(world))
        start = 0
        for block in self._environment.play(self._rounds, generator):
            stop = start + self._checked(block, run, start)
            best = block.means.max(axis=1)
            each = np.arange(len(best))
            for name, policy in players.items():
                # A copy each: a policy that writes to its contexts spoils nobody else's game.
                contexts = block.contexts if len(players) == 1 else block.contexts.copy()
                try:
                    pulled = pull(policy, contexts, block.rewards)
                except RolinError as error:
                    raise type(error)(f"{name}, run {run}: {error}") from error
                _check_pulled(pulled, self._environment.n_arms, name, run, start)
                regret[name][start:stop] = best - block.means[each, pulled]
            start = stop
        if start != self._rounds:
            raise InputError(
                f"the environment ended after {start} rounds of {self._rounds}, run {run}"
            )
        return run, {name: np.cumsum(r)[self._at - 1] for name, r in regret.items()}

    def _checked(self, block: Any, run: int, start: int) -> int:
        """Return the number of rounds in a block, or say what is wrong with it."""
        k, d = self._environment.n_arms, self._environment.n_features
        where = f"run {run}, rounds from {start}: the environment"
        if not (isinstance(block, Block) and all(isinstance(part, np.ndarray) for part in block)):
            raise InputError(f"{where} gave a {type(block).__name__}, expected a Block of arrays")
        n = len(block.means)
        for part, shape in zip(block, ((n, k, d), (n, k), (n, k)), strict=True):
            if part.shape != shape:
                raise ShapeError(f"{where} gave an array of shape {part.shape}, expected {shape}")
        if start + n > self._rounds:
            raise InputError(f"{where} gave more than {self._rounds} rounds")
        if not (np.isfinite(block.means).all() and np.isfinite(block.rewards).all()):
            raise NotFiniteError(f"{where} gave means or rewards that are not finite")
        return n


def _check_pulled(pulled: list[Any], n_arms: int, name: str, run: int, start: int) -> None:
    if set(map(type, pulled)) == {int} and min(pulled) >= 0 and max(pulled) < n_arms:
        return
    for t, arm in enumerate(pulled):
        if type(arm) is not int or not 0 <= arm < n_arms:
            raise ArmError(
                f"{name}, run {run}, round {start + t}: the policy pulled arm {arm!r}, expected one of "
                f"0 to {n_arms - 1}"
            )


def pull(policy: Any, contexts: NDArray[np.float64], rewards: NDArray[np.float64]) -> list[int]:
    """Let a policy play a block of rounds; return the arms that it pulled."""
    decide, update, reward = policy.decide, policy.update, rewards.item
    pulled = []
    try:
        for t, context in enumerate(contexts):
            decision = decide(context)
            arm = decision.arm
            pulled.append(arm)
            update(arm, decision.context, reward(t, arm))
    except (AttributeError, IndexError, TypeError) as error:
        raise InputError(f"the policy cannot be played: {error}") from error
    return pulled


def _played(
    play: _Play,
    missing: list[int],
    n_jobs: int | None,
    engine: Engine | None,
    address: str | None,
) -> Iterator[tuple[int, Regrets]]:
    """Yield runs as they finish, in any order."""
    if engine is not None:
        yield from each(play, missing, engine=engine, address=address, n_jobs=n_jobs, what="run")
        return
    with needs("sim"):
        import joblib
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    yield from parallel(joblib.delayed(play)(run) for run in missing)


def _shown(
    played: Iterator[tuple[int, Regrets]], runs: int, done: int, progress: bool | str
) -> Iterator[tuple[int, Regrets]]:
    """Pass runs through, moving a bar."""
    if not progress:
        yield from played
        return
    with needs("sim"):
        from rolin._support.progress import bar
    label = progress if isinstance(progress, str) else "simulating"
    with bar(label, runs, done) as advance:
        for item in played:
            yield item
            advance(1)


def _recorded_rounds(rounds: int, number: int) -> NDArray[np.int64]:
    """Return evenly spaced rounds, and those that `Result.growth` needs: 1/2, 3/4 and all of them."""
    every = -(-np.arange(1, number + 1, dtype=np.int64) * rounds // number)
    at = np.union1d(every, [rounds // 2, 3 * rounds // 4, rounds])
    return at[at > 0]


def _bound(environment: Environment, at: NDArray[np.int64]) -> list[float] | None:
    bound = getattr(environment, "regret_bound", None)
    if bound is None:
        return None
    values = [float(bound(int(t))) for t in at]
    return values if all(map(math.isfinite, values)) else None
