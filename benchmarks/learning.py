"""Section i: time of learned scales, binary rewards and forgetting, compared with fixed scales."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from known import SAMPLING
from report import Section, Target, number, table
from timing import Plan, Task, interleave

import rolin

K, D, ROUNDS = 50, 10, 3000
# The same policy in all rows, except for what the row is about.
LEARN: dict[str, Any] = {
    **SAMPLING, "noise_std": ("learn", 1.0), "arm_std": ("learn", 0.5), "coef_std": ("learn", 1.0),
}  # fmt: skip


def rounds_of(make: Callable[[], Any], binary: bool = False) -> Task:
    """Play the first 3000 rounds of a policy: decide, then update."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1.0, 1.0, (ROUNDS, K, D))
    names = [f"arm {k}" for k in range(K)]
    index = {name: k for k, name in enumerate(names)}
    rewards = (
        contexts @ rng.normal(size=D) + 0.5 * rng.normal(size=K) + rng.normal(size=(ROUNDS, 1))
    )
    table = ((rewards > 0.0) * 1.0 if binary else rewards).tolist()

    def run(times: int) -> tuple[float, float]:
        deciding = updating = 0.0
        for _ in range(times):
            policy = make()
            for x, row in zip(contexts, table, strict=True):
                start = perf_counter()
                decision = policy.decide(x, names)
                middle = perf_counter()
                policy.update(decision.arm, decision.context, row[index[decision.arm]])
                deciding += middle - start
                updating += perf_counter() - middle
        return deciding, updating

    return run


def learning(plan: Plan, step: Callable[[], None]) -> Section:
    """Time whole runs, including every estimate and every rebuild."""
    fixed = "fixed scales"
    tasks = {
        fixed: rounds_of(lambda: rolin.RoLinTS(n_features=D, seed=0, **SAMPLING)),
        "nothing configured": rounds_of(lambda: rolin.RoLinTS(n_features=D, seed=0)),
        "scales learned": rounds_of(lambda: rolin.RoLinTS(n_features=D, seed=0, **LEARN)),
        "BayesRoLinTS": rounds_of(lambda: rolin.BayesRoLinTS(n_features=D, seed=0)),
        "LogisticRoLinTS": rounds_of(lambda: rolin.LogisticRoLinTS(n_features=D, seed=0), True),
        "half_life=10000": rounds_of(
            lambda: rolin.RoLinTS(n_features=D, seed=0, half_life=1e4, **SAMPLING)
        ),
        "half_life=1000": rounds_of(
            lambda: rolin.RoLinTS(n_features=D, seed=0, half_life=1e3, **SAMPLING)
        ),
        "half_life=100": rounds_of(
            lambda: rolin.RoLinTS(n_features=D, seed=0, half_life=1e2, **SAMPLING)
        ),
    }
    found = interleave(tasks, plan, step)
    rows = [
        [
            name,
            number(timing.part(0) / ROUNDS),
            number(timing.part(1) / ROUNDS),
            number(timing.over(found[fixed])),
        ]
        for name, timing in found.items()
    ]
    return Section(
        f"i. Learning and forgetting, K = {K}, d = {D}",
        [
            f"The first {ROUNDS} rounds of a policy, including all estimates and rebuilds; µs per round."
        ],
        [table(["policy", "decide", "update", "both, over fixed scales"], rows)],
        [
            Target(
                "scales learned over fixed scales",
                1.25,
                found["scales learned"].over(found[fixed]),
                at_least=False,
            )
        ],
        {name: timing.parts.tolist() for name, timing in found.items()},
    )
