"""All parts of a running service: its bandits, keys, limits and counters, and what it does from time to time."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import rolin
from rolin.errors import RolinError
from rolin.features import Boolean, Category, Number
from rolin.service import schema
from rolin.service.bandits import Bandits, read_bandits
from rolin.service.data_folder import check_not_moved, mark_folder
from rolin.service.demo import visit_for_ever
from rolin.service.engine import Engine, Limits
from rolin.service.keys import Keys
from rolin.service.logs import log_answer
from rolin.service.metrics import Metrics
from rolin.service.settings import Settings
from rolin.service.storage import Storage, open_storage
from rolin.service.tracing import Tracing

__all__ = ["DEFAULT", "Service", "warm_up"]

DEFAULT = "default"
"""The bandit that a new service has."""
_MAINTAIN_EVERY = 5.0  # seconds between two looks for windows that have ended
_FOLLOW_EVERY = 0.25  # seconds between two looks at what other processes have done
_MOST_STALE = 10.0  # seconds without such a look, after which a read-only service is not ready
_OPEN_EVERY = 6  # such looks, after which bandits that could not be opened are tried again
_RETAIN_EVERY = 60.0  # seconds between two looks for decisions that are too old
# Bytes of a journal's log that are worth a warning. Without readers it has less than 20 MB.
_LARGE_LOG = 64 << 20
_log = logging.getLogger("rolin.service")


class Service:
    """A service, without HTTP.

    Parameters
    ----------
    settings
        The settings.
    keys
        Who may use it.
    demo
        Whether to add simulated visitors.
    """

    def __init__(self, settings: Settings, keys: Keys, *, demo: bool = False) -> None:
        self.settings, self.keys, self._demo = settings, keys, demo
        self.metrics = Metrics()
        self.storage: Storage
        self.tracing = Tracing() if settings.traces else None
        self.bandits: Bandits
        mark_folder(settings.data)
        if settings.database is None:
            check_not_moved(settings.data)
        self._declared = read_bandits(Path(settings.data) / "bandits.toml")
        self._phase: str | None = "it is starting"  # `None` between start and stop
        self._followed = monotonic()
        self._warned: dict[str, int] = {}  # sizes of logs
        self._tasks: list[asyncio.Task[Any]] = []

    async def start(self) -> None:
        """Open the data folder, create the first bandit, and compile what decisions need."""
        settings = self.settings
        limits = Limits(
            settings.max_arms,
            settings.max_depth,
            settings.max_batch,
            settings.request_timeout / 4,
            settings.request_timeout / 2,
            settings.metrics_arms,
        )
        self.storage = await asyncio.to_thread(open_storage, settings, limits.lock_timeout)
        self.bandits = Bandits(
            self.storage, limits, fall_back=self._falls_back, read_only=settings.read_only
        )
        if not settings.read_only:
            await self.bandits.apply(self._declared)
        if not self.bandits.names() and not settings.read_only:
            await self.bandits.create_unless_exists(schema.NewBandit(name=DEFAULT))
        if settings.read_only and not self.bandits.names():
            _log.warning(
                "%s has no bandits, and a read-only service creates none: check the address, or create one with a "
                "service that is not read-only; this one follows within a second",
                self.keys.where,
            )
        for name in self.bandits.names():  # windows end also where nobody asks
            try:
                await self.bandits.get(name)
            except RolinError as error:
                _log.error("bandit %s cannot be opened: %s", name, error, extra={"bandit": name})
            except Exception:  # the others work
                _log.exception("bandit %s cannot be opened", name, extra={"bandit": name})
        await asyncio.to_thread(warm_up)
        # Objects that live as long as the service are no longer looked at when garbage is collected. A request makes
        # hundreds of objects but no cycles, so with the usual thresholds a tenth of the time went into looking for them.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 50, 50)
        self._followed = monotonic()
        if not settings.read_only:
            # Erasing a backlog takes minutes, for which no window may wait.
            self._tasks += [
                asyncio.create_task(self._maintain_for_ever()),
                asyncio.create_task(self._retain_for_ever()),
            ]
        if self.storage.is_shared:
            self._tasks.append(asyncio.create_task(self._follow_for_ever()))
        if self._demo and not settings.read_only:
            self._tasks.append(asyncio.create_task(visit_for_ever(self.bandits)))
        self._phase = None

    @property
    def _falls_back(self) -> bool:
        return self.settings.fallback == "baseline"

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong with bandits at present, by name."""
        if self._phase is not None:
            return {}
        failing = {each.name: each.problem for each in self.bandits.opened() if each.problem}
        return {**self.bandits.broken, **failing}

    @property
    def unready(self) -> str | None:
        """Why it should get no requests; `None` if it is ready.

        One bandit that fails is no reason as long as another one works: a load balancer would take away the whole
        instance. If all of them fail, as on a full disk, another instance may do better.
        """
        if self._phase is not None:
            return self._phase
        if self.settings.read_only and self.stale > _MOST_STALE:
            return f"it has not seen the database for {self.stale:.0f} s"
        opened, problems = self.bandits.opened(), self.problems
        works = any(self._falls_back or each.problem is None for each in opened)
        if works or not problems:
            return None
        return "; ".join(f"bandit {name}: {problem}" for name, problem in sorted(problems.items()))

    @property
    def stale(self) -> float:
        """Seconds since it has last seen what other processes have done."""
        return monotonic() - self._followed

    def metrics_text(self) -> str:
        """Return all metrics, for Prometheus."""
        return self.metrics.text(
            self.bandits.opened(),
            list(self.bandits.broken),
            ready=self.unready is None,
            stale=self.stale if self.storage.is_shared else None,
        )

    def note_answer(
        self,
        method: str,
        route: str,
        status: int,
        seconds: float | None,
        bandit: str | None = None,
        decision: str | None = None,
    ) -> None:
        """Count a request that was answered, and log it if wanted.

        Parameters
        ----------
        method, route
            What was asked; the route as it is declared, without ids.
        status
            The status of the answer.
        seconds
            How long it took; `None` if nothing was done.
        bandit, decision
            What it was about, if known.
        """
        self.metrics.request(method, route, status, seconds)
        if self.settings.access_log:
            log_answer(method, route, status, seconds, bandit, decision)

    async def stop(self) -> None:
        """End what runs in the background, and close all journals."""
        self._phase = "it is stopping"
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.bandits.close()
        await asyncio.to_thread(self.keys.close)
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.close)

    async def _maintain_for_ever(self) -> None:
        for n in count(1):
            await asyncio.sleep(_MAINTAIN_EVERY)
            if n % _OPEN_EVERY == 0:
                await self.bandits.open_broken()
            for engine in self.bandits.opened():
                await self.maintain(engine)

    async def _retain_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_RETAIN_EVERY)
            for engine in self.bandits.opened():
                await self.retain(engine)

    async def _follow_for_ever(self) -> None:
        """See what other processes have done. Whoever writes sees it in any case, so a moment does not matter."""
        problem = ""
        while True:
            await asyncio.sleep(_FOLLOW_EVERY)
            try:
                await self.bandits.follow()
                await asyncio.to_thread(self.keys.look)
                problem = ""
                self._followed = monotonic()
            except RolinError as error:  # such as a server that restarts
                if str(error) != problem:
                    _log.warning("%s", error)
                problem = str(error)
            except Exception:
                _log.exception("following other processes failed")

    async def maintain(self, engine: Engine) -> None:
        """Close decisions whose window has ended, and see whether the journal can be written again.

        Parameters
        ----------
        engine
            The bandit.
        """
        with _noted(engine):
            if engine.problem is not None:
                await engine.snapshot()
            await engine.expire()
            self._watch_log(engine)

    async def retain(self, engine: Engine) -> None:
        """Erase decisions that are older than the retention.

        Parameters
        ----------
        engine
            The bandit.
        """
        with _noted(engine):
            if erased := await engine.retain():
                _log.info(
                    "bandit %s: erased %d decisions after their retention", engine.name, erased
                )

    def _watch_log(self, engine: Engine) -> None:
        """Warn if the log of a journal keeps growing; again when it has doubled."""
        size = engine.bandit.bandit.journal.storage().log_bytes or 0
        warned = self._warned.get(engine.name, _LARGE_LOG // 2)
        if size >= 2 * warned:
            self._warned[engine.name] = size
            _log.warning(
                "bandit %s: the write-ahead log has %d MB, because another process has been reading the journal for long",
                engine.name,
                size >> 20,
            )
        elif size < _LARGE_LOG:
            self._warned.pop(engine.name, None)


@contextmanager
def _noted(engine: Engine) -> Iterator[None]:
    """Log an error of one bandit; what is done for the others goes on."""
    try:
        yield
    except RolinError as error:  # such as a full disk: tried again later
        _log.warning("bandit %s: %s", engine.name, error, extra={"bandit": engine.name})
    except Exception:
        _log.exception("bandit %s", engine.name, extra={"bandit": engine.name})


def warm_up() -> None:
    """Decide and learn with every kind of features, because kernels are compiled or loaded when they are first called."""
    rows: dict[str, dict[str, Any]] = {
        "a": {"x": 1.0, "c": "u", "b": True},
        "b": {"x": 0.5, "c": "v", "b": False},
    }
    fields = {"x": Number(), "c": Category(["u", "v", "w"]), "b": Boolean()}
    declared = rolin.FeatureMap(fields, fields)  # more than 20 features
    for features in (declared, rolin.features.HashedFeatures(), None):
        policy = rolin.RoLinTS(n_features=2 if features is None else features.n_features, seed=0)
        with rolin.Bandit(policy, feature_map=features) as bandit:
            for i in range(25):  # so that scales are learned, too
                if features is None:
                    decision = bandit.decide({"a": [1.0, float(i)], "b": [0.5, 1.0]}, top_k=2)
                else:
                    decision = bandit.decide(rows, situation={"x": float(i), "c": "u"})
                bandit.reward(decision.id, float(i % 3))
