"""What every journal can do: the few calls that a database must answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, Self

from rolin.journal.events import Event, Lasting, LoggedDecision, Outcome

__all__ = ["Behind", "Header", "Journal", "Removal", "reached"]


class Behind(Exception):  # caught, never shown
    """Somebody else has written since: read what they wrote, and try again."""


class Header(NamedTuple):
    """What a journal knows of itself."""

    last: int
    """The highest sequence number given out."""
    first: int
    """All events after this one are there; those up to it may have been removed."""
    origin: str
    """Digest of the state that it began with."""


class Removal(NamedTuple):
    """Which decisions to remove, with everything that belongs to them."""

    ids: Collection[str] = ()
    people: Collection[str] = ()
    before: float | None = None
    """Decisions, and other events, of before this time."""


class Journal(ABC):
    """An append-only log of events, numbered 1, 2, … in the order in which they are folded.

    What `append` has returned from is not lost, and half of it is never there. Calls may come from
    several threads.
    """

    durable: bool
    """Whether it outlives the process."""

    @abstractmethod
    def begin(self, state: bytes, origin: str) -> Header:
        """Make this the journal of a policy in that state, unless it has begun; return its header."""

    @abstractmethod
    def header(self) -> Header | None:
        """Return what the journal knows of itself; `None` if it has not begun."""

    @abstractmethod
    def append(self, events: Iterable[Event], *, after: int) -> int:
        """Add all events, or none, and return the number of the last.

        Raises
        ------
        Behind
            If `after` is not the number of the last event.
        """

    @abstractmethod
    def read(
        self, *, after: int = 0, upto: int | None = None, decisions: bool = True
    ) -> Iterator[tuple[int, Event]]:
        """Yield the events and their numbers, in order; decisions, which change no state, if asked.

        Events that are removed meanwhile may be missing: the header says so afterwards.
        """

    @abstractmethod
    def lasting(self) -> list[tuple[int, Lasting]]:
        """Return the events that are never removed, with their numbers, in order."""

    @abstractmethod
    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision of that id."""

    @abstractmethod
    def outcomes(self, id: str) -> dict[int, Outcome]:
        """Return what became of a decision, by place in its ranking."""

    @abstractmethod
    def waiting(self, before: float, limit: int) -> list[tuple[str, int]]:
        """Return the oldest decisions of before this time, with the places that have no outcome."""

    @abstractmethod
    def save(self, seq: int, state: bytes) -> None:
        """Keep the state that folding the events up to `seq` gave, unless some were removed since."""

    @abstractmethod
    def saved(self, upto: int | None = None) -> tuple[int, bytes] | None:
        """Return the last state that was kept, or the last one up to an event, with its number."""

    @abstractmethod
    def remove(self, what: Removal, *, after: int, state: bytes) -> tuple[int, int]:
        """Remove decisions and keep the state that they led to.

        Returns how many there were, and the number of the last event: removing takes a number too, so
        that others notice it.

        Raises
        ------
        Behind
            If `after` is not the number of the last event.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back what the journal holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reached(step: str) -> None:
    """Do nothing: the named steps of writing, at which tests kill the process."""
