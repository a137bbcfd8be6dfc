"""Apply a function to many items: in threads of this process, on Dask or on Ray.

Results come back in the order of the items, so sums do not depend on which worker was faster. If a worker dies, the
engine replaces it and repeats its item; every result is returned once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from rolin._support.optional import needs
from rolin.errors import EngineError, ParameterError

__all__ = ["Engine", "check_engine", "check_n_jobs", "connected", "each", "worker_count"]

Engine = Literal["dask", "ray"]
Item = TypeVar("Item")
Result = TypeVar("Result")
# Items submitted per worker: one that it works on, and two that wait.
_AHEAD = 3
# Seconds to wait for the first worker of a cluster.
_TIMEOUT = 60


def check_engine(engine: object, address: object, known: Iterable[str] = get_args(Engine)) -> None:
    """Reject an unknown engine, and an address without an engine."""
    if engine is not None and engine not in tuple(known):
        raise ParameterError(f"engine={engine!r}, expected None or one of {', '.join(known)}")
    if address is not None and (engine is None or not isinstance(address, str)):
        raise ParameterError(
            f"address={address!r}, expected the address of a cluster, together with engine=…"
        )


def check_n_jobs(n_jobs: object) -> None:
    """Reject an impossible number of workers."""
    if n_jobs is not None and (type(n_jobs) is not int or n_jobs == 0):
        raise ParameterError(f"n_jobs={n_jobs!r}, expected a number of workers, -1 for all cores")


def worker_count(n_jobs: int | None) -> int:
    """Return the number of workers that `n_jobs` means, as in joblib and scikit-learn.

    `None` is 1, -1 is the number of cores, -2 is one less, and so on, but at least 1.
    """
    if n_jobs is None or n_jobs > 0:
        return n_jobs or 1
    return max(1, _n_cores() + 1 + n_jobs)


def _n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    engine: Engine | None,
    address: str | None = None,
    n_jobs: int | None = None,
    what: str = "",
) -> Iterator[Result]:
    """Yield the result of every item, in the order of the items.

    Parameters
    ----------
    function
        The function of an item. If a worker dies, it is called again.
    items
        The items.
    engine
        `"dask"` or `"ray"`; `None` for threads of this process.
    address
        Address of a cluster. By default the one that this process is connected to, or else a new one on this
        machine, which ends with the work.
    n_jobs
        Number of threads, or of workers of a new cluster on this machine; -1 for all cores, `None` for 1.
    what
        The kind of item, for errors, such as "run".
    """
    with _POOLS[engine](address, n_jobs) as pool:
        yield from _in_order(function, items, what, pool)


def connected(
    engine: Engine | None, address: str | None = None, n_jobs: int | None = None
) -> AbstractContextManager[Any]:
    """Stay connected to an engine while the block runs, so that several calls of `each` start it once.

    Parameters
    ----------
    engine
        `"dask"` or `"ray"`; `None` for threads of this process, which need no connection.
    address
        As in `each`.
    n_jobs
        As in `each`.
    """
    return nullcontext() if engine is None else _POOLS[engine](address, n_jobs)


def _in_order(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    what: str,
    pool: Pool,
) -> Iterator[Any]:
    """Yield results in order, with just enough items submitted to keep all workers busy."""
    waiting: deque[tuple[Any, Any]] = deque()
    left = iter(items)
    try:
        while True:
            room = max(1, _AHEAD * pool.workers() - len(waiting))
            waiting.extend((item, pool.submit(function, item)) for item in islice(left, room))
            if not waiting:
                return
            item, task = waiting.popleft()
            yield _result(pool.result, task, f"{what} {item}".strip())
    finally:
        for _, task in waiting:  # nobody waits for these results any more
            pool.cancel(task)


def _result(result: Callable[[Any], Any], task: Any, item: str) -> Any:
    try:
        return result(task)
    except _Died as died:
        raise EngineError(
            f"workers died repeatedly at {item}, perhaps for lack of memory: {died}"
        ) from died.__cause__


class _Died(Exception):
    """The workers of an item died."""


class Pool(NamedTuple):
    """The workers of an engine."""

    submit: Callable[..., Any]
    """Start a function with an item, and return its task."""
    result: Callable[[Any], Any]
    """Wait for a task, and return its result."""
    workers: Callable[[], int]
    """Return the number of workers."""
    cancel: Callable[[Any], object]
    """Cancel a task."""


@contextmanager
def _threads(_address: None, n_jobs: int | None) -> Iterator[Pool]:
    n = worker_count(n_jobs)
    executor = ThreadPoolExecutor(n)
    try:
        yield Pool(
            executor.submit, lambda task: task.result(), lambda: n, lambda task: task.cancel()
        )
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
                n_workers=worker_count(n_jobs), threads_per_worker=1, dashboard_address=None
            )
    else:
        try:
            client = own = distributed.Client(address)
            client.wait_for_workers(1, timeout=_TIMEOUT)
        except (OSError, ValueError, TypeError) as error:  # a TimeoutError is an OSError
            raise EngineError(f"no Dask cluster answers at {address}: {error}") from error

    def result(task: Any) -> Any:
        try:
            return task.result()
        except distributed.KilledWorker as error:
            raise _Died(str(error).splitlines()[0]) from error

    def submit(function: Any, item: Any) -> Any:
        return client.submit(function, item, pure=False)

    try:
        yield Pool(
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
            f"address={address!r}, but this process is connected to Ray already: leave the address out"
        )
    if own:
        cluster: dict[str, Any] = (
            {"num_cpus": worker_count(n_jobs), "include_dashboard": False}
            if address is None
            else {"address": address}
        )
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **cluster)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise EngineError(f"no Ray cluster answers at {address}: {error}") from error
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
        yield Pool(submit, result, lambda: int(ray.cluster_resources().get("CPU", 1)), ray.cancel)
    finally:
        if own:
            ray.shutdown()


def _called(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


_POOLS: dict[str | None, Callable[..., AbstractContextManager[Pool]]] = {
    None: _threads,
    "dask": _dask,
    "ray": _ray,
}
