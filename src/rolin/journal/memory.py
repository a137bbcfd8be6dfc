"""A journal in memory, which ends with the process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

from rolin._support.process import forget_locks_after_fork
from rolin.journal.base import (
    Found,
    Header,
    Journal,
    OutOfDate,
    Removal,
    Removed,
    Snapshot,
    Waiting,
    ended_by,
    reached,
    waiting_since,
)
from rolin.journal.events import (
    DecisionEvent,
    EarlyReward,
    Event,
    Following,
    LoggedDecision,
    PermanentEvent,
)

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
        self.new_locks()
        forget_locks_after_fork(self)
        self._header: Header | None = None
        self._events: dict[int, Event] = {}  # by number, in order
        self._decisions: dict[str, LoggedDecision] = {}
        self._following: dict[str, list[Following]] = {}
        self._waiting: dict[tuple[str, int], float] = {}
        self._snapshots: dict[int, bytes] = {}

    def new_locks(self) -> None:
        """Make a new lock."""
        self._lock = threading.RLock()

    def begin(self, state: bytes, origin: str) -> Header:
        """Store the first state unless the journal has begun; return the header."""
        with self._lock:
            if self._header is None:
                self._header, self._snapshots = Header(0, 0, origin), {0: state}
            return self._header

    def header(self) -> Header | None:
        """Return the header, or `None` if the journal has not begun."""
        return self._header

    def _at(self, after: int) -> Header:
        if self._header is None or self._header.last != after:
            raise OutOfDate
        return self._header

    def append(self, events: Iterable[Event], *, after: int) -> int:
        """Append all events or none, and return the number of the last one."""
        new = list(events)
        with self._lock:
            header = self._at(after)
            reached("inserted")
            for seq, event in enumerate(new, start=after + 1):
                self._events[seq] = event
                if isinstance(event, LoggedDecision):
                    self._decisions[event.id] = event
                    for early in self._following.pop(event.id, ()):
                        if isinstance(early, EarlyReward):
                            self._waiting.pop((early.id, early.waiting_rank), None)
                elif isinstance(event, Following):
                    self._following.setdefault(event.id, []).append(event)
                for time, id, rank in waiting_since(event):
                    self._waiting[id, rank] = time
                if (ended := ended_by(event)) is not None:
                    self._waiting.pop(ended, None)
            last = after + len(new)
            self._header = Header(last, header.first, header.origin)
            return last

    def turn(self) -> AbstractContextManager[object]:
        """Return a block in which no other thread can write."""
        return self._lock

    def read(
        self, *, after: int = 0, upto: int | None = None, decisions: bool = True
    ) -> Iterator[tuple[int, Event]]:
        """Yield numbers and events in order."""
        last = 0 if self._header is None else self._header.last
        for seq in range(after + 1, 1 + (last if upto is None else min(upto, last))):
            event = self._events.get(seq)  # `None` if it was removed
            if event is not None and (decisions or not isinstance(event, LoggedDecision)):
                yield seq, event

    def permanent_events(self) -> list[tuple[int, PermanentEvent]]:
        """Return the events that are never removed, with their numbers, in order."""
        with self._lock:
            return [(seq, e) for seq, e in self._events.items() if isinstance(e, PermanentEvent)]

    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision with this id."""
        return self._decisions.get(id)

    def find(self, ids: Iterable[str]) -> dict[str, Found]:
        """Return the decisions with these ids, and what has happened to each."""
        with self._lock:
            return {
                id: Found(self._decisions.get(id), list(self._following.get(id, ())))
                for id in ids
                if id in self._decisions or id in self._following
            }

    def following(self, id: str) -> list[Following]:
        """Return what has happened to a decision since it was made, in order."""
        with self._lock:
            return list(self._following.get(id, ()))

    def waiting(self, before: float, limit: int, after: Waiting | None = None) -> list[Waiting]:
        """Return the oldest arms without an outcome, and early rewards without a decision, before a time."""
        with self._lock:
            old = [Waiting(time, *key) for key, time in self._waiting.items() if time < before]
        return sorted(arm for arm in old if after is None or arm > after)[:limit]

    def save_snapshot(self, version: int, state: bytes) -> None:
        """Store the state after event `version`, unless events have been removed since."""
        with self._lock:
            if self._header is not None and version >= self._header.first:
                self._snapshots[version] = state

    def latest_snapshot(self, upto: int | None = None) -> Snapshot | None:
        """Return the latest snapshot, or the latest one up to an event."""
        with self._lock:
            versions = [v for v in self._snapshots if upto is None or v <= upto]
            return Snapshot(max(versions), self._snapshots[max(versions)]) if versions else None

    def remove(self, what: Removal, *, after: int, state: bytes) -> Removed:
        """Remove decisions, and store the state that they led to as a snapshot."""
        with self._lock:
            header = self._at(after)
            removed = [
                decision.id
                for decision in self._decisions.values()
                if decision.id in what.ids
                or (decision.person is not None and decision.person in what.people)
                or (what.before is not None and decision.time < what.before)
            ][: what.limit]
            gone = {*removed, *what.ids}

            def stays(event: Event) -> bool:
                if isinstance(event, DecisionEvent) and (
                    event.id in gone or event.id in self._decisions
                ):
                    return event.id not in gone
                is_old = what.before is not None and event.time < what.before
                return isinstance(event, PermanentEvent) or not is_old

            left = {seq: event for seq, event in self._events.items() if stays(event)}
            if len(left) == len(self._events):
                return Removed(0, after)
            self._events = left
            for id, following in list(self._following.items()):
                self._following[id] = [event for event in following if stays(event)]
                if not self._following[id]:
                    del self._following[id]
            self._waiting = {
                (id, rank): time
                for (id, rank), time in self._waiting.items()
                if id not in gone and (rank >= 0 or what.before is None or time >= what.before)
            }
            for id in removed:
                del self._decisions[id]
            last = after + 1
            self._snapshots = {last: state}
            self._header = header._replace(last=last, first=last)
            return Removed(len(removed), last)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
