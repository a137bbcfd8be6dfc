"""Estimate from a log whether another policy would have been better.

`read` makes a log of a journal or a table. `evaluate` estimates the value of a fixed policy, `replay` that of a
learning one. `check_propensities` tests whether the logged propensities are true. `lift` compares the policy with
its control group.
"""

from __future__ import annotations

from rolin.offline.calibration import Calibration, check_propensities
from rolin.offline.control_lift import Lift, lift
from rolin.offline.estimators import Estimate
from rolin.offline.evaluation import Evaluation, evaluate
from rolin.offline.log import DecisionLog
from rolin.offline.overlap import RareRewards
from rolin.offline.replaying import Replay, replay
from rolin.offline.sources import read, read_obd

__all__ = [
    "Calibration",
    "DecisionLog",
    "Estimate",
    "Evaluation",
    "Lift",
    "RareRewards",
    "Replay",
    "check_propensities",
    "evaluate",
    "lift",
    "read",
    "read_obd",
    "replay",
]
