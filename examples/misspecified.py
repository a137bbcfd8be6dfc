"""What happens to a linear bandit if its features miss something.

There are fifty arms with ten features each. The mean reward is linear in the features, except that every
arm also has an effect of its own (standard deviation 0.5) that no feature shows. LinTS assumes that there
is no such effect; RoLinTS learns it. Run it with these options, or with others:

    python examples/misspecified.py --runs 100 --rounds 3000 --out out
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import rolin

matplotlib.use("Agg")  # write files, do not open windows
import matplotlib.pyplot as plt

Array = NDArray[np.float64]

N_ARMS, N_FEATURES, ARM_STD = 50, 10, 0.5
CHECK_EVERY = 50  # rounds between checks of the predictions
# Both know the noise and the size of the coefficients, and sample as in the paper.
KNOWN: dict[str, Any] = {
    "coef_std": 1.0, "noise_std": 1.0, "intercept_std": None, "exploration": 1.0,
}  # fmt: skip
POLICIES: dict[str, Callable[[int], rolin.LinearPolicy]] = {
    "LinTS": lambda seed: rolin.LinTS(n_features=N_FEATURES, seed=seed, **KNOWN),
    "RoLinTS": lambda seed: rolin.RoLinTS(
        n_features=N_FEATURES, arm_std=ARM_STD, seed=seed, **KNOWN
    ),
}
# Distinguishable in print and for color-blind readers (Okabe & Ito).
COLORS = {"LinTS": "#D55E00", "RoLinTS": "#0072B2"}


@dataclass
class Trace:
    """The measurements of one run."""

    regret: Array  # (rounds,) cumulative
    error: Array  # root mean square error of all arms' predictions, at the checks
    expected_error: Array  # the same error as the policy expects it from its own uncertainty


def play(policy: rolin.LinearPolicy, rounds: int, run: int) -> Trace:
    """Play one run; all policies of a run get the same problem, contexts and noise."""
    rng = np.random.default_rng(run)
    theta = rng.normal(size=N_FEATURES)
    effects = ARM_STD * rng.normal(size=N_ARMS)
    regret, error, expected = np.empty(rounds), [], []
    for t in range(rounds):
        contexts = rng.uniform(-1, 1, (N_ARMS, N_FEATURES))
        means = contexts @ theta + effects
        noise = rng.normal()
        decision = policy.decide(contexts)
        arm = decision.arm
        policy.update(arm, decision.context, means[arm] + noise)
        regret[t] = means.max() - means[arm]
        if (t + 1) % CHECK_EVERY == 0:
            mean, std = policy.predict(contexts)
            error.append(np.sqrt(np.mean((mean - means) ** 2)))
            expected.append(np.sqrt(np.mean(std**2)))
    return Trace(np.cumsum(regret), np.array(error), np.array(expected))


def figure(traces: dict[str, list[Trace]], rounds: int, path: Path) -> None:
    """Draw the regret, and the prediction error that each policy makes and expects."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.1), layout="constrained")
    checks = np.arange(1, rounds // CHECK_EVERY + 1) * CHECK_EVERY
    for name, runs in traces.items():
        regret = np.array([trace.regret for trace in runs])
        mean, error = regret.mean(axis=0), regret.std(axis=0) / math.sqrt(len(runs))
        color = COLORS[name]
        t = np.arange(1, rounds + 1)
        left.plot(t, mean, color=color, label=name)
        left.fill_between(t, mean - 2 * error, mean + 2 * error, color=color, alpha=0.2, lw=0)
        left.annotate(name, (rounds, mean[-1]), (4, 0), textcoords="offset points", color=color,
                      va="center")  # fmt: skip
        made = np.mean([trace.error for trace in runs], axis=0)
        expected = np.mean([trace.expected_error for trace in runs], axis=0)
        right.plot(checks, made, color=color, label=f"{name}: error it makes")
        right.plot(checks, expected, color=color, ls="--", label=f"{name}: error it expects")
    left.set(xlabel="round", ylabel="regret", xlim=(0, rounds), ylim=(0, None))
    left.set_title("The regret of the linear bandit keeps growing …", loc="left", fontsize=10)
    right.set(
        xlabel="round", ylabel="error of predicted mean rewards", xlim=(0, rounds), ylim=(0, None)
    )
    right.set_title("… and it underestimates its error", loc="left", fontsize=10)
    right.legend(frameon=False, fontsize=8)
    fig.savefig(path, dpi=200)
    plt.close(fig)


def main() -> None:
    """Simulate, print a table, draw a figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=30, help="number of runs (default 30)")
    parser.add_argument("--rounds", type=int, default=3000, help="rounds in a run (default 3000)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the figure")
    options = parser.parse_args()
    if options.runs < 2 or options.rounds < 2 * CHECK_EVERY:
        parser.error(
            f"got {options.runs} runs and {options.rounds} rounds, expected at least 2 runs and "
            f"{2 * CHECK_EVERY} rounds"
        )

    console = Console()
    traces: dict[str, list[Trace]] = {name: [] for name in POLICIES}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("simulating", total=options.runs * len(POLICIES))
        for run in range(options.runs):
            for name, make in POLICIES.items():
                traces[name].append(play(make(run), options.rounds, run))
                progress.advance(task)

    table = Table(
        title=f"{N_ARMS} arms with an effect of their own; {options.rounds} rounds, {options.runs} runs"
    )
    for heading in (
        "policy",
        "regret",
        "± s.e.",
        "in last quarter",
        "error it makes",
        "error it expects",
    ):
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    quarter = options.rounds // 4
    for name, runs in traces.items():
        final = np.array([trace.regret[-1] for trace in runs])
        late = np.mean([trace.regret[-1] - trace.regret[-1 - quarter] for trace in runs])
        table.add_row(
            name,
            f"{final.mean():.0f}",
            f"{final.std(ddof=1) / math.sqrt(len(final)):.0f}",
            f"{late:.0f}",
            f"{np.mean([trace.error[-1] for trace in runs]):.3f}",
            f"{np.mean([trace.expected_error[-1] for trace in runs]):.3f}",
        )
    console.print(table)
    console.print(
        "Regret is the mean reward of the best arm minus that of the pulled arm, summed over all rounds "
        "and over the last quarter.\nThe errors are those of the predicted mean rewards at the end. A policy "
        "with calibrated uncertainty makes the error that it expects."
    )
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "misspecified.png"
    figure(traces, options.rounds, path)
    console.print(f"Figure: {path}")


if __name__ == "__main__":
    main()
