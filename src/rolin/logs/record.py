"""Past decisions with their outcomes, and the columns of their tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rolin.errors import DataError, InputError
from rolin.features import BaseFeatureMap, FeatureMap, RecordedFeatures
from rolin.journal.base import Journal
from rolin.journal.events import Activated, LoggedDecision, Outcome

__all__ = [
    "COLUMNS",
    "OUTCOMES",
    "PastDecision",
    "read_journal",
    "reread",
]


COLUMNS = {
    "id": "id of the decision, by which rewards are joined",
    "time": "time of the decision",
    "person": "the person whom it was for",
    "arm": "the chosen arm",
    "reward": "its reward",
    "weight": "weight of the reward",
    "outcome": "reward, expired or open",
    "reward_time": "time of the reward",
    "propensity": "probability with which the arm was chosen",
    "version": "sequence number of the last event that the model had folded",
    "control": "whether it belongs to the control group",
    "bandit_mode": "the mode of the bandit: online, apprentice or stopped",
    "outside_share": "whether the baseline was shown because the person was outside the share of the policy",
    "offered": "the K arms to choose from",
    "situation": "raw features of the situation",
    "features": "their K raw features",
    "contexts": "their K contexts",
    "propensities": "their K probabilities",
    "chosen": "the ranking: indices into the arms offered",
    "rewards": "rewards of the ranking",
    "weights": "their weights",
    "outcomes": "reward, expired or open, for each arm of the ranking",
    "proposal": "the ranking that the policy would have shown while the baseline was",
    "proposal_propensities": "probability of each of the K arms to be its choice",
    "shadow": "the ranking that the shadow would have shown",
    "shadow_propensities": "probability of each of the K arms to be its choice",
}
"""The columns of an exported table, and what they mean."""
OUTCOMES = ("reward", "expired", "open")
"""The possible outcomes of an arm that was chosen."""


class PastDecision(NamedTuple):
    """A decision with its outcomes."""

    decision: LoggedDecision
    outcomes: dict[int, Outcome]
    """Outcome by rank; a rank without one is open."""


def reread(past: PastDecision, feature_map: BaseFeatureMap | None) -> PastDecision:
    """Return a past decision with the vectors that another feature map makes of its raw features.

    Parameters
    ----------
    past
        The decision; one without raw features is returned as it is.
    feature_map
        The other feature map; `None` to retain the vectors and leave out the raw features.
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
        # A recorded value that was not used then does not suit a field that was added later. The vectors of that
        # time are still right, because the map has only grown.
        decision = decision._replace(given=raw.contexts())
    outcomes = {
        rank: outcome._replace(context=decision.context_of(decision.chosen[rank]))
        for rank, outcome in past.outcomes.items()
    }
    return PastDecision(decision, outcomes)


def read_journal(journal: Journal) -> Iterator[PastDecision]:
    """Yield the decisions of a journal in order, each with its outcomes; not those that were never activated."""
    for _, event in journal.read():
        if isinstance(event, LoggedDecision):
            following = journal.following(event.id)
            if event.active or any(isinstance(after, Activated) for after in following):
                outcomes = {after.rank: after for after in following if isinstance(after, Outcome)}
                shown = event if event.active else event._replace(active=True)
                yield PastDecision(shown, outcomes)
