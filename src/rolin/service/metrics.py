"""What the service counts, for Prometheus."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import rolin
from rolin.service.bandit_metrics import BANDIT_METRICS, READY
from rolin.service.engine import Engine
from rolin.service.exposition import Histogram, Metric, Sample, text_of

__all__ = ["METRICS", "Metrics", "metrics_table"]

REQUESTS = Metric(
    "rolin_requests_total", "counter", ("method", "route", "status"),
    "Requests by route and status. Those that fit no route are counted as other.",
)  # fmt: skip
SECONDS = Metric(
    "rolin_request_seconds", "histogram", ("route",), "Time from a request to its answer."
)
SERVICE_READY = Metric(
    "rolin_ready", "gauge", (), "1 if /readyz has status 200, otherwise 0."
)  # fmt: skip
STALE = Metric(
    "rolin_stale_seconds", "gauge", (),
    "Time since the process has last seen what others wrote to the database it shares with them.",
)  # fmt: skip
BUILD = Metric(
    "rolin_build_info", "gauge", ("version", "python"), "Always 1; its labels say what runs."
)
CPU = Metric(
    "process_cpu_seconds_total", "counter", (), "CPU time of the process, user and system."
)
MEMORY = Metric("process_resident_memory_bytes", "gauge", (), "Resident memory; only on Linux.")
START = Metric(
    "process_start_time_seconds",
    "gauge",
    (),
    "When the service was started, in seconds since 1970.",
)
METRICS = (REQUESTS, SECONDS, SERVICE_READY, STALE, *BANDIT_METRICS, BUILD, CPU, MEMORY, START)
"""All metrics, in the order of the documentation."""

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Metrics:
    """Counters of requests, and the text of all metrics."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._start = time.time()

    def request(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count a request that was answered."""
        if method not in _METHODS:  # anybody can make up others
            method = "other"
        with self._lock:
            self._requests[method, route, status] += 1
            if seconds is None:
                return
            found = self._seconds.get(route)
            if found is None:
                found = self._seconds[route] = Histogram(_BOUNDS)
            found.add(seconds)

    def text(
        self,
        engines: Iterable[Engine],
        broken: Iterable[str],
        *,
        ready: bool,
        stale: float | None = None,
    ) -> str:
        """Return everything in the format of Prometheus. It reads files, so the event loop should not wait for it.

        Parameters
        ----------
        engines
            The bandits that are open.
        broken
            Names of those that cannot be opened.
        ready
            Whether the service is ready.
        stale
            Seconds since it has seen what other processes wrote; `None` if there are none.
        """
        return text_of(METRICS, self._samples(engines, broken, ready=ready, stale=stale))

    def _samples(
        self, engines: Iterable[Engine], broken: Iterable[str], *, ready: bool, stale: float | None
    ) -> Iterator[Sample]:
        with self._lock:
            requests = list(self._requests.items())
            seconds = [(route, found.copy()) for route, found in self._seconds.items()]
        for (method, route, status), n in requests:
            yield Sample(REQUESTS, (method, route, str(status)), n)
        for route, found in seconds:
            yield Sample(SECONDS, (route,), found)
        yield Sample(SERVICE_READY, (), int(ready))
        if stale is not None:
            yield Sample(STALE, (), stale)
        for name in broken:
            yield Sample(READY, (name,), 0)
        for engine in engines:
            yield from engine.samples()
        yield Sample(BUILD, (rolin.__version__, platform.python_version()), 1)
        yield Sample(CPU, (), time.process_time())
        if sys.platform == "linux":
            with suppress(OSError, ValueError):
                yield Sample(MEMORY, (), _resident_memory())
        yield Sample(START, (), self._start)


def _resident_memory() -> int:
    """Return the resident memory of this process, in bytes."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def metrics_table() -> str:
    """Return all metrics as a Markdown table, for the documentation."""
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for each in METRICS:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        lines.append(f"| `{each.name}` | {each.kind} | {labels} | {each.meaning} |")
    return "\n".join(lines) + "\n"
