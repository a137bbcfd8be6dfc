"""The catalogue that a bandit decides by: how it is replaced while requests use it, and how it follows other processes.

A request takes its arms from one catalogue. It gets the old or the new one, whole, whenever it is replaced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from time import monotonic
from typing import Any

from rolin.bandit import Bandit
from rolin.errors import RolinError
from rolin.service import schema
from rolin.service.catalogue import StoredCatalogue
from rolin.service.catalogue_place import CataloguePlace, NumberedCatalogue
from rolin.service.errors import Refusal
from rolin.service.retrieval import Retrieval, check_can_search

__all__ = ["ServedCatalogue"]

_AGAIN = 5.0  # seconds after which a catalogue that could not be read is tried again
_log = logging.getLogger("rolin.service")


class ServedCatalogue:
    """The catalogue of a bandit.

    Parameters
    ----------
    name
        Name of the bandit.
    place
        Where its catalogue is stored.
    bandit
        The bandit.
    present
        The catalogue at present.
    """

    def __init__(
        self, name: str, place: CataloguePlace, bandit: Bandit[Any], present: NumberedCatalogue
    ) -> None:
        self._name, self._place, self._bandit = name, place, bandit
        self._number, self._stored = present
        self._retrieval: Retrieval | None = None
        # One search at a time: it uses all cores, and more of them would keep other requests from their threads.
        self._searching, self._preparing = asyncio.Lock(), asyncio.Lock()
        self._changing = asyncio.Lock()
        self._loading: asyncio.Task[None] | None = None
        self._not_before = 0.0

    async def exists(self) -> bool:
        """Return whether there is a catalogue, also if another process has stored it just now."""
        return self._stored is not None or not await self._is_current()

    def info(self) -> schema.CatalogueInfo:
        """Return what the catalogue is."""
        if self._stored is None:
            raise Refusal(404, f"bandit {self._name!r} has no catalogue")
        return self._stored.info

    # -- what requests take from it ------------------------------------------------------------

    async def arms(self, names: Sequence[str]) -> list[schema.Arm]:
        """Return some arms by name; refuse unknown names."""
        try:
            return await self._arms(names)
        except Refusal:
            # Another process may have stored them just now.
            if await self._is_current():
                raise
            await self._loaded()
            return await self._arms(names)

    async def _arms(self, names: Sequence[str]) -> list[schema.Arm]:
        # In a thread, because the lines may have to be read from the disk.
        return await asyncio.to_thread(self._known().arms, names)

    async def find(
        self,
        number: int,
        excluded: Collection[str],
        baseline: str | None,
        key: str,
        situation: Any = None,
    ) -> list[schema.Arm]:
        """Return the best arms in one draw of the policy, best first; fewer if there are not as many.

        Parameters
        ----------
        number
            How many.
        excluded
            Arms to leave out.
        baseline
            An arm that must be among them, instead of the last one.
        key
            The key of the random numbers.
        situation
            The fields of the situation, if the bandit has a feature map.
        """
        check_can_search(self._bandit)
        if self._stored is None and not await self._is_current():
            await self._loaded()
        async with self._searching:
            search = await asyncio.shield(self._search())
            names = await asyncio.to_thread(search.best, number, excluded, key, situation)
        if baseline is not None and baseline not in names:
            if not search.stored.count([baseline]):
                problem = f"baseline={baseline!r}, expected an arm of the catalogue"
                raise Refusal(400, problem, field="baseline")
            names[-1] = baseline
        return await asyncio.to_thread(search.stored.arms, names)

    async def _search(self) -> Retrieval:
        """Return what finds candidates in the present catalogue."""
        async with self._preparing:
            catalogue = self._known()
            if self._retrieval is None or self._retrieval.stored is not catalogue:
                self._retrieval = await asyncio.to_thread(Retrieval, self._bandit, catalogue)
            return self._retrieval

    def _known(self) -> StoredCatalogue:
        if self._stored is None:
            raise Refusal(
                400,
                f"there is no catalogue: PUT /v1/bandits/{self._name}/catalogue stores one",
                field="candidates",
            )
        return self._stored

    # -- replacing it --------------------------------------------------------------------------

    async def store(
        self, parts: AsyncIterator[bytes], check: Callable[[schema.Arm], None], max_depth: int
    ) -> schema.CatalogueInfo:
        """Store a catalogue instead of the present one, if all of it is valid.

        Parameters
        ----------
        parts
            The file.
        check
            Rejects an arm.
        max_depth
            Deepest nesting of features.
        """
        with self._place.arriving() as file:
            async for part in parts:
                await asyncio.to_thread(file.write, part)
            await asyncio.to_thread(file.flush)
            found = await asyncio.to_thread(StoredCatalogue, file, check, max_depth=max_depth)
            search = await self._prepared(found)

            async def put() -> None:
                async with self._changing:
                    number = await asyncio.to_thread(self._place.put, file, found)
                    self._use(NumberedCatalogue(number, found), search)

            await asyncio.shield(put())
        return found.info

    async def delete(self) -> None:
        """Delete the catalogue."""
        async with self._changing:
            existed = await asyncio.to_thread(self._place.delete)
            self._use(NumberedCatalogue(0, None), None)
        if not existed:
            self.info()  # which refuses

    async def _prepared(self, found: StoredCatalogue) -> Retrieval | None:
        """Return what finds candidates in a new catalogue, if that is asked for: no request has to wait for it."""
        if self._retrieval is None:
            return None
        return await asyncio.to_thread(Retrieval, self._bandit, found)

    def _use(self, present: NumberedCatalogue, search: Retrieval | None) -> None:
        self._number, self._stored = present
        self._retrieval = search

    # -- following other processes -------------------------------------------------------------

    def follow(self, number: int) -> None:
        """See which catalogue other processes use; if it is another one, read it in the background.

        Parameters
        ----------
        number
            The number of the present catalogue.
        """
        if number != self._number and monotonic() >= self._not_before:
            self._load_in_background()

    def _load_in_background(self) -> asyncio.Task[None]:
        """Return the task that reads the present catalogue: one of its own, so that a request that gives up ends it not."""
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._load())
            self._loading.add_done_callback(self._note_end)
        return self._loading

    async def _loaded(self) -> None:
        await asyncio.shield(self._load_in_background())

    async def _is_current(self) -> bool:
        return await asyncio.to_thread(self._place.number) == self._number

    async def _load(self) -> None:
        while not await self._is_current():
            present = await asyncio.to_thread(self._place.read)
            search = None if present.stored is None else await self._prepared(present.stored)
            async with self._changing:
                # Unless it was replaced meanwhile, also by this process.
                if await asyncio.to_thread(self._place.number) == present.number:
                    self._use(present, search)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Log why the catalogue could not be read; requests go on with the one that is known."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._not_before = monotonic() + _AGAIN
            shown = None if isinstance(error, RolinError) else error
            extra = {"bandit": self._name}
            _log.warning(
                "bandit %s: its catalogue: %s", self._name, error, exc_info=shown, extra=extra
            )

    def close(self) -> None:
        """End what runs in the background, and forget the catalogue, whose file takes space until then."""
        if self._loading is not None:
            self._loading.cancel()
        self._use(NumberedCatalogue(0, None), None)
