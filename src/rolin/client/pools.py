"""The connections of a client: new ones in a process that was forked, and on another event loop.

Two processes that write to the same connection get the answers of each other.
"""

from __future__ import annotations

import os
import uuid

import httpx
from anyio.lowlevel import RunVar

from rolin.errors import ServiceError

__all__ = ["AsyncPool", "Pool"]


class Pool:
    """The connections of a client for threads.

    Parameters
    ----------
    given
        What to send with; by default something new.
    """

    def __init__(self, given: httpx.Client | None) -> None:
        self._given, self._closed = given, False
        self._tls = httpx.create_ssl_context() if given is None else None
        self._http, self._process = given or self._new(), os.getpid()

    def _new(self) -> httpx.Client:
        assert self._tls is not None
        return httpx.Client(verify=self._tls)

    def http(self) -> httpx.Client:
        """Return what to send with in this process."""
        if self._process != os.getpid():
            if self._given is not None:
                raise _not_shared("process")
            # The old one is not closed, because a thread of the parent may have held its lock.
            self._http = self._new()
            self._process = os.getpid()
        _check_open(self._closed or self._http.is_closed)
        return self._http

    def close(self) -> None:
        """Close the connections, unless they were given."""
        if self._given is None and self._process == os.getpid():
            self._http.close()
        self._closed = self._given is None


class AsyncPool:
    """The connections of a client for event loops.

    Parameters
    ----------
    given
        What to send with; by default something new on each event loop.
    """

    def __init__(self, given: httpx.AsyncClient | None) -> None:
        self._given, self._closed = given, False
        self._tls = httpx.create_ssl_context() if given is None else None
        # A variable per event loop; some versions of anyio tell variables apart by their name.
        self._here = RunVar[tuple[int, httpx.AsyncClient] | None](f"rolin {uuid.uuid4()}", None)
        self._used = False

    def http(self) -> httpx.AsyncClient:
        """Return what to send with on this event loop."""
        process, http = self._here.get() or (0, None)
        if http is None or process != os.getpid():
            if self._given is not None and self._used:
                raise _not_shared("event loop")
            http = self._given or httpx.AsyncClient(verify=self._tls or True)
            self._here.set((os.getpid(), http))
            self._used = True
        _check_open(self._closed or http.is_closed)
        return http

    async def close(self) -> None:
        """Close the connections of this event loop, unless they were given."""
        process, http = self._here.get() or (0, None)
        if self._given is None and http is not None and process == os.getpid():
            await http.aclose()
        self._closed = self._given is None


def _not_shared(kind: str) -> ServiceError:
    return ServiceError(
        f"the client was made with http=… in another {kind}, and its connections cannot be shared; expected a client "
        f"that is made in this {kind}, or one without http",
        code="not_shared",
    )


def _check_open(closed: bool) -> None:
    if closed:
        raise ServiceError("the client is closed, expected one that is open", code="closed")
