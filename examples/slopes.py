"""What slopes per arm are worth: regret of four models, in problems with none, small and large slopes.

In a third of the problems all arms share one context, in a third each arm has its own, and in a third half of the rounds
are of each kind. Finished problems are stored in the output folder, so an interrupted study resumes:

    python examples/slopes.py --out out
    python examples/slopes.py --quick
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from numpy.typing import NDArray

import rolin
from rolin.environments import Slopes

matplotlib.use("Agg")  # write files, do not open windows
import matplotlib.pyplot as plt

Floats = NDArray[np.float64]
KINDS = {"half of each": 0.5, "one for all arms": 1.0, "one per arm": 0.0}
SPREADS = (0.0, 0.1, 0.3, 1.0)
FACTORS: tuple[Any, ...] = (1.0, 0.5, "auto")
PAPER, PAPER_LEARNED = "one effect per arm", "one effect per arm, learned"
KNOWN, LEARNED = "effects and slopes", "effects and slopes, learned"
PER_ARM, DISJOINT = "a model per arm", "DisjointLinUCB"
# Readable in print without colors.
LINES = {
    PAPER: ("#999999", "o", "-"),
    KNOWN: ("#0072b2", "s", "--"),
    LEARNED: ("#0072b2", "s", "-"),
    PER_ARM: ("#d55e00", "^", "-"),
}


class Cell(NamedTuple):
    """A kind of problems, and the factor with which all Thompson sampling explores."""

    factor: Any
    kind: str
    spread: float

    @property
    def world(self) -> Slopes:
        """The environment."""
        return Slopes(slope_std=self.spread, shared=KINDS[self.kind])


def policies(cell: Cell) -> dict[str, Callable[..., Any]]:
    """Return Thompson sampling in four models with known scales or learned ones; and LinUCB, whose width is 1."""
    world, spread = cell.world, cell.spread
    both: dict[str, Any] = {"n_features": world.n_features, "exploration": cell.factor}
    known: dict[str, Any] = {
        **both, "arm_std": world.arm_std, "noise_std": world.noise_std, "intercept_std": None,
    }  # fmt: skip
    shared = {**known, "coef_std": world.coef_std}
    # All coefficients are the arm's own, with the variance of shared ones and slopes together.
    own = {**known, "coef_std": 1e-6, "slope_std": float(np.hypot(world.coef_std, spread))}
    made: dict[str, Callable[..., Any]] = {
        PAPER: lambda seed: rolin.RoLinTS(seed=seed, **shared),
        PAPER_LEARNED: lambda seed: rolin.RoLinTS(seed=seed, **both),
        KNOWN: lambda seed: rolin.RoLinTS(seed=seed, slope_std=spread, **shared),
        LEARNED: lambda seed: rolin.RoLinTS(seed=seed, slope_std="learn", **both),
        PER_ARM: lambda seed: rolin.RoLinTS(seed=seed, **own),
    }
    if cell.factor == 1.0:
        made[DISJOINT] = lambda seed: rolin.DisjointLinUCB(n_features=world.n_features, seed=seed)
    return made


def play(cell: Cell, rounds: int, runs: int, n_jobs: int, out: Path) -> dict[str, Floats]:
    """Return the regret of every run after the last round, by policy; stored ones are not played again."""
    file = out / "slopes" / f"{cell.factor}-{KINDS[cell.kind]:g}-{cell.spread:g}.json"
    if file.exists():
        stored = json.loads(file.read_text(encoding="utf-8"))
        if (stored["rounds"], stored["runs"]) == (rounds, runs):
            return {name: np.array(regret) for name, regret in stored["regret"].items()}
    result = rolin.simulate(
        policies(cell), cell.world, rounds=rounds, runs=runs, seed=0, n_jobs=n_jobs
    )
    last = {name: regret[:, -1] for name, regret in result.regret.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    plain = {name: regret.tolist() for name, regret in last.items()}
    file.write_text(json.dumps({"rounds": rounds, "runs": runs, "regret": plain}), encoding="utf-8")
    return last


def ratio(regret: Floats, other: Floats) -> str:
    """Return the ratio of two mean regrets over paired runs, ± its standard error (delta method)."""
    value = regret.mean() / other.mean()
    apart = (regret - value * other) / other.mean()
    return f"{value:.2f} ± {apart.std(ddof=1) / len(apart) ** 0.5:.2f}"


def table(found: dict[Cell, dict[str, Floats]], factor: Any) -> Iterator[str]:
    """Yield the lines of the table of one factor."""
    names = [PAPER, PAPER_LEARNED, KNOWN, LEARNED, PER_ARM] + [DISJOINT] * (factor == 1.0)
    head = ["contexts", "slope_std", *names]
    head += ["learned / known", "learned / best of the others", f"learned / {PAPER_LEARNED}"]
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for cell, regret in found.items():
        if cell.factor != factor:
            continue
        best = min((PAPER, PER_ARM), key=lambda name: regret[name].mean())
        cells = [cell.kind, f"{cell.spread:g}"]
        cells += [
            f"{regret[n].mean():.0f} ± {regret[n].std(ddof=1) / len(regret[n]) ** 0.5:.0f}"
            for n in names
        ]
        cells += [ratio(regret[LEARNED], regret[name]) for name in (KNOWN, best, PAPER_LEARNED)]
        yield "| " + " | ".join(cells) + " |"


def draw(found: dict[Cell, dict[str, Floats]], file: Path) -> None:
    """Draw the regret over the spread of slopes, one panel per kind of contexts, with the default exploration."""
    style: dict[Any, Any] = {
        "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left",
    }  # fmt: skip
    with plt.rc_context(style):
        figure, panels = plt.subplots(
            1, len(KINDS), figsize=(9.0, 3.4), sharey=True, layout="constrained"
        )
        for ax, kind in zip(panels, KINDS, strict=True):
            cells = [cell for cell in found if cell.kind == kind and cell.factor == "auto"]
            for name, (color, marker, line) in LINES.items():
                runs = [found[cell][name] for cell in cells]
                mean = [regret.mean() for regret in runs]
                error = [2 * regret.std(ddof=1) / len(regret) ** 0.5 for regret in runs]
                ax.errorbar(
                    range(len(cells)), mean, error, color=color, marker=marker, linestyle=line,
                    markersize=4, capsize=2, label=name,
                )  # fmt: skip
            ax.set_xticks(range(len(cells)), [f"{cell.spread:g}" for cell in cells])
            ax.set(title=f"contexts: {kind}", xlabel="slope_std of the problem", yscale="log")
        panels[0].set_ylabel("regret")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(file, dpi=150)


def main() -> None:
    """Play all problems, and write tables and figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="runs of each problem (100)")
    parser.add_argument("--rounds", type=int, default=3000, help="rounds in a run (3000)")
    parser.add_argument("--quick", action="store_true", help="3 runs of 300 rounds")
    parser.add_argument(
        "--n-jobs", type=int, default=-1, help="number of processes; -1 for all cores"
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for all files")
    given = parser.parse_args()
    runs, rounds = (3, 300) if given.quick else (given.runs, given.rounds)
    found = {
        cell: play(cell, rounds, runs, given.n_jobs, given.out)
        for cell in (Cell(f, k, s) for f in FACTORS for k in KINDS for s in SPREADS)
    }
    parts = []
    for factor in FACTORS:
        title = f'exploration="{factor}"' if factor == "auto" else f"exploration={factor:g}"
        parts.append(f"Regret with `{title}`:\n\n" + "\n".join(table(found, factor)) + "\n")
    world = Slopes()
    parts.append(
        f"{runs} runs of {rounds} rounds, ± standard error; {world.n_arms} arms, {world.n_features} features.\n"
    )
    text = "\n".join(parts)
    (given.out / "slopes.md").write_text(text, encoding="utf-8")
    draw(found, given.out / "slopes.png")
    print(text)


if __name__ == "__main__":
    main()
