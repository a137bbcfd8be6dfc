"""Every policy of the package keeps the contract; a new file is tested by being there."""

from __future__ import annotations

import functools

import pytest

from rolin import policies, testing

MAKERS: dict[str, testing.MakePolicy] = dict(policies.find())
# Options that take other paths through the code.
MAKERS["RoLinTS, joint"] = functools.partial(policies.find()["RoLinTS"], sampling="joint")
MAKERS["NaiveRoLinTS, joint"] = functools.partial(policies.find()["NaiveRoLinTS"], sampling="joint")
MAKERS["RoLinTS, intercept"] = functools.partial(
    policies.find()["RoLinTS"], intercept_std=2.0, intercept_mean=0.5, coef_std=[0.5, 1.0, 2.0]
)
MAKERS["RoLinUCB, horizon"] = functools.partial(policies.find()["RoLinUCB"], horizon=1000)
MAKERS["NaiveRoLinTS, no arm effects"] = functools.partial(
    policies.find()["NaiveRoLinTS"], arm_std=0.0
)
LEARNED = {"noise_std": "learn", "arm_std": ("learn", 0.7), "coef_std": "learn"}
MAKERS["RoLinTS, learned"] = functools.partial(policies.find()["RoLinTS"], **LEARNED)
MAKERS["RoLinUCB, learned by reml"] = functools.partial(
    policies.find()["RoLinUCB"], learn_by="reml", **LEARNED
)
MAKERS["LinTS, learned"] = functools.partial(
    policies.find()["LinTS"], noise_std="learn", coef_std=("learn", [0.5, 1.0, 2.0])
)
MAKERS["RoLinTS, forgetting"] = functools.partial(policies.find()["RoLinTS"], half_life=50.0)
MAKERS["RoLinTS, learned and forgetting"] = functools.partial(
    policies.find()["RoLinTS"], half_life=20.0, **LEARNED
)


@pytest.mark.parametrize(
    ("make", "check"),
    [
        pytest.param(make, check, id=f"{name}-{check.__name__}")
        for name, make in MAKERS.items()
        for check in testing.checks_for(make)
    ],
)
def test_contract(make: testing.MakePolicy, check: testing.Check) -> None:
    """The law named by the check holds for the policy."""
    check(make)
