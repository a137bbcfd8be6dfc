"""When a request is sent again, and when the client gives up. It says what to do next, and others do it.

A flow is a generator. It yields steps, to send a request or to wait, and gets the answer or the error of each.
`rolin.client.running` takes the steps, one way for threads and another for event loops.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import httpx

from rolin.client.answers import refusal
from rolin.client.requests import Answer, Request
from rolin.errors import ServiceError, ServiceUnavailable, UnexpectedAnswer

__all__ = ["Flow", "Limits", "Send", "Step", "Wait", "ask"]

T = TypeVar("T")
_FIRST_WAIT = 0.05  # seconds; each further wait is up to twice as long
_LONGEST_WAIT = 2.0
# Nothing was sent, so any request can be sent again.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_NO_ANSWER = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError, httpx.ProxyError)  # fmt: skip
_BUSY = 429  # refused before it was looked at
# It is not known whether it was done. A proxy says with 502 and 504 that it lost the connection, or got no answer in time.
_UNKNOWN = (502, 503, 504)


class Send(NamedTuple):
    """The step to send a request and to return its answer."""

    request: Request
    until: float
    """When to give up, by the clock `time.monotonic`."""


class Wait(NamedTuple):
    """The step to wait."""

    seconds: float


Step = Send | Wait
Flow = Generator[Step, Any, T]


class Limits(NamedTuple):
    """How long calls may take, and how often they are sent again."""

    timeout: float
    """Seconds that a call may take, with all attempts."""
    slow_timeout: float
    """The same for calls that work on a whole log or a catalogue."""
    attempt_timeout: float | None
    """Seconds that one attempt may take; `None` for all that is left."""
    retries: int
    """How often a request is sent again."""

    def until(self, request: Request) -> float:
        """Return when to give up a request that is sent now."""
        return monotonic() + (self.slow_timeout if request.slow else self.timeout)


def ask(request: Request, limits: Limits, until: float | None = None) -> Flow[Answer]:
    """Send a request until it succeeds, fails for good, or no time is left; return its answer.

    Parameters
    ----------
    request
        The request.
    limits
        How long it may take, and how often it is sent again.
    until
        When to give up, if other requests share the time.
    """
    begin = monotonic()
    until = limits.until(request) if until is None else until
    attempt = 0
    while True:
        one = until
        if limits.attempt_timeout is not None and not request.slow:
            one = min(until, monotonic() + limits.attempt_timeout)
        try:
            answer: Answer = yield Send(request, one)
        except _NO_ANSWER as error:
            failure: ServiceError = _no_answer(request, error, attempt + 1, monotonic() - begin)
            again, least = request.repeatable or isinstance(error, _NOT_SENT), 0.0
        except httpx.DecodingError as error:
            raise UnexpectedAnswer(
                f"{request}: unexpected answer: {error}", code="unexpected_answer"
            ) from error
        else:
            if 200 <= answer.status < 300:
                return answer
            failure = refusal(request, answer)
            again = answer.status == _BUSY or (request.repeatable and answer.status in _UNKNOWN)
            least = _retry_after(answer)
        seconds = least + random.uniform(0.0, min(_LONGEST_WAIT, _FIRST_WAIT * 2**attempt))
        if request.once or not again or attempt >= limits.retries or monotonic() + seconds >= until:
            raise failure
        yield Wait(seconds)
        attempt += 1


def _no_answer(
    request: Request, error: Exception, attempts: int, seconds: float
) -> ServiceUnavailable:
    why = str(error) or type(error).__name__
    times = "" if attempts == 1 else f" and {attempts} attempts"
    failure = ServiceUnavailable(
        f"{request}: no answer after {seconds:.2g} s{times}: {why}", code="no_answer"
    )
    failure.__cause__ = error
    return failure


def _retry_after(answer: Answer) -> float:
    """Return the seconds that the service asks to wait."""
    try:
        return max(0.0, float(answer.headers.get("retry-after", 0.0)))
    except ValueError:  # a date, which only proxies send
        return 0.0
