"""Simulated logs of a known problem, and the true value of a target."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.offline import DecisionLog

Floats = NDArray[np.float64]
K, D = 5, 3
THETA = np.array([0.5, -0.3, 0.2])
EFFECT = np.array([0.3, -0.2, 0.0, 0.1, -0.4])


def softmax(scores: Floats) -> Floats:
    """Return probabilities."""
    e = np.exp(scores)
    return e / e.sum(axis=-1, keepdims=True)


def logging_policy(x: Floats) -> Floats:
    """Prefers some arms and some contexts, with a floor."""
    return 0.75 * softmax(x[..., 0] + np.array([0, 0.5, -0.5, 0.3, 0])) + 0.05


def target(x: Floats, arms: Any = None) -> Floats:
    """Another one."""
    return softmax(2 * x @ np.array([1.0, 0.0, 0.5]) + np.array([0, 0.2, 0.4, 0, 0]))


def simulated(
    rng: np.random.Generator, n: int = 300, *, clicks: bool = False, per_person: int = 1,
    whole: bool = True, rarer: float = 0.0,
) -> DecisionLog:  # fmt: skip
    """Return a log; with people, all decisions for one share a mood. Clicks may be rarer, by this many logits."""
    x = rng.uniform(-1, 1, (n, K, D))
    p = logging_policy(x)
    chosen = (rng.random((n, 1)) < p.cumsum(axis=1)).argmax(axis=1)
    person = np.arange(n) // per_person
    mood = 0.4 * rng.normal(size=n)[person] if per_person > 1 else np.zeros(n)
    mean = (x @ THETA + EFFECT)[np.arange(n), chosen]
    if clicks:
        reward = (rng.random(n) < 1 / (1 + np.exp(rarer - mean))).astype(float)
    else:
        reward = mean + mood + 0.5 * rng.normal(size=n)
    return DecisionLog(
        list(range(K)), x, chosen, reward, p if whole else p[np.arange(n), chosen],
        people=[f"p{i}" for i in person] if per_person > 1 else None,
    )  # fmt: skip


def truth(*, clicks: bool = False, rarer: float = 0.0) -> float:
    """Return what the target is worth, by 4 million arms: to about 3e-4."""
    x = np.random.default_rng(12345).uniform(-1, 1, (800_000, K, D))
    mean = x @ THETA + EFFECT
    if clicks:
        mean = 1 / (1 + np.exp(rarer - mean))
    return float((target(x) * mean).sum(axis=1).mean())
