"""How much exploration pays: Thompson sampling with several factors, and with `exploration="auto"`.

Many problems: features that change or stay, 10 to 5000 arms, 500 to 50 000 rounds, and ratings of MovieLens. All
policies learn their scales. The table shows the mean reward per round, relative to the best fixed factor:

    python examples/exploration.py --runs 100 --out out
    python examples/exploration.py --data ml-1m        # a folder with MovieLens 1M
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray

import rolin
from rolin.environments import MovieLens, Synthetic

Floats = NDArray[np.float64]
FACTORS: tuple[float | str, ...] = (0.0, 0.1, 0.25, 0.5, 1.0, "auto")
HORIZONS = (500, 5000, 50_000)


class Cell(NamedTuple):
    """A problem, and how long it is played."""

    name: str
    world: Any
    rounds: int
    share_of_runs: float = 1.0


def cells(data: Path | None) -> Iterator[Cell]:
    """Yield all problems."""
    kinds: tuple[Literal["fresh", "fixed"], ...] = ("fresh", "fixed")
    world: Synthetic | MovieLens
    for contexts in kinds:
        for noise_std in (1.0, 3.0):
            world = Synthetic(n_arms=50, noise_std=noise_std, contexts=contexts)
            rounds, share = (50_000, 0.5) if noise_std == 1.0 else (5000, 1.0)
            yield Cell(f"Figure 1, {contexts}, noise {noise_std:g}", world, rounds, share)
    for n_arms, rounds, share in ((10, 50_000, 0.5), (500, 5000, 1.0), (5000, 5000, 1.0)):
        for contexts in kinds:
            world = Synthetic(n_arms=n_arms, n_features=5, coef_std=0.5, contexts=contexts)
            yield Cell(f"{n_arms} arms, {contexts}", world, rounds, share)
    for n_arms, rounds, share in ((10, 50_000, 0.5), (100, 5000, 1.0)):
        world = Synthetic(n_arms=n_arms, n_features=0, contexts="fixed")
        yield Cell(f"{n_arms} arms, no features", world, rounds, share)
    if data is not None:
        ratings = rolin.datasets.read_ratings(data)
        for share in (0.01, 0.1):
            world = MovieLens.from_ratings(ratings, share=share)
            yield Cell(f"MovieLens, {share:.0%} of ratings", world, 5000)


def rewards(cell: Cell, run: int) -> Floats:
    """Return the mean reward per round of every factor, by horizon; all play the same problem."""
    policies = [
        rolin.RoLinTS(n_features=cell.world.n_features, exploration=factor, seed=run)  # type: ignore[arg-type]
        for factor in FACTORS
    ]
    totals, t, found = np.zeros(len(policies)), 0, []
    generator = np.random.Generator(np.random.SFC64([1, run]))
    for block in cell.world.play(cell.rounds, generator):
        for contexts, means, outcome in zip(*block, strict=True):
            for i, policy in enumerate(policies):
                decision = policy.decide(contexts)
                policy.update(decision.arm, decision.context, outcome.item(decision.arm))
                totals[i] += means[decision.arm]
            t += 1
            if t in HORIZONS:
                found.append(totals / t)
    return np.array(found)


def table(cell: Cell, runs: int) -> list[str]:
    """Play a problem, and return rows of the table."""
    n = max(round(runs * cell.share_of_runs), 4)
    played = joblib.Parallel(n_jobs=-1)(joblib.delayed(rewards)(cell, run) for run in range(n))
    # (runs, horizons, factors)
    found = np.array(played)
    rows = []
    for h, rounds in enumerate(x for x in HORIZONS if x <= cell.rounds):
        each = found[:, h]
        mean = each.mean(axis=0)
        best, auto = int(np.argmax(mean[:-1])), len(FACTORS) - 1
        apart = each[:, auto] - each[:, best]
        error = apart.std(ddof=1) / n**0.5 / abs(mean[best])
        shown = " | ".join(f"{100 * m / mean[best]:.1f}" for m in mean[:-1])
        rows.append(
            f"| {cell.name} | {rounds} | {shown} | {100 * mean[auto] / mean[best]:.1f} ± {100 * error:.1f} |"
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Play all problems and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--data", type=Path, help="a folder with MovieLens 1M")
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    head = ["problem", "rounds", *(f"{f:g}" for f in FACTORS[:-1]), "auto ± std. error"]
    lines = ["| " + " | ".join(head) + " |", "|---" * 2 + "|---:" * len(FACTORS) + "|"]
    for cell in cells(options.data):
        lines += table(cell, options.runs)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "exploration.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
