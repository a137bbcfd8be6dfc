"""Limits of requests: how deep a body may be, and how many requests a key may send."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import numpy as np

__all__ = ["RateLimit", "depth_of", "is_deeper"]

_OTHERS = bytes(set(range(256)) - set(b'[{]}"'))
_AS_ONE_KIND = bytes.maketrans(b"[{]}", b"(())")
_STEPS = bytes.maketrans(b"()", b"\x01\xff")  # +1 and -1 as signed bytes
_SHORT = 4096  # brackets that take microseconds per level


def depth_of(body: bytes) -> int:
    """Return how many objects and lists of a JSON text are inside each other, at most.

    The text is not parsed. If it is invalid, the depth is at least that of the part before the first error, which is
    all that a parser reads.

    >>> depth_of(b'{"a": [1, {"b": "[[["}]}')
    3
    """
    return _depth_of(_brackets_of(body))


def _depth_of(brackets: bytes) -> int:
    steps = np.frombuffer(brackets.translate(_STEPS), np.int8)
    return int(steps.cumsum(dtype=np.int32).max(initial=0))


def is_deeper(body: bytes, most: int) -> bool:
    """Return whether `depth_of` a JSON text is more than `most`, in half the time."""
    if len(body) <= most:
        return False
    left = brackets = _brackets_of(body)
    for _ in range(most):
        before = len(left)
        left = left.replace(b"()", b"")  # the innermost level of every branch
        if not left:
            return False
        if len(left) > max(_SHORT, before * 3 // 4):
            break  # no usual body: every level might take as long as this one
    return _depth_of(brackets) > most


def _brackets_of(body: bytes) -> bytes:
    """Return the brackets of a JSON text that are not inside of strings, as ( and )."""
    if b"\\" in body:
        # Afterwards every quote begins or ends a string.
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A string without brackets is now two quotes in a row. Removing two in a row never moves another bracket into a
    # string or out of it, and leaves little to split.
    kept = body.translate(_AS_ONE_KIND, _OTHERS).replace(b'""', b"")
    return b"".join(kept.split(b'"')[::2]) if b'"' in kept else kept


class RateLimit:
    """A token bucket per key: it holds `burst` requests, and gets `rate` more per second.

    Parameters
    ----------
    rate
        Requests per second; 0 is no limit.
    burst
        Requests at once, after a pause.
    clock
        Seconds of a clock that never goes back.

    Examples
    --------
    >>> now = 0.0
    >>> limit = RateLimit(2.0, 3, clock=lambda: now)
    >>> [limit.wait("a") for _ in range(4)], limit.wait("b")
    ([0.0, 0.0, 0.0, 0.5], 0.0)
    >>> now = 0.5
    >>> limit.wait("a"), limit.wait("a")
    (0.0, 0.5)
    """

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and when there were as many

    def wait(self, key: str) -> float:
        """Count a request of a key and return 0, or return the seconds until the key may send the next one.

        A request that has to wait does not count.
        """
        if not self._rate:
            return 0.0
        now = self._clock()
        tokens, then = self._buckets.get(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        if tokens < 1.0:
            return (1.0 - tokens) / self._rate
        self._buckets[key] = tokens - 1.0, now
        return 0.0
