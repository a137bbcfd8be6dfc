"""Section j: time of the probabilities of all arms."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from known import SAMPLING
from numpy.typing import NDArray
from report import Section, Target, number, table
from timing import Plan, Task, interleave

import rolin
from rolin.policies.propensity import highest_of_normals

Floats = NDArray[np.float64]
D = 10


def played(n_arms: int, rounds: int, sampling: str) -> tuple[rolin.RoLinTS, list[Floats]]:
    """Return a policy after this number of rounds of the synthetic problem, and contexts of further rounds."""
    rng = np.random.default_rng(0)
    policy = rolin.RoLinTS(n_features=D, sampling=sampling, seed=0, **SAMPLING)  # type: ignore[arg-type]
    theta, effects = rng.normal(size=D), 0.5 * rng.normal(size=n_arms)
    for _ in range(rounds):
        decision = policy.decide(rng.uniform(-1.0, 1.0, (n_arms, D)))
        mean = decision.context @ theta + effects[decision.arm]
        policy.update(decision.arm, decision.context, float(mean + rng.normal()))
    return policy, [rng.uniform(-1.0, 1.0, (n_arms, D)) for _ in range(20)]


def trained(n_arms: int, rounds: int, sampling: str = "marginal") -> Task:
    """Ask a policy for probabilities after this number of rounds of the synthetic problem."""
    policy, arrays = played(n_arms, rounds, sampling)

    def run(times: int) -> tuple[float]:
        start = perf_counter()
        for i in range(times):
            policy.probabilities(arrays[i % 20])
        return (perf_counter() - start,)

    return run


def keyed(n_arms: int, rounds: int) -> Task:
    """Ask a policy with joint sampling for the probabilities of single decisions, as a bandit does."""
    policy, arrays = played(n_arms, rounds, "joint")
    questions = [policy.candidates(array) for array in arrays]

    def run(times: int) -> tuple[float]:
        start = perf_counter()
        for i in range(times):
            policy.score_with_probabilities(questions[i % 20], i)
        return (perf_counter() - start,)

    return run


def spread(n_arms: int) -> Task:
    """Arms with standard deviations over three decades, all of them near the best: the worst case."""
    rng = np.random.default_rng(0)
    std = 10.0 ** rng.uniform(-3.0, 0.0, n_arms)
    mean = 1.0 - 2.0 * std

    def run(times: int) -> tuple[float]:
        start = perf_counter()
        for _ in range(times):
            highest_of_normals(mean, std)
        return (perf_counter() - start,)

    return run


def probabilities(plan: Plan, step: Callable[[], None]) -> Section:
    """Time `policy.probabilities` in states that occur in a simulation, and in the worst case."""
    tasks = {
        "K = 50, after 3000 rounds": trained(50, 3000),
        "K = 50, before any reward": trained(50, 0),
        "K = 1000, after 3000 rounds": trained(1000, 3000),
        "K = 50, joint, after 3000 rounds": trained(50, 3000, "joint"),
        "K = 50, joint, in a bandit": keyed(50, 3000),
        "K = 50, widths over three decades": spread(50),
        "K = 1000, widths over three decades": spread(1000),
    }
    found = interleave(tasks, plan, step)
    names = list(tasks)
    return Section(
        f"j. Probability of every arm, d = {D}",
        [
            "`policy.probabilities` of RoLinTS, which averages over 512 draws with joint sampling. A bandit averages "
            "over 64. The last two rows are only the integrals, of invented arms."
        ],
        [table(["what", "µs"], [[name, number(found[name].micro)] for name in names])],
        [
            Target(names[0], 30.0, found[names[0]].micro, at_least=False, unit="µs"),
            Target(names[2], 500.0, found[names[2]].micro, at_least=False, unit="µs"),
        ],
        {name: found[name].parts.tolist() for name in names},
    )
