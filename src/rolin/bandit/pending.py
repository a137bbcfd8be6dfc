"""The journal as it will be once the events that are being written are stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from rolin.bandit.state import BanditState
from rolin.journal.base import Found, Waiting
from rolin.journal.events import Event, Following, LoggedDecision

__all__ = ["Pending", "Plan"]


class Plan(NamedTuple):
    """The events that a request writes, and its answer."""

    events: list[Event]
    answer: Any = None


class Pending:
    """The journal as it will be once the events that are being written are stored.

    Recent decisions are found in memory. This is right if no other process has written since, which appending checks.

    Parameters
    ----------
    state
        The state that the journal leads to.
    under
        Other events that are pending, below these.
    """

    def __init__(self, state: BanditState[Any], under: Pending | None = None) -> None:
        self.state, self._under = state, under
        self._stored: dict[str, Found | None] = {} if under is None else under._stored
        self._decisions: dict[str, LoggedDecision] = {}
        self._following: dict[str, list[Following]] = {}

    def nested(self) -> Pending:
        """Return a layer on top, which can be dropped if a request is rejected."""
        return Pending(self.state, self)

    def add(self, event: Event) -> None:
        """Add an event that is about to be written."""
        if isinstance(event, LoggedDecision):
            self._decisions[event.id] = event
            self._following[event.id] = []  # early rewards are joined to it when it is planned
        elif isinstance(event, Following):
            self._following.setdefault(event.id, []).append(event)

    def fetch(self, ids: Iterable[str]) -> None:
        """Look up the decisions with these ids together, which takes less time than one by one."""
        unknown = [id for id in dict.fromkeys(ids) if id not in self._stored]
        found = {id: self.state.recent(id) for id in unknown}
        missing = [id for id, recent in found.items() if recent is None]
        if missing:
            found |= self.state.journal.find(missing)
        self._stored.update(found)

    def _found(self, id: str) -> Found | None:
        """Return what the journal holds about a decision."""
        if id not in self._stored:
            recent = self.state.recent(id)
            self._stored[id] = self.state.journal.find([id]).get(id) if recent is None else recent
        return self._stored[id]

    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision with this id."""
        own = self._decisions.get(id)
        if own is None and self._under is not None:
            return self._under.decision(id)
        if own is None and (found := self._found(id)) is not None:
            return found.decision
        return own

    def following(self, id: str) -> list[Following]:
        """Return what has happened to a decision since it was made, in order; before that, its early rewards."""
        own = self._following.get(id, [])
        if id in self._decisions:
            return own
        if self._under is not None:
            below = self._under.following(id)
        else:
            found = self._found(id)
            below = [] if found is None else found.following
        return [*below, *own]

    def waiting(self, before: float, limit: int, after: Waiting | None) -> list[Waiting]:
        """Return the oldest arms that have no outcome, and early rewards that have no decision, in the journal."""
        return self.state.journal.waiting(before, limit, after)
