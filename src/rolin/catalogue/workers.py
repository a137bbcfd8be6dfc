"""Threads that work on blocks of a catalogue, for as long as the process lives.

`concurrent.futures` is not used, because Ctrl-C in the middle of its bookkeeping can leave one of its locks locked
forever. Here a task is handed over by one call of C code, and whoever is interrupted waits for the tasks it has begun.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from rolin.catalogue.storage import BLOCK, ArmStore, Block

__all__ = ["Task", "Workers", "begin", "each_block", "workers"]

T = TypeVar("T")
# Up to this many arms, one thread does all the work: waking another one up takes as long as the work.
_FEW = BLOCK


class Task(Generic[T]):
    """A call that a worker makes."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._result: T
        self._error: BaseException | None = None
        self._has_ended = False
        self._end = threading.Lock()  # released when the task has ended
        self._end.acquire()

    def run(self) -> None:
        """Make the call."""
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error
        finally:
            self._has_ended = True
            self._end.release()

    def wait(self) -> None:
        """Wait until the task has ended; can be called again after an interruption."""
        if not self._has_ended:
            self._end.acquire()

    def result(self) -> T:
        """Wait until the task has ended; return its result, or raise its error."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._result


class Workers:
    """Some threads that take tasks from one queue.

    Parameters
    ----------
    number
        The number of threads.
    """

    def __init__(self, number: int) -> None:
        self._tasks: SimpleQueue[Task[Any]] = SimpleQueue()
        for i in range(number):
            threading.Thread(target=self._work, name=f"rolin-catalogue-{i}", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._tasks.get().run()

    def submit(self, call: Callable[..., T], *args: Any) -> Task[T]:
        """Let a worker make a call."""
        task = Task(partial(call, *args))
        self._tasks.put(task)
        return task

    def map(self, call: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        """Return the results of a call for every item.

        If this is interrupted, it waits for the calls that have begun, so that none of them goes on behind its back.
        """
        tasks = [Task(partial(call, item)) for item in items]
        queued: list[None] = []
        try:
            # One call of C code, so that all or none are queued.
            queued.extend(map(self._tasks.put, tasks))
            return [task.result() for task in tasks]
        except BaseException:
            for task in tasks[: len(queued)]:
                task.wait()
            raise


@cache
def workers() -> Workers:
    """Return the workers of this process, one per core."""
    cores = (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    return Workers(len(cores))


def each_block(store: ArmStore, call: Callable[[Block], T]) -> list[T]:
    """Return the results of a call for every block of a store."""
    if store.n <= _FEW:
        return [call(block) for block in store.blocks()]
    return workers().map(call, store.blocks())


def begin(store: ArmStore, call: Callable[..., T], *args: Any) -> Callable[[], T]:
    """Begin a call for the arms of a store, and return a function that waits for its result.

    If the arms are few, that function makes the call.
    """
    if store.n <= _FEW:
        return partial(call, *args)
    return workers().submit(call, *args).result


if hasattr(os, "register_at_fork"):  # a forked child inherits the workers, but not their threads
    os.register_at_fork(after_in_child=workers.cache_clear)
