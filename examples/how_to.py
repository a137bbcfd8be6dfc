"""The simulations behind the how-to guides: unknown scales, clicks, drift.

Each study simulates several policies on the same problems, prints a table and saves a figure:

    python examples/how_to.py noise --runs 100 --out out
    python examples/how_to.py clicks
    python examples/how_to.py drift
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import rolin
from rolin.environments import Clicks, Drifting, Synthetic

matplotlib.use("Agg")  # write files, do not open windows
import matplotlib.pyplot as plt

Policies = dict[str, Callable[..., Any]]
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
}
# Known scales and Thompson sampling as in the paper; the defaults would learn the scales and explore less.
KNOWN: dict[str, Any] = {
    "coef_std": 1.0, "noise_std": 1.0, "intercept_std": None, "exploration": 1.0,
}  # fmt: skip
HALF_LIVES = (15.0, 30.0, 60.0, 125.0, 250.0, 1000.0)


@dataclass(frozen=True)
class Study:
    """The environments and policies of a study, and the policy that the others are compared with."""

    worlds: Mapping[str, Any]
    policies: Callable[[Any], Policies]
    reference: str
    rounds: int = 3000
    runs: int = 100
    covered: tuple[str, ...] = field(default=())
    """Policies for which the coverage of 90 % intervals is measured after the last round."""
    early: float | None = None
    """Share of the rounds after which the regret is shown as well."""


def noise_policies(world: Synthetic) -> Policies:
    """Scales that are known, or guessed three times too large and then learned or not."""
    d = world.n_features
    guess: dict[str, Any] = {"arm_std": 0.75, "noise_std": 3.0, "coef_std": 3.0}
    learn: dict[str, Any] = {name: ("learn", value) for name, value in guess.items()}
    paper: dict[str, Any] = {"intercept_std": None, "exploration": 1.0}
    return {
        "knows the scales": lambda seed: rolin.RoLinTS(
            n_features=d, arm_std=world.arm_std, seed=seed, **KNOWN
        ),
        "nothing configured": lambda seed: rolin.RoLinTS(n_features=d, seed=seed),
        "learns them": lambda seed: rolin.RoLinTS(n_features=d, seed=seed, **learn, **paper),
        "BayesRoLinTS": lambda seed: rolin.BayesRoLinTS(n_features=d, seed=seed, **guess, **paper),
        "keeps the guess": lambda seed: rolin.RoLinTS(n_features=d, seed=seed, **guess, **paper),
    }


def few_arm_policies(world: Synthetic) -> Policies:
    """Scales that are known, or a guess of arm_std four times too small that is learned, integrated out or kept."""
    d = world.n_features
    guess: dict[str, Any] = {"arm_std": 0.5, **KNOWN}
    learn = {name: ("learn", guess[name]) for name in ("arm_std", "noise_std", "coef_std")}
    return {
        "knows the scales": lambda seed: rolin.RoLinTS(
            n_features=d, arm_std=world.arm_std, seed=seed, **KNOWN
        ),
        "nothing configured": lambda seed: rolin.RoLinTS(n_features=d, seed=seed),
        "learns them": lambda seed: rolin.RoLinTS(n_features=d, seed=seed, **(guess | learn)),
        "BayesRoLinTS": lambda seed: rolin.BayesRoLinTS(n_features=d, seed=seed, **guess),
        "keeps the guess": lambda seed: rolin.RoLinTS(n_features=d, seed=seed, **guess),
    }


def coefficient_policies(world: Synthetic) -> Policies:
    """Scales that are known, and coefficients of another size than the guess of 1, with the other scales integrated out."""
    d, known = world.n_features, {**KNOWN, "coef_std": world.coef_std, "arm_std": world.arm_std}
    return {
        "knows the scales": lambda seed: rolin.RoLinTS(n_features=d, seed=seed, **known),
        "BayesRoLinTS(coef_std=1.0)": lambda seed: rolin.BayesRoLinTS(
            n_features=d, coef_std=1.0, seed=seed
        ),
        "BayesRoLinTS()": lambda seed: rolin.BayesRoLinTS(n_features=d, seed=seed),
        "RoLinTS()": lambda seed: rolin.RoLinTS(n_features=d, seed=seed),
    }


# What the stored runs learned the scales of the Gaussian policies from.
GAUSSIAN: dict[str, Any] = {
    "noise_std": ("learn", 1.0), "arm_std": ("learn", 0.5), "coef_std": ("learn", 1.0), "intercept_std": 1.0,
}  # fmt: skip


def click_policies(world: Clicks) -> Policies:
    """Gaussian and logistic models, with scales that fit the environment, or learned ones."""
    d, rate = world.n_features, world.click_rate
    slope = rate * (1.0 - rate)  # derivative of the rate by the logit, and variance of a click
    known: dict[str, Any] = {"arm_std": world.arm_std * slope, "coef_std": world.coef_std * slope}
    return {
        "Gaussian, chosen": lambda seed: rolin.RoLinTS(
            n_features=d, noise_std=slope**0.5, intercept_std=slope, intercept_mean=rate, seed=seed,
            exploration=1.0, **known,
        ),
        "Gaussian, learned": lambda seed: rolin.RoLinTS(
            n_features=d, exploration=1.0, seed=seed, **GAUSSIAN
        ),
        "logistic, chosen": lambda seed: rolin.LogisticRoLinTS(
            n_features=d, arm_std=world.arm_std, coef_std=world.coef_std, intercept_std=0.5,
            intercept_mean=world.level, exploration=1.0, seed=seed,
        ),
        "logistic, learned": lambda seed: rolin.LogisticRoLinTS(
            n_features=d, exploration=1.0, seed=seed
        ),
    }  # fmt: skip


FACTORS: tuple[Any, ...] = (1.0, 0.5, 0.25, 0.1, "auto")


def exploring_policies(world: Clicks) -> Policies:
    """Learned scales, with several factors on the standard deviations and "auto", and upper bounds."""
    d = world.n_features
    policies: Policies = {}
    for factor in FACTORS:
        policies[f"Gaussian, exploration={factor}"] = lambda seed, f=factor: rolin.RoLinTS(
            n_features=d, exploration=f, seed=seed, **GAUSSIAN
        )
    for factor in FACTORS:
        policies[f"logistic, exploration={factor}"] = lambda seed, f=factor: rolin.LogisticRoLinTS(
            n_features=d, exploration=f, seed=seed
        )
    for width in (1.0, 0.5):
        policies[f"logistic UCB, width={width:g}"] = lambda seed, w=width: rolin.LogisticRoLinUCB(
            n_features=d, width=w, seed=seed
        )
    return policies


def drift_policies(world: Drifting) -> Policies:
    """Return a policy that forgets nothing, and policies with several half-lives."""
    d = world.n_features
    scales: dict[str, Any] = {"arm_std": 0.5, **KNOWN}
    policies: Policies = {
        "remembers": lambda seed: rolin.RoLinTS(n_features=d, seed=seed, **scales)
    }
    for half_life in HALF_LIVES:
        policies[f"half_life={half_life:g}"] = lambda seed, h=half_life: rolin.RoLinTS(
            n_features=d, half_life=h, seed=seed, **scales
        )
    return policies


NOISE = (
    "knows the scales", "nothing configured", "learns them", "BayesRoLinTS", "keeps the guess",
)  # fmt: skip
STUDIES = {
    "noise": Study(
        {f"arm_std = {s:g}": Synthetic(arm_std=s) for s in (0.0, 0.25, 0.5)},
        noise_policies,
        "knows the scales",
        covered=NOISE,
    ),
    "clicks": Study(
        {f"rate {r:.0%}": Clicks(click_rate=r) for r in (0.02, 0.1, 0.5)},
        click_policies,
        "Gaussian, chosen",
        covered=("Gaussian, chosen", "Gaussian, learned", "logistic, chosen", "logistic, learned"),
    ),
    "few-arms": Study(
        {"ten fixed arms": Synthetic(n_arms=10, n_features=2, arm_std=2.0, contexts="fixed")},
        few_arm_policies,
        "knows the scales",
        rounds=1000,
        runs=600,
        covered=NOISE,
    ),
    "coefficients": Study(
        {f"coef_std = {c:g}": Synthetic(coef_std=c) for c in (10.0, 1.0, 0.1)},
        coefficient_policies,
        "knows the scales",
        rounds=2000,
    ),
    "clicks-early": Study(
        {f"rate {r:.0%}": Clicks(click_rate=r) for r in (0.02, 0.1, 0.5)},
        click_policies,
        "Gaussian, chosen",
        rounds=300,
        covered=("Gaussian, chosen", "Gaussian, learned", "logistic, chosen", "logistic, learned"),
    ),
    "clicks-exploration": Study(
        {f"rate {r:.0%}": Clicks(click_rate=r) for r in (0.02, 0.1, 0.5)},
        exploring_policies,
        "Gaussian, exploration=1.0",
        rounds=5000,
        runs=25,
        early=0.2,
    ),
    "drift": Study(
        {f"half-life {h}": Drifting(half_life=float(h)) for h in (300, 1000)}
        | {"no drift": Synthetic()},
        drift_policies,
        "remembers",
        rounds=5000,
        runs=50,
        covered=("remembers", *(f"half_life={h:g}" for h in HALF_LIVES)),
    ),
}


def coverage(world: Any, make: Callable[[int], Any], rounds: int, run: int) -> float:
    """Play one run, and return the share of arms whose 90 % interval contains their mean reward."""
    policy, block = make(run), None
    for block in world.play(rounds, np.random.default_rng(run)):
        for x, rewards in zip(block.contexts, block.rewards, strict=True):
            decision = policy.decide(x)
            policy.update(decision.arm, decision.context, float(rewards[decision.arm]))
    assert block is not None
    low, high = policy.predict(block.contexts[-1]).interval(0.9)
    truth = block.means[-1]
    return float(((low <= truth) & (truth <= high)).mean())


def play(name: str, study: Study, runs: int, rounds: int, n_jobs: int, out: Path) -> str:
    """Run a study, write its table and figure, and return the table."""
    lines = [f"| {name} | policy | regret ± s.e. | of “{study.reference}” |"]
    lines += ["|---|---|---:|---:|"]
    if study.covered:
        lines = [lines[0] + " 90 % intervals hold |", lines[1] + "---:|"]
    if study.early is not None:
        rest = f" after {study.early * rounds:g} rounds | of “{study.reference}” |"
        lines = [lines[0] + rest, lines[1] + "---:|---:|"]
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            1,
            len(study.worlds),
            figsize=(1.5 + 2.6 * len(study.worlds), 3.6),
            layout="constrained",
            squeeze=False,
        )
        for ax, (title, world) in zip(panels[0], study.worlds.items(), strict=True):
            policies = study.policies(world)
            result = rolin.simulate(
                policies, world, rounds=rounds, runs=runs, seed=0, n_jobs=n_jobs
            )
            result.plot(ax=ax, bound=False)
            ax.set(title=title)
            ax.get_legend().remove()
            for policy, regret in result.regret.items():
                last = regret[:, -1]
                ratio = result.compare(policy, study.reference).ratio
                cells = [title, policy, f"{last.mean():.1f} ± {last.std(ddof=1) / runs**0.5:.1f}"]
                cells.append(f"{ratio.value:.3f} ± {ratio.std_error:.3f}")
                if policy in study.covered:
                    held = [coverage(world, policies[policy], rounds, run) for run in range(runs)]
                    error = np.std(held, ddof=1) / runs**0.5
                    cells.append(f"{100 * np.mean(held):.1f} ± {100 * error:.1f} %")
                if study.early is not None:
                    at = int(np.abs(result.recorded_rounds - study.early * rounds).argmin())
                    then = regret[:, at].mean()
                    ratio_then = then / result.regret[study.reference][:, at].mean()
                    cells += [f"{then:.1f}", f"{ratio_then:.3f}"]
                lines.append(f"| {' | '.join(cells)} |")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=min(len(labels), 1 + len(study.worlds)),
            frameon=False,
        )
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / f"{name}.png", dpi=150)
    table = "\n".join(lines) + f"\n\n{runs} runs of {rounds} rounds; bands of 2 s.e.\n"
    (out / f"{name}.md").write_text(table, encoding="utf-8")
    return table


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--runs", type=int, default=None, help="runs in each environment")
    parser.add_argument("--rounds", type=int, default=None, help="rounds in a run")
    parser.add_argument(
        "--n-jobs", type=int, default=-1, help="number of processes; -1 for all cores"
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for table and figure")
    given = parser.parse_args()
    study = STUDIES[given.study]
    runs, rounds = given.runs or study.runs, given.rounds or study.rounds
    print(play(given.study, study, runs, rounds, given.n_jobs, given.out))
    print(f"Figure: {given.out / given.study}.png")


if __name__ == "__main__":
    main()
