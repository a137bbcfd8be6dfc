"""Endpoints that read what happened in a bandit; the dashboard uses no others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from itertools import islice

from rolin.service.endpoint import BANDIT, Call, Endpoint, Reply
from rolin.service.errors import Refusal
from rolin.service.statistics.estimates import SORTS, page_of
from rolin.service.statistics.fold import Statistics
from rolin.service.statistics.promises import promises_of
from rolin.service.statistics.report import lift_of, summary_of
from rolin.service.statistics.schema import (
    ArmEstimates,
    KeyInfo,
    LiftAnswer,
    Reading,
    RecentDecisions,
    Summary,
)
from rolin.service.statistics.series import RANGES

__all__ = ["STATISTICS_ENDPOINTS"]

_PAGE = 500  # arms of a page


async def _summary(call: Call) -> Reply:
    engine = await call.engine()
    range_ = _one_of(call.query, "range", tuple(RANGES), "24h")
    bandit = engine.bandit.bandit

    def make(statistics: Statistics, reading: Reading) -> Summary:
        now, written = time.time(), engine.written_at
        stats = bandit.stats()
        promises = promises_of(
            statistics,
            problem=engine.problem,
            durable=bandit.journal.durable,
            storage=stats.storage,
            written=None if written is None else now - written,
            queued=stats.queued,
        )
        return summary_of(statistics, reading, engine.info(), promises, range_, now)

    return Reply(200, await engine.watch.answer(make))


async def _estimates(call: Call) -> Reply:
    engine = await call.engine()
    sorts = tuple(sign + name for name in SORTS for sign in ("", "-"))
    sort = _one_of(call.query, "sort", sorts, "-pulls")
    offset = _whole(call.query, "offset", 0, 0, 1 << 31)
    limit = _whole(call.query, "limit", 50, 1, _PAGE)
    search = call.query.get("search", "")
    beliefs = await asyncio.to_thread(engine.beliefs.get)

    def make(statistics: Statistics, _: Reading) -> ArmEstimates:
        return page_of(beliefs, statistics.arms, search, sort, offset, limit)

    return Reply(200, await engine.watch.answer(make))


async def _recent(call: Call) -> Reply:
    engine = await call.engine()
    last = _whole(call.query, "last", 50, 1, 200)
    outcome = _one_of(call.query, "outcome", ("any", "waiting", "reward", "expired"), "any")

    def make(statistics: Statistics, _: Reading) -> RecentDecisions:
        fitting = (made for made in reversed(statistics.recent) if outcome in ("any", made.outcome))
        return RecentDecisions(list(islice(fitting, last)))

    return Reply(200, await engine.watch.answer(make))


async def _lift(call: Call) -> Reply:
    engine = await call.engine()
    by = _one_of(call.query, "by", ("control", "share"), "control")
    return Reply(
        200,
        await engine.watch.answer(
            lambda statistics, _: lift_of(statistics, "share" if by == "share" else "control")
        ),
    )


async def _key(call: Call) -> Reply:
    assert call.key is not None  # the endpoint has a scope
    return Reply(200, KeyInfo(call.key.name, sorted(call.key.scopes)))


def _one_of(query: Mapping[str, str], name: str, known: tuple[str, ...], default: str) -> str:
    given = query.get(name, default)
    if given not in known:
        raise Refusal(400, f"{name}={given!r}, expected one of {', '.join(known)}", field=name)
    return given


def _whole(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    given = query.get(name, str(default))
    # `isdecimal` alone takes digits of all scripts.
    if not (given.isascii() and given.isdecimal() and len(given) < 12):
        raise Refusal(400, f"{name}={given!r}, expected a whole number", field=name)
    if not least <= int(given) <= most:
        raise Refusal(400, f"{name}={given}, expected {least} to {most}", field=name)
    return int(given)


STATISTICS_ENDPOINTS = [
    Endpoint("GET", "/v1/key", "read", _key, "Read the name and the scopes of the key", None, KeyInfo),
    Endpoint(
        "GET", f"{BANDIT}/summary", "read", _summary, "Read what happened: counts over time, and the state of promises",
        None, Summary, 200, {"range": f"the time to show: {', '.join(RANGES)}"},
    ),
    Endpoint(
        "GET", f"{BANDIT}/estimates", "read", _estimates, "Read what the bandit believes of its arms", None,
        ArmEstimates, 200,
        {
            "search": "a part of the name",
            "sort": f"what to sort by: {', '.join(SORTS)}; with a minus, the largest first",
            "offset": "number of arms to skip",
            "limit": f"number of arms, at most {_PAGE}",
        },
    ),
    Endpoint(
        "GET", f"{BANDIT}/decisions", "read", _recent, "Read the latest decisions", None, RecentDecisions, 200,
        {"last": "how many, at most 200", "outcome": "any (the default), waiting, reward or expired"},
    ),
    Endpoint(
        "GET", f"{BANDIT}/lift", "read", _lift, "Estimate the gain of the policy over another group", None,
        LiftAnswer, 200, {"by": "control: the control group; share: the people outside the share"},
    ),
]  # fmt: skip
"""All endpoints about statistics."""
