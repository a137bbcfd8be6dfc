"""Many callers, one trip to the disk.

Whoever finds nobody writing takes all that has queued and writes it in one transaction; what comes
meanwhile is the next one's. No timer: with one caller there is no delay, with many the disk is
asked as often as it can answer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rolin.errors import JournalError

__all__ = ["GroupCommit", "Request"]

Work = TypeVar("Work")
_INTERRUPTED = "writing was interrupted; ask again with the same id to learn what became of it"


class Request(Generic[Work]):
    """What one caller waits for."""

    __slots__ = ("answer", "done", "error", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.done = False
        self.answer: Any = None
        self.error: BaseException | None = None

    def settle(self, answer: Any = None, error: BaseException | None = None) -> None:
        """Say what became of it."""
        self.answer, self.error, self.done = answer, error, True


class GroupCommit(Generic[Work]):
    """Lets one thread write for all that wait.

    Parameters
    ----------
    write
        Is given all requests that queued, in order, and settles each.
    """

    def __init__(self, write: Callable[[list[Request[Work]]], None]) -> None:
        self._write = write
        self._queue: deque[Request[Work]] = deque()
        self.lock = threading.RLock()
        """Held while something is written."""

    def submit(self, work: Work) -> Any:
        """Have something written, and return or raise what became of it."""
        request = Request(work)
        self._queue.append(request)
        with self.lock:
            if not request.done:  # otherwise whoever wrote last has done it too
                self._lead()
        if not request.done:  # whoever took it from the queue was interrupted
            raise JournalError(_INTERRUPTED)
        if request.error is not None:
            raise request.error
        return request.answer

    def _lead(self) -> None:
        batch: list[Request[Work]] = []
        try:
            while self._queue:
                batch.append(self._queue.popleft())
            self._write(batch)
        except BaseException as error:
            for request in batch:
                if not request.done:
                    request.settle(error=_for_others(error))
            raise


def _for_others(error: BaseException) -> BaseException:
    """Return the error for those who did not write themselves: of their own, as it gets a traceback."""
    if isinstance(error, JournalError):
        return JournalError(*error.args)
    return JournalError(_INTERRUPTED)
