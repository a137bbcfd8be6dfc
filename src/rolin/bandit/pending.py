"""The journal as it will be once the events that are being written are stored."""

from __future__ import annotations

from typing import Any, NamedTuple

from rolin.bandit.state import BanditState
from rolin.journal.base import Waiting
from rolin.journal.events import Event, Following, LoggedDecision

__all__ = ["Pending", "Plan"]


class Plan(NamedTuple):
    """The events that a request writes, and its answer."""

    events: list[Event]
    answer: Any = None


class Pending:
    """The journal as it will be once the events that are being written are stored.

    Parameters
    ----------
    state
        The state that the journal leads to.
    under
        Other events that are pending, below these.
    """

    def __init__(self, state: BanditState[Any], under: Pending | None = None) -> None:
        self.state, self._under = state, under
        self._decisions: dict[str, LoggedDecision] = {}
        self._following: dict[str, list[Following]] = {}

    def nested(self) -> Pending:
        """Return a layer on top, which can be dropped if a request is rejected."""
        return Pending(self.state, self)

    def add(self, event: Event) -> None:
        """Add an event that is about to be written."""
        if isinstance(event, LoggedDecision):
            self._decisions[event.id] = event
        elif isinstance(event, Following):
            self._following.setdefault(event.id, []).append(event)

    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision with this id."""
        own = self._decisions.get(id)
        if own is None:
            own = self.state.decision(id) if self._under is None else self._under.decision(id)
        return own

    def following(self, id: str) -> list[Following]:
        """Return what has happened to a decision since it was made, in order."""
        own = self._following.get(id, [])
        if id in self._decisions:
            return own
        below = self.state.journal if self._under is None else self._under
        return [*below.following(id), *own]

    def waiting(self, before: float, limit: int, after: Waiting | None) -> list[Waiting]:
        """Return the oldest arms that have no outcome in the journal."""
        return self.state.journal.waiting(before, limit, after)
