"""Checks of learning and predicting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rolin._support.arms import Name
from rolin.testing.capabilities import MakePolicy, Predicts
from rolin.testing.problems import (
    N_FEATURES,
    NAMES,
    contexts,
    fingerprint,
    refused,
    reward_for,
    trained,
)

__all__ = [
    "a_weight_counts_as_repeats",
    "bad_batches_change_nothing",
    "bad_updates_change_nothing",
    "many_updates_are_single_ones",
    "predictions_follow_their_arms",
    "removed_arms_come_back",
]


def bad_updates_change_nothing(make: MakePolicy) -> None:
    """An invalid update raises an error and changes nothing; not even an arm is added."""
    policy = trained(make)
    before = fingerprint(policy)
    arms = list(getattr(policy, "arms", []))
    x = contexts(1)[0]
    wrong = x.copy()
    wrong[1] = np.nan
    updates: dict[str, Callable[[], object]] = {
        "a NaN context": lambda: policy.update("new", wrong, 1.0),
        "an infinite context": lambda: policy.update("new", [np.inf] * N_FEATURES, 1.0),
        "an enormous context": lambda: policy.update("new", [1e200] * N_FEATURES, 1.0),
        "a context of another dimension": lambda: policy.update(
            "new", [1.0] * (N_FEATURES + 1), 1.0
        ),
        "two contexts": lambda: policy.update("new", np.ones((2, N_FEATURES)), 1.0),
        "a NaN reward": lambda: policy.update("new", x, np.nan),
        "an infinite reward": lambda: policy.update("new", x, -np.inf),
        "a text as reward": lambda: policy.update("new", x, "1"),
        "None as reward": lambda: policy.update("new", x, None),
        "texts as context": lambda: policy.update("new", ["1"] * N_FEATURES, 1.0),
        "complex numbers as context": lambda: policy.update("new", [1j] * N_FEATURES, 1.0),
        "a NaN weight": lambda: policy.update("new", x, 1.0, np.nan),
        "an infinite weight": lambda: policy.update("new", x, 1.0, np.inf),
        "a weight of zero": lambda: policy.update("new", x, 1.0, 0.0),
        "a negative weight": lambda: policy.update("new", x, 1.0, -1.0),
        "an unhashable arm": lambda: policy.update(["new"], x, 1.0),
    }
    for what, call in updates.items():
        refused(call, what)
    if getattr(policy, "binary", False):
        for value in (0.5, -1.0, 2.0):
            what = f"{value} as a binary reward"
            refused(lambda value=value: policy.update("new", x, value), what)  # type: ignore[misc]  # bound now
    assert fingerprint(policy) == before
    assert list(getattr(policy, "arms", [])) == arms


def many_updates_are_single_ones(make: MakePolicy) -> None:
    """`update_many` learns the same as `update` one after the other."""
    one, many = trained(make), trained(make)
    arms: list[Name] = ["a", "new", "a", True, 1.0, "b"]
    x, h = contexts(3, 6), np.linspace(0.5, 2, 6)
    r = np.array([reward_for(one, value) for value in np.arange(6.0)])
    for i in range(6):
        one.update(arms[i], x[i], r[i], h[i])
    many.update_many(arms, x, r, h)
    if isinstance(one, Predicts):
        names = [*NAMES, "new", 1]
        for a, b in zip(
            one.predict(contexts(9, 6), names), many.predict(contexts(9, 6), names), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    for t in range(20):
        assert one.decide(contexts(t), NAMES).arm == many.decide(contexts(t), NAMES).arm


def bad_batches_change_nothing(make: MakePolicy) -> None:
    """A batch with an invalid observation raises an error and changes nothing."""
    policy = trained(make)
    before = fingerprint(policy)
    arms = list(policy.arms)
    x = contexts(3)
    late = x.copy()
    late[3, 0] = 1e200  # finite, but its square is not: noticed only in the middle of the batch
    batches: dict[str, Callable[[], object]] = {
        "an enormous context, last": lambda: policy.update_many(
            ["n", "a", "b", "z"], late, [0] * 4
        ),
        "a NaN reward": lambda: policy.update_many(NAMES, x, [0, 0, 0, np.nan]),
        "a zero weight": lambda: policy.update_many(NAMES, x, [0] * 4, [1, 1, 0, 1]),
        "too few rewards": lambda: policy.update_many(NAMES, x, [0, 0, 0]),
        "too few contexts": lambda: policy.update_many(NAMES, x[:3], [0] * 4),
        "an unhashable arm": lambda: policy.update_many(["n", "a", "b", {}], x, [0] * 4),
    }
    for what, call in batches.items():
        refused(call, what)
    assert fingerprint(policy) == before
    assert list(policy.arms) == arms


def removed_arms_come_back(make: MakePolicy) -> None:
    """A removed arm cannot be offered; it is restored with its past or as a new arm."""
    policy = trained(make)
    x = contexts(1)
    for name in NAMES:
        policy.update(name, x[0], reward_for(policy, 3.0))
    before = policy.predict(x, NAMES) if isinstance(policy, Predicts) else None
    refused(lambda: policy.remove_arm("never there"), "removing an arm that was never observed")
    refused(lambda: policy.restore_arm("a"), "restoring an arm that was not removed")
    policy.remove_arm("a")
    assert "a" not in policy.arms
    assert "a" in policy.removed_arms
    refused(lambda: policy.remove_arm("a"), "removing an arm twice")
    refused(lambda: policy.decide(x, NAMES), "a removed arm")
    policy.decide(x[1:], NAMES[1:])
    policy.restore_arm("a")
    assert "a" in policy.arms
    if before is not None:
        np.testing.assert_array_equal(before[0], policy.predict(x, NAMES)[0])
    policy.remove_arm("a")
    policy.restore_arm("a", with_past=False)
    assert "a" not in policy.arms  # it is a new arm that was not observed yet
    policy.decide(x, NAMES)
    if before is not None:
        new, others = policy.predict(x, ["a", "never seen", 3, "d"]), policy.predict(x, NAMES)
        same = policy.predict(np.stack([x[0], x[0]]), ["a", "never seen"])
        assert new[0][0] == others[0][0]
        np.testing.assert_allclose(same[0][0], same[0][1], rtol=1e-12)
        np.testing.assert_array_equal(others[0][1:], before[0][1:])


def predictions_follow_their_arms(make: MakePolicy) -> None:
    """Predictions are finite, standard deviations are not negative, and the order of the arms does not matter."""
    policy = trained(make)
    names = [*NAMES, "never seen"]
    x = contexts(8, 5)
    mean, std = policy.predict(x, names)
    assert np.isfinite(mean).all()
    assert (std >= 0).all()
    order = [3, 0, 4, 2, 1]
    again, spread = policy.predict(x[order], [names[k] for k in order])
    np.testing.assert_allclose(again, mean[order], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(spread, std[order], rtol=1e-12, atol=1e-14)


def a_weight_counts_as_repeats(make: MakePolicy) -> None:
    """A reward of weight 3 teaches the same as three such rewards."""
    thrice, heavy = trained(make), trained(make)
    x = contexts(2)
    for _ in range(3):
        thrice.update("a", x[0], 1.5)
    heavy.update("a", x[0], 1.5, weight=3.0)
    for a, b in zip(thrice.predict(x, NAMES), heavy.predict(x, NAMES), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
