"""Memory of arms that have slopes of their own."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rolin
from support.policies import fixed


def traced(call: Callable[[], object]) -> int:
    """Return the bytes that a call has allocated and that are still in use."""
    gc.collect()
    tracemalloc.start()
    try:
        call()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def policy(n_features: int, **options: Any) -> Any:
    """Return a policy that has compiled its kernels and learned from one arm."""
    made = fixed(rolin.RoLinTS, n_features=n_features, slope_std=0.5, seed=0, **options)
    made.update_many(["first"], np.ones((1, n_features)), [1.0])
    return made


@pytest.mark.parametrize(("d", "slopes"), [(10, None), (16, None), (16, [3]), (40, [0, 7, 9])])
def test_an_arm_takes_the_memory_that_is_documented(
    d: int, slopes: list[int] | None, rng: np.random.Generator
) -> None:
    """With q own coefficients 8 q (2 d + 3) bytes, beside the 12 d + 20 of every arm, and 200 for its name's entry.

    All arms are new in one call, so that no array is larger than needed.
    """
    n, q = 4000, 1 + (d if slopes is None else len(slopes))
    learner, names = policy(d, slopes=slopes), [f"arm-{i}" for i in range(n)]
    x, r = rng.normal(size=(n, d)), rng.normal(size=n)
    per_arm = traced(lambda: learner.update_many(names, x, r)) / n
    documented = 8 * q * (2 * d + 3) + 12 * d + 20
    assert documented <= per_arm <= documented + 200


def test_one_arm_after_the_other_takes_at_most_twice_that(rng: np.random.Generator) -> None:
    """Arrays double when they are full."""
    n, d, q = 1100, 10, 11  # just after the arrays have doubled
    learner, x = policy(d), rng.normal(size=(n, d))

    def learn() -> None:
        for i in range(n):
            learner.update(f"arm-{i}", x[i], 1.0)

    documented = 8 * q * (2 * d + 3) + 12 * d + 20
    assert traced(learn) / n <= 2 * documented + 250


@pytest.mark.parametrize("shared", [False, True])
def test_arms_without_rewards_take_no_memory(shared: bool, rng: np.random.Generator) -> None:
    """Deciding among 100 000 new names, with a context for each or one for all: less than a byte for each."""
    learner, d = policy(5), 5
    x = rng.normal(size=d) if shared else rng.normal(size=(50, d))

    def decide(first: int, last: int) -> None:
        for t in range(first, last):
            learner.decide(x, [f"new-{t}-{k}" for k in range(50)])

    decide(0, 100)
    assert traced(lambda: decide(100, 2100)) < 100_000
    assert len(learner.posterior.names) == 1
