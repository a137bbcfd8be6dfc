"""Table 1: run time of RoLinTS and of its naive implementation, by the number of arms."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import rolin
from rolin._support.checks import count_of
from rolin._support.progress import Progress, check_progress, reporter
from rolin.environments.synthetic import Synthetic
from rolin.paper import claims
from rolin.paper.claims import Check, Claim
from rolin.paper.folder import Folder
from rolin.paper.reproduce import Report, claims_page, records
from rolin.paper.setting import THOMPSON
from rolin.simulation.comparison import ratio_over_runs
from rolin.simulation.play import pull

__all__ = ["PAPER", "runtime"]

# Table 1 of the paper: by the number of arms, the seconds of RoLinTS and of its naive implementation,
# which the paper calls LinTS.
PAPER = {
    16: (0.7, 1.1),
    32: (0.8, 2.0),
    64: (0.9, 4.6),
    128: (1.1, 14.7),
    256: (1.5, 75.6),
    512: (2.9, 498.7),
    1024: (5.2, 4275.4),
}
N_FEATURES, ROUNDS, RUNS = 10, 500, 5
# The naive implementation runs for about this time at each number of arms; its time is then scaled up.
NAIVE_SECONDS = 20.0
# RoLinTS plays this many times the rounds, and its time is scaled down: 500 rounds take only 10 ms.
MORE_ROUNDS = 20
SECTION = "Section 6.3"

Floats = NDArray[np.float64]


def runtime(
    folder: Path,
    *,
    rounds: int | None = None,
    runs: int | None = None,
    seed: int = 0,
    progress: Progress = True,
) -> Report:
    """Time both implementations in this process, with one BLAS thread, and write a table.

    Drawing contexts and rewards is not timed. RoLinTS plays twenty times the rounds, and the naive
    implementation plays fewer rounds if there are many arms; the times are scaled. Every arm is updated
    once before the start, so the cost of a round does not depend on the rounds before it.

    Parameters
    ----------
    folder
        Output folder; created if it does not exist.
    rounds
        Number of rounds; by default that of the paper.
    runs
        Number of runs; by default 5.
    seed
        A non-negative integer.
    progress
        `True` shows a progress bar, `False` shows nothing. A function is called with the number of rows
        of the table that were completed since its last call.
    """
    check_progress(progress)
    rounds = ROUNDS if rounds is None else count_of("rounds", rounds, least=1)
    runs = RUNS if runs is None else count_of("runs", runs, least=1)
    output = Folder(
        folder, {"experiment": "runtime", "rounds": rounds, "seed": count_of("seed", seed)}
    )
    fast, naive, naive_rounds = {}, {}, {}
    with threadpool_limits(1), reporter(progress, "runtime", len(PAPER)) as advance:
        for n_arms in PAPER:
            fast[n_arms], _ = _time(
                rolin.RoLinTS, n_arms, MORE_ROUNDS * rounds, runs, seed, math.inf
            )
            naive[n_arms], naive_rounds[n_arms] = _time(
                rolin.NaiveRoLinTS, n_arms, rounds, runs, seed, NAIVE_SECONDS / runs
            )
            advance(1)
    table = _table(fast, naive, naive_rounds, rounds)
    with output.file("runtime.csv") as path:
        table.to_csv(path, index=False, float_format="%.6g")
    output.write("summary.json", records(table))
    verdicts = [(claim, claim.check({})) for claim in _claims(fast, naive)]
    note = (
        f"Seconds for {rounds} rounds, mean of {runs} runs, one BLAS thread, every arm updated before the "
        f"start. RoLinTS played {MORE_ROUNDS} times as many rounds. Its time is scaled down, and the time of the "
        "naive implementation is scaled up if it played fewer rounds (see the table).\n\n"
        + _markdown(table)
    )
    output.write("claims.md", claims_page("Table 1, Section 6.3", verdicts, [note]))
    output.write_settings(runs=runs)
    return Report("Table 1: run time", folder, table, verdicts)


def _time(
    make: Any, n_arms: int, rounds: int, runs: int, seed: int, limit: float
) -> tuple[Floats, int]:
    """Return the seconds per round of decide and update in every run, and the rounds that were timed."""
    environment = Synthetic(n_arms=n_arms, n_features=N_FEATURES, arm_std=0.5)
    per_round, timed = [], 0
    for run in range(runs):
        policy = make(n_features=N_FEATURES, arm_std=0.5, seed=seed + run, **THOMPSON)
        generator = np.random.default_rng([seed, run])
        # Update every arm, so that the naive model has its full size from the first round, and play one
        # round, so that everything is compiled.
        first = next(environment.play(1, generator))
        policy.update_many(range(n_arms), first.contexts[0], first.rewards[0])
        pull(policy, first.contexts, first.rewards)
        spent, timed = 0.0, 0
        for block in environment.play(rounds, generator):
            start = time.perf_counter()
            pull(policy, block.contexts, block.rewards)
            spent += time.perf_counter() - start
            timed += len(block.means)
            if spent > limit:
                break
        per_round.append(spent / timed)
    return np.array(per_round), timed


def _table(
    fast: dict[int, Floats], naive: dict[int, Floats], naive_rounds: dict[int, int], rounds: int
) -> pd.DataFrame:
    rows = []
    for n_arms, (paper_fast, paper_naive) in PAPER.items():
        ratio = ratio_over_runs(naive[n_arms], fast[n_arms])
        rows.append(
            {
                "arms": n_arms,
                "rolin_seconds": float(fast[n_arms].mean()) * rounds,
                "naive_seconds": float(naive[n_arms].mean()) * rounds,
                "naive_rounds": naive_rounds[n_arms],
                "ratio": ratio.value,
                "ratio_std_error": ratio.std_error,
                "paper_ratio": paper_naive / paper_fast,
            }
        )
    return pd.DataFrame(rows)


def _claims(fast: dict[int, Floats], naive: dict[int, Floats]) -> list[Claim]:
    def growth(times: dict[int, Floats], low: float, high: float) -> list[Check]:
        ratio = ratio_over_runs(times[1024], times[512])
        text = f"time grows by a factor of {ratio}, claimed {low:g} to {high:g}"
        return [Check("K = 512 to 1024", claims.within(ratio, low, high), text)]

    def faster(n_arms: int, factor: float) -> list[Check]:
        ratio = ratio_over_runs(naive[n_arms], fast[n_arms])
        text = f"{ratio} times, claimed {factor:g}"
        return [Check(f"K = {n_arms}", claims.above(ratio, factor), text)]

    return [
        Claim(
            "linear in K", SECTION,
            "For large K, the run time of RoLinTS doubles when K doubles.",
            lambda _: growth(fast, 1.5, 2.5),
        ),
        Claim(
            "naive is nearly cubic", SECTION,
            "For large K, the run time of the naive implementation is nearly cubic in K.",
            lambda _: growth(naive, 5.5, 10.0),
        ),
        Claim(
            "ten times at K = 128", SECTION,
            "For K = 128, RoLinTS is 10 times faster than the naive implementation.",
            lambda _: faster(128, 10.0),
        ),
        Claim(
            "a thousand times at K = 1024", SECTION,
            "For K = 1024, RoLinTS is a thousand times faster (by the paper's own Table 1, 822).",
            lambda _: faster(1024, 1000.0),
        ),
    ]  # fmt: skip


def _markdown(table: pd.DataFrame) -> str:
    lines = [
        "| K | RoLinTS, s | naive, s | naive rounds played | naive / RoLinTS | in the paper |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.arms} | {row.rolin_seconds:.4f} | {row.naive_seconds:.3g} | {row.naive_rounds} | "
        f"{row.ratio:.1f} ± {row.ratio_std_error:.1g} | {row.paper_ratio:.1f} |"
        for row in table.itertuples()
    ]
    return "\n".join(lines)
