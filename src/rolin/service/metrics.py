"""What the service counts, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rolin.service.engine import Engine

__all__ = ["Metrics"]

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """Counters of requests, decisions and rewards."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._within: Counter[tuple[str, float]] = Counter()
        self._decisions: Counter[tuple[str, str]] = Counter()
        self._rewards: Counter[tuple[str, str]] = Counter()
        self._expired: Counter[str] = Counter()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests[method, route, status] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]  # a counter of floats
        for bound in _BOUNDS:
            if seconds <= bound:
                self._within[route, bound] += 1
                break

    def decision(self, bandit: str, kind: str) -> None:
        """Count a decision: of the policy, the baseline, the control group, or a fallback."""
        self._decisions[bandit, kind] += 1

    def reward(self, bandit: str, status: str) -> None:
        """Count a reward by what became of it."""
        self._rewards[bandit, status] += 1

    def expired(self, bandit: str, arms: int) -> None:
        """Count arms whose window has ended."""
        self._expired[bandit] += arms

    def text(self, engines: Iterable[Engine]) -> str:
        """Return everything in the format of Prometheus."""
        return "\n".join([*self._lines(engines), ""])

    def _lines(self, engines: Iterable[Engine]) -> Iterator[str]:
        yield from _head("rolin_requests_total", "counter", "Requests by route and status.")
        for (method, route, status), n in sorted(self._requests.items()):
            yield f'rolin_requests_total{{method="{method}",route="{route}",status="{status}"}} {n}'
        yield from self._histogram()
        yield from _head("rolin_decisions_total", "counter", "Decisions by bandit and who decided.")
        for (bandit, kind), n in sorted(self._decisions.items()):
            yield f'rolin_decisions_total{{bandit="{bandit}",by="{kind}"}} {n}'
        yield from _head(
            "rolin_rewards_total", "counter", "Rewards by bandit and what became of them."
        )
        for (bandit, became), n in sorted(self._rewards.items()):
            yield f'rolin_rewards_total{{bandit="{bandit}",status="{became}"}} {n}'
        yield from _head("rolin_expired_total", "counter", "Arms whose reward window has ended.")
        for bandit, n in sorted(self._expired.items()):
            yield f'rolin_expired_total{{bandit="{bandit}"}} {n}'
        yield from _head("rolin_events", "gauge", "Number of the last event of each open bandit.")
        for engine in engines:
            yield f'rolin_events{{bandit="{engine.name}"}} {engine.bandit.bandit.version}'

    def _histogram(self) -> Iterator[str]:
        name = "rolin_request_seconds"
        yield from _head(name, "histogram", "Time from a request to its answer.")
        counts: Counter[str] = Counter()
        for (_, route, _), n in self._requests.items():
            counts[route] += n
        for route, n in sorted(counts.items()):
            total = 0
            for bound in _BOUNDS:
                total += self._within[route, bound]
                yield f'{name}_bucket{{route="{route}",le="{bound:g}"}} {total}'
            yield f'{name}_bucket{{route="{route}",le="+Inf"}} {n}'
            yield f'{name}_sum{{route="{route}"}} {self._seconds[route]:.6f}'
            yield f'{name}_count{{route="{route}"}} {n}'


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
