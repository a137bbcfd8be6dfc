"""Keep the statistics of a bandit up to date while somebody looks, without delaying its decisions.

Only new events are read, in short slices on a thread, with pauses as long as the slices. So a journal of a million
events is read once, within minutes, and answers say how much of it was read. The statistics are stored from time to
time, so that a restart does not begin again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import TypeVar

from rolin.errors import RolinError
from rolin.journal import Header, Journal
from rolin.service.statistics.fold import Statistics
from rolin.service.statistics.schema import Reading
from rolin.service.statistics.stored import Position, read_statistics, write_statistics

__all__ = ["Watch"]

Result = TypeVar("Result")
_MOST = 1_000_000  # events that are read; older ones are left out
_READ = 100  # events per query, so that a look-up for a reward does not wait for long
_SLICE = 0.02  # seconds of work before a pause
_PATIENCE = 0.5  # seconds that a request waits for new events
_SAVE_EVERY = 30.0  # seconds
_SAVE_SHARE = 0.01  # of the time is spent on storing at most
_SAVE_EVENTS = 1000  # new ones that are worth it: reading them takes a fraction of a second
_log = logging.getLogger("rolin.service")


class Watch:
    """The statistics of one bandit.

    Parameters
    ----------
    journal
        Its journal.
    name
        Name of the bandit, for the log.
    stores
        Whether to store the statistics beside the journal.
    """

    def __init__(self, journal: Journal, name: str, *, stores: bool = True) -> None:
        self._journal, self._name, self._stores = journal, name, stores
        self._lock = threading.Lock()  # held while events are folded, and while an answer is made
        self._task: asyncio.Task[None] | None = None
        self._statistics = Statistics()
        self._removed_at = -1  # the header's `first`, which changes if decisions are removed
        self._first = self._read = self._last = 0
        self._saved = 0  # number of the last event in what is stored
        self._save_at = monotonic() + _SAVE_EVERY
        self._saving = threading.Lock()
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
            is_done = await asyncio.to_thread(self._slice)
            if monotonic() >= self._save_at:
                await asyncio.to_thread(self._save)
            if is_done:
                return
            await asyncio.sleep(perf_counter() - start)

    def _slice(self) -> bool:
        """Read events for a short time; return whether there are no more."""
        with self._lock:
            header = None if self._closed else self._journal.header()
            if header is None:
                return True
            if header.first != self._removed_at and not (
                self._removed_at < 0 and self._load(header)
            ):
                self._statistics, self._removed_at = Statistics(), header.first
                self._first = self._read = max(header.last - _MOST, 0)
                self._saved = self._read
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

    def _load(self, header: Header) -> bool:
        """Begin with what was stored before a restart; return whether it was possible."""
        try:
            content = self._journal.derived()
            if content is None:
                return False
            self._statistics, position = read_statistics(content, header, self._journal)
        except (RolinError, OSError) as error:
            self._warn("its stored statistics are not used, and the journal is read again", error)
            return False
        self._removed_at, self._first, self._read = position
        self._saved = self._read
        return True

    def _save(self) -> None:
        """Store the statistics, if much was read since."""
        if not self._stores or self._read < self._saved + _SAVE_EVENTS:
            return
        with self._saving:
            start = monotonic()
            try:
                with self._lock:
                    position = Position(self._removed_at, self._first, self._read)
                    parts = write_statistics(self._statistics, position, self._journal)
                if self._journal.save_derived(parts, first=position.removed_at):
                    self._saved = position.read
            except (RolinError, OSError) as error:  # such as a full disk: tried again later
                self._warn("its statistics cannot be stored", error)
            now = monotonic()
            self._save_at = now + max(_SAVE_EVERY, (now - start) / _SAVE_SHARE)

    def _warn(self, what: str, error: Exception) -> None:
        extra = {"bandit": self._name}
        _log.warning("bandit %s: %s: %s", self._name, what, error, extra=extra)

    def close(self) -> None:
        """Store the statistics, and read no more, so that the journal can be closed."""
        with self._lock:
            self._closed = True
        self._save()


def _note(task: asyncio.Task[None]) -> None:
    """Look at the error of a task: the next request meets it again, and answers with it."""
    if not task.cancelled():
        task.exception()
