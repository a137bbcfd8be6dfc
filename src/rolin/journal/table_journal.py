"""Reading a journal from the tables of a database, the same for all databases.

A database adds how statements are run, and everything that writes. The tables have the same columns everywhere. Every
row has a checksum of all its values, its number included, so that a damaged row is noticed when it is read.
"""

from __future__ import annotations

import math
import struct
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from rolin.errors import JournalError
from rolin.features import BaseFeatureMap
from rolin.journal import schema
from rolin.journal.base import LOOK_AHEAD, DamagedSnapshot, Found, Journal, Snapshot, Waiting
from rolin.journal.codec import DECISION, PERMANENT_KINDS, Row, event_of
from rolin.journal.events import (
    EarlyReward,
    Event,
    FeatureMapChanged,
    Following,
    LoggedDecision,
    PermanentEvent,
)

__all__ = ["IS_PERMANENT", "LAST_NUMBER", "OLDEST", "Query", "TableJournal", "oldest_decisions"]

Query = Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]]
"""Returns the rows of a statement, in which question marks stand for the values."""

IS_PERMANENT = f"kind IN ({', '.join('?' * len(PERMANENT_KINDS))})"
"""Condition on rows that are never removed; its values are `PERMANENT_KINDS`."""
_CHUNK = 1000  # rows per query, so that a long read does not block writers
_FIND = 64  # ids per query
LAST_NUMBER = (1 << 63) - 1
"""No event has a higher number."""
OLDEST = "SELECT seq, decision, time FROM events WHERE place = ? ORDER BY seq LIMIT ?"
"""Selects the decisions with the lowest numbers, for `oldest_decisions`."""


class _Maps(dict[str, BaseFeatureMap]):
    """The feature maps of a journal by version, read when an unknown one is looked up."""

    def __init__(self, journal: TableJournal) -> None:
        super().__init__()
        self._journal = journal

    def __missing__(self, version: str) -> BaseFeatureMap:
        for _, event in self._journal.permanent_events():
            if isinstance(event, FeatureMapChanged):
                self[event.feature_map.version] = event.feature_map
        if version not in self:
            raise JournalError(f"the feature map {version} is not in the journal")
        return self[version]


class TableJournal(Journal):
    """A journal in the tables of a database."""

    durable = True
    _columns = f"{schema.COLUMNS}, checksum"  # of an event, without its number
    _state_columns = "seq, state, checksum"

    def __init__(self) -> None:
        self._maps = _Maps(self)

    @property
    @abstractmethod
    def description(self) -> str:
        """What messages call the journal."""

    @abstractmethod
    def _query(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query, in which question marks stand for the values."""

    def _query_decisions(self, ids: list[str]) -> list[tuple[Any, ...]]:
        """Return the rows of these decisions, and of what has happened to them, in order."""
        # A power of two, so that few statements are prepared.
        padded = (*ids, *(ids[-1:] * ((1 << (len(ids) - 1).bit_length()) - len(ids))))
        return self._query(
            f"SELECT seq, {self._columns} FROM events WHERE decision IN ({', '.join('?' * len(padded))}) ORDER BY seq",
            padded,
        )

    @property
    def last_unchecked(self) -> int:
        """Number of the last event without a checksum; -1 if all have one."""
        return -1

    def read(
        self, *, after: int = 0, upto: int | None = None, decisions: bool = True
    ) -> Iterator[tuple[int, Event]]:
        """Yield numbers and events in order."""
        which = "" if decisions else "AND kind != 'decision'"
        header = self.header()
        last = 0 if header is None else min(header.last, LAST_NUMBER if upto is None else upto)
        while rows := self._query(
            f"SELECT seq, {self._columns} FROM events WHERE seq > ? AND seq <= ? {which} "
            f"ORDER BY seq LIMIT {_CHUNK}",
            (after, last),
        ):
            end = int(rows[-1][0]) if len(rows) == _CHUNK else last
            self._check_gaps(after, end)
            for row in rows:
                yield int(row[0]), self._event(row)
            after = end
        self._check_gaps(after, last)

    def _check_gaps(self, after: int, upto: int) -> None:
        """Reject a range of events of which some are missing, unless they were removed by `remove`."""
        if upto <= after:
            return
        ((n,),) = self._query(
            "SELECT count(*) FROM events WHERE seq > ? AND seq <= ?", (after, upto)
        )
        header = self.header()
        if n != upto - after and header is not None and after >= header.first:
            raise JournalError(
                f"{self.description}: {upto - after - int(n)} of the events {after + 1} to {upto} are missing"
            )

    def read_all(self, problems: list[str]) -> Iterator[tuple[int, Event]]:
        """Yield all events that can be read, and note those that are damaged or missing.

        Parameters
        ----------
        problems
            A list to which descriptions of damaged and missing events are appended.
        """
        header = self.header()
        expected = last = 0
        if header is not None:
            expected, last = header.first, header.last
        after = -LAST_NUMBER - 1
        while rows := self._query(
            f"SELECT seq, {self._columns} FROM events WHERE seq > ? ORDER BY seq LIMIT {_CHUNK}",
            (after,),
        ):
            for row in rows:
                after = int(row[0])
                if after < 1:
                    problems.append(f"event {after} has a number below 1, which no event has")
                    continue
                if after > expected + 1 and after > (0 if header is None else header.first):
                    problems.append(_missing(expected + 1, after - 1))
                expected = max(expected, after)
                try:
                    event = self._event(row)
                except JournalError as error:
                    problems.append(str(error))
                else:
                    yield after, event
        if expected < last:
            problems.append(_missing(expected + 1, last))
        elif expected > last:
            problems.append(f"there are events up to {expected}, but the last one is {last}")

    def integrity_problems(self) -> list[str]:
        """Return what the database itself finds wrong."""
        return []

    def events_without_checksum(self) -> int:
        """Return how many events an earlier format has written."""
        ((n,),) = self._query("SELECT count(*) FROM events WHERE seq <= ?", (self.last_unchecked,))
        return int(n)

    def snapshot_versions(self) -> list[int]:
        """Return the versions of all snapshots, in order."""
        return [int(version) for (version,) in self._query("SELECT seq FROM states ORDER BY seq")]

    def permanent_events(self) -> list[tuple[int, PermanentEvent]]:
        """Return the events that are never removed, with their numbers, in order."""
        rows = self._query(
            f"SELECT seq, {self._columns} FROM events "
            f"WHERE decision IS NULL AND {IS_PERMANENT} ORDER BY seq",
            PERMANENT_KINDS,
        )
        return [(row[0], self._event(row)) for row in rows]  # type: ignore[misc]  # by its kind

    def _event(self, stored: Any) -> Event:
        """Return the event of a row: its number, its columns and its checksum."""
        seq, *values, checksum = stored
        what = f"{self.description}: event {seq}"
        if not isinstance(seq, int) or seq < 1:
            raise JournalError(f"{what} is damaged: events have numbers from 1 on")
        row = Row(*values)
        try:
            computed = schema.event_checksum(seq, row)
        except (TypeError, ValueError, AttributeError, struct.error) as error:
            raise JournalError(f"{what} is damaged: {error}") from error
        schema.verify(what, checksum, computed, required=seq > self.last_unchecked)
        try:
            return event_of(row, self._maps)
        except JournalError as error:
            raise JournalError(f"{what}: {error}") from error

    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision with this id."""
        rows = self._query(
            f"SELECT seq, {self._columns} FROM events WHERE decision = ? AND place = ?",
            (id, DECISION),
        )
        return self._event(rows[0]) if rows else None  # type: ignore[return-value]  # by its rank

    def find(self, ids: Iterable[str]) -> dict[str, Found]:
        """Return the decisions with these ids, and what has happened to each."""
        decisions: dict[str, LoggedDecision] = {}
        following: dict[str, list[Following]] = {}
        left = iter(ids)
        while group := list(islice(left, _FIND)):
            for row in self._query_decisions(group):
                event = self._event(row)
                if isinstance(event, LoggedDecision):
                    decisions[event.id], following[event.id] = event, []
                elif isinstance(event, Following):
                    following.setdefault(event.id, []).append(event)
        return {id: Found(decisions.get(id), events) for id, events in following.items()}

    def following(self, id: str) -> list[Following]:
        """Return what has happened to a decision since it was made, in order."""
        rows = self._query(
            f"SELECT seq, {self._columns} FROM events WHERE decision = ? AND place != ? ORDER BY seq",
            (id, DECISION),
        )
        events: list[Any] = [self._event(row) for row in rows]  # `Following`, by their rank
        if any(isinstance(event, EarlyReward) for event in events):
            found = self.find([id])  # which knows what came before the decision
            return found[id].following if id in found else []
        return events

    def waiting(self, before: float, limit: int, after: Waiting | None = None) -> list[Waiting]:
        """Return the oldest arms without an outcome, and early rewards without a decision, before a time."""
        start = Waiting(-math.inf, "", -LAST_NUMBER) if after is None else after
        rows = self._query(
            "SELECT time, decision, place FROM waiting WHERE time < ? AND (time, decision, place) > (?, ?, ?) "
            "ORDER BY time, decision, place LIMIT ?",
            (before, *start, limit),
        )
        return [Waiting(*row) for row in rows]

    def latest_snapshot(self, upto: int | None = None) -> Snapshot | None:
        """Return the latest snapshot, or the latest one up to an event."""
        rows = self._query(
            f"SELECT {self._state_columns} FROM states WHERE seq <= ? ORDER BY seq DESC LIMIT 1",
            (LAST_NUMBER if upto is None else upto,),
        )
        if not rows:
            return None
        version, state, stored = rows[0]
        if not (isinstance(version, int) and isinstance(state, bytes)):
            raise DamagedSnapshot(f"{self.description}: a snapshot is damaged", version)
        if stored != schema.state_checksum(version, state) and version > self.last_unchecked:
            raise DamagedSnapshot(f"{self.description}: snapshot {version} is damaged", version)
        return Snapshot(version, state)


def oldest_decisions(
    seen: Sequence[tuple[Any, ...]], before: float, limit: int
) -> tuple[list[str], int]:
    """Return the first decisions that are older than a time, as many as the limit, and the number of the last one seen.

    Parameters
    ----------
    seen
        Rows of `OLDEST`, as many as the limit and `LOOK_AHEAD`, or all.
    before
        The time.
    limit
        Number of decisions to return at most.
    """
    old = [(seq, id) for seq, id, time in seen if time < before]
    ids = [id for _, id in old[:limit]]
    if len(old) > limit:
        return ids, int(old[limit][0]) - 1
    return ids, LAST_NUMBER if len(seen) < limit + LOOK_AHEAD else int(seen[-1][0])


def _missing(first: int, last: int) -> str:
    return f"event {first} is missing" if first == last else f"events {first} to {last} are missing"
