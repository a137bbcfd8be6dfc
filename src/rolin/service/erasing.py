"""Erase decisions of a bandit: some of them, or all that are older than the retention."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from rolin.bandit import Bandit
from rolin.errors import InputError
from rolin.service import schema
from rolin.service.places import ERASURE, refusal_at

__all__ = ["Eraser"]

# Old decisions: these take 40 ms, of which 25 ms are for the state of 256 features.
_AT_ONCE = 200


class Eraser:
    """Erases decisions, and empties the journal's log, which may hold their bytes.

    Parameters
    ----------
    bandit
        The bandit.
    """

    def __init__(self, bandit: Bandit[Any]) -> None:
        self._bandit = bandit
        self._log_to_wipe = False

    async def erase(self, request: schema.Erasure) -> schema.ErasureAnswer:
        """Erase decisions; return how many, and whether their bytes are gone."""
        try:
            erased = await asyncio.to_thread(
                self._bandit.erase,
                ids=request.ids,
                person=request.person,
                older_than=request.older_than,
                wipe=False,
            )
        except InputError as error:
            raise refusal_at(error, ERASURE) from error
        return schema.ErasureAnswer(erased, await self._wipe_log())

    async def retain(self, retention: float | None, expire: Callable[[], Awaitable[int]]) -> int:
        """Erase decisions that are older than the retention, and return how many.

        Each step lets other requests write for as long as it took itself.

        Parameters
        ----------
        retention
            In seconds; `None` erases nothing.
        expire
            Closes decisions whose window has ended. It is called first, because what ends with a window is learned then.
        """
        bandit, total = self._bandit, 0
        if self._log_to_wipe:
            await self._wipe_log()
        if retention is None or (before := bandit.now() - retention) <= 0.0:
            return 0
        end = datetime.fromtimestamp(before, UTC)
        await expire()
        erased = _AT_ONCE
        while erased == _AT_ONCE:
            start = perf_counter()
            erased = await asyncio.to_thread(
                bandit.erase, older_than=end, limit=_AT_ONCE, wipe=False
            )
            total += erased
            await asyncio.sleep(perf_counter() - start)
        if total:
            await self._wipe_log()
        return total

    async def _wipe_log(self) -> bool:
        """Empty the log; if another process reads it, do it later."""
        wiped = await asyncio.to_thread(self._bandit.journal.wipe_log)
        self._log_to_wipe = not wiped
        return wiped
