"""How many requests a key may send."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

__all__ = ["RateLimit"]


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
