"""Keep the statistics of a bandit up to date while somebody looks, without delaying its decisions.

Only new events are read, in short slices on a thread, with pauses as long as the slices. So a journal of a million
events is read once, within minutes, and answers say how much of it was read.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

from rolin.journal import Journal
from rolin.service.statistics.fold import Statistics
from rolin.service.statistics.schema import Reading

__all__ = ["Watch"]

Result = TypeVar("Result")
_MOST = 1_000_000  # events that are read; older ones are left out
_READ = 100  # events per query, so that a look-up for a reward does not wait for long
_SLICE = 0.02  # seconds of work before a pause
_PATIENCE = 0.5  # seconds that a request waits for new events


class Watch:
    """The statistics of one bandit.

    Parameters
    ----------
    journal
        Its journal.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()  # held while events are folded, and while an answer is made
        self._task: asyncio.Task[None] | None = None
        self._statistics = Statistics()
        self._removed_at = -1  # the header's `first`, which changes if decisions are removed
        self._first = self._read = self._last = 0
        self._closed = False

    async def answer(self, make: Callable[[Statistics, Reading], Result]) -> Result:
        """Read new events for a moment, and return what a function makes of the statistics on a thread."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._catch_up())
            self._task.add_done_callback(_note)
        done, _ = await asyncio.wait([self._task], timeout=_PATIENCE)
        for task in done:
            task.result()  # which raises what went wrong
        return await asyncio.to_thread(self._made, make)

    def _made(self, make: Callable[[Statistics, Reading], Result]) -> Result:
        with self._lock:
            since = self._statistics.first_decision
            reading = Reading(self._read, self._last, self._first, since)
            return make(self._statistics, reading)

    async def _catch_up(self) -> None:
        while True:
            start = perf_counter()
            if await asyncio.to_thread(self._slice):
                return
            await asyncio.sleep(perf_counter() - start)

    def _slice(self) -> bool:
        """Read events for a short time; return whether there are no more."""
        with self._lock:
            header = None if self._closed else self._journal.header()
            if header is None:
                return True
            if header.first != self._removed_at:
                self._statistics, self._removed_at = Statistics(), header.first
                self._first = self._read = max(header.last - _MOST, 0)
                for number, change in self._journal.permanent_events():
                    if number <= self._read:
                        self._statistics.fold(change)
            self._last = header.last
            end = perf_counter() + _SLICE
            while self._read < self._last:
                upto = min(self._read + _READ, self._last)
                for number, event in self._journal.read(after=self._read, upto=upto):
                    self._statistics.fold(event)
                    self._read = number
                self._read = upto
                if perf_counter() > end:
                    break
            return self._read >= self._last

    def close(self) -> None:
        """Read no more, so that the journal can be closed."""
        with self._lock:
            self._closed = True


def _note(task: asyncio.Task[None]) -> None:
    """Look at the error of a task: the next request meets it again, and answers with it."""
    if not task.cancelled():
        task.exception()
