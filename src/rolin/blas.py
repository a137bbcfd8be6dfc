"""One thread for BLAS: sums come out the same wherever they are made, and workers keep to their core."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

from rolin.extras import needs

__all__ = ["controller", "one_thread", "one_thread_for_good"]


@functools.cache
def controller() -> Any:
    """Return what sets the number of BLAS threads; looking for the libraries takes 10 ms."""
    with needs("sim"):
        from threadpoolctl import ThreadpoolController
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Leave BLAS one thread while the block runs, in all threads of this process."""
    limited: AbstractContextManager[Any] = controller().limit(limits=1)
    return limited


@functools.cache
def one_thread_for_good() -> None:
    """Leave BLAS one thread in a worker process, whose threads may share it."""
    controller().limit(limits=1)
