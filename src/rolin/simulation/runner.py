"""Simulate several policies in one environment, in paired runs."""

from __future__ import annotations

import importlib.metadata
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.blas import controller, one_thread
from rolin._support.checks import count_of
from rolin._support.optional import needs
from rolin._support.parallel import Engine, check_engine, check_n_jobs, each
from rolin._support.progress import Progress, check_progress, reporter
from rolin.environments.base import Environment
from rolin.errors import ParameterError, RolinError
from rolin.simulation.play import MakePolicy, Play
from rolin.simulation.result import Result
from rolin.simulation.run_file import Regrets, RunFile

__all__ = ["MAX_COUNT", "simulate"]

# Largest number of rounds, runs or points: the regret of every round of a run is held in memory.
MAX_COUNT = 10**8


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
    progress: Progress = True,
    checkpoint: str | PathLike[str] | None = None,
) -> Result:
    """Simulate policies on the same problems, and record their regret.

    The problem, contexts and noise of run i depend only on `seed` and i: not on the policies, the
    number of runs or the number of workers. All policies of a run get the same seed. A policy sees the
    contexts, through `decide`, and the rewards of the arms that it pulls, through `update`; it sees
    nothing else.

    Parameters
    ----------
    policies
        By name: a function that makes the policy of a run from its seed, such as
        `lambda seed: rolin.RoLinTS(n_features=10, seed=seed)`.
    environment
        One of `rolin.environments`, or your own object with the same attributes and methods.
    rounds
        Number of rounds in a run.
    runs
        Number of runs.
    seed
        A non-negative integer.
    n_jobs
        Number of processes. `None` means 1, unless `joblib.parallel_config` says otherwise; -1 means all
        cores. With an engine, it is the number of workers of a cluster that is started on this machine.
    engine
        `"dask"` or `"ray"` to run on a cluster; by default processes of this machine. The numbers are the
        same.
    address
        Address of the cluster. By default the one that this process is connected to, or else a new one
        on this machine.
    n_points
        Number of evenly spaced rounds after which the regret is recorded. It is also recorded after half,
        three quarters and all of the rounds.
    progress
        `True` shows a progress bar with the remaining time, `False` shows nothing. A function is called
        with the number of runs that were completed since its last call.
    checkpoint
        A file to which each completed run is written. The same call with the same file resumes: it plays
        only the runs that the file does not contain.

    Returns
    -------
    Result
        The regret of every policy in every run.

    Notes
    -----
    On Ctrl-C it warns and returns the completed runs.

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
    >>> result
    Result(policies=['RoLinTS', 'LinTS'], runs=4, rounds=100)
    >>> result.regret["LinTS"].shape
    (4, 100)
    """
    rounds = count_of("rounds", rounds, least=1, most=MAX_COUNT)
    runs = count_of("runs", runs, least=1, most=MAX_COUNT)
    seed = count_of("seed", seed)
    check_n_jobs(n_jobs)
    check_engine(engine, address)
    check_progress(progress)
    recorded = _recorded_rounds(rounds, count_of("n_points", n_points, least=1, most=MAX_COUNT))
    if not isinstance(policies, Mapping) or not policies:
        raise ParameterError(
            f"policies={policies!r}, expected a mapping from names to functions of a seed"
        )
    if isinstance(environment, type) or not isinstance(environment, Environment):
        raise ParameterError(
            f"environment={environment!r}, expected an object with n_arms, n_features and play, such as "
            "those of rolin.environments"
        )
    controller()  # it may be missing, which must show before anything is written
    settings = {
        "rolin": importlib.metadata.version("rolin"),
        "policies": {name: repr(_make_policy(name, make)) for name, make in policies.items()},
        "environment": repr(environment),
        "rounds": rounds,
        "seed": seed,
        "checkpoints": recorded.tolist(),
        "bound": _bound(environment, recorded),
    }
    if checkpoint is not None:
        _check_described(settings)
    file = None if checkpoint is None else RunFile(checkpoint, settings)
    done = {} if file is None else {run: stored for run, stored in file.runs.items() if run < runs}
    missing = [run for run in range(runs) if run not in done]
    play = Play(dict(policies), environment, rounds, recorded, seed)
    try:
        # One BLAS thread, so that sums are rounded the same way for any number of workers.
        with one_thread(), reporter(progress, "simulating", runs, len(done)) as advance:
            for run, regrets in _play_all(play, missing, n_jobs, engine, address):
                done[run] = regrets
                if file is not None:
                    file.add(run, regrets)
                advance(1)
    except KeyboardInterrupt:
        if not done:
            raise
        warnings.warn(f"interrupted: {len(done)} of {runs} runs are completed", stacklevel=2)
    finally:
        if file is not None:
            file.close()
    return Result.of(settings, done)


def _make_policy(name: object, make: object) -> Any:
    """Make a policy once, to check that it is one and to get its description."""
    if not isinstance(name, str) or not callable(make):
        raise ParameterError(
            f"policies[{name!r}]={make!r}, expected a string as name and a function of the seed"
        )
    try:
        policy = make(seed=0)
    except RolinError as error:
        raise type(error)(f"{name}: {error}") from error
    except TypeError as error:
        raise ParameterError(f"policies[{name!r}] cannot be called with seed=0: {error}") from error
    if not (hasattr(policy, "decide") and hasattr(policy, "update")):
        raise ParameterError(
            f"policies[{name!r}] returned {policy!r}, expected a policy with decide and update"
        )
    return policy


def _check_described(settings: Mapping[str, Any]) -> None:
    """Reject objects without a `repr` of their own: a checkpoint could not tell them apart."""
    for text in (settings["environment"], *settings["policies"].values()):
        if re.search(r" at 0x[0-9a-f]+", text, re.IGNORECASE):
            raise ParameterError(
                f"{text} does not show its settings, so its runs cannot be stored in a checkpoint; give it "
                "a __repr__ that shows them"
            )


def _play_all(
    play: Play,
    missing: list[int],
    n_jobs: int | None,
    engine: Engine | None,
    address: str | None,
) -> Iterator[tuple[int, Regrets]]:
    """Yield runs as they are completed, in any order."""
    if engine is not None:
        workers = 1 if n_jobs is None else n_jobs
        yield from each(play, missing, engine=engine, address=address, n_jobs=workers, what="run")
        return
    with needs("sim"):
        import joblib
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    yield from parallel(joblib.delayed(play)(run) for run in missing)


def _recorded_rounds(rounds: int, n_points: int) -> NDArray[np.int64]:
    """Return evenly spaced rounds, and those that `Result.growth` needs: 1/2, 3/4 and all of them."""
    spaced = -(-np.arange(1, n_points + 1, dtype=np.int64) * rounds // n_points)
    recorded = np.union1d(spaced, [rounds // 2, 3 * rounds // 4, rounds])
    return recorded[recorded > 0]


def _bound(environment: Environment, recorded: NDArray[np.int64]) -> list[float] | None:
    """Return the bound of Theorem 1 at the recorded rounds, if the environment has a finite one."""
    bound = getattr(environment, "regret_bound", None)
    if bound is None:
        return None
    values = [float(bound(int(t))) for t in recorded]
    return values if all(map(math.isfinite, values)) else None
