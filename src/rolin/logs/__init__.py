"""Tables of past decisions: read from and written to CSV, Parquet, Arrow, data frames and dsjson."""

from rolin.logs.dsjson import read_dsjson
from rolin.logs.export import to_frame
from rolin.logs.frames import RewardLog, read_log
from rolin.logs.reader import past_decisions
from rolin.logs.record import PastDecision
from rolin.logs.tables import read_decisions

__all__ = [
    "PastDecision",
    "RewardLog",
    "past_decisions",
    "read_decisions",
    "read_dsjson",
    "read_log",
    "to_frame",
]
