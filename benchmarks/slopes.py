"""Section o: arms with slopes of their own, compared with arms without and with the floor of the machine."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from functools import partial

import floors
import numpy as np
from compare import arm_names, raw
from known import SAMPLING
from learning import ROUNDS, rounds_of
from learning import D as N_FEATURES
from learning import K as N_ARMS
from report import Section, Target, number, table
from scaling import update_tasks
from timing import Plan, Task, interleave, loop

import rolin

Step = Callable[[], None]

_STD = 0.5
_FEW, _MANY = 100, 10_000
_CANDIDATES = 1000


def slopes(plan: Plan, few: Plan, step: Step) -> Section:
    """Time updates and decisions of arms with slopes for all features, and measure their memory."""
    section = Section(
        "o. Slopes per arm",
        [
            f"RoLinTS with slopes for all of d = {N_FEATURES} features, so every arm has q = d + 1 coefficients of its "
            f"own. First the first {ROUNDS} rounds at K = {N_ARMS}, each arm with a context of its own; µs per round."
        ],
    )
    _rounds(section, few, step)
    _updates(section, plan, step)
    _shared_context(section, plan, step)
    _memory(section)
    return section


def _rounds(section: Section, plan: Plan, step: Step) -> None:
    tasks = {
        "without slopes": rounds_of(lambda: rolin.RoLinTS(n_features=N_FEATURES, seed=0, **SAMPLING)),
        "with slopes": rounds_of(
            lambda: rolin.RoLinTS(n_features=N_FEATURES, seed=0, slope_std=_STD, **SAMPLING)
        ),
    }  # fmt: skip
    times = interleave(tasks, plan, step)
    base = times["without slopes"]
    rows = [
        [name, number(t.part(0) / ROUNDS), number(t.part(1) / ROUNDS), number(t.over(base))]
        for name, t in times.items()
    ]
    section.tables.append(table(["policy", "decide", "update", "both, over no slopes"], rows))
    section.raw["rounds"] = {name: raw(t) for name, t in times.items()}


def _updates(section: Section, plan: Plan, step: Step) -> None:
    many = update_tasks(_MANY, N_FEATURES, slope_std=_STD)
    tasks = {
        "plain": update_tasks(_FEW, N_FEATURES)(_FEW),
        "few": update_tasks(_FEW, N_FEATURES, slope_std=_STD)(_FEW),
        "hot": many(_FEW),
        "many": many(_MANY),
    }
    times = interleave(tasks, plan, step)
    flat = times["hot"].over(times["few"])
    ratios = (times["few"].over(times["plain"]), flat, times["many"].over(times["few"]))
    header = [
        *(f"no slopes, K = {_FEW} µs", f"K = {_FEW} µs", f"K = {_MANY:,}, {_FEW} in play µs"),
        *(f"K = {_MANY:,} µs", "slopes to none", f"{_FEW} in play to K = {_FEW}"),
        f"K = {_MANY:,} to K = {_FEW}",
    ]
    micros = [number(t.micro) for t in times.values()]
    section.tables.append(table(header, [[*micros, *map(number, ratios)]]))
    section.raw["updates"] = {name: raw(t) for name, t in times.items()}
    against = f"update with slopes against without, K = {_FEW}"
    section.targets.append(Target(against, 1.5, ratios[0], at_least=False))
    what = f"update with slopes, K = {_MANY:,} of which {_FEW} are in play, against K = {_FEW}"
    section.targets.append(Target(what, 1.3, flat, at_least=False))


def _shared_context(section: Section, plan: Plan, step: Step) -> None:
    """Decide among arms that all have one context."""
    q = N_FEATURES + 1
    tasks: dict[str, Task] = {
        "marginal": _decide_task("marginal"),
        "joint": _decide_task("joint"),
        # What no algebra avoids: z'a and V z of every arm, then u'θ, or T u for the variance.
        "a": floors.product(_CANDIDATES, q),
        "V": floors.product(_CANDIDATES * q, q),
        "theta": floors.product(_CANDIDATES, N_FEATURES),
        "T": floors.square_product(_CANDIDATES, N_FEATURES),
        "draws": floors.normal_draws(_CANDIDATES),
    }
    times = interleave(tasks, plan, step)
    rows = []
    for sampling, shared in (("marginal", ("theta", "T")), ("joint", ("theta",))):
        parts = [times[name] for name in ("a", "V", *shared, "draws")]
        rows.append(
            [
                sampling,
                number(times[sampling].micro),
                *(number(t.micro) for t in parts[:2]),
                number(sum(t.micro for t in parts[2:-1])),
                number(parts[-1].micro),
                number(times[sampling].over(*parts)),
                number(times[sampling].over(parts[0], *parts[2:])),
            ]
        )
        without = f"decide, slopes, one context for K = {_CANDIDATES:,}, {sampling}: against the floor without V z"
        ratio = times[sampling].over(parts[0], *parts[2:])
        section.targets.append(Target(without, 2.0, ratio, at_least=False))
    header = [
        *("sampling", "decide µs", "z'a µs", "V z µs", "shared part µs", "K draws µs"),
        *("to floor", "to floor without V z"),
    ]
    section.tables += [
        f"One context for all of K = {_CANDIDATES:,} arms: `policy.decide(context, arms=names)`. The floor is a "
        f"(K, q) and a (K q, q) matrix-vector product by BLAS, the product of u = x - B'z with θ (for marginal draws also "
        "with the triangle T), and K normal draws.",
        table(header, rows),
    ]
    section.raw["shared context"] = {name: raw(t) for name, t in times.items()}


def _decide_task(sampling: str) -> Task:
    rng = np.random.default_rng(0)
    policy = rolin.RoLinTS(
        n_features=N_FEATURES, sampling=sampling, slope_std=_STD, seed=0, **SAMPLING  # type: ignore[arg-type]
    )  # fmt: skip
    names = arm_names(_CANDIDATES)
    contexts = rng.uniform(-1, 1, (_CANDIDATES, N_FEATURES))
    policy.update_many(names, contexts, contexts[:, 0] + rng.standard_normal(_CANDIDATES))
    return loop(partial(policy.decide, rng.uniform(-1, 1, N_FEATURES), names))


def _memory(section: Section) -> None:
    """Measure the memory of an arm, without its name: all at once, so that no array is larger than needed."""
    names, d, q = arm_names(_MANY), N_FEATURES, N_FEATURES + 1
    contexts = np.random.default_rng(0).uniform(-1, 1, (_MANY, d))
    rewards = contexts[:, 0].copy()
    found = []
    for std in (0.0, _STD):
        policy = rolin.RoLinTS(n_features=d, seed=0, slope_std=std, **SAMPLING)
        gc.collect()
        tracemalloc.start()
        policy.update_many(names, contexts, rewards)
        gc.collect()
        found.append(tracemalloc.get_traced_memory()[0] / _MANY)
        tracemalloc.stop()
    stated = [12 * d + 20, 12 * d + 20 + 8 * q * (2 * d + 3)]
    rows = [
        [what, number(a), number(b)]
        for what, a, b in zip(("without slopes", "with slopes"), stated, found, strict=True)
    ]
    section.tables += [
        f"Bytes per arm after `update_many` of {_MANY:,} new arms: 12 d + 20, and with slopes 8 q (2 d + 3) more. The "
        "entry in the index of names comes on top, and arrays that grow one arm at a time may be twice as large.",
        table(["arms", "stated", "measured"], rows),
    ]
    section.raw["bytes per arm"] = found
