"""Estimate from a log whether another policy would have been better.

`read` makes a log of a journal or a table. `evaluate` estimates the value of a fixed policy, `replay` that of a
learning one. `check_propensities` tests whether the logged propensities are true. `lift` compares the policy with
its control group. `check_intervals` tests whether the intervals of a policy hold.
"""

from __future__ import annotations

from rolin.offline.calibration import Calibration, check_propensities
from rolin.offline.control_lift import Lift, lift
from rolin.offline.estimators import Estimate
from rolin.offline.evaluation import Evaluation, evaluate
from rolin.offline.interval_check import ArmAverage, IntervalCheck, OneStep
from rolin.offline.intervals import check_intervals
from rolin.offline.log import DecisionLog
from rolin.offline.overlap import RareRewards
from rolin.offline.replaying import Replay, replay
from rolin.offline.sources import read, read_obd

__all__ = [
    "ArmAverage",
    "Calibration",
    "DecisionLog",
    "Estimate",
    "Evaluation",
    "IntervalCheck",
    "Lift",
    "OneStep",
    "RareRewards",
    "Replay",
    "check_intervals",
    "check_propensities",
    "evaluate",
    "lift",
    "read",
    "read_obd",
    "replay",
]
