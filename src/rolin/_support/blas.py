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


class _Limit:
    """The limit that is in force, and the number of blocks that run under it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.limiter: Any = None
        self.blocks = 0


_limit = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Restrict BLAS to one thread while the block runs, for all threads of this process."""
    with _limit.lock:
        if not _limit.blocks:
            _limit.limiter = controller().limit(limits=1)
        _limit.blocks += 1
    try:
        yield
    finally:
        with _limit.lock:  # the last block to end restores the limit
            _limit.blocks -= 1
            if not _limit.blocks:
                _limit.limiter.restore_original_limits()
                _limit.limiter = None


@functools.cache
def one_thread_for_good() -> None:
    """Restrict BLAS to one thread for the rest of this worker process."""
    controller().limit(limits=1)
