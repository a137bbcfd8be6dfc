"""Two ways to take the steps of a flow: in this thread, or on an event loop. Everything else is common to both."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from io import BytesIO
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, Generic, ParamSpec, TypeVar, overload

import anyio
import httpx

from rolin._support.files import replace_file
from rolin.client.deadlines import Left, limit_streams
from rolin.client.pools import AsyncPool, Pool
from rolin.client.requests import Answer
from rolin.client.retrying import Flow, Limits, Send, Wait
from rolin.errors import ServiceError, UnexpectedAnswer

__all__ = ["AsyncConnection", "AsyncRunner", "Connection", "Runner", "call"]

T = TypeVar("T")
P = ParamSpec("P")
_ENCODINGS = ("gzip", "deflate")
_LARGEST = 1 << 26  # bytes of an answer that is not written to a file
_GRACE = (
    0.05  # seconds; the timeouts of httpx come first, because they say whether the request was sent
)


class _Address:
    """Where the service is, how requests are authorized, and how long they may take."""

    def __init__(self, url: str, key: str | None, limits: Limits) -> None:
        self.url, self.limits = url, limits
        self._headers = {"Accept-Encoding": ", ".join(_ENCODINGS)}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a client cannot be pickled, because it has connections and a key; expected a new one in each process"
        )

    def arguments(self, step: Send) -> dict[str, Any]:
        """Return the arguments of `httpx.Client.stream`."""
        request = step.request
        return {
            "method": request.method,
            "url": self.url + request.path,
            "params": dict(request.params) or None,
            "content": self._body(request.content),
            "headers": self._headers,
            "extensions": {"timeout": Left(step.until)},
        }

    def _body(self, content: Any) -> Any:
        """Return a body as httpx takes it."""
        return content() if callable(content) else content


@contextmanager
def _received(step: Send, response: httpx.Response) -> Iterator[BinaryIO]:
    """Open what a body is written to: memory, or a file that appears under its name when it is complete."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    # With several encodings, one upon the other, a small answer could become as large as they like.
    if encoding not in ("identity", *_ENCODINGS):
        raise _unusable(step, f"Content-Encoding {encoding!r:.100}, expected {_ENCODINGS}")
    path = step.request.into
    if path is None or response.status_code >= 300:
        yield BytesIO()
    else:
        with replace_file(path) as temporary, temporary.open("wb") as file:
            yield file


def _add(step: Send, content: BinaryIO, part: bytes) -> None:
    """Write a part of a body."""
    content.write(part)
    if isinstance(content, BytesIO) and content.tell() > _LARGEST:
        raise _unusable(step, f"more than {_LARGEST} bytes")
    if monotonic() > step.until:
        raise httpx.ReadTimeout("the answer is too long for the time that is left")


def _answer(response: httpx.Response, content: BinaryIO) -> Answer:
    found = content.getvalue() if isinstance(content, BytesIO) else b""
    return Answer(response.status_code, response.headers, found)


def _unusable(step: Send, why: str) -> UnexpectedAnswer:
    return UnexpectedAnswer(f"{step.request}: unexpected answer: {why}", code="unexpected_answer")


class Connection(_Address):
    """Takes the steps of flows in the thread that calls; several threads may use it at once."""

    def __init__(self, url: str, key: str | None, limits: Limits, pool: Pool) -> None:
        super().__init__(url, key, limits)
        self.pool = pool

    def run(self, flow: Flow[T]) -> T:
        """Take all steps of a flow; return its result."""
        try:
            step = next(flow)
            while True:
                try:
                    found = self._take(step)
                except (httpx.RequestError, ServiceError) as error:
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
        arguments = self.arguments(step)
        arguments["extensions"]["trace"] = limit_streams
        with (
            self.pool.http().stream(**arguments) as response,
            _received(step, response) as content,
        ):
            for part in response.iter_bytes():
                _add(step, content, part)
            return _answer(response, content)


class AsyncConnection(_Address):
    """Takes the steps of flows on an event loop."""

    def __init__(self, url: str, key: str | None, limits: Limits, pool: AsyncPool) -> None:
        super().__init__(url, key, limits)
        self.pool = pool

    async def run(self, flow: Flow[T]) -> T:
        """Take all steps of a flow; return its result."""
        try:
            step = next(flow)
            while True:
                try:
                    found = await self._take(step)
                except (httpx.RequestError, ServiceError) as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(found)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()  # if it was interrupted or cancelled

    def _body(self, content: Any) -> Any:
        return _each(content()) if callable(content) else content

    async def _take(self, step: Send | Wait) -> Answer | None:
        if isinstance(step, Wait):
            await anyio.sleep(step.seconds)
            return None
        with anyio.move_on_after(step.until - monotonic() + _GRACE):
            return await self._send(step)
        raise httpx.ReadTimeout("no time is left")

    async def _send(self, step: Send) -> Answer:
        async with self.pool.http().stream(**self.arguments(step)) as response:
            with _received(step, response) as content:
                async for part in response.aiter_bytes():
                    _add(step, content, part)
                return _answer(response, content)


async def _each(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


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
