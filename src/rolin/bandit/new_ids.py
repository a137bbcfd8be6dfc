"""Ids for decisions whose callers give none."""

from __future__ import annotations

from rolin.journal import Journal

__all__ = ["NewIds"]


class NewIds:
    """Numbered ids, such as `"7-1"` and `"7-2"`.

    An id is also the key of a decision's random numbers, so a rejected call must not use one up. Only the thread that
    writes asks for ids, so there is no lock. A policy must not call the bandit that asks it.

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

    def new(self) -> str:
        """Return an id that is not in use."""
        while True:
            id = f"{self._token}-{self._next}"
            self._next += 1
            if self._journal.durable or not self._journal.find([id]):
                return id

    def mark(self) -> int:
        """Return a mark for `take_back`."""
        return self._next

    def take_back(self, mark: int) -> None:
        """Take back the ids since a mark."""
        self._next = mark
