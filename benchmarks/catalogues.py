"""Section n: decisions over a whole catalogue, compared with one matrix product and the normal draws."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import timing
from known import BOUNDS, SAMPLING
from report import Section, Target, number, table
from threadpoolctl import threadpool_limits
from timing import Plan, Task, interleave

import rolin

CORES = len(os.sched_getaffinity(0))
SIZES = ((10_000, 16), (10_000, 64), (100_000, 16), (100_000, 64), (1_000_000, 16), (1_000_000, 64))
BATCH = 16
SEEN = 2000  # arms with rewards, for slopes per arm


def rules(d: int, slope_std: float = 0.0) -> dict[str, Any]:
    """Return the policies, by name."""
    options: Any = {"n_features": d, "slope_std": slope_std, "seed": 0}
    return {
        "RoLinTS, marginal": rolin.RoLinTS(**options, **SAMPLING),
        "RoLinTS, joint": rolin.RoLinTS(sampling="joint", **options, **SAMPLING),
        "RoLinUCB": rolin.RoLinUCB(**options, **BOUNDS),
    }


def one(policy: Any, catalogue: rolin.Catalogue) -> Callable[[], None]:
    """Return a function that updates the policy and then decides."""
    last = catalogue.decide()

    def step() -> None:
        # Before the decision, so that the decision includes the work that follows an update.
        policy.update(last.arm, last.context, 0.5)
        catalogue.decide()

    return step


def catalogues(plan: Plan, processor_time: bool, step: Callable[[], None]) -> Section:
    """Time decisions over all arms of a catalogue."""
    loop = partial(timing.loop, processor_time=processor_time)
    # Threads of BLAS spend processor time on waiting for each other.
    n_blas = 1 if processor_time else CORES
    unit = (
        "Milliseconds of processor time, of all threads together,"
        if processor_time
        else "Milliseconds"
    )
    rng = np.random.default_rng(0)
    rows, memory, targets, raw = [], [], [], {}
    slowest: dict[str, float] = {}
    dtypes = (np.float32, np.float64)
    for k, d in SIZES:
        for dtype in dtypes:
            x = rng.standard_normal((k, d)).astype(dtype)
            theta = rng.standard_normal(d).astype(dtype)
            tasks: dict[str, Task] = {
                "X @ theta": loop(lambda: x @ theta),  # noqa: B023
                "floor": loop(lambda: (x @ theta, rng.standard_normal(k))),  # noqa: B023
            }
            made = {}
            for name, policy in rules(d).items():
                catalogue = made[name] = rolin.Catalogue(policy, x)
                tasks[name] = loop(one(policy, catalogue))
                tasks[f"{name}, {BATCH}"] = loop(lambda c=catalogue: c.decide_many(BATCH))  # type: ignore[misc]
                tasks[f"{name}, top 10"] = loop(lambda c=catalogue: c.decide(top_k=10))  # type: ignore[misc]
            with threadpool_limits(n_blas):
                found = interleave(tasks, plan, step)
            size = f"{k:,} × {d}, {dtype.__name__}"
            for name in made:
                ratio = found[name].over(found["floor"])
                cells = [found["X @ theta"].micro, found["floor"].micro, found[name].micro]
                cells += [found[f"{name}, {BATCH}"].micro / BATCH, found[f"{name}, top 10"].micro]
                rows.append([size, name, *(number(c / 1e3) for c in cells), number(ratio)])
                slowest[name] = max(ratio, slowest.get(name, 0.0))
                if (k, d) == SIZES[-1]:
                    what = f"{name}, {size}, over the floor"
                    targets.append(Target(what, 2.0, ratio, at_least=False))
                    beyond = made[name].nbytes - x.nbytes
                    memory.append([size, name, number(x.nbytes / k), number(beyond / k)])
                raw[f"{size}: {name}"] = found[name].parts.tolist()
    for name, ratio in slowest.items():
        what = f"{name}, the slowest of all sizes, over the floor"
        targets.append(Target(what, 2.0, ratio, at_least=False))
    sloped = [with_slopes(k, 16, t, plan, loop, step) for k in (100_000, 1_000_000) for t in dtypes]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Section(
        "Decisions over a catalogue",
        [
            f"{unit} of `policy.update` and `Catalogue.decide` together; of one decision in a batch of "
            f"{BATCH}, without updates; of a ranking of ten arms, without updates. The floor is one BLAS product with the "
            f"same array, and K normal draws of NumPy. Threads of BLAS: {n_blas}, of the catalogue: {CORES}. Besides the features, "
            f"a decision needs one to three numbers for every arm. (Peak memory of the process: {peak:.1f} GiB.)"
        ],
        [
            table(
                ["arms × features", "rule", "X @ theta", "floor", "decide", "of a batch", "top 10", "over the floor"],
                rows,
            ),
            table(["arms × features", "rule", "bytes of features", "bytes beside them per arm"], memory),
            f"With slopes per arm for all features, and {SEEN:,} arms with rewards; milliseconds of update and decide:",
            table(
                ["arms × features", "rule", "without slopes", "with slopes", "slopes to none"],
                [row for part in sloped for row in part],
            ),
        ],
        targets,
        raw,
    )  # fmt: skip


def with_slopes(
    k: int, d: int, dtype: Any, plan: Plan, loop: Callable[..., Task], step: Callable[[], None]
) -> list[list[str]]:
    """Return rows of a table: update and decide with slopes per arm, beside the same without."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((k, d)).astype(dtype)
    seen = rng.choice(k, SEEN, replace=False)
    rewards = rng.standard_normal(SEEN)
    tasks: dict[str, Task] = {}
    for slope_std in (0.0, 0.5):
        for name, policy in rules(d, slope_std).items():
            policy.update_many(seen.tolist(), x[seen], rewards)
            tasks[f"{name}, {slope_std}"] = loop(one(policy, rolin.Catalogue(policy, x)))
    found = interleave(tasks, plan, step)
    rows = []
    for name in rules(d):
        plain, sloped = found[f"{name}, 0.0"], found[f"{name}, 0.5"]
        cells = (plain.micro / 1e3, sloped.micro / 1e3, sloped.over(plain))
        rows.append([f"{k:,} × {d}, {dtype.__name__}", name, *map(number, cells)])
    return rows
