"""One thread for BLAS: sums come out the same wherever they are made, and workers keep to their core."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rolin._support.optional import needs

__all__ = ["controller", "one_thread", "one_thread_for_good"]


@functools.cache
def controller() -> Any:
    """Return what sets the number of BLAS threads; looking for the libraries takes 10 ms."""
    with needs("sim"):
        from threadpoolctl import ThreadpoolController
    return ThreadpoolController()


_lock = threading.Lock()
_held: list[Any] = []  # the limit, and how many blocks are in it


@contextmanager
def one_thread() -> Iterator[None]:
    """Leave BLAS one thread while the block runs, in all threads of this process."""
    with _lock:
        if _held:
            _held[1] += 1
        else:
            _held[:] = [controller().limit(limits=1), 1]
    try:
        yield
    finally:
        with _lock:  # the last to leave gives the threads back
            _held[1] -= 1
            if not _held[1]:
                _held[0].restore_original_limits()
                _held.clear()


@functools.cache
def one_thread_for_good() -> None:
    """Leave BLAS one thread in a worker process, whose threads may share it."""
    controller().limit(limits=1)
