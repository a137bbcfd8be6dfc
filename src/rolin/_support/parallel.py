"""Where work is done: by threads of this process, on Dask or on Ray, each by its own scheduler.

What is to be done is one function and a list of items; results come back in the order of the items,
so that what is made of them does not depend on who was faster. A worker that dies is replaced, and its
item done again, by the engine; what it would have returned is counted once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any, Literal, TypeVar, get_args

from rolin._support.optional import needs
from rolin.errors import EngineError, ParameterError

__all__ = ["Engine", "check_engine", "check_n_jobs", "connected", "each"]

Engine = Literal["dask", "ray"]
Item = TypeVar("Item")
Result = TypeVar("Result")
# Items that are given out for each worker: one that it works on, and some that wait for it.
_AHEAD = 3
# Seconds to wait for the first worker of a cluster.
_PATIENCE = 60


def check_engine(engine: object, address: object, known: Iterable[str] = get_args(Engine)) -> None:
    """Refuse an engine that there is not, and an address without one."""
    if engine is not None and engine not in tuple(known):
        raise ParameterError(f"engine={engine!r}, expected None or one of {', '.join(known)}")
    if address is not None and (engine is None or not isinstance(address, str)):
        raise ParameterError(
            f"address={address!r}, expected that of an engine, which is to be named too"
        )


def check_n_jobs(n_jobs: object) -> None:
    """Refuse a number of workers that there cannot be."""
    if n_jobs is not None and (type(n_jobs) is not int or n_jobs == 0):
        raise ParameterError(f"n_jobs={n_jobs!r}, expected a number of workers, -1 for all cores")


def each(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    engine: Engine | None,
    address: str | None = None,
    n_jobs: int | None = None,
    what: str = "",
) -> Iterator[Result]:
    """Yield the results of all items, in their order.

    Parameters
    ----------
    function
        What is done with an item. It may be done twice, if a worker dies.
    items
        The items.
    engine
        Who does it; `None` for threads of this process.
    address
        Of a cluster; by default the one that this process is connected to, or else one on this machine,
        which ends with the work.
    n_jobs
        Number of threads, or of workers of a cluster on this machine; by default, and if negative, as many as
        there are cores.
    what
        What an item is, for errors; by default its text says it.
    """
    with _POOLS[engine](address, n_jobs) as pool:
        yield from _in_order(function, items, what, *pool)


def connected(
    engine: Engine | None, address: str | None = None, n_jobs: int | None = None
) -> AbstractContextManager[Any]:
    """Stay connected to an engine while the block runs, so that what is done there starts it once.

    Parameters
    ----------
    engine
        Which one; `None` for none.
    address
        As of `each`.
    n_jobs
        As of `each`.
    """
    return nullcontext() if engine is None else _POOLS[engine](address, n_jobs)


def _in_order(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    what: str,
    submit: Callable[..., Any],
    result: Callable[[Any], Any],
    workers: Callable[[], int],
    cancel: Callable[[Any], object],
) -> Iterator[Any]:
    """Keep all workers busy, and no more results waiting than they make meanwhile."""
    waiting: deque[tuple[Any, Any]] = deque()
    left = iter(items)
    try:
        while True:
            room = max(1, _AHEAD * workers() - len(waiting))
            waiting.extend((item, submit(function, item)) for item in islice(left, room))
            if not waiting:
                return
            item, task = waiting.popleft()
            yield _result(result, task, f"{what} {item}".strip())
    finally:
        for _, task in waiting:  # what nobody waits for is not done
            cancel(task)


def _result(result: Callable[[Any], Any], task: Any, item: str) -> Any:
    try:
        return result(task)
    except _Died as died:
        raise EngineError(
            f"workers died again and again at {item}, perhaps for want of memory: {died}"
        ) from died.__cause__


class _Died(Exception):
    """An item whose workers died."""


Pool = tuple[Callable[..., Any], Callable[[Any], Any], Callable[[], int], Callable[[Any], object]]
"""What gives out an item, what waits for its result, how many workers there are, what calls one off."""


@contextmanager
def _threads(_address: None, n_jobs: int | None) -> Iterator[Pool]:
    n = _cores(n_jobs)
    executor = ThreadPoolExecutor(n)
    try:
        yield executor.submit, lambda task: task.result(), lambda: n, lambda task: task.cancel()
    finally:
        executor.shutdown(cancel_futures=True)


@contextmanager
def _dask(address: str | None, n_jobs: int | None) -> Iterator[Pool]:
    with needs("dask"):
        import distributed
    client, own = None, None
    if address is None:
        try:
            client = distributed.default_client()
        except ValueError:
            client = own = distributed.Client(
                n_workers=_cores(n_jobs), threads_per_worker=1, dashboard_address=None
            )
    else:
        try:
            client = own = distributed.Client(address)
            client.wait_for_workers(1, timeout=_PATIENCE)
        except (OSError, ValueError, TypeError) as error:  # among them TimeoutError
            raise EngineError(f"there is no Dask at {address}: {error}") from error

    def result(task: Any) -> Any:
        try:
            return task.result()
        except distributed.KilledWorker as error:
            raise _Died(str(error).splitlines()[0]) from error

    def submit(function: Any, item: Any) -> Any:
        return client.submit(function, item, pure=False)

    try:
        yield (
            submit,
            result,
            lambda: sum(client.nthreads().values()),
            lambda task: task.cancel(),
        )
    finally:
        if own is not None:
            cluster = own.cluster if address is None else None
            own.close()
            if cluster is not None:
                cluster.close()


@contextmanager
def _ray(address: str | None, n_jobs: int | None) -> Iterator[Pool]:
    with needs("ray"):
        import ray
    own = not ray.is_initialized()
    if not own and address is not None:
        raise EngineError(
            f"address={address!r}, but this process is connected to Ray: leave it out"
        )
    if own:
        where: dict[str, Any] = (
            {"num_cpus": _cores(n_jobs), "include_dashboard": False}
            if address is None
            else {"address": address}
        )
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **where)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise EngineError(f"there is no Ray at {address}: {error}") from error
    remotes: dict[Any, Any] = {}

    def submit(function: Any, item: Any) -> Any:
        if function not in remotes:  # sent to the workers once
            remotes[function] = ray.remote(_called), ray.put(function)
        remote, sent = remotes[function]
        return remote.remote(sent, item)

    def result(task: Any) -> Any:
        try:
            return ray.get(task)
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
            raise _Died(str(error).splitlines()[0]) from error
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None

    try:
        yield submit, result, lambda: int(ray.cluster_resources().get("CPU", 1)), ray.cancel
    finally:
        if own:
            ray.shutdown()


def _called(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


def _cores(n_jobs: int | None) -> int:
    if n_jobs is not None and n_jobs > 0:
        return n_jobs
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_POOLS: dict[str | None, Callable[..., AbstractContextManager[Pool]]] = {
    None: _threads,
    "dask": _dask,
    "ray": _ray,
}
