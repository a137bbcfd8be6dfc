"""Section n: decisions over a whole catalogue, beside one product with it and the normal draws."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import Any

import numpy as np
from report import Section, Target, number, table
from threadpoolctl import threadpool_limits
from timing import Plan, Task, interleave, loop

import rolin

CORES = len(os.sched_getaffinity(0))
SIZES = ((10_000, 16), (10_000, 64), (100_000, 16), (100_000, 64), (1_000_000, 16), (1_000_000, 64))
BATCH = 16


def rules(d: int) -> dict[str, Any]:
    """Return the policies, by name."""
    return {
        "RoLinTS, marginal": rolin.RoLinTS(n_features=d, seed=0),
        "RoLinTS, joint": rolin.RoLinTS(n_features=d, sampling="joint", seed=0),
        "RoLinUCB": rolin.RoLinUCB(n_features=d, seed=0),
    }


def one(policy: Any, catalogue: rolin.Catalogue) -> Callable[[], None]:
    """Return a decision after something was learned."""
    last = catalogue.decide()

    def step() -> None:
        policy.update(last.arm, last.context, 0.5)  # first: what else is timed would follow it too
        catalogue.decide()

    return step


def catalogues(plan: Plan, step: Callable[[], None]) -> Section:
    """Time decisions over all arms of a catalogue."""
    rng = np.random.default_rng(0)
    rows, memory, targets, raw = [], [], [], {}
    for k, d in SIZES:
        for dtype in (np.float32, np.float64):
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
            with threadpool_limits(CORES):  # BLAS has all cores, as we have
                found = interleave(tasks, plan, step)
            size = f"{k:,} × {d}, {dtype.__name__}"
            for name in made:
                ratio = found[name].over(found["floor"])
                cells = [found["X @ theta"].micro, found["floor"].micro, found[name].micro]
                cells += [found[f"{name}, {BATCH}"].micro / BATCH, found[f"{name}, top 10"].micro]
                rows.append([size, name, *(number(c / 1e3) for c in cells), number(ratio)])
                if (k, d) == SIZES[-1]:
                    what = f"{name}, {size}, over the floor"
                    targets.append(Target(what, 2.0, ratio, at_least=False))
                    beyond = made[name].nbytes - x.nbytes
                    memory.append([size, name, number(x.nbytes / k), number(beyond / k)])
                raw[f"{size}: {name}"] = found[name].parts.tolist()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Section(
        "Decisions over a catalogue",
        [
            "Milliseconds, through `Catalogue.decide` after a `policy.update`, which the decision has to follow, both together; "
            f"of a batch of {BATCH} without updates between, each; a ranking of ten, without. The floor is one product of "
            f"BLAS with the same array, and K normal draws of NumPy's; BLAS has {CORES} threads, as the catalogue has. Beside the "
            f"features there are, while decisions are made, one to three numbers for every arm more. (Peak of the process: {peak:.1f} GiB.)"
        ],
        [
            table(
                ["arms × features", "rule", "X @ theta", "floor", "decide", "of a batch", "top 10", "over the floor"],
                rows,
            ),
            table(["arms × features", "rule", "bytes of features", "bytes beside them per arm"], memory),
        ],
        targets,
        raw,
    )  # fmt: skip
