"""The arm_std that a policy learns from arms of its own choice, beside that of a uniform log of the same length.

Most arms are alike and a few are much better (skewed effects), or effects are normal, with the same standard deviation.
Every round has a random page of the arms. Rewards have normal noise, or are clicks.

    python benchmarks/skewed_effects.py [--runs 8] [--rounds 10000]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from progress import progress
from report import table

import rolin
from rolin.model.unknown_scales import estimate_unknown_scales

Floats = NDArray[np.float64]
ARMS, PAGE, D = 800, 25, 16
LEVEL, ARM_STD, COEF_STD, NOISE_STD = 0.1, 0.05, 0.008, 0.3
CASES = [(shape, rewards) for shape in ("normal", "skewed") for rewards in ("noise", "clicks")]


def effects_of(shape: str, rng: np.random.Generator) -> Floats:
    """Return effects with mean 0 and standard deviation ARM_STD; skewed ones are those of a gamma distribution."""
    if shape == "normal":
        return ARM_STD * rng.standard_normal(ARMS)
    return ARM_STD * (rng.gamma(0.5, size=ARMS) - 0.5) / 0.5**0.5  # skewness 2.8


def total(policy: Any, arms: NDArray[np.int64], x: Floats, means: Floats, rewards: Floats) -> float:
    """Play all rounds, and return the mean of the chosen arms' mean rewards."""
    found = 0.0
    for t, page in enumerate(arms):
        chosen = policy.decide(x[t], page)
        k = int(np.flatnonzero(page == chosen.arm)[0])
        policy.update(chosen.arm, chosen.context, float(rewards[t, k]))
        found += means[t, k]
    return found / len(arms)


def played(shape: str, kind: str, rounds: int, run: int) -> tuple[float, float, float, float]:
    """Return arm_std from a uniform log and from the policy's own, and the gain by the latter and of arm effects."""
    rng = np.random.default_rng([11, run])
    theta, effects = COEF_STD * rng.standard_normal(D), effects_of(shape, rng)
    arms = rng.random((rounds, ARMS)).argpartition(PAGE, axis=1)[:, :PAGE]
    x = rng.standard_normal((rounds, PAGE, D))
    means = LEVEL + x @ theta + effects[arms]
    if kind == "clicks":
        means = np.clip(means, 0.005, 0.995)
        rewards = (rng.random((rounds, 1)) < means) * 1.0
    else:
        rewards = means + NOISE_STD * rng.standard_normal((rounds, 1))
    rows, k = np.arange(rounds), rng.integers(PAGE, size=rounds)
    log = rolin.Moments.of(arms[rows, k].tolist(), x[rows, k], rewards[rows, k])
    uniform = estimate_unknown_scales(log).scales.arm_std
    policy = rolin.RoLinTS(n_features=D, seed=run)
    value = total(policy, arms, x, means, rewards)
    fixed = total(rolin.RoLinTS(n_features=D, seed=run, arm_std=uniform), arms, x, means, rewards)
    without = total(rolin.LinTS(n_features=D, seed=run), arms, x, means, rewards)
    own = policy.scales.arm_std
    return uniform, own, 100.0 * (value / fixed - 1.0), 100.0 * (value / without - 1.0)


def main() -> None:
    """Read the options, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=10_000)
    given = parser.parse_args()
    rows = []
    with progress("skewed effects", len(CASES) * given.runs) as step:
        for shape, kind in CASES:
            found = []
            for run in range(given.runs):
                found.append(played(shape, kind, given.rounds, run))
                step()
            mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / given.runs**0.5
            cells = [f"{m:.4f} ± {e:.4f}" for m, e in zip(mean[:2], error[:2], strict=True)]
            cells += [f"{m:.1f} ± {e:.1f} %" for m, e in zip(mean[2:], error[2:], strict=True)]
            rows.append([shape, kind, *cells])
    heads = ["uniform log", "own log", "reward, over arm_std of the uniform log", "over LinTS"]
    print(table(["effects", "rewards", *heads], rows))
    print(f"\narm_std is {ARM_STD}; {given.runs} runs of {given.rounds} rounds.")


if __name__ == "__main__":
    main()
