"""How reliable offline estimates are: in a simulation with known truth, and on the Open Bandit Dataset.

    python examples/offline.py known --runs 200 --out out
    python examples/offline.py obd --data obd --out out

The first study logs simulated decisions in three ways, and compares every estimate of the value of another
policy with its true value. The second reads `random/all` and `bts/all` of the Open Bandit Dataset, and
predicts the click rate of each log from the other one.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

import rolin
from rolin import offline

matplotlib.use("Agg")  # write files, do not open windows

Floats = NDArray[np.float64]
ARMS, FEATURES, DECISIONS = 10, 4, 2000
# Known scales and Thompson sampling as in the paper, in all logs and in the policy that is evaluated.
KNOWN: dict[str, Any] = {
    "coef_std": 1.0, "arm_std": 0.5, "noise_std": 1.0, "intercept_std": None, "exploration": 1.0,
}  # fmt: skip
LOGS: dict[str, dict[str, Any]] = {
    "uniform": {"control_share": 1.0},
    "learning, floor 0.02": {"floor": 0.02},
    "learning, no floor": {},
}


class World:
    """Ten arms, four features, and arm effects that the features miss."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2023)
        self.coef, self.effect = rng.normal(size=FEATURES), 0.5 * rng.normal(size=ARMS)

    def contexts(self, rng: np.random.Generator, n: int) -> Floats:
        """Return the contexts of n decisions."""
        return rng.uniform(-1, 1, (n, ARMS, FEATURES))

    def means(self, x: Floats) -> Floats:
        """Return the mean reward of every arm."""
        means: Floats = x @ self.coef + self.effect
        return means


def candidate(world: World) -> rolin.Policy[Any]:
    """Return the policy to evaluate, which has learned from 100 other decisions."""
    rng = np.random.default_rng(1)
    policy = rolin.RoLinTS(n_features=FEATURES, seed=1, **KNOWN)
    for x in world.contexts(rng, 100):
        decision = policy.decide(x)
        reward = float(world.means(x)[decision.arm] + rng.normal())
        policy.update(decision.arm, decision.context, reward)
    return policy


def one_log(kind: str, run: int) -> list[tuple[str, float, float, float, float, bool]]:
    """Log decisions and evaluate; return each estimate, its interval and sample size, and whether it warned."""
    world, rng = World(), np.random.default_rng([7, run])
    target = candidate(world)
    bandit = rolin.Bandit(rolin.RoLinTS(n_features=FEATURES, seed=run, **KNOWN), **LOGS[kind])
    for x in world.contexts(rng, DECISIONS):
        decision = bandit.decide(x)
        bandit.reward(decision.id, float(world.means(x)[decision.arm] + rng.normal()))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", rolin.errors.OverlapWarning)
        report = offline.evaluate(offline.read(bandit), target)
    return [
        (e.method, e.value, e.low, e.high, e.effective_n, bool(warned)) for e in report.estimates
    ]


def known(runs: int, n_jobs: int) -> str:
    """Return a table of the errors of all estimates."""
    world, rng = World(), np.random.default_rng(99)
    target = candidate(world)
    x = world.contexts(rng, 1000 * runs)  # enough that the truth is known better than any estimate
    values = np.array([target.probabilities(one) @ world.means(one) for one in x])
    truth = float(values.mean())
    lines = [
        "| log | estimator | bias ± s.e. | root mean square error | 95 % intervals hold | effective decisions |",
        "|---|---|---:|---:|---:|---:|",
    ]
    warned = []
    for kind in LOGS:
        results = Parallel(n_jobs=n_jobs)(delayed(one_log)(kind, run) for run in range(runs))
        for i, method in enumerate(row[0] for row in results[0]):
            estimates, low, high, size, notes = np.array([row[i][1:] for row in results]).T
            error = estimates - truth
            held = 100 * float(((low <= truth) & (truth <= high)).mean())
            lines.append(
                f"| {kind} | {method} | {error.mean():+.4f} ± {error.std(ddof=1) / runs**0.5:.4f} "
                f"| {np.sqrt((error**2).mean()):.4f} | {held:.1f} ± {(held * (100 - held) / runs) ** 0.5:.1f} % "
                f"| {'' if method == 'DM' else f'{size.mean():.0f}'} |"
            )
        warned.append(f"{kind}: {100 * notes.mean():.0f} %")
    error = values.std() / len(values) ** 0.5
    return "\n".join(lines) + (
        f"\n\n{runs} logs of {DECISIONS} decisions each; the value of the policy is {truth:.4f} ± {error:.4f} per "
        f"decision.\nReports that warned: {', '.join(warned)}.\n"
    )


def obd(data: Path, out: Path) -> str:
    """Return a table of two logs of the Open Bandit Dataset, each predicted from the other."""
    logs = {name: offline.read(data / name / "all") for name in ("random", "bts")}
    position = {
        name: np.array([int(x[0, 2] + 2 * x[0, 3]) for x in log.contexts])
        for name, log in logs.items()
    }
    k = len(logs["bts"].arms[0])
    # How Thompson sampling chose: the share of each item in each of the three positions.
    shares = np.zeros((3, k))
    np.add.at(shares, (position["bts"], logs["bts"].chosen), 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    reports = []
    lines = [
        "| policy, from log | estimator | clicks per 1000 | 95 % interval |",
        "|---|---|---:|---:|",
    ]
    for label, log, target, other in (
        ("Bernoulli TS, from random", logs["random"], shares[position["random"]], logs["bts"]),
        ("uniform, from Bernoulli TS", logs["bts"], "uniform", logs["random"]),
    ):
        report = offline.evaluate(log, target, label=label)
        reports.append(report)
        lines += [
            f"| {label} | {e.method} | {1000 * e.value:.2f} | {1000 * e.low:.2f} to {1000 * e.high:.2f} |"
            for e in report.estimates
        ]
        # The mean of the log itself is the same for any policy.
        own = offline.evaluate(other, "uniform")["logged"]
        lines.append(
            f"| | what its own log says | {1000 * own.value:.2f} | {1000 * own.low:.2f} to {1000 * own.high:.2f} |"
        )
        lines.append(f"| | effective decisions | {report.effective_n:.0f} of {report.n} | |")
        clicks = report.rare_rewards
        if clicks is not None:
            lines.append(f"| | effective clicks | {clicks.effective_n:.0f} of {clicks.n} | |")
    reports[0].plot(*reports[1:]).savefig(out / "offline-obd.png", dpi=150)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", choices=("known", "obd"))
    parser.add_argument("--runs", type=int, default=200, help="number of logs of each kind")
    parser.add_argument(
        "--n-jobs", type=int, default=-1, help="number of processes; -1 for all cores"
    )
    parser.add_argument("--data", type=Path, default=Path("obd"), help="folder of the data set")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the table")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    table = (
        known(given.runs, given.n_jobs) if given.study == "known" else obd(given.data, given.out)
    )
    (given.out / f"offline-{given.study}.md").write_text(table, encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
