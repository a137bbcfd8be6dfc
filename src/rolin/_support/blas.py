"""Restrict BLAS to one thread, so that sums are the same everywhere and each worker uses one core."""

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
    """Return the controller of BLAS threads. It is cached: finding the libraries takes 10 ms."""
    with needs("sim"):
        from threadpoolctl import ThreadpoolController
    return ThreadpoolController()


_lock = threading.Lock()
_held: list[Any] = []  # the limit, and the number of blocks that run under it


@contextmanager
def one_thread() -> Iterator[None]:
    """Restrict BLAS to one thread while the block runs, for all threads of this process."""
    with _lock:
        if _held:
            _held[1] += 1
        else:
            _held[:] = [controller().limit(limits=1), 1]
    try:
        yield
    finally:
        with _lock:  # the last block to end restores the limit
            _held[1] -= 1
            if not _held[1]:
                _held[0].restore_original_limits()
                _held.clear()


@functools.cache
def one_thread_for_good() -> None:
    """Restrict BLAS to one thread for the rest of this worker process."""
    controller().limit(limits=1)
