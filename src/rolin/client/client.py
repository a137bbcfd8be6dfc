"""The clients: one for threads, one for event loops."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Mapping
from typing import Any, Self

import httpx

from rolin.client.answers import check_done, member, value_of
from rolin.client.bandit import AsyncRemoteBandit, RemoteBandit
from rolin.client.pools import AsyncPool, Pool
from rolin.client.requests import Request, encoded, path_of
from rolin.client.retrying import Flow, Limits, ask
from rolin.client.running import AsyncConnection, AsyncRunner, Connection, Runner, call
from rolin.errors import ParameterError, ServiceUnavailable, UnexpectedAnswer

__all__ = ["AsyncClient", "Client"]

_URL = "http://127.0.0.1:8000"


class _ClientCalls:
    """What can be asked of a service, beside its bandits."""

    url: str
    _limits: Limits

    @call
    def bandits(self) -> Flow[list[str]]:
        """Return the names of all bandits."""
        request = Request("GET", path_of("bandits"))
        answer = yield from ask(request, self._limits)
        names: list[str] = member(request, value_of(request, answer), "bandits", list)
        return names

    @call
    def create_bandit(
        self,
        name: str,
        *,
        policy: str | None = None,
        options: Mapping[str, Any] | None = None,
        features: Mapping[str, Any] | None = None,
        rewards: Mapping[str, Any] | None = None,
        retention: float | None = None,
        settings: Mapping[str, Any] | None = None,
        state: bytes | None = None,
    ) -> Flow[dict[str, Any]]:
        """Create a bandit; return its description.

        If the connection is lost, it is not sent again: the second request would be refused although the first one
        succeeded.

        Parameters
        ----------
        name
            Its name.
        policy
            Name of a policy; by default `RoLinTS`.
        options
            Its options.
        features
            `{"kind": "hashed"}`, which is the default; `{"kind": "vectors", "n_features": 10}`; or a feature map.
        rewards
            What becomes of rewards, such as `{"window": 3600, "default": 0}`.
        retention
            Age in seconds at which decisions are erased; by default they are kept.
        settings
            Settings such as `{"floor": 0.01}`.
        state
            Content of a state file, to start with what it has learned.
        """
        given = {
            "policy": policy,
            "options": options,
            "features": features,
            "rewards": rewards,
            "retention": retention,
            "settings": settings,
            "state": None if state is None else base64.b64encode(state).decode(),
        }
        body = encoded({"name": name} | {n: v for n, v in given.items() if v is not None})
        request = Request("POST", path_of("bandits"), body, repeatable=False, slow=True)
        answer = yield from ask(request, self._limits)
        return value_of(request, answer)

    @call
    def delete_bandit(self, name: str) -> Flow[None]:
        """Delete a bandit and its journal.

        If the connection is lost, it is not sent again: somebody may have created another bandit of this name.

        Parameters
        ----------
        name
            Its name.
        """
        request = Request("DELETE", path_of("bandits", name), repeatable=False, slow=True)
        check_done(request, (yield from ask(request, self._limits)))

    @call
    def ready(self) -> Flow[bool]:
        """Return whether the service can answer requests; it is asked once."""
        request = Request("GET", "/readyz")
        try:
            yield from ask(request, self._limits._replace(retries=0))
        except (ServiceUnavailable, UnexpectedAnswer):
            return False
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


class Client(_ClientCalls, Runner):
    """A client of the decision service. Several threads can use it at once, and forked processes open their own connections.

    Parameters
    ----------
    url
        Address of the service, with the path of a proxy if there is one; by default the environment variable
        `ROLIN_URL`, or `http://127.0.0.1:8000`.
    key
        API key; by default the environment variable `ROLIN_API_KEY`.
    timeout
        Seconds that a call may take, with all retries. Then it raises `ServiceUnavailable`, or returns the fallback. Only
        `Client` cannot limit how long the system looks up the name of the service.
    slow_timeout
        The same for calls that work on a whole log or a catalogue, such as `export`.
    attempt_timeout
        Seconds that one attempt may take; by default all that is left of `timeout`.
    retries
        How often a request is sent again if the service does not answer or asks to wait.
    http
        An `httpx.Client` to send with, for example one with other certificates; by default a new one. You close it, and a
        forked process needs another one.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8000", key="my-key") as client:
    ...     client.bandit("offers")
    RemoteBandit('offers' at 'http://127.0.0.1:8000')
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout: float = 5.0,
        slow_timeout: float = 300.0,
        attempt_timeout: float | None = None,
        retries: int = 2,
        http: httpx.Client | None = None,
    ) -> None:
        self._limits = _limits(timeout, slow_timeout, attempt_timeout, retries)
        self.url = _url(url)
        """Address of the service."""
        self._connection = Connection(self.url, _key(key), self._limits, Pool(http))

    def bandit(self, name: str) -> RemoteBandit:
        """Return a bandit by name; nothing is sent.

        Parameters
        ----------
        name
            Its name.
        """
        return RemoteBandit(name, self._connection)

    def close(self) -> None:
        """Close all connections."""
        self._connection.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_ClientCalls, AsyncRunner):
    """A client of the decision service for event loops: the calls of `Client`, with `await`.

    It opens connections of their own on every event loop that uses it.

    Parameters
    ----------
    url, key, timeout, slow_timeout, attempt_timeout, retries
        As in `Client`.
    http
        An `httpx.AsyncClient` to send with, on one event loop only; by default a new one.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout: float = 5.0,
        slow_timeout: float = 300.0,
        attempt_timeout: float | None = None,
        retries: int = 2,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._limits = _limits(timeout, slow_timeout, attempt_timeout, retries)
        self.url = _url(url)
        """Address of the service."""
        self._connection = AsyncConnection(self.url, _key(key), self._limits, AsyncPool(http))

    def bandit(self, name: str) -> AsyncRemoteBandit:
        """Return a bandit by name; nothing is sent.

        Parameters
        ----------
        name
            Its name.
        """
        return AsyncRemoteBandit(name, self._connection)

    async def close(self) -> None:
        """Close the connections of this event loop; those of other loops are closed when their loops are gone."""
        await self._connection.pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _url(given: str | None) -> str:
    url = given or os.environ.get("ROLIN_URL") or _URL
    try:
        parsed = httpx.URL(url)
        valid = parsed.scheme in ("http", "https") and parsed.host and not parsed.query
    except (httpx.InvalidURL, TypeError):
        valid = False
    if not valid:
        raise ParameterError(f"url={url!r}, expected an address such as {_URL}")
    return url.rstrip("/")


def _key(given: str | None) -> str | None:
    key = given or os.environ.get("ROLIN_API_KEY")
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ParameterError("key=***, expected printable ASCII characters, without spaces")
    return key


def _limits(
    timeout: float, slow_timeout: float, attempt_timeout: float | None, retries: int
) -> Limits:
    seconds: Mapping[str, float | None] = {
        "timeout": timeout,
        "slow_timeout": slow_timeout,
        "attempt_timeout": attempt_timeout,
    }
    for name, value in seconds.items():
        if value is not None and not 0.0 < value < math.inf:
            raise ParameterError(f"{name}={value!r}, expected a number of seconds above 0")
    if type(retries) is not int or retries < 0:
        raise ParameterError(f"retries={retries!r}, expected a whole number of at least 0")
    return Limits(timeout, slow_timeout, attempt_timeout, retries)
