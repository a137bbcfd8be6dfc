"""Ids for decisions whose callers give none."""

from __future__ import annotations

import threading

from rolin._support.process import forget_locks_after_fork
from rolin.journal import Journal

__all__ = ["NewIds"]


class NewIds:
    """Numbered ids, such as `"7-1"` and `"7-2"`.

    An id is also the key of a decision's random numbers, so a rejected call must not use one up.

    Parameters
    ----------
    token
        The first part of every id.
    journal
        Ids that it already holds are skipped if it is in memory. The tokens of durable journals are random.
    """

    def __init__(self, token: str, journal: Journal) -> None:
        self._token, self._journal = token, journal
        self._next = 1
        self._own = threading.local()
        self.new_locks()
        forget_locks_after_fork(self)

    def new_locks(self) -> None:
        """Make a new lock."""
        self._lock = threading.Lock()

    def new(self) -> str:
        """Return an id that is not in use."""
        while True:
            with self._lock:
                id = f"{self._token}-{self._next}"
                self._next += 1
                self._own.used = getattr(self._own, "used", 0) + 1
            if self._journal.durable or not self._journal.find([id]):
                return id

    def mark(self) -> int:
        """Return a mark for `take_back`."""
        with self._lock:
            self._own.used = 0
            return self._next

    def take_back(self, mark: int) -> None:
        """Take back the ids that this thread got since a mark, unless another thread has got ids meanwhile."""
        with self._lock:
            if self._next == mark + self._own.used:
                self._next = mark
