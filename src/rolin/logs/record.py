"""Decisions with what became of them, and the columns of their tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rolin.errors import DataError, InputError
from rolin.features import BaseFeatureMap, FeatureMap, RecordedFeatures
from rolin.journal.base import Journal
from rolin.journal.events import LoggedDecision, Outcome

__all__ = ["COLUMNS", "OUTCOMES", "PastDecision", "read_journal", "reread"]

COLUMNS = {
    "id": "what rewards are joined by",
    "time": "when it was decided",
    "person": "whom for",
    "arm": "the chosen arm",
    "reward": "its reward",
    "weight": "how much the reward counts",
    "outcome": "reward, expired or open",
    "reward_time": "when the reward came",
    "propensity": "probability with which the arm was chosen",
    "version": "last event that the model knew",
    "control": "whether it belongs to the control group",
    "offered": "the K arms to choose from",
    "situation": "raw features of the situation",
    "features": "their K raw features",
    "contexts": "their K contexts",
    "propensities": "their K probabilities",
    "chosen": "places, among those offered, of the ranking",
    "rewards": "rewards of the ranking",
    "weights": "their weights",
    "outcomes": "reward, expired or open, of each",
}
"""The columns of an exported table, and what they mean."""
OUTCOMES = ("reward", "expired", "open")
"""What can have become of an arm."""


class PastDecision(NamedTuple):
    """A decision and what became of it, by place in its ranking."""

    decision: LoggedDecision
    outcomes: dict[int, Outcome]


def reread(past: PastDecision, feature_map: BaseFeatureMap | None) -> PastDecision:
    """Return a past decision with the vectors that other features make of its raw ones.

    Parameters
    ----------
    past
        The decision; one without raw features stays as it is.
    features
        What makes the vectors; `None` for those that it has, without the raw features.
    """
    raw = past.decision.raw if isinstance(past, PastDecision) else None
    if raw is None or raw.feature_map == feature_map:
        return past
    decision = past.decision
    try:
        if feature_map is None:
            decision = decision._replace(given=raw.contexts())
        else:
            own = RecordedFeatures.record(feature_map, decision.offered, raw.rows, raw.situation)
            decision = decision._replace(given=own)
    except InputError as error:
        grown = isinstance(feature_map, FeatureMap) and feature_map.extends(raw.feature_map)
        if not grown:
            raise DataError(f"decision {decision.id!r}: {error}") from error
        # what was recorded and not used does not suit a field that came later: as it was read then
        decision = decision._replace(given=raw.contexts())
    outcomes = {
        place: outcome._replace(context=decision.context_of(decision.chosen[place]))
        for place, outcome in past.outcomes.items()
    }
    return PastDecision(decision, outcomes)


def read_journal(journal: Journal) -> Iterator[PastDecision]:
    """Yield the decisions of a journal, in order, with what became of each."""
    for _, event in journal.read():
        if isinstance(event, LoggedDecision):
            yield PastDecision(event, journal.outcomes(event.id))
