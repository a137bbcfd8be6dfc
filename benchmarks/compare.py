"""Sections a, b and e: whole rounds, beside peers and beside the naive algorithm."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from time import perf_counter_ns

import floors
import numpy as np
import peers
from numpy.typing import NDArray
from peers.rolin import RolinMarginal, RolinNaive
from report import Section, Target, number, table
from timing import Plan, Task, Timing, interleave

Step = Callable[[], None]

# Questions asked in turn: enough that no answer can be remembered, few enough to stay in cache,
# since how contexts get into memory is nobody's cost here.
_QUESTIONS = 4


def arm_names(n_arms: int) -> list[str]:
    """Return names as a catalogue might have them."""
    return [f"article-{i:06d}" for i in range(n_arms)]


class World:
    """Contexts and rewards: x'θ + v_arm + noise."""

    def __init__(self, n_arms: int, n_features: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        theta, effects = rng.standard_normal(n_features), 0.5 * rng.standard_normal(n_arms)
        self.contexts = [rng.uniform(-1, 1, (n_arms, n_features)) for _ in range(_QUESTIONS)]
        self.means = [x @ theta + effects for x in self.contexts]
        self.noise = cycle(rng.standard_normal(997).tolist())


def rounds_of(contender: peers.Contender, world: World) -> Task:
    """Return a task of whole rounds; its two parts are decide and update."""
    contender.warm(world.contexts[0], world.means[0])
    turns = cycle(list(zip(world.contexts, world.means, strict=True)))
    decide, update = contender.decide, contender.update

    def run(rounds: int) -> tuple[float, float]:
        deciding = updating = 0
        for _ in range(rounds):
            contexts, means = next(turns)
            question = contender.prepare(contexts)
            start = perf_counter_ns()
            answer = decide(question)
            deciding += perf_counter_ns() - start
            index = contender.index(question, answer)
            reward = float(means[index]) + next(world.noise)
            contender.label(question, index, reward)
            start = perf_counter_ns()
            update(question, answer, reward)
            updating += perf_counter_ns() - start
            contender.finish(question)
        return deciding * 1e-9, updating * 1e-9

    return run


def side_by_side(n_arms: int, engine: float, python: float, plan: Plan, step: Step) -> Section:
    """Section a: decide + update of all contenders, d = 10."""
    classes, missing = peers.available()
    names = arm_names(n_arms)
    tasks = {
        c.name: rounds_of(c(names, 10, np.random.default_rng(1)), World(n_arms, 10))
        for c in classes
    }
    least = floors.tasks(n_arms, 10)
    times = interleave(tasks | least, plan, step)
    base = times[RolinMarginal.name]
    rows = [
        [
            c.name,
            c.models,
            number(times[c.name].part(0)),
            number(times[c.name].part(1)),
            number(times[c.name].micro),
            number(times[c.name].over(base)),
            f"± {times[c.name].noise:.0%}",
            f"{times[c.name].rounds:,}" + (" (fewer)" if times[c.name].shortened else ""),
        ]
        for c in classes
    ]
    header = [
        "contender",
        "models",
        "decide µs",
        "update µs",
        "both µs",
        "ratio",
        "noise",
        "rounds",
    ]
    section = Section(
        f"a. Decide + update, K = {n_arms}, d = 10",
        [
            "Public calls, the same named arms in every call, float64 arrays, every arm seen, one "
            "thread. `ratio` is to the first row, turn by turn; `noise` is half the interquartile "
            "range. Per-arm models learn nothing about one arm from "
            "another, and get one shared context vector, which is what they take. For Vowpal "
            "Wabbit only `predict` and `learn` on pre-parsed examples are timed: writing the "
            "examples, sampling from the probabilities and labelling are left out."
        ],
        [
            table(header, rows),
            table(
                ["lower bounds on this machine", "µs", "ratio"],
                [
                    [name, number(times[name].micro), number(times[name].over(base))]
                    for name in least
                ],
            ),
        ],
        raw={name: raw(timing) for name, timing in times.items()},
    )
    section.notes += [f"Not run: {name} ({why})." for name, why in missing.items()]
    for kind, hold in (("engine", engine), ("Python", python)):
        best = min(
            (c for c in classes if c.peer == kind), key=lambda c: times[c.name].micro, default=None
        )
        ratio = times[best.name].over(base) if best else float("nan")
        what = (
            f"K = {n_arms}: faster than the fastest {kind} peer ({best.name if best else 'none'})"
        )
        section.targets.append(Target(what, hold, ratio, at_least=True))
    return section


def other_forms(plan: Plan, step: Step) -> Section:
    """Section b: `rolin` asked in other ways, K = 50, d = 10."""
    forms = [RolinMarginal, _Mapping, _Changing, _Numbers, _TopFive]
    tasks = {}
    for form in forms:
        world = World(1000 if form is _Changing else 50, 10)
        contender = form(arm_names(len(world.means[0])), 10, np.random.default_rng(1))
        tasks[form.name] = rounds_of(contender, world)
    many = "decide_many, 100 decisions, each (decide only)"
    tasks[many] = _many_questions(100)
    times = interleave(tasks, plan, step)
    base = times[RolinMarginal.name]
    rows = [
        [
            "array, the same names" if name == RolinMarginal.name else name,
            number(t.part(0)),
            number(t.part(1)) if t.parts.shape[1] > 1 else "–",
            number(t.micro),
            number(t.over(base)),
            f"± {t.noise:.0%}",
        ]
        for name, t in times.items()
    ]
    return Section(
        "b. rolin asked in other ways, K = 50, d = 10",
        ["RoLinTS, marginal. `ratio` is to the first row."],
        [table(["form", "decide µs", "update µs", "both µs", "ratio", "noise"], rows)],
        raw={name: raw(t) for name, t in times.items()},
    )


def against_naive(sizes: list[int], plan: Plan, step: Step) -> Section:
    """Section e: the fast posterior against the (d + K)-dimensional one, d = 10."""
    rows, section = [], Section("e. Efficient against naive, d = 10")
    for n_arms in sizes:
        tasks = {
            c.name: rounds_of(c(arm_names(n_arms), 10, np.random.default_rng(1)), World(n_arms, 10))
            for c in (RolinMarginal, RolinNaive)
        }
        times = interleave(tasks, plan, step)
        fast, naive = times[RolinMarginal.name], times[RolinNaive.name]
        ratio = naive.over(fast)
        rows.append(
            [
                str(n_arms),
                number(fast.micro),
                number(naive.micro),
                number(ratio),
                f"{naive.rounds:,}",
            ]
        )
        section.raw[str(n_arms)] = {"fast": raw(fast), "naive": raw(naive)}
        if n_arms == 1024:
            section.targets.append(
                Target("efficient against naive, K = 1024", 822, ratio, at_least=True)
            )
    section.notes.append(
        "RoLinTS and NaiveRoLinTS, decide + update, every arm seen; the naive one gets few rounds "
        "where it is slow."
    )
    section.tables.append(table(["K", "RoLinTS µs", "naive µs", "ratio", "naive rounds"], rows))
    return section


def raw(timing: Timing) -> dict[str, object]:
    """Return a measurement for the JSON file."""
    return {"micro": timing.micro, "rounds": timing.rounds, "blocks": timing.parts.tolist()}


class _Mapping(RolinMarginal):
    """A mapping from name to vector."""

    name = "mapping from name to vector"

    def prepare(self, contexts: NDArray[np.float64]) -> object:
        return dict(zip(self.names, contexts, strict=True))

    def decide(self, question: object) -> object:  # type: ignore[override]
        return self.policy.decide(question)  # type: ignore[arg-type]


class _Changing(RolinMarginal):
    """50 of 1000 arms in each call, never the same list twice in a row."""

    name = "array, 50 other names of 1000 each time"

    def prepare(self, contexts: NDArray[np.float64]) -> object:
        chosen = self.rng.choice(len(self.names), 50, replace=False)
        return contexts[chosen], [self.names[i] for i in chosen]

    def decide(self, question: object) -> object:  # type: ignore[override]
        return self.policy.decide(*question)  # type: ignore[misc]


class _Numbers(RolinMarginal):
    """Arms 0 … K - 1 by default."""

    name = "array, no names (arms 0 … K - 1)"

    def warm(self, contexts: NDArray[np.float64], rewards: NDArray[np.float64]) -> None:
        self.policy.update_many(range(len(contexts)), contexts, rewards)

    def decide(self, question: object) -> object:  # type: ignore[override]
        return self.policy.decide(question)  # type: ignore[arg-type]

    def index(self, question: object, answer: object) -> int:  # type: ignore[override]
        return answer.arm  # type: ignore[attr-defined]


class _TopFive(RolinMarginal):
    """A ranking."""

    name = "array, the same names, top_k = 5"

    def decide(self, question: object) -> object:  # type: ignore[override]
        return self.policy.decide(question, self.names, top_k=5)  # type: ignore[arg-type]


def _many_questions(size: int) -> Task:
    names, world = arm_names(50), World(50, 10)
    contender = RolinMarginal(names, 10, np.random.default_rng(1))
    contender.warm(world.contexts[0], world.means[0])
    batch = np.random.default_rng(2).uniform(-1, 1, (size, 50, 10))

    def run(rounds: int) -> tuple[float]:
        calls = -(-rounds // size)
        start = perf_counter_ns()
        for _ in range(calls):
            contender.policy.decide_many(batch, names)
        spent = perf_counter_ns() - start
        return (spent * 1e-9 * rounds / (calls * size),)  # per question, as the others

    return run
