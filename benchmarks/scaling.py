"""Sections c and d: time of update and of decide, compared with the floor of the machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from time import perf_counter_ns
from typing import Any

import floors
import numpy as np
from compare import arm_names, raw
from known import SAMPLING
from report import Section, Target, number, table
from timing import Plan, Task, interleave, loop

import rolin

Step = Callable[[], None]

_FEW, _MANY = 100, 100_000


def updates(plan: Plan, step: Step) -> Section:
    """Section c: update alone, with few and with many arms."""
    section = Section(
        "c. Update alone",
        [
            f"RoLinTS with {_FEW:,} and with {_MANY:,} arms that were updated before. The updated arms are "
            "drawn at random from all of them, so that with many arms each update misses every "
            f"cache. `{_FEW} in play` has as many arms but updates only {_FEW} of them, without cache misses. "
            "The floor is a d × d matrix-vector product by BLAS plus an empty compiled call "
            "with the same arguments."
        ],
    )
    rows = []
    for d in (10, 30, 100):
        many = update_tasks(_MANY, d)
        tasks = {
            "few": update_tasks(_FEW, d)(_FEW),
            "hot": many(_FEW),
            "many": many(_MANY),
            "product": floors.matrix_vector(d),
            "call": floors.empty_call(d),
        }
        times = interleave(tasks, plan, step)
        free = times["many"].over(times["few"])
        over = times["few"].over(times["product"], times["call"])
        micros = [number(t.micro) for t in times.values()]
        rows.append([str(d), *micros, number(free), number(over)])
        section.raw[str(d)] = {name: raw(t) for name, t in times.items()}
        section.targets += [
            Target(f"update, d = {d}: K = {_MANY:,} against K = {_FEW}", 1.3, free, at_least=False),
            Target(f"update, d = {d}: against product + call", 4, over, at_least=False),
        ]
    header = [
        *("d", f"K = {_FEW} µs", f"K = {_MANY:,}, {_FEW} in play µs", f"K = {_MANY:,} µs"),
        *("product µs", "call µs", f"K = {_MANY:,} to K = {_FEW}", f"K = {_FEW} to floor"),
    ]
    section.tables.append(table(header, rows))
    return section


def update_tasks(n_arms: int, n_features: int, **options: Any) -> Callable[[int], Task]:
    """Return a function that makes a task: updates of the first `in_play` arms."""
    rng = np.random.default_rng(0)
    policy = rolin.RoLinTS(n_features=n_features, seed=0, **SAMPLING, **options)
    names = arm_names(n_arms)
    for start in range(0, n_arms, 10_000):
        part = names[start : start + 10_000]
        contexts = rng.uniform(-1, 1, (len(part), n_features))
        policy.update_many(part, contexts, contexts[:, 0] + rng.standard_normal(len(part)))
    # Contexts from a small pool: loading them into memory is not what we time.
    pool = list(rng.uniform(-1, 1, (64, n_features)))
    update = policy.update

    def task(in_play: int) -> Task:
        stream = cycle(
            [(names[i], pool[i % 64], 0.5) for i in rng.integers(in_play, size=50_000).tolist()]
        )

        def run(rounds: int) -> tuple[float]:
            turns = list(islice(stream, rounds))
            start = perf_counter_ns()
            for arm, context, reward in turns:
                update(arm, context, reward)
            return ((perf_counter_ns() - start) * 1e-9,)

        return run

    return task


def decisions(plan: Plan, step: Step) -> Section:
    """Section d: decide alone, with many arms or many features."""
    section = Section(
        "d. Decide alone, compared with the floor",
        [
            "Named arms, all of them updated before. The draws of the floor come from the default generator of NumPy "
            "(PCG64). Those of rolin come from Philox, which can be keyed; its time is in another column."
        ],
    )
    rows = []
    for sampling, n_arms, d, floor_name, floor in (
        ("joint", 10_000, 64, "two X @ theta", floors.two_products(10_000, 64)),
        ("marginal", 1000, 100, "one X @ A", floors.square_product(1000, 100)),
    ):
        tasks = {
            "decide": _decide_task(sampling, n_arms, d),
            "product": floor,
            "one product": floors.product(n_arms, d),
            "draws": floors.normal_draws(n_arms),
            "Philox": floors.normal_draws(n_arms, np.random.Philox),
        }
        times = interleave(tasks, plan, step)
        decide, product, draws = (times[n].micro for n in ("decide", "product", "draws"))
        ratio = times["decide"].over(times["product"], times["draws"])
        rows.append(
            [
                f"{sampling}, K = {n_arms:,}, d = {d}",
                number(decide),
                f"{floor_name}: {number(product)}",
                *map(number, (draws, times["Philox"].micro, ratio)),
            ]
        )
        section.raw[sampling] = {name: raw(t) for name, t in times.items()}
        what = f"decide, {sampling}, K = {n_arms:,}, d = {d}: against {floor_name} + K draws"
        section.targets.append(Target(what, 1.5, ratio, at_least=False))
    header = ["RoLinTS", "decide µs", "products µs", "K draws µs", "K draws, Philox µs", "to floor"]
    section.tables.append(table(header, rows))
    return section


def _decide_task(sampling: str, n_arms: int, n_features: int) -> Task:
    rng = np.random.default_rng(0)
    policy = rolin.RoLinTS(n_features=n_features, sampling=sampling, seed=0, **SAMPLING)  # type: ignore[arg-type]
    names, contexts = arm_names(n_arms), rng.uniform(-1, 1, (n_arms, n_features))
    policy.update_many(names, contexts, contexts[:, 0] + rng.standard_normal(n_arms))
    return loop(partial(policy.decide, rng.uniform(-1, 1, (n_arms, n_features)), names))
