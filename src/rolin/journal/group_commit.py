"""Write the requests of many callers in one transaction.

A caller that finds nobody at work writes its request itself, together with all others that are queued. Requests that
arrive meanwhile form the next batch, which a thread writes: it ends when nothing has been queued for a second. A single
caller is not delayed. The thread waits up to 0.2 ms for as many requests as the last batch had.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter, sleep
from typing import Any, Generic, NamedTuple, TypeVar

from rolin._support.process import forget_locks_after_fork
from rolin.errors import JournalError, MaybeRecorded

__all__ = ["Backlog", "GroupCommit", "Queued"]

Work = TypeVar("Work")
_INTERRUPTED = (
    "writing was interrupted; repeat the call with the same id to see whether it was recorded"
)
_IDLE = 1.0  # seconds without requests after which the thread ends
_STEP, _MAX_STEPS = 5e-5, 4  # seconds to wait for more requests, and how often
_LOST = 0.5  # seconds after which a caller looks whether its request was lost by an interruption


class Backlog(NamedTuple):
    """What waits to be written."""

    requests: int
    oldest: float
    """Seconds that the first of them has waited; 0 if there are none."""


class Queued(Generic[Work]):
    """A queued request, and later its result.

    Parameters
    ----------
    work
        The request.
    notify
        Called once with this object when it has its result, by the thread that wrote it.
    is_cancelled
        Returns whether nobody waits any more; then it is not written, and gets no result.
    """

    __slots__ = ("_notify", "answer", "done", "error", "is_cancelled", "since", "work")

    def __init__(
        self,
        work: Work,
        notify: Callable[[Queued[Work]], None] | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.work, self._notify, self.is_cancelled = work, notify, is_cancelled
        self.since = perf_counter()
        """When it was queued."""
        self.done = False
        self.answer: Any = None
        self.error: BaseException | None = None

    def settle(self, answer: Any = None, error: BaseException | None = None) -> None:
        """Set the result."""
        self.answer, self.error, self.done = answer, error, True
        if self._notify is not None:
            self._notify(self)

    def result(self) -> Any:
        """Return the answer, or raise the error."""
        if not self.done:  # the thread that took it from the queue was interrupted
            raise MaybeRecorded(_INTERRUPTED)
        if self.error is not None:
            raise self.error
        return self.answer


class GroupCommit(Generic[Work]):
    """Write the requests of all waiting callers in one transaction.

    Parameters
    ----------
    write
        Called with all queued requests in order; settles each of them.
    """

    def __init__(self, write: Callable[[list[Queued[Work]]], None]) -> None:
        self._write = write
        self.new_locks()
        forget_locks_after_fork(self)

    def new_locks(self) -> None:
        """Make new locks and an empty queue: in a child process, no thread waits for what was queued."""
        self.lock = threading.RLock()
        """Held while a batch is written."""
        self._queue: deque[Queued[Work]] = deque()
        self._busy = False  # a hint: somebody is writing requests
        self._since: float | None = None  # when the write began that goes on
        self._last_size = 0  # of the last batch
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._bell = threading.Lock()  # released to call the thread
        self._bell.acquire()

    def submit(self, work: Work) -> Any:
        """Have a request written, and return or raise its result."""
        if self._thread is None and not self._busy:
            queued = Queued(work)
            try:
                self._queue.append(queued)
                self._write_unless_done(queued)
            except BaseException:
                self._withdraw(queued)
                raise
            return queued.result()
        wake = threading.Lock()
        wake.acquire()
        queued = Queued(work, lambda _: wake.release())
        try:
            self.enqueue(queued)
            if not wake.acquire(timeout=_LOST):
                self._write_unless_done(queued)
        except BaseException:
            self._withdraw(queued)
            raise
        return queued.result()

    def enqueue(self, queued: Queued[Work]) -> None:
        """Have a request written by the thread, and return at once.

        Parameters
        ----------
        queued
            The request; its `notify` is called when it is written.
        """
        self._queue.append(queued)
        try:
            self._start()
        except BaseException:  # the system may have too many threads
            self._withdraw(queued)
            raise
        if self._bell.locked():  # otherwise it was called already
            with suppress(RuntimeError):  # by another thread, just now
                self._bell.release()

    def backlog(self) -> Backlog:
        """Return how many requests wait, and for how long."""
        try:
            first = self._queue[0]
        except IndexError:
            return Backlog(0, 0.0)
        return Backlog(max(len(self._queue), 1), perf_counter() - first.since)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Return a block in which nothing else is written, for a write that is no request."""
        with self.lock:
            before = self._since
            self._since = before or perf_counter()
            try:
                yield
            finally:
                self._since = before

    @property
    def writing(self) -> float:
        """Seconds that the present write has taken so far; 0 if there is none."""
        since = self._since
        return 0.0 if since is None else perf_counter() - since

    def _start(self) -> None:
        """Start the thread, unless it runs."""
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._serve, name="rolin-writer", daemon=True)
                thread.start()
                self._thread = thread  # only now: while there is none, callers write by themselves

    def _write_unless_done(self, queued: Queued[Work]) -> None:
        """Write everything that is queued, unless another thread has written this request meanwhile."""
        with self.lock:
            if not queued.done and queued in self._queue:
                self._lead()

    def _withdraw(self, queued: Queued[Work]) -> None:
        """Remove a request, so that nobody writes later what was interrupted."""
        try:  # noqa: SIM105  # `suppress` takes 1 µs, and every request comes here
            self._queue.remove(queued)
        except ValueError:
            pass

    def _serve(self) -> None:
        """Write what is queued, until nothing is."""
        while True:
            if not self._bell.acquire(timeout=_IDLE):
                with self._starting:
                    if not self._queue:
                        self._thread = None
                        return
            self._wait_for_others()
            with self.lock, suppress(Exception):  # those who wait have been told
                if self._queue:
                    self._lead()

    def _wait_for_others(self) -> None:
        """Wait a moment for as many requests as there were in the last batch, as its callers may come again.

        Python lets the callers run only when this thread sleeps, so without a wait most batches would hold one request.
        """
        for _ in range(_MAX_STEPS):
            if len(self._queue) >= self._last_size:
                return
            sleep(_STEP)

    def _lead(self) -> None:
        batch: list[Queued[Work]] = []
        self._busy, self._since = True, perf_counter()
        try:
            batch = list(self._queue.copy())
            for queued in batch:  # after all of them are known, so that an interruption loses none
                self._withdraw(queued)
            self._last_size = len(batch)
            batch = [queued for queued in batch if not queued.is_cancelled()]
            if batch:
                self._write(batch)
        except BaseException as error:
            for queued in batch:
                self._withdraw(queued)
                if not queued.done:
                    queued.settle(error=_for_others(error))
            raise
        finally:
            self._busy, self._since = False, None


def _for_others(error: BaseException) -> BaseException:
    """Return the error for the other callers: a new one, because each gets a traceback of its own."""
    if isinstance(error, JournalError):
        return type(error)(*error.args)
    return MaybeRecorded(_INTERRUPTED)
