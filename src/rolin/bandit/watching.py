"""What a bandit tells those who watch it: every batch that it writes, and how it is at present."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from rolin.bandit.requests import Request
from rolin.journal.base import StorageReport
from rolin.journal.events import Event, LoggedDecision

__all__ = ["BanditStats", "Finished", "Observer", "Written"]


class Finished(NamedTuple):
    """A request of a batch, and what its caller gets."""

    request: Request
    answer: Any
    error: Exception | None


class Written(NamedTuple):
    """Requests that were written together."""

    finished: Sequence[Finished]
    """All requests, in order; also those that were rejected."""
    events: Sequence[Event]
    """What was appended to the journal; a repeated request adds nothing."""
    decision: Callable[[str], LoggedDecision | None]
    """Returns a decision that one of the requests is about, by its id, without reading the journal again."""
    waited: float
    """Seconds that the oldest request was queued."""
    commit: float | None
    """Seconds until the events were on the disk; `None` if there were none."""


class Observer(Protocol):
    """Watches a bandit."""

    def written(self, batch: Written) -> None:
        """Note what was written.

        It is called by the thread that writes, before the callers get their answers, so it must be fast. An error is logged,
        and has no other effect.

        Parameters
        ----------
        batch
            What was written.
        """


class BanditStats(NamedTuple):
    """How a bandit is at present."""

    version: int
    """Number of the last event that the state knows."""
    behind: int
    """Events of the journal that the state does not know yet, such as those of other processes."""
    queued: int
    """Requests that wait to be written."""
    oldest: float
    """Seconds that the first of them has waited; 0 if there are none."""
    since_snapshot: int
    """Events since the latest snapshot."""
    snapshot_time: float | None
    """When this process stored its last snapshot, in seconds since 1970; `None` if it has stored none."""
    reward_time: float | None
    """Time of the last reward that was learned since the bandit was opened; `None` if there is none."""
    scales_time: float | None
    """Time of the last estimate of the scales since the bandit was opened; `None` if there is none."""
    storage: StorageReport
    """How the journal is stored, and how large it is."""
