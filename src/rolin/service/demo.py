"""Simulated visitors for `rolin serve --demo`: a world that the features explain only half."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import numpy as np

from rolin.errors import RolinError
from rolin.service import schema
from rolin.service.bandits import Bandits

__all__ = ["DEMO", "World", "visit_for_ever"]

DEMO = "demo"
"""The bandit that the visitors use."""
_PAUSE = 0.02  # seconds between two visitors
_WINDOW = 60.0  # seconds after which no reward is expected
_SILENT, _LATE = 0.05, 0.02  # shares of visitors whose reward never comes, or too late
_PEOPLE = 2000  # visitors who come again
_REPORT = 250  # visitors between two lines of the report, after the first ones
_FIRST_REPORTS = (25, 50, 100)
_log = logging.getLogger("rolin.service")


class World:
    """Articles and visitors: half of the differences between articles can be told from their features.

    Parameters
    ----------
    seed
        Seed of the articles and of the visitors.
    """

    def __init__(self, seed: int = 3) -> None:
        self._rng = np.random.default_rng(seed)
        topics = ["news", "sport", "food", "travel"]
        self._taste = dict(zip(topics, self._rng.normal(0.0, 0.2, 4), strict=True))
        self.articles = [
            {"id": f"article-{k}", "features": {"topic": topics[k % 4], "age": float(k % 5)}}
            for k in range(12)
        ]
        # What no feature tells: the headline is good or bad.
        self._headline = self._rng.normal(0.0, 0.2, len(self.articles))

    def visitor(self) -> dict[str, Any]:
        """Return the situation of the next visitor."""
        return {"hour": int(self._rng.integers(24)), "phone": bool(self._rng.random() < 0.6)}

    def rates(self, situation: dict[str, Any]) -> dict[str, float]:
        """Return the probability of each article to be read."""
        evening = 0.05 if situation["hour"] >= 18 else 0.0
        found = {}
        for k, article in enumerate(self.articles):
            features: Any = article["features"]
            rate = 0.3 + self._taste[features["topic"]] - 0.02 * features["age"]
            rate += self._headline[k] + (evening if features["topic"] == "food" else 0.0)
            found[str(article["id"])] = float(np.clip(rate, 0.02, 0.98))
        return found

    def is_read(self, rate: float) -> bool:
        """Return whether a visitor reads an article."""
        return bool(self._rng.random() < rate)

    def person(self) -> str:
        """Return who the next visitor is."""
        return f"visitor-{self._rng.integers(_PEOPLE)}"

    def delay(self) -> float | None:
        """Return the seconds until it is known whether an article was read; `None` if that is never known."""
        chance = self._rng.random()
        if chance < _SILENT:
            return None
        if chance < _SILENT + _LATE:
            return 1.2 * _WINDOW
        return float(min(self._rng.lognormal(0.5, 1.0), 0.5 * _WINDOW))


async def visit_for_ever(bandits: Bandits, *, visitors: int | None = None) -> list[str]:
    """Let visitors come, one after the other; log how often they read what is shown, and return these lines.

    Parameters
    ----------
    bandits
        The bandits of the service; the one of the demo is created.
    visitors
        Number of visitors, each of whom is waited for; by default they never end, and rewards come later.
    """
    if DEMO not in bandits.names():
        await bandits.create(
            schema.NewBandit(
                name=DEMO,
                features={
                    "kind": "map",
                    "situation": {"phone": {"kind": "boolean"}},
                    "arm": {
                        "topic": {
                            "kind": "category",
                            "values": ["news", "sport", "food", "travel"],
                        },
                        "age": {"kind": "number", "scale": 5.0},
                    },
                },
                rewards=schema.RewardChange(window=_WINDOW),
                settings=schema.Settings(control_share=0.1),
            )
        )
    engine, world = await bandits.get(DEMO), World()
    arms: list[str | schema.Arm] = [msgspec.convert(each, schema.Arm) for each in world.articles]
    lines: list[str] = []
    shown: list[float] = []
    others: list[tuple[float, float]] = []
    n = 0

    async def report(id: str, read: bool, delay: float) -> None:
        try:
            await asyncio.sleep(delay)
            await engine.reward(id, schema.RewardRequest(float(read)))
        except RolinError as error:
            _log.warning("demo: %s", error)

    async with asyncio.TaskGroup() as reports:
        while visitors is None or n < visitors:
            n += 1
            situation = world.visitor()
            rates = world.rates(situation)
            try:
                answer = await engine.decide(
                    schema.DecisionRequest(arms=arms, situation=situation, person=world.person())
                )
                read = world.is_read(rates[answer.arm])
                delay = 0.0 if visitors is not None else world.delay()
                if delay is not None:
                    made = reports.create_task(report(answer.id, read, delay))
                    if not delay:
                        await made
            except RolinError as error:
                _log.warning("demo: %s", error)
            else:
                if not answer.control:
                    shown.append(rates[answer.arm])
                    others.append((float(np.mean(list(rates.values()))), max(rates.values())))
            if (n % _REPORT == 0 or n in _FIRST_REPORTS) and shown:
                chance, best = np.mean(others, axis=0)
                lines.append(
                    f"demo: {n} visitors; of the latest, {np.mean(shown):.0%} read the article that the policy shows "
                    f"(by chance {chance:.0%}, at best {best:.0%})"
                )
                _log.info(lines[-1])
                shown, others = [], []
            if visitors is None:
                await asyncio.sleep(_PAUSE)
    return lines
