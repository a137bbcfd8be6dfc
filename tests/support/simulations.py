"""A small simulation, and when two results are the same."""

from __future__ import annotations

import functools
from typing import Any

import rolin
from rolin.environments import Synthetic

WORLD = Synthetic(n_arms=4, n_features=2, arm_std=0.5)
POLICIES = {
    "RoLinTS": functools.partial(rolin.RoLinTS, n_features=2, arm_std=0.5),
    "Uniform": functools.partial(rolin.Uniform, n_features=2),
}


def small_result(**options: Any) -> rolin.Result:
    """Run a small simulation."""
    settings = {"rounds": 50, "runs": 6, "seed": 3, "progress": False, **options}
    return rolin.simulate(POLICIES, WORLD, **settings)


def same(a: rolin.Result, b: rolin.Result) -> bool:
    """Return whether two results have the same runs, bit for bit."""
    return a.runs == b.runs and all((a.regret[n] == b.regret[n]).all() for n in POLICIES)
