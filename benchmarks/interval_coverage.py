"""How often 90 % intervals of mean rewards hold the truth, after few and after many rewards.

A policy chooses the arms and learns from their rewards. After some of the rewards, it predicts the mean rewards of all
arms of the next questions. The same is counted for the arms that it would choose there.

    python benchmarks/interval_coverage.py [--runs 400] [--worlds "50 arms"] [--policies learned]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from progress import progress
from report import table

import rolin
from rolin.environments import Clicks, Synthetic

Floats = NDArray[np.float64]
Make = Callable[[int], Any]

REWARDS = (50, 100, 300, 1500)
QUESTIONS = 10  # the next ones, on which intervals are checked
LEVEL = 0.9
GAUSSIAN: dict[str, Synthetic] = {
    "50 arms": Synthetic(),
    "50 arms, no effects": Synthetic(arm_std=0.0),
    "10 fixed arms, large effects": Synthetic(
        n_arms=10, n_features=2, arm_std=2.0, contexts="fixed"
    ),
    "20 arms, weak features": Synthetic(
        n_arms=20, n_features=5, arm_std=1.0, coef_std=0.3, noise_std=2.0
    ),
    "8 arms, no features": Synthetic(n_arms=8, n_features=0),
    # The method was chosen before these two were added.
    "200 arms, small effects": Synthetic(n_arms=200, n_features=3, arm_std=0.3),
    "5 arms, 20 features": Synthetic(n_arms=5, n_features=20, arm_std=1.0, noise_std=0.5),
}
CLICKS: dict[str, Clicks] = {
    **{f"clicks, rate {rate:.0%}": Clicks(click_rate=rate) for rate in (0.5, 0.1, 0.02)},
    "clicks, 10 arms, 20 %": Clicks(click_rate=0.2, n_arms=10, n_features=3, arm_std=1.0),
}


class Held(NamedTuple):
    """Shares of intervals that hold the truth, with their standard errors over runs, after each number of rewards."""

    share: Floats
    error: Floats

    def cells(self) -> list[str]:
        """Return the cells of a table, in percent."""
        pairs = zip(100.0 * self.share, 100.0 * self.error, strict=True)
        return [f"{share:.1f} ± {error:.1f}" for share, error in pairs]


def policies_for(world: Any) -> dict[str, Make]:
    """Return policies that are told the scales, that learn them, and that integrate them out."""
    d = world.n_features
    if isinstance(world, Clicks):
        known: dict[str, Any] = {"coef_std": world.coef_std, "arm_std": world.arm_std}
        return {
            "told": lambda seed: rolin.LogisticRoLinTS(n_features=d, seed=seed, **known),
            "learned": lambda seed: rolin.LogisticRoLinTS(n_features=d, seed=seed),
        }
    known = {
        "coef_std": world.coef_std, "arm_std": world.arm_std, "noise_std": world.noise_std,
        "intercept_std": None,
    }  # fmt: skip
    return {
        "told": lambda seed: rolin.RoLinTS(n_features=d, seed=seed, **known),
        "learned": lambda seed: rolin.RoLinTS(n_features=d, seed=seed),
        "integrated": lambda seed: rolin.BayesRoLinTS(n_features=d, seed=seed),
    }


def played(world: Any, policy: Any, run: int) -> Floats:
    """Return, for each number of rewards, the shares of all arms and of the chosen arms whose intervals hold."""
    total = max(REWARDS) + QUESTIONS
    blocks = list(world.play(total, np.random.default_rng([2, run])))
    contexts, means, rewards = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("contexts", "means", "rewards")
    )
    shares = []
    for t in range(max(REWARDS) + 1):
        if t in REWARDS:
            shares.append(held(policy, contexts[t : t + QUESTIONS], means[t : t + QUESTIONS]))
        decision = policy.decide(contexts[t])
        policy.update(decision.arm, decision.context, float(rewards[t, decision.arm]))
    return np.array(shares)


def held(policy: Any, contexts: Floats, means: Floats) -> tuple[float, float]:
    """Return the shares of all arms and of the chosen arms whose intervals hold."""
    inside = np.empty(means.shape, dtype=bool)
    chosen = []
    for i, (x, truth) in enumerate(zip(contexts, means, strict=True)):
        low, high = policy.predict(x).interval(LEVEL)
        inside[i] = (low <= truth) & (truth <= high)
        chosen.append(inside[i, policy.decide(x, key=f"question {i}").arm])
    return float(inside.mean()), float(np.mean(chosen))


def measured(world: Any, make: Make, runs: int, step: Callable[[], None]) -> tuple[Held, Held]:
    """Return how often the intervals hold, of all arms and of the chosen ones."""
    shares = []
    for run in range(runs):
        shares.append(played(world, make(run), run))
        step()
    found = np.array(shares)
    share, error = found.mean(axis=0), found.std(axis=0, ddof=1) / runs**0.5
    return Held(share[:, 0], error[:, 0]), Held(share[:, 1], error[:, 1])


def main() -> None:
    """Read the options, and print a table."""
    worlds: dict[str, Any] = {**GAUSSIAN, **CLICKS}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--worlds", nargs="+", choices=worlds, default=list(worlds))
    parser.add_argument("--policies", nargs="+", default=["told", "learned", "integrated"])
    given = parser.parse_args()
    rows = []
    for name in given.worlds:
        makes = policies_for(worlds[name])
        for policy in (policy for policy in given.policies if policy in makes):
            with progress(f"{name}, {policy}", given.runs) as step:
                every, chosen = measured(worlds[name], makes[policy], given.runs, step)
            rows += [[name, policy, "all", *every.cells()]]
            rows += [[name, policy, "chosen", *chosen.cells()]]
    heads = [f"{n} rewards" for n in REWARDS]
    print(table(["world", "scales", "arms", *heads], rows))
    print(f"\nPercent of {LEVEL:.0%} intervals, ± standard error over {given.runs} runs.")


if __name__ == "__main__":
    main()
