"""Checks of merging and saving."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from rolin import policies
from rolin.model import state_file
from rolin.testing.capabilities import MakePolicy
from rolin.testing.problems import N_FEATURES, NAMES, contexts, fingerprint, train, trained

__all__ = [
    "a_loaded_policy_continues_exactly",
    "merged_learners_are_one_learner",
]


def merged_learners_are_one_learner(make: MakePolicy) -> None:
    """Two policies that started from one state merge to the policy that has learned from all their rewards."""
    base, left, right, one = (trained(make) for _ in range(4))
    for t in range(20):
        x, arm, reward = contexts(500 + t)[0], NAMES[t % 4], float(np.cos(t))
        (left if t % 2 else right).update(arm, x, reward)
        one.update(arm, x, reward)
    right.update("only right", [0.5] * N_FEATURES, 1.0)
    one.update("only right", [0.5] * N_FEATURES, 1.0)
    both = policies.merge(left, right, base=base)
    tolerance = 1e-9
    if hasattr(one, "learn_scales") and one.learns_scales:
        one.learn_scales()  # merging learns them at once, an update only from time to time
        tolerance = 1e-5  # the search for the scales ends within 1e-6
    names = [*NAMES, "only right"]
    for a, b in zip(
        both.predict(contexts(1, 5), names), one.predict(contexts(1, 5), names), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance / 1000)


def a_loaded_policy_continues_exactly(make: MakePolicy) -> None:
    """A loaded policy decides and learns exactly as the saved one would."""
    policy = trained(make)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "state")
        policy.save(path)
        # `load` knows the policies of the package; others are restored by their class
        ours = type(policy) in policies.find().values()
        loaded = policies.load(path) if ours else type(policy).from_state(state_file.read(path))
    assert type(loaded) is type(policy)
    assert fingerprint(train(loaded, 20, start=30)) == fingerprint(train(policy, 20, start=30))
