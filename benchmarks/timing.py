"""Timing: contenders take turns in short blocks, so that noise affects all of them alike.

A block is many rounds of one contender. The reported time is the median over blocks of the time per
round. A block that another process disturbs therefore does not count, but costs that only some rounds
have, such as growing an array, do. A ratio is the median over turns of the ratio within a turn: a machine
that is slow for a while is slow for both contenders.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns, process_time_ns

import numpy as np
from numpy.typing import NDArray

Task = Callable[[int], tuple[float, ...]]
"""Plays n rounds and returns their total seconds, in one or more parts."""


@dataclass(frozen=True)
class Plan:
    """How many blocks are measured, and for how long."""

    blocks: int
    """Number of blocks of each contender."""
    block_seconds: float = 0.005
    """Minimum length of a block; a block has at least one round."""
    budget: float = 20.0
    """Seconds of wall time per contender; a contender that needs more gets fewer blocks."""
    least: int = 3
    """Minimum number of blocks."""


@dataclass(frozen=True)
class Timing:
    """The measurements of one contender."""

    parts: NDArray[np.float64]
    """(blocks, parts): microseconds per round."""
    turns: NDArray[np.int64]
    """(blocks,): the turn of each block."""
    rounds: int
    """Total number of rounds in all blocks."""
    shortened: bool
    """Whether it was too slow for the full number of blocks."""

    @property
    def micro(self) -> float:
        """Microseconds per round: the median over blocks."""
        return float(np.median(self.parts.sum(axis=1)))

    def part(self, i: int) -> float:
        """Microseconds per round of one part."""
        return float(np.median(self.parts[:, i]))

    def over(self, *others: Timing) -> float:
        """Return the ratio to the sum of others that were measured in the same turns."""
        mine = dict(zip(self.turns.tolist(), self.parts.sum(axis=1), strict=True))
        theirs = [dict(zip(o.turns.tolist(), o.parts.sum(axis=1), strict=True)) for o in others]
        common = set(mine).intersection(*theirs)
        return float(np.median([mine[t] / sum(o[t] for o in theirs) for t in common]))

    @property
    def noise(self) -> float:
        """Half the interquartile range over blocks, relative to the median."""
        low, high = np.quantile(self.parts.sum(axis=1), [0.25, 0.75])
        return float((high - low) / 2 / self.micro)


def loop(call: Callable[[], object], *, processor_time: bool = False) -> Task:
    """Return a task that repeats one call; its time is what passes, or the processor time of all threads."""
    clock = process_time_ns if processor_time else perf_counter_ns

    def run(rounds: int) -> tuple[float]:
        start = clock()
        for _ in range(rounds):
            call()
        return ((clock() - start) * 1e-9,)

    return run


def interleave(
    tasks: Mapping[str, Task], plan: Plan, step: Callable[[], None] = lambda: None
) -> dict[str, Timing]:
    """Measure all tasks, one block each in turn; `step` is called after every turn."""
    rounds, blocks = {}, {}
    for name, task in tasks.items():
        rounds[name], wall = _calibrate(task, plan.block_seconds)
        blocks[name] = min(plan.blocks, max(plan.least, int(plan.budget / wall)))
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in tasks}
    turns: dict[str, list[int]] = {name: [] for name in tasks}
    for turn in range(plan.blocks):
        for name, task in tasks.items():
            # The blocks of a slow contender are spread over all turns.
            if turn * blocks[name] // plan.blocks < len(found[name]):
                continue
            gc.collect(0)
            gc.disable()  # as timeit does: a collection would disturb one contender only
            try:
                # Not counted: these rounds fill the caches again.
                if extra := rounds[name] // 5:
                    task(extra)
                spent = task(rounds[name])
            finally:
                gc.enable()
            found[name].append(tuple(1e6 * s / rounds[name] for s in spent))
            turns[name].append(turn)
        step()
    return {
        name: Timing(
            np.array(found[name]),
            np.array(turns[name]),
            rounds[name] * blocks[name],
            blocks[name] < plan.blocks,
        )
        for name in tasks
    }


def _calibrate(task: Task, block_seconds: float) -> tuple[int, float]:
    """Return the number of rounds in a block, and its seconds of wall time."""
    task(1)  # the first round compiles and allocates
    rounds = 1
    while True:
        start = perf_counter()
        timed = sum(task(rounds))
        # Wall time includes what the task does not time.
        wall = perf_counter() - start
        if timed >= block_seconds / 2 and timed < 10 * block_seconds:
            # Repeated, because a moment of noise would make all blocks of this contender too short.
            timed = min(timed, sum(task(rounds)), sum(task(rounds)))
        if timed >= block_seconds / 2:
            scale = max(1, round(rounds * block_seconds / timed)) / rounds
            return round(rounds * scale), wall * scale
        rounds *= 2


def clock_nanoseconds() -> float:
    """Return the time of reading the clock, which is included in every timed call."""
    reads = 20_000
    start = perf_counter_ns()
    for _ in range(reads):
        perf_counter_ns()
    return (perf_counter_ns() - start) / reads
