"""The service as an ASGI application: check the key, read the body, call the handler, encode the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from time import perf_counter
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from rolin.service.dashboard.files import DASHBOARD_ROUTES
from rolin.service.decoding import decode
from rolin.service.errors import CODES, Failure, Refusal, failure_of
from rolin.service.json_text import check_json
from rolin.service.keys import Key, Keys
from rolin.service.limits import RateLimit
from rolin.service.openapi import document, human_page
from rolin.service.personalizer import PERSONALIZER
from rolin.service.personalizer.schema import MultiSlotRankResponse, RankResponse
from rolin.service.routes import ENDPOINTS, Call, Endpoint, Reply
from rolin.service.schema import DecisionAnswer, DecisionRequest
from rolin.service.service import Service
from rolin.service.settings import Settings

__all__ = ["create_app"]

_log = logging.getLogger("rolin.service")
_encode = msgspec.json.Encoder().encode
_NOTHING: AbstractContextManager[Any] = nullcontext()


def create_app(settings: Settings, keys: Keys, *, demo: bool = False) -> Starlette:
    """Return the application.

    Parameters
    ----------
    settings
        The settings.
    keys
        Who may use it.
    demo
        Whether to add simulated visitors.
    """
    service = Service(settings, keys, demo=demo)
    rates = RateLimit(settings.rate, settings.burst)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        check_json(b"{}", 1)  # compiled now, so that no request waits for it
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = Starlette(
        routes=[
            Route(each.path, _endpoint(each, service, rates), methods=[each.method])
            for each in [*ENDPOINTS, *PERSONALIZER]
        ]
        + [
            Route(path, _page(path, made, service))
            for path, made in (("/", _home), ("/openapi.json", _openapi), ("/docs", _docs))
        ]
        + DASHBOARD_ROUTES,
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # a path with a slash too many is none of ours
    app.state.service = service
    return app


def _page(
    path: str, made: Callable[[], Response], service: Service
) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that answers with a page."""

    async def answer(request: Request) -> Response:
        start = perf_counter()
        response = made()
        seconds = perf_counter() - start
        service.note_answer(request.method, path, response.status_code, seconds)
        return response

    return answer


def _home() -> Response:
    return RedirectResponse("/dashboard")


def _openapi() -> Response:
    return Response(_encode(document()), media_type="application/json")


def _docs() -> Response:
    return HTMLResponse(human_page())


class _About(NamedTuple):
    """What a request was about, for logs and traces."""

    bandit: str | None
    decision: str | None
    mode: str | None

    @classmethod
    def of(cls, path: Mapping[str, str], body: Any, content: Any) -> _About:
        """Return what path, body and answer say; there may be none of the last two."""
        decision, mode = path.get("id"), None
        if isinstance(content, DecisionAnswer):
            decision, mode = content.id, content.mode
        elif isinstance(content, (RankResponse, MultiSlotRankResponse)):
            decision = content.event_id
        elif isinstance(body, DecisionRequest):
            decision = body.id
        return cls(path.get("name"), decision, mode)


def _endpoint(
    endpoint: Endpoint, service: Service, rates: RateLimit
) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that answers the requests of one endpoint."""
    settings = service.settings
    decoder = None
    is_refused = settings.read_only and not (
        endpoint.scope in (None, "read") or endpoint.unrecorded
    )
    is_streamed = endpoint.decoded_as is AsyncIterator
    if endpoint.body not in (None, bytes):
        decoder = msgspec.json.Decoder(endpoint.decoded_as or endpoint.body)

    async def answer(request: Request) -> Response:
        start, tracing = perf_counter(), service.tracing
        method, route = endpoint.method, endpoint.path
        traced = _NOTHING if tracing is None else tracing.request(method, route, request.headers)
        with traced as span:
            response, about = await answered(request)
            if tracing is not None:
                tracing.answered(span, response.status_code, *about)
            seconds = perf_counter() - start
            service.note_answer(
                method, route, response.status_code, seconds, about.bandit, about.decision
            )
        return response

    async def answered(request: Request) -> tuple[Response, _About]:
        path, seconds = request.path_params, settings.request_timeout
        body: Any = None
        content: Any = None
        has_arrived = endpoint.body is None or is_streamed
        try:
            key = None
            if endpoint.scope is not None:
                key = _authorize(service.keys, endpoint, request.headers, rates)
            if is_refused:
                raise Refusal(
                    403,
                    "this service is read-only: send the request to one that writes to the database",
                )
            async with asyncio.timeout(seconds) as deadline:
                if is_streamed:
                    body = _parts(request, settings.max_catalogue, seconds)
                elif endpoint.body is not None:
                    body = await _read(request, settings.max_body)
                    has_arrived = True
                    if decoder is not None:
                        check_json(body, settings.max_depth)
                        body = decode(decoder, body)
                if request.scope["query_string"]:
                    _check_query(endpoint, request.query_params)
                if endpoint.slow:
                    deadline.reschedule(None)
                call = Call(service, path, request.query_params, request.headers, body, key)
                reply = await endpoint.handler(call)
            content = reply.content
            response = _response(reply)
        # Open requests are cancelled when the time to drain is over.
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, TimeoutError) and not has_arrived:
                error = Refusal(408, f"the body did not arrive within {seconds:g} s")
            about = _About.of(path, body, content)
            response = _failed(endpoint, error, about, service.problems.get(about.bandit or ""))
        return response, _About.of(path, body, content)

    return answer


def _authorize(keys: Keys, endpoint: Endpoint, headers: Mapping[str, str], rates: RateLimit) -> Key:
    text = endpoint.dialect.key_of(headers)
    key = None if text is None else keys.find(text)
    if key is None:
        raise Refusal(
            401,
            f"the request has no valid key, expected the header {endpoint.dialect.expected_key}",
        )
    if not key.allows(str(endpoint.scope)):
        raise Refusal(403, f"the key {key.name!r} has no scope {endpoint.scope!r}")
    wait = rates.wait(key.id)
    if wait > 0.0:
        raise Refusal(
            429, f"the key {key.name!r} sends too many requests", retry_after=int(wait) + 1
        )
    return key


def _check_query(endpoint: Endpoint, given: Mapping[str, str]) -> None:
    """Reject parameters that do not exist, so that a misspelt one does not go unnoticed."""
    for name in given:
        if name not in endpoint.query:
            known = f"expected {', '.join(endpoint.query)}" if endpoint.query else "expected none"
            raise Refusal(400, f"there is no parameter {name!r}, {known}", field=name)


async def _read(request: Request, most: int) -> bytes:
    """Return the body of a request; stop reading when it is too large."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":  # nobody reads the answer, but it is counted
            raise Refusal(400, "the connection ended before the body did")
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise Refusal(413, f"the body is larger than {most} bytes")
        parts.append(part)
        if not message.get("more_body", False):
            return part if len(parts) == 1 else b"".join(parts)


async def _parts(request: Request, most: int, seconds: float) -> AsyncIterator[bytes]:
    """Yield the body of a request in parts; stop when it is too large, or when a part does not arrive in time."""
    stream, size = request.stream(), 0
    while True:
        try:
            async with asyncio.timeout(seconds):
                part = await anext(stream, None)
        except TimeoutError:
            raise Refusal(408, f"no part of the body arrived within {seconds:g} s") from None
        except ClientDisconnect:
            raise Refusal(400, "the connection ended before the body did") from None
        if part is None:
            return
        size += len(part)
        if size > most:
            raise Refusal(413, f"the body is larger than {most} bytes")
        yield part


def _response(reply: Reply) -> Response:
    status, content, media_type = reply
    if content is None:
        return Response(status_code=status)
    if isinstance(content, AsyncIterator):
        return StreamingResponse(content, status, media_type=media_type)
    data = content if isinstance(content, bytes) else _encode(content)
    return Response(data, status, media_type=media_type)


def _failed(
    endpoint: Endpoint,
    error: Exception | asyncio.CancelledError,
    about: _About,
    problem: str | None,
) -> Response:
    """Return the answer to a request that failed, perhaps because of a problem of its bandit."""
    if isinstance(error, (TimeoutError, asyncio.CancelledError)):
        why = "the service stops"
        if isinstance(error, TimeoutError):
            why = "there was no answer in time" + (f": {problem}" if problem else "")
        error = Refusal(
            503,
            f"{why}; repeat the request with the same id to see whether it was recorded",
            retry_after=1,
        )
    failure = failure_of(error)
    if failure.status == 500 or isinstance(error, OSError):
        extra = {"bandit": about.bandit, "decision": about.decision, "status": failure.status}
        # A full disk and the like need no traceback, which is for mistakes of the service.
        why, shown = (": " + str(error), None) if failure.status != 500 else ("", error)
        _log.error(
            "%s %s failed%s", endpoint.method, endpoint.path, why, exc_info=shown, extra=extra
        )
    return _failure(failure, endpoint.dialect.error_of(failure))


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer a path or a method that does not exist."""
    assert isinstance(error, HTTPException)
    request.app.state.service.note_answer(request.method, "other", error.status_code, None)
    code = CODES.get(error.status_code, "invalid_request")
    failure = Failure(error.status_code, code, f"{error.detail}".lower())
    is_personalizer = "/personalizer" in request.url.path
    dialect = (PERSONALIZER if is_personalizer else ENDPOINTS)[0].dialect
    response = _failure(failure, dialect.error_of(failure))
    if error.status_code == 405:
        fits = (route for route in request.app.routes if route.path_regex.match(request.url.path))
        methods = {method for route in fits for method in route.methods}
        response.headers["Allow"] = ", ".join(sorted(methods))
    return response


def _failure(failure: Failure, body: dict[str, object]) -> Response:
    headers = {}
    if failure.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if failure.retry_after is not None:
        headers["Retry-After"] = str(failure.retry_after)
    return Response(_encode(body), failure.status, headers, media_type="application/json")
