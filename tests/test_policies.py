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
