"""A limit to the whole time of a request. By themselves, the timeouts of httpx start again with every byte that comes."""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import Any

import httpcore

__all__ = ["Left", "limit_streams"]

_PART = 16384  # bytes; the time is checked before each part that is written


class _Seconds(float):
    """The time that was left when a part of a request began, and when it ends."""

    until: float


class Left(dict[str, float]):
    """The timeouts of one attempt: each part of it (connect, write, read) gets what is left of the whole time.

    Parameters
    ----------
    until
        When to give up, by the clock `time.monotonic`.
    """

    def __init__(self, until: float) -> None:
        super().__init__()
        self._until = until

    def get(self, key: str, default: Any = None) -> float:
        """Return the seconds that are left."""
        left = _Seconds(max(self._until - monotonic(), 0.001))  # 0 would mean not to block at all
        left.until = self._until
        return left


def limit_streams(event: str, info: dict[str, Any]) -> None:
    """Let a new connection look at the clock before each read and write; httpx calls it for what happens in a request."""
    if event.endswith(("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")):  # fmt: skip
        stream = info["return_value"]
        stream.read = partial(_read, stream.read)
        stream.write = partial(_write, stream.write)


def _read(read: Any, max_bytes: int, timeout: float | None = None) -> Any:
    return read(max_bytes, timeout=_left(timeout, httpcore.ReadTimeout))


def _write(write: Any, buffer: bytes, timeout: float | None = None) -> None:
    for k in range(0, len(buffer), _PART):
        write(buffer[k : k + _PART], timeout=_left(timeout, httpcore.WriteTimeout))


def _left(timeout: float | None, kind: type[Exception]) -> float | None:
    if not isinstance(timeout, _Seconds):  # a request of somebody else
        return timeout
    if (left := timeout.until - monotonic()) <= 0.0:
        raise kind("no time is left")
    return left
