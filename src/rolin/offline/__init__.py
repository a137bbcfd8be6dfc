"""Would another policy have been better? What a log can say about that, and when it cannot.

`read` makes a log of a journal or a table, `evaluate` says what a fixed policy would have been worth, `replay`
what a learning one would have got, `check_propensities` whether the log can be believed, and `lift` what the
policy gains over its control group.
"""

from __future__ import annotations

from rolin.offline.calibration import Calibration, check_propensities
from rolin.offline.control_lift import Lift, lift
from rolin.offline.estimators import Estimate
from rolin.offline.evaluation import Evaluation, evaluate
from rolin.offline.log import DecisionLog
from rolin.offline.replaying import Replay, replay
from rolin.offline.sources import read, read_obd

__all__ = [
    "Calibration",
    "DecisionLog",
    "Estimate",
    "Evaluation",
    "Lift",
    "Replay",
    "check_propensities",
    "evaluate",
    "lift",
    "read",
    "read_obd",
    "replay",
]
