"""Section h: time of a simulated round, compared with drawing its random numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import perf_counter

import numpy as np
from known import LINEAR_SAMPLING, SAMPLING
from report import Section, Target, number, table
from timing import Plan, Task, interleave

import rolin

K, D, BATCH = 50, 10, 64


def simulated(make: Callable[..., rolin.Policy]) -> Task:
    """Simulate one policy, through the public call."""
    world = rolin.environments.Synthetic(n_arms=K, n_features=D)

    def run(rounds: int) -> tuple[float]:
        start = perf_counter()
        rolin.simulate({"policy": make}, world, rounds=rounds, runs=1, progress=False)
        return (perf_counter() - start,)

    return run


def drawn(rounds: int) -> tuple[float]:
    """Draw the contexts, noise and samples of the same rounds, in batches, and nothing else."""
    start = perf_counter()
    generator = np.random.default_rng(0)
    for first in range(0, rounds, BATCH):
        n = min(BATCH, rounds - first)
        generator.uniform(-1.0, 1.0, (n, K, D))
        generator.standard_normal(n)
        generator.standard_normal((n, K))
    return (perf_counter() - start,)


def simulation(plan: Plan, step: Callable[[], None]) -> Section:
    """Time simulations of RoLinTS and LinTS."""
    tasks = {
        "drawing contexts, noise and samples": drawn,
        "simulate RoLinTS": simulated(functools.partial(rolin.RoLinTS, n_features=D, **SAMPLING)),
        "simulate LinTS": simulated(
            functools.partial(rolin.LinTS, n_features=D, **LINEAR_SAMPLING)
        ),
    }
    # A block is a whole run, so that the fixed cost of a call is distributed as it is for a user.
    found = interleave(tasks, Plan(plan.blocks, block_seconds=0.05, budget=plan.budget), step)
    floor, *others = found
    rows = [
        [name, number(found[name].micro), number(found[name].over(found[floor]))] for name in tasks
    ]
    return Section(
        f"h. A simulated round, K = {K}, d = {D}",
        ["One policy, one process; runs of several thousand rounds through `rolin.simulate`."],
        [table(["what", "µs per round", "ratio"], rows)],
        [
            Target(f"{name} over {floor}", 6.0, found[name].over(found[floor]), at_least=False)
            for name in others
        ],
        {name: found[name].parts.tolist() for name in tasks},
    )
