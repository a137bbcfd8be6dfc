"""A journal that lives as long as the process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from rolin.journal.base import Behind, Header, Journal, Removal, reached
from rolin.journal.events import Event, Lasting, LoggedDecision, Outcome

__all__ = ["MemoryJournal"]


class MemoryJournal(Journal):
    """A journal in memory: for trials, simulations and tests.

    Examples
    --------
    >>> journal = MemoryJournal()
    >>> journal.header() is None  # it has not begun
    True
    """

    durable = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._header: Header | None = None
        self._events: dict[int, Event] = {}  # by number, in order
        self._decisions: dict[str, LoggedDecision] = {}
        self._outcomes: dict[str, dict[int, Outcome]] = {}
        self._waiting: dict[tuple[str, int], float] = {}
        self._states: dict[int, bytes] = {}

    def begin(self, state: bytes, origin: str) -> Header:
        """Make this the journal of a policy in that state, unless it has begun."""
        with self._lock:
            if self._header is None:
                self._header, self._states = Header(0, 0, origin), {0: state}
            return self._header

    def header(self) -> Header | None:
        """Return what the journal knows of itself."""
        return self._header

    def _at(self, after: int) -> Header:
        if self._header is None or self._header.last != after:
            raise Behind
        return self._header

    def append(self, events: Iterable[Event], *, after: int) -> int:
        """Add all events, or none, and return the number of the last."""
        new = list(events)
        with self._lock:
            header = self._at(after)
            reached("inserted")
            for seq, event in enumerate(new, start=after + 1):
                self._events[seq] = event
                if isinstance(event, LoggedDecision):
                    self._decisions[event.id] = event
                    for place in range(len(event.chosen)):
                        self._waiting[event.id, place] = event.time
                elif isinstance(event, Outcome):
                    self._outcomes.setdefault(event.id, {})[event.place] = event
                    self._waiting.pop((event.id, event.place), None)
            self._header = header._replace(last=after + len(new))
            return self._header.last

    def read(
        self, *, after: int = 0, upto: int | None = None, decisions: bool = True
    ) -> Iterator[tuple[int, Event]]:
        """Yield the events and their numbers, in order."""
        last = 0 if self._header is None else self._header.last
        for seq in range(after + 1, 1 + (last if upto is None else min(upto, last))):
            event = self._events.get(seq)  # none where one was removed
            if event is not None and (decisions or not isinstance(event, LoggedDecision)):
                yield seq, event

    def lasting(self) -> list[tuple[int, Lasting]]:
        """Return the events that are never removed, with their numbers, in order."""
        with self._lock:
            return [(seq, e) for seq, e in self._events.items() if isinstance(e, Lasting)]

    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision of that id."""
        return self._decisions.get(id)

    def outcomes(self, id: str) -> dict[int, Outcome]:
        """Return what became of a decision, by place in its ranking."""
        with self._lock:
            return dict(self._outcomes.get(id, {}))

    def waiting(self, before: float, limit: int) -> list[tuple[str, int]]:
        """Return the oldest decisions of before this time, with the places that have no outcome."""
        with self._lock:
            old = [(time, key) for key, time in self._waiting.items() if time < before]
        return [key for _, key in sorted(old)[:limit]]

    def save(self, seq: int, state: bytes) -> None:
        """Keep the state that folding the events up to `seq` gave."""
        with self._lock:
            if self._header is not None and seq >= self._header.first:
                self._states[seq] = state

    def saved(self, upto: int | None = None) -> tuple[int, bytes] | None:
        """Return the last state that was kept, or the last one up to an event."""
        with self._lock:
            known = [seq for seq in self._states if upto is None or seq <= upto]
            return (max(known), self._states[max(known)]) if known else None

    def remove(self, what: Removal, *, after: int, state: bytes) -> tuple[int, int]:
        """Remove decisions and keep the state that they led to."""
        with self._lock:
            header = self._at(after)
            gone = {
                decision.id
                for decision in self._decisions.values()
                if decision.id in what.ids
                or (decision.person is not None and decision.person in what.people)
                or (what.before is not None and decision.time < what.before)
            }
            kept = {
                seq: event
                for seq, event in self._events.items()
                if not (
                    event.id in gone
                    if isinstance(event, (LoggedDecision, Outcome))
                    else what.before is not None
                    and event.time < what.before
                    and not isinstance(event, Lasting)
                )
            }
            if len(kept) == len(self._events):
                return 0, after
            self._events = kept
            for id in gone:
                del self._decisions[id]
                self._outcomes.pop(id, None)
            self._waiting = {key: t for key, t in self._waiting.items() if key[0] not in gone}
            last = after + 1
            self._states = {last: state}
            self._header = header._replace(last=last, first=last)
            return len(gone), last

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""
