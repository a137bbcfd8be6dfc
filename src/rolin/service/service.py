"""All parts of a running service: its bandits, keys, limits and counters, and what it does from time to time."""

from __future__ import annotations

import asyncio
import gc
import logging
from pathlib import Path
from typing import Any

import rolin
from rolin.errors import RolinError
from rolin.features import Boolean, Category, Number
from rolin.service import schema
from rolin.service.bandits import Bandits, read_bandits
from rolin.service.demo import visit_for_ever
from rolin.service.engine import Engine, Limits
from rolin.service.keys import Keys
from rolin.service.metrics import Metrics
from rolin.service.settings import Settings
from rolin.service.storage import Storage, open_storage

__all__ = ["DEFAULT", "Service"]

DEFAULT = "default"
"""The bandit that a new service has."""
_EXPIRE_EVERY = 5.0  # seconds between two looks for windows that have ended
_FOLLOW_EVERY = 0.25  # seconds between two looks at what other processes have done
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
        self.bandits: Bandits
        self._declared = read_bandits(Path(settings.data) / "bandits.toml")
        self._phase: str | None = "it is starting"  # `None` between start and stop
        self._tasks: list[asyncio.Task[Any]] = []

    async def start(self) -> None:
        """Open the data folder, create the first bandit, and compile what decisions need."""
        settings = self.settings
        limits = Limits(settings.max_arms, settings.max_batch, settings.request_timeout / 4)
        self.storage = await asyncio.to_thread(open_storage, settings, limits.lock_timeout)
        self.bandits = Bandits(self.storage, limits, fall_back=self._falls_back)
        await self.bandits.apply(self._declared)
        if not self.bandits.names():
            await self.bandits.create_unless_exists(schema.NewBandit(name=DEFAULT))
        for name in self.bandits.names():  # windows end also where nobody asks
            try:
                await self.bandits.get(name)
            except RolinError as error:
                _log.error("bandit %s cannot be opened: %s", name, error)
        await asyncio.to_thread(_warm_up)
        # Objects that live as long as the service are no longer looked at when garbage is collected. A request makes
        # hundreds of objects but no cycles, so with the usual thresholds a tenth of the time went into looking for them.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 50, 50)
        self._tasks = [asyncio.create_task(self._expire_for_ever())]
        if self.storage.is_shared:
            self._tasks.append(asyncio.create_task(self._follow_for_ever()))
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
        await asyncio.to_thread(self.keys.close)

    async def _expire_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRE_EVERY)
            for engine in self.bandits.opened():
                await self.look_after(engine)

    async def _follow_for_ever(self) -> None:
        """See what other processes have done. Whoever writes sees it in any case, so a moment does not matter."""
        problem = ""
        while True:
            await asyncio.sleep(_FOLLOW_EVERY)
            try:
                await self.bandits.follow()
                await asyncio.to_thread(self.keys.look)
                problem = ""
            except RolinError as error:  # such as a server that restarts
                if str(error) != problem:
                    _log.warning("%s", error)
                problem = str(error)
            except Exception:
                _log.exception("following other processes failed")

    async def look_after(self, engine: Engine) -> None:
        """Close decisions whose window has ended; if the journal could not be written, see whether it can be again."""
        try:
            if engine.problem is not None:
                await engine.snapshot()
            self.metrics.expired(engine.name, await engine.expire())
        except RolinError as error:  # such as a full disk: tried again later
            _log.warning("bandit %s: %s", engine.name, error)
        except Exception:  # the windows of other bandits end all the same
            _log.exception("bandit %s", engine.name)


def _warm_up() -> None:
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
