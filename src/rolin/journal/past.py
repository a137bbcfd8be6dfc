"""Decisions with what became of them, and the columns of their tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rolin.journal.base import Journal
from rolin.journal.events import LoggedDecision, Outcome

__all__ = ["COLUMNS", "OUTCOMES", "PastDecision", "read_journal"]

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


def read_journal(journal: Journal) -> Iterator[PastDecision]:
    """Yield the decisions of a journal, in order, with what became of each."""
    for _, event in journal.read():
        if isinstance(event, LoggedDecision):
            yield PastDecision(event, journal.outcomes(event.id))
