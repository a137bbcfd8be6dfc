"""The interface of every journal: the few calls that a database must answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Self

from rolin.errors import JournalError
from rolin.journal.events import (
    EarlyReward,
    Event,
    Following,
    IgnoredReward,
    LoggedDecision,
    Outcome,
    PermanentEvent,
)

__all__ = [
    "LOOK_AHEAD",
    "DamagedSnapshot",
    "Header",
    "Journal",
    "OutOfDate",
    "Removal",
    "Removed",
    "Snapshot",
    "StorageReport",
    "Waiting",
    "ended_by",
    "reached",
    "waiting_since",
]


class OutOfDate(Exception):  # an internal signal, always caught
    """Another process has written since: read its events and try again."""


class DamagedSnapshot(JournalError):  # an internal signal, always caught
    """A snapshot is damaged; an earlier one may not be."""

    def __init__(self, message: str, version: Any) -> None:
        super().__init__(message)
        self.version = version


class Waiting(NamedTuple):
    """An arm that waits for its outcome, or an early reward that waits for its decision."""

    time: float
    """When the arm was chosen, or when the reward arrived."""
    id: str
    """Id of the decision."""
    rank: int
    """Rank of the arm; below 0 for an early reward: its `waiting_rank`."""


def waiting_since(event: Event) -> list[Waiting]:
    """Return what waits since an event."""
    if isinstance(event, LoggedDecision):
        return [Waiting(event.time, event.id, rank) for rank in range(len(event.chosen))]
    if isinstance(event, EarlyReward):
        return [Waiting(event.time, event.id, event.waiting_rank)]
    return []


def ended_by(event: Event) -> tuple[str, int] | None:
    """Return the id and the rank of what waits no longer because of an event.

    A decision ends the waiting of all early rewards with its id as well, which are not listed here.
    """
    if isinstance(event, Outcome):
        return event.id, event.rank
    if isinstance(event, IgnoredReward) and event.reason == "unknown":
        return event.id, -1 - event.number
    return None


class Header(NamedTuple):
    """The position of a journal, and where it came from."""

    last: int
    """The highest sequence number given out."""
    first: int
    """All events after this one are present; earlier ones may have been removed."""
    origin: str
    """Digest of the state that the journal started from."""


class Snapshot(NamedTuple):
    """A state stored in a journal."""

    version: int
    """Number of the last event that was folded into it."""
    state: bytes


class StorageReport(NamedTuple):
    """How a journal is stored; `None` where it is not known."""

    durability: str | None = None
    """The settings of the database that decide when a commit is on the disk, in its own words."""
    flushed: bool | None = None
    """Whether a commit is on the disk before it returns, by these settings."""
    journal_bytes: int | None = None
    """Size of the journal itself: its file, or its tables with their indexes."""
    log_bytes: int | None = None
    """Size of its write-ahead log, which is written back to the journal from time to time. `None` if it shares the log of
    a server."""


class Removal(NamedTuple):
    """Which decisions to remove, together with their outcomes."""

    ids: Collection[str] = ()
    people: Collection[str] = ()
    before: float | None = None
    """Remove decisions, early rewards without a decision, and other events, that are older than this time."""
    limit: int | None = None
    """With `before`: remove at most so many decisions, those with the lowest numbers first. Look no further than 1000
    decisions beyond them."""
    wipe: bool = True
    """Empty a write-ahead log, which holds their bytes, too; otherwise this is left to `wipe_log`."""


class Found(NamedTuple):
    """A decision of the journal, and what has happened to it since it was made."""

    decision: LoggedDecision | None
    """`None` if it is not made yet, and only rewards of it have arrived."""
    following: list[Following]
    """In order; the rewards that came before the decision only as long as there is none."""


LOOK_AHEAD = 1000
"""Decisions beyond the limit of a removal that are looked at: some may have come out of order."""


class Removed(NamedTuple):
    """What a removal did."""

    decisions: int
    """Number of decisions removed."""
    last: int
    """Number of the last event: a removal takes a number as well, so that other processes notice it."""


class Journal(ABC):
    """An append-only record of events, numbered 1, 2, … in the order in which they are folded.

    Events that `append` has returned from are never lost, and are never stored in part. Several
    threads may call a journal at the same time.
    """

    durable: bool
    """Whether the journal outlives the process."""
    takes_turns: bool = False
    """Whether a caller takes a `turn` before it plans what to write, because other processes often write meanwhile."""

    @abstractmethod
    def begin(self, state: bytes, origin: str) -> Header:
        """Store the first state unless the journal has begun; return the header.

        Parameters
        ----------
        state
            The first state of the policy, as bytes.
        origin
            Digest of this state.
        """

    @abstractmethod
    def header(self) -> Header | None:
        """Return the header, or `None` if the journal has not begun."""

    @abstractmethod
    def append(self, events: Iterable[Event], *, after: int) -> int:
        """Append all events or none, and return the number of the last one.

        Parameters
        ----------
        events
            The events.
        after
            Number of the last event that the caller knows.

        Raises
        ------
        OutOfDate
            If `after` is not the number of the last event.
        """

    @abstractmethod
    def turn(self) -> AbstractContextManager[object]:
        """Return a block in which no other process can write; what is appended is stored when it ends."""

    @abstractmethod
    def read(
        self, *, after: int = 0, upto: int | None = None, decisions: bool = True
    ) -> Iterator[tuple[int, Event]]:
        """Yield numbers and events in order; leave out decisions, which change no state, if asked.

        Events that are removed during the iteration may be missing. The header shows this afterwards.

        Parameters
        ----------
        after
            Number of the event before the first one to read.
        upto
            Number of the last event to read; by default all.
        decisions
            Whether to read decisions.

        Raises
        ------
        JournalError
            If an event is damaged, or missing without having been removed.
        """

    @abstractmethod
    def permanent_events(self) -> list[tuple[int, PermanentEvent]]:
        """Return the events that are never removed, with their numbers, in order."""

    @abstractmethod
    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision with this id.

        Parameters
        ----------
        id
            Id of the decision.
        """

    @abstractmethod
    def find(self, ids: Iterable[str]) -> dict[str, Found]:
        """Return the decisions with these ids, and what has happened to each; ids that are unknown are left out.

        An id that only early rewards have is known, with `None` as its decision.

        Parameters
        ----------
        ids
            Ids of decisions.
        """

    @abstractmethod
    def following(self, id: str) -> list[Following]:
        """Return what has happened to a decision since it was made, in order; before that, its early rewards.

        Parameters
        ----------
        id
            Id of the decision.
        """

    def outcomes(self, id: str) -> dict[int, Outcome]:
        """Return the outcomes of a decision, by rank.

        Parameters
        ----------
        id
            Id of the decision.
        """
        return {event.rank: event for event in self.following(id) if isinstance(event, Outcome)}

    @abstractmethod
    def waiting(self, before: float, limit: int, after: Waiting | None = None) -> list[Waiting]:
        """Return the oldest arms without an outcome, and early rewards without a decision, before a time.

        Parameters
        ----------
        before
            Time in seconds since 1970; what waits since then or later is left out.
        limit
            Maximum number of arms and early rewards to return.
        after
            The arm or early reward to continue after, from an earlier call; `None` to begin with the oldest.
        """

    @abstractmethod
    def save_snapshot(self, version: int, state: bytes) -> None:
        """Store the state after event `version`, unless events have been removed since.

        Parameters
        ----------
        version
            Number of the last event that was folded into the state.
        state
            The state, as bytes.
        """

    @abstractmethod
    def latest_snapshot(self, upto: int | None = None) -> Snapshot | None:
        """Return the latest snapshot, or the latest one up to an event.

        Parameters
        ----------
        upto
            Number of the last event that may have been folded into it; by default any.

        Raises
        ------
        DamagedSnapshot
            If it is damaged.
        """

    @abstractmethod
    def remove(self, what: Removal, *, after: int, state: bytes) -> Removed:
        """Remove decisions, and store the state that they led to as a snapshot.

        Parameters
        ----------
        what
            Which decisions to remove.
        after
            Number of the last event that the caller knows.
        state
            The state after that event, as bytes.

        Raises
        ------
        OutOfDate
            If `after` is not the number of the last event.
        """

    @contextmanager
    def elected(self, task: str) -> Iterator[bool]:
        """Give whether this process does a task that one process is enough for.

        Several may be chosen, so doing it twice must be harmless.

        Parameters
        ----------
        task
            Name of the task.
        """
        yield True

    def defer_upkeep(self) -> None:  # noqa: B027  # most journals have nothing to defer
        """Do not do long work, such as writing back a log, while events are appended: the caller calls `do_upkeep`."""

    @property
    def is_upkeep_due(self) -> bool:
        """Whether `do_upkeep` should be called."""
        return False

    def do_upkeep(self) -> None:  # noqa: B027  # the same
        """Do the long work that was deferred; events can be appended meanwhile."""

    def storage(self) -> StorageReport:
        """Return how the journal is stored, and how large it is."""
        return StorageReport()

    def save_derived(self, parts: Iterable[bytes], *, first: int) -> bool:
        """Store what somebody has computed from all events, unless events were removed since; return whether it was stored.

        It replaces what was stored before. It is deleted when events are removed, because it may hold parts of them.

        Parameters
        ----------
        parts
            The content, in parts of about a megabyte.
        first
            The header's `first` when it was computed, which changes if events are removed.
        """
        return False

    def derived(self) -> bytes | None:
        """Return what `save_derived` has stored; `None` if there is nothing."""
        return None

    def wipe_log(self) -> bool:
        """Write back and empty a log, which may hold bytes of removed events; return whether it is empty."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Release the file or connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reached(step: str) -> None:
    """Do nothing; tests replace this function to kill the process at a named step of writing."""
