"""A question, policies of every kind, a clock and a course of play for tests of `Bandit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rolin
from rolin import Bandit, policies
from rolin.journal import LoggedDecision
from rolin.policies.base import Policy
from rolin.testing.problems import reward_for
from support.policies import fixed

QUESTION = {"red": [1.0, 0.2], "blue": [0.3, 0.9], 3: [0.0, -1.0]}

POLICIES: dict[str, Callable[[], Policy[Any]]] = {
    name: lambda kind=kind: kind(n_features=2, seed=7)  # type: ignore[misc]  # bound now
    for name, kind in policies.find().items()
} | {
    "known scales": lambda: fixed(rolin.RoLinTS, n_features=2, seed=7),
    "learned scales": lambda: rolin.RoLinTS(
        n_features=2, noise_std="learn", arm_std="learn", coef_std="learn", seed=7
    ),
    "joint": lambda: rolin.RoLinTS(n_features=2, sampling="joint", seed=7),
    "half-life": lambda: rolin.RoLinTS(n_features=2, half_life=5.0, arm_std="learn", seed=7),
    "slopes": lambda: fixed(rolin.RoLinTS, n_features=2, slope_std=0.6, seed=7),
    "learned slopes": lambda: rolin.RoLinTS(n_features=2, slope_std="learn", seed=7),
    "some slopes": lambda: rolin.RoLinTS(
        n_features=2, slope_std=("learn", 0.4), slopes=[1], half_life=9.0, seed=7
    ),
    "learned logistic": lambda: rolin.LogisticRoLinTS(
        n_features=2, arm_std="learn", half_life=20.0, seed=7
    ),
}


def known_scales(n_features: int = 2, **options: Any) -> rolin.RoLinTS:
    """A policy whose scales are given, whatever the defaults are."""
    scales: dict[str, Any] = {
        "coef_std": 1.0,
        "arm_std": 0.5,
        "noise_std": 1.0,
        "intercept_std": None,
    }
    return rolin.RoLinTS(n_features=n_features, seed=7, **scales | options)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def play(bandit: Bandit, rounds: int, start: int = 0) -> None:
    """Decide and reward, sometimes late, sometimes never, and do all else that changes a state."""
    rng = np.random.default_rng([5, start])
    late: list[LoggedDecision] = []
    for t in range(start, start + rounds):
        removed = bandit.policy.removed_arms
        arms = [arm for arm in [*QUESTION, f"new-{t % 7}"] if arm not in removed]
        decision = bandit.decide(
            rng.normal(size=(len(arms), 2)),
            arms,
            id=f"visit-{t}",
            person=f"person-{t % 5}",
            exclude=["blue"] if t % 4 == 3 else (),
            top_k=2 if t % 6 == 5 else None,
        )
        late.append(decision)
        if t % 3 == 2:
            for one in late[:-1]:
                bandit.reward(one.id, reward_for(bandit.policy, float(rng.normal())))
            late = late[-1:]
        if t % 10 == 4:
            bandit.expire(0.0, default_reward=0.0)
            late = []
        if t % 17 == 9 and "red" in bandit.policy.arms:
            bandit.remove_arm("red")
        if t % 17 == 13 and "red" in bandit.policy.removed_arms:
            bandit.restore_arm("red", with_past=t % 2 == 0)
        if t % 11 == 8 and hasattr(bandit.policy, "decay"):
            bandit.decay(0.75)
