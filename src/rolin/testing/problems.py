"""Small problems for the checks, and a fingerprint of what a policy shows to its caller."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.errors import RolinError, SharedContextWarning
from rolin.testing.capabilities import MakePolicy, Predicts

__all__ = [
    "NAMES",
    "N_FEATURES",
    "Check",
    "contexts",
    "fingerprint",
    "refused",
    "reward_for",
    "train",
    "trained",
    "with_shared_contexts",
]

Floats = NDArray[np.float64]
Check = Callable[[MakePolicy], None]
"""A check: takes what creates a policy, and raises `AssertionError` if the policy fails."""

N_FEATURES = 3
NAMES: list[Name] = ["a", "b", 3, "d"]


def contexts(seed: int, n: int = 4) -> Floats:
    """Return n contexts that depend only on the seed."""
    return np.random.default_rng([seed, n]).uniform(-1, 1, (n, N_FEATURES))


def reward_for(policy: Any, value: float) -> float:
    """Return a reward that the policy accepts: for a policy with binary rewards, whether the value is positive."""
    return float(value > 0.0) if getattr(policy, "binary", False) else value


def train(policy: Any, rounds: int = 30, start: int = 0) -> Any:
    """Let a policy play rounds whose contexts and rewards depend only on the round."""
    for t in range(start, start + rounds):
        decision = policy.decide(contexts(t), NAMES)
        reward = reward_for(policy, float(np.sin(7 * t) + decision.context[0]))
        policy.update(decision.arm, decision.context, reward)
    return policy


def trained(make: MakePolicy, seed: int = 1) -> Any:
    """Create a policy and let it play 30 rounds."""
    return train(make(n_features=N_FEATURES, seed=seed))


def fingerprint(policy: Any) -> list[object]:
    """Return the predictions, the state and some decisions of a policy, to compare it with another."""
    names = [*NAMES, "never seen"]
    seen: list[object] = []
    if isinstance(policy, Predicts):
        mean, std = policy.predict(contexts(99, 5), names)
        seen += [mean.tobytes(), std.tobytes()]
    if hasattr(policy, "posterior"):
        seen += [array.tobytes() for array in policy.posterior.arrays().values()]
    for key in range(20):
        seen.append(policy.decide(contexts(99 + key, 5), names, key=key).arm)
    # the number of decisions shows that no key was used up
    seen.append(getattr(policy, "n_decisions", None))
    return seen


def refused(call: Callable[[], object], what: str) -> None:
    """Assert that a call raises a `RolinError`."""
    try:
        call()
    except RolinError:
        return
    raise AssertionError(f"{what} was accepted, expected a RolinError")


def with_shared_contexts(check: Check) -> Check:
    """Return a check that may pass one context for all arms, without the warning of policies that have no slopes."""

    @wraps(check)
    def quiet(make: MakePolicy) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SharedContextWarning)
            check(make)

    return quiet
