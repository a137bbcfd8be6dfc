"""The rewards of past decisions as a log with one row per reward."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rolin.errors import DataError
from rolin.features import BaseFeatureMap
from rolin.journal.events import Outcome
from rolin.logs.frames import RewardLog
from rolin.logs.record import PastDecision

__all__ = ["rewards_of"]


def rewards_of(pasts: Iterable[PastDecision]) -> RewardLog:
    """Return the rewards of past decisions in the order in which they came; open decisions have none.

    Parameters
    ----------
    pasts
        The decisions, read once. If they have raw features, features that their map got later count as 0.
    """
    rewards: list[Outcome] = []
    feature_map: BaseFeatureMap | None = None
    for past in pasts:
        rewards += [outcome for outcome in past.outcomes.values() if outcome.value is not None]
        raw = past.decision.raw
        if raw is not None and (
            feature_map is None or raw.feature_map.n_features >= feature_map.n_features
        ):
            feature_map = raw.feature_map
    # The sort is stable: without times, this is the order of the decisions.
    rewards.sort(key=lambda outcome: outcome.time)
    widths = {len(outcome.context) for outcome in rewards}
    d = max(widths, default=0)
    if len(widths) > 1 and feature_map is None:
        raise DataError(f"contexts have {min(widths)} to {d} features, expected one number")
    contexts = np.zeros((len(rewards), d))
    for row, outcome in zip(contexts, rewards, strict=True):
        row[: len(outcome.context)] = outcome.context
    named = feature_map is not None and feature_map.n_features == d
    return RewardLog(
        [outcome.arm for outcome in rewards],
        contexts,
        np.array([outcome.value for outcome in rewards], dtype=np.float64),
        np.array([outcome.weight for outcome in rewards], dtype=np.float64),
        list(feature_map.names)
        if feature_map is not None and named
        else [f"x{j}" for j in range(d)],
    )
