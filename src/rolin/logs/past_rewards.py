"""The rewards of past decisions as a log with one row per reward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rolin.errors import DataError
from rolin.logs.frames import RewardLog
from rolin.logs.record import PastDecision

__all__ = ["rewards_of"]


def rewards_of(pasts: Sequence[PastDecision]) -> RewardLog:
    """Return the rewards of past decisions in the order in which they came; open decisions have none.

    Parameters
    ----------
    pasts
        The decisions. If they have raw features, features that their map got later count as 0.
    """
    rewards = [
        outcome for past in pasts for outcome in past.outcomes.values() if outcome.value is not None
    ]
    rewards.sort(
        key=lambda outcome: outcome.time
    )  # stable: without times, the order of the decisions
    raws = [past.decision.raw for past in pasts if past.decision.raw is not None]
    widths = {len(outcome.context) for outcome in rewards}
    d = max(widths, default=0)
    if len(widths) > 1 and not raws:
        raise DataError(f"contexts have {min(widths)} to {d} features, expected one number")
    contexts = np.zeros((len(rewards), d))
    for row, outcome in zip(contexts, rewards, strict=True):
        row[: len(outcome.context)] = outcome.context
    maps = [raw.feature_map for raw in raws if raw.feature_map.n_features == d]
    return RewardLog(
        [outcome.arm for outcome in rewards],
        contexts,
        np.array([outcome.value for outcome in rewards], dtype=np.float64),
        np.array([outcome.weight for outcome in rewards], dtype=np.float64),
        list(maps[-1].names) if maps else [f"x{j}" for j in range(d)],
    )
