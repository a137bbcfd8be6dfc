"""Write the requests of many callers in one transaction.

The first caller that finds no writer at work takes all queued requests and writes them together.
Requests that arrive meanwhile form the next batch. There is no timer: a single caller is not
delayed, and many callers commit as often as the disk allows.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from rolin._support.process import forget_locks_after_fork
from rolin.errors import JournalError

__all__ = ["GroupCommit", "Queued"]

Work = TypeVar("Work")
_INTERRUPTED = (
    "writing was interrupted; repeat the call with the same id to see whether it was recorded"
)


class Queued(Generic[Work]):
    """A queued call, and later its result."""

    __slots__ = ("answer", "done", "error", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.done = False
        self.answer: Any = None
        self.error: BaseException | None = None

    def settle(self, answer: Any = None, error: BaseException | None = None) -> None:
        """Set the result."""
        self.answer, self.error, self.done = answer, error, True


class GroupCommit(Generic[Work]):
    """Let one thread write for all that wait.

    Parameters
    ----------
    write
        Called with all queued requests in order; settles each of them.
    """

    def __init__(self, write: Callable[[list[Queued[Work]]], None]) -> None:
        self._write = write
        self._queue: deque[Queued[Work]] = deque()
        self.new_locks()
        forget_locks_after_fork(self)

    def new_locks(self) -> None:
        """Make a new lock."""
        self.lock = threading.RLock()
        """Held while a batch is written."""

    def submit(self, work: Work) -> Any:
        """Have a request written, and return or raise its result."""
        queued = Queued(work)
        try:
            self._queue.append(queued)
            with self.lock:
                if not queued.done:  # otherwise another thread has written it
                    self._lead()
        except BaseException:
            with suppress(ValueError):  # a later call must not write what was interrupted
                self._queue.remove(queued)
            raise
        if not queued.done:  # the thread that took it from the queue was interrupted
            raise JournalError(_INTERRUPTED)
        if queued.error is not None:
            raise queued.error
        return queued.answer

    def _lead(self) -> None:
        batch: list[Queued[Work]] = []
        try:
            while self._queue:
                batch.append(self._queue.popleft())
            self._write(batch)
        except BaseException as error:
            for queued in batch:
                if not queued.done:
                    queued.settle(error=_for_others(error))
            raise


def _for_others(error: BaseException) -> BaseException:
    """Return the error for the other callers: a new one, because each gets a traceback of its own."""
    if isinstance(error, JournalError):
        return JournalError(*error.args)
    return JournalError(_INTERRUPTED)
