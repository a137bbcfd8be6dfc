"""All parts of a running service: its bandits, keys, limits and counters, and what it does from time to time."""

from __future__ import annotations

import asyncio
import gc
import logging
from pathlib import Path
from time import monotonic
from typing import Any

import rolin
from rolin.errors import RolinError
from rolin.features import Boolean, Category, Number
from rolin.service import schema
from rolin.service.bandits import Bandits, read_bandits
from rolin.service.data_folder import mark_folder
from rolin.service.demo import visit_for_ever
from rolin.service.engine import Engine, Limits
from rolin.service.keys import Keys
from rolin.service.metrics import Metrics
from rolin.service.settings import Settings

__all__ = ["DEFAULT", "Service", "warm_up"]

DEFAULT = "default"
"""The bandit that a new service has."""
_EXPIRE_EVERY = 5.0  # seconds between two looks for windows that have ended
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
        self.bandits: Bandits
        mark_folder(settings.data)
        self._declared = read_bandits(Path(settings.data) / "bandits.toml")
        self._phase: str | None = "it is starting"  # `None` between start and stop
        self._warned: dict[str, int] = {}  # sizes of logs
        self._tasks: list[asyncio.Task[Any]] = []

    async def start(self) -> None:
        """Open the data folder, create the first bandit, and compile what decisions need."""
        settings = self.settings
        limits = Limits(settings.max_arms, settings.max_batch, settings.request_timeout / 4)
        self.bandits = Bandits(
            Path(settings.data), limits, fall_back=self._falls_back, compress=settings.compress
        )
        await self.bandits.apply(self._declared)
        if not self.bandits.names():
            await self.bandits.create(schema.NewBandit(name=DEFAULT))
        for name in self.bandits.names():  # windows end also where nobody asks
            try:
                await self.bandits.get(name)
            except RolinError as error:
                _log.error("bandit %s cannot be opened: %s", name, error)
        await asyncio.to_thread(warm_up)
        # Objects that live as long as the service are no longer looked at when garbage is collected. A request makes
        # hundreds of objects but no cycles, so with the usual thresholds a tenth of the time went into looking for them.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 50, 50)
        self._tasks = [asyncio.create_task(self._expire_for_ever())]
        if self._demo:
            self._tasks.append(asyncio.create_task(visit_for_ever(self.bandits)))
        self._phase = None

    @property
    def _falls_back(self) -> bool:
        return self.settings.fallback == "baseline"

    @property
    def problem(self) -> str | None:
        """What is wrong at present; `None` if all is well."""
        if self._phase is not None:
            return self._phase
        problems = (f"bandit {e.name}: {e.problem}" for e in self.bandits.opened() if e.problem)
        return next(problems, None)

    @property
    def is_ready(self) -> bool:
        """Whether it can answer requests."""
        return self._phase is None and (self._falls_back or self.problem is None)

    async def stop(self) -> None:
        """End what runs in the background, and close all journals."""
        self._phase = "it is stopping"
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.bandits.close()

    async def _expire_for_ever(self) -> None:
        retain_at = monotonic()
        while True:
            await asyncio.sleep(_EXPIRE_EVERY)
            retain = monotonic() >= retain_at
            if retain:
                retain_at = monotonic() + _RETAIN_EVERY
            for engine in self.bandits.opened():
                await self.look_after(engine, retain=retain)

    async def look_after(self, engine: Engine, *, retain: bool = True) -> None:
        """Close decisions whose window has ended, and erase old ones; see whether the journal can be written again.

        Parameters
        ----------
        engine
            The bandit.
        retain
            Whether to erase decisions that are older than the retention.
        """
        try:
            if engine.problem is not None:
                await engine.snapshot()
            self.metrics.expired(engine.name, await engine.expire())
            if retain and (erased := await engine.retain()):
                _log.info(
                    "bandit %s: erased %d decisions after their retention", engine.name, erased
                )
            self._watch_log(engine)
        except RolinError as error:  # such as a full disk: tried again later
            _log.warning("bandit %s: %s", engine.name, error)
        except Exception:  # the windows of other bandits end all the same
            _log.exception("bandit %s", engine.name)

    def _watch_log(self, engine: Engine) -> None:
        """Warn if the log of a journal keeps growing; again when it has doubled."""
        size, warned = engine.log_size, self._warned.get(engine.name, _LARGE_LOG // 2)
        if size >= 2 * warned:
            self._warned[engine.name] = size
            _log.warning(
                "bandit %s: the write-ahead log has %d MB, because another process has been reading the journal for long",
                engine.name,
                size >> 20,
            )
        elif size < _LARGE_LOG:
            self._warned.pop(engine.name, None)


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
