"""A feature map, policies, a question and a course of play for bandits with raw features."""

from __future__ import annotations

from typing import Any

import numpy as np

import rolin
from rolin import Bandit, FeatureMap, policies
from rolin.features import Boolean, Category, Number, Tags
from rolin.testing.problems import reward_for
from support.policies import fixed

FEATURES = FeatureMap(
    {"device": Category(["phone", "desktop"]), "hour": Number(center=12.0, scale=6.0)},
    {"price": Number(scale=10.0), "tags": Tags(["new", "sale"]), "own": Boolean()},
)
MORE = FEATURES.with_fields(arm={"brand": Category(["x", "y"])})
D = FEATURES.n_features

POLICIES = {
    **{
        name: lambda d, kind=kind: kind(n_features=d, seed=7)
        for name, kind in policies.find().items()
        if name not in ("HLinUCB", "HybridLinUCB", "DisjointLinUCB", "SafeFALCON", "NaiveRoLinTS")
    },
    "known scales": lambda d: fixed(rolin.RoLinTS, n_features=d, seed=7),
    "intercept": lambda d: fixed(rolin.RoLinTS, n_features=d, intercept_std=2.0, seed=7),
    "learned": lambda d: rolin.RoLinTS(n_features=d, arm_std="learn", noise_std="learn", seed=7),
    "half-life": lambda d: rolin.RoLinTS(n_features=d, half_life=9.0, seed=7),
    "joint": lambda d: rolin.RoLinTS(n_features=d, sampling="joint", seed=7),
    "slopes": lambda d: fixed(rolin.RoLinTS, n_features=d, slope_std=0.6, seed=7),
    "some slopes": lambda d: rolin.RoLinTS(
        n_features=d, slope_std="learn", slopes=FEATURES.indices(["device"]), seed=7
    ),
    "logistic that learns": lambda d: rolin.LogisticRoLinTS(n_features=d, arm_std="learn", seed=7),
}


def question(rng: np.random.Generator) -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    """A situation and the raw features of three arms, with gaps and things nobody declared."""
    arms: dict[Any, dict[str, Any]] = {
        "red": {"price": rng.uniform(0, 20), "tags": ["new"], "own": bool(rng.random() < 0.5)},
        "blue": {"price": None, "tags": ["sale", "odd"], "seller": {"id": 3}},
        7: {"price": int(rng.integers(20)), "own": True, "brand": "x"},
    }
    situation = {"device": str(rng.choice(["phone", "tv"])), "hour": float(rng.integers(24))}
    return arms, situation


def play(bandit: Bandit, rounds: int, start: int = 0) -> None:
    """Decide by raw features and reward, sometimes late."""
    rng = np.random.default_rng([3, start])
    for t in range(start, start + rounds):
        arms, situation = question(rng)
        decision = bandit.decide(arms, situation=situation, id=f"visit-{t}", person=f"p{t % 3}")
        if t % 4:
            mean = float(decision.arm == "red") + 0.1 * situation["hour"]
            bandit.reward(decision.id, reward_for(bandit.policy, mean + float(rng.normal())))
