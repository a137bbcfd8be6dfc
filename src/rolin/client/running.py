"""Two ways to take the steps of a flow: in this thread, or on an event loop. Everything else is common to both."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, Generic, ParamSpec, TypeVar, overload

import anyio
import httpx

from rolin._support.files import replace_file
from rolin.client.requests import Answer
from rolin.client.retrying import Flow, Limits, Send, Wait

__all__ = ["AsyncConnection", "AsyncRunner", "Connection", "Runner", "call"]

T = TypeVar("T")
P = ParamSpec("P")


class _Left(dict[str, float]):
    """The timeouts of one attempt: each part of it (connect, write, read) gets what is left of the whole time."""

    def __init__(self, until: float) -> None:
        super().__init__()
        self.until = until

    def get(self, key: str, default: Any = None) -> float:
        return max(self.until - monotonic(), 0.001)  # 0 would mean not to block at all


class _Address:
    """Where the service is, how requests are authorized, and how long they may take."""

    def __init__(self, url: str, key: str | None, limits: Limits) -> None:
        self.url, self.limits = url, limits
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def arguments(self, step: Send) -> dict[str, Any]:
        """Return the arguments of `httpx.Client.stream`."""
        request = step.request
        return {
            "method": request.method,
            "url": self.url + request.path,
            "params": dict(request.params) or None,
            "content": request.content,
            "headers": self._headers,
            "extensions": {"timeout": _Left(step.until)},
        }


@contextmanager
def _file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under its name when it is complete."""
    with replace_file(path) as temporary, temporary.open("wb") as file:
        yield file


def _check_time(step: Send) -> None:
    if monotonic() > step.until:
        raise httpx.ReadTimeout("the answer is too long for the time that is left")


class Connection(_Address):
    """Takes the steps of flows in the thread that calls; several threads may use it at once."""

    def __init__(self, url: str, key: str | None, limits: Limits, http: httpx.Client) -> None:
        super().__init__(url, key, limits)
        self.http = http

    def run(self, flow: Flow[T]) -> T:
        """Take all steps of a flow; return its result."""
        try:
            step = next(flow)
            while True:
                try:
                    found = self._take(step)
                except httpx.TransportError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(found)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()  # if it was interrupted or cancelled

    def _take(self, step: Send | Wait) -> Answer | None:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        with self.http.stream(**self.arguments(step)) as response:
            into = step.request.into
            if into is None or response.status_code >= 300:
                return Answer(response.status_code, response.headers, response.read())
            with _file(into) as file:
                for part in response.iter_bytes():
                    file.write(part)
                    _check_time(step)
            return Answer(response.status_code, response.headers, b"")


class AsyncConnection(_Address):
    """Takes the steps of flows on an event loop."""

    def __init__(self, url: str, key: str | None, limits: Limits, http: httpx.AsyncClient) -> None:
        super().__init__(url, key, limits)
        self.http = http

    async def run(self, flow: Flow[T]) -> T:
        """Take all steps of a flow; return its result."""
        try:
            step = next(flow)
            while True:
                try:
                    found = await self._take(step)
                except httpx.TransportError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(found)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()  # if it was interrupted or cancelled

    async def _take(self, step: Send | Wait) -> Answer | None:
        if isinstance(step, Wait):
            await anyio.sleep(step.seconds)
            return None
        async with self.http.stream(**self.arguments(step)) as response:
            into = step.request.into
            if into is None or response.status_code >= 300:
                return Answer(response.status_code, response.headers, await response.aread())
            with _file(into) as file:
                async for part in response.aiter_bytes():
                    file.write(part)
                    _check_time(step)
            return Answer(response.status_code, response.headers, b"")


class Runner:
    """Has calls that return their result."""

    _connection: Connection

    def _run(self, flow: Flow[T]) -> T:
        return self._connection.run(flow)


class AsyncRunner:
    """Has calls whose result is awaited."""

    _connection: AsyncConnection

    def _run(self, flow: Flow[T]) -> Coroutine[Any, Any, T]:
        return self._connection.run(flow)


if TYPE_CHECKING:

    class call(Generic[P, T]):  # noqa: N801  # a decorator
        """Make a method of a flow: it returns the result, or something to await, by the class that has it."""

        def __init__(self, flow: Callable[Concatenate[Any, P], Flow[T]]) -> None: ...
        @overload
        def __get__(self, owner: Runner, kind: object = None) -> Callable[P, T]: ...
        @overload
        def __get__(
            self, owner: AsyncRunner, kind: object = None
        ) -> Callable[P, Coroutine[Any, Any, T]]: ...
        def __get__(self, owner: Any, kind: object = None) -> Any: ...

else:

    def call(flow):
        """Make a method of a flow: it returns the result, or something to await, by the class that has it."""

        @wraps(flow)
        def method(self, *args, **options):
            return self._run(flow(self, *args, **options))

        return method
