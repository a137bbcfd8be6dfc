"""The named bandits of a service."""

from __future__ import annotations

import asyncio
import tempfile
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from rolin.bandit import AsyncBandit, Bandit
from rolin.errors import DataError, JournalError, StateFileError
from rolin.features import BaseFeatureMap
from rolin.journal import Journal
from rolin.policies import Policy
from rolin.policies.registry import load_or_start
from rolin.service import schema
from rolin.service.building import (
    change_settings,
    check_rewards,
    feature_map_of,
    n_features_of,
    policy_of,
)
from rolin.service.decoding import refusal_of
from rolin.service.documents import Documents
from rolin.service.engine import Engine, Limits
from rolin.service.errors import Refusal, failure_of
from rolin.service.served_catalogue import ServedCatalogue
from rolin.service.storage import Storage, Version

__all__ = ["Bandits", "read_bandits"]


class Bandits:
    """All bandits of a service.

    Parameters
    ----------
    storage
        Where they are.
    limits
        How much one request may hold.
    fall_back
        Whether a decision that cannot be recorded is answered with the baseline, instead of an error.
    read_only
        Whether decisions are answered without recording them, and nothing is written.
    """

    def __init__(
        self,
        storage: Storage,
        limits: Limits,
        *,
        fall_back: bool = False,
        read_only: bool = False,
    ) -> None:
        self._read_only = read_only
        self._storage = storage
        self._limits, self._fall_back = limits, fall_back
        self._engines: dict[str, Engine] = {}
        self.broken: dict[str, str] = {}
        """Why bandits could not be opened, by name."""
        self._opening = asyncio.Lock()

    def names(self) -> list[str]:
        """Return the names of all bandits."""
        return self._storage.names()

    def opened(self) -> list[Engine]:
        """Return the bandits that are open."""
        return list(self._engines.values())

    async def get(self, name: str) -> Engine:
        """Return a bandit by name; open it if necessary."""
        engine = self._engines.get(name)
        if engine is not None:
            return engine
        # A task of its own: if a request gives up, the bandit is opened for the next one.
        return await asyncio.shield(self._get(name))

    async def _get(self, name: str) -> Engine:
        async with self._opening:
            if name not in self._engines:
                await self._check_exists(name)
                await self._open(name)
            return self._engines[name]

    async def _open(self, name: str) -> Engine:
        """Open a bandit that exists and is not open, or note why it cannot be opened; `_opening` must be held."""
        try:
            engine = await asyncio.to_thread(self._engine_of, name)
        except Exception as error:
            self.broken[name] = failure_of(error).message
            raise
        self.broken.pop(name, None)
        self._engines[name] = engine
        return engine

    async def open_broken(self) -> None:
        """Try again to open bandits that could not be opened: somebody may have restored or removed them."""
        for name in list(self.broken):
            # If it fails again, it stays known and reported.
            with suppress(Exception):
                await self.get(name)

    async def create(self, given: schema.NewBandit) -> Engine:
        """Create a bandit; it exists completely or not at all."""
        async with self._opening:
            await asyncio.to_thread(self._create, given)
            return await self._open(given.name)

    async def create_unless_exists(self, given: schema.NewBandit) -> bool:
        """Create a bandit, unless another process is faster; return whether it was created."""
        try:
            await self.create(given)
        except Refusal as error:
            if error.status != 409:
                raise
            return False
        return True

    async def get_or_create(self, given: schema.NewBandit) -> Engine:
        """Return a bandit by name; create it if there is none."""
        engine = self._engines.get(given.name)
        if engine is not None:
            return engine
        return await asyncio.shield(self._get_or_create(given))

    async def _get_or_create(self, given: schema.NewBandit) -> Engine:
        async with self._opening:
            if given.name not in self._engines:
                if not await asyncio.to_thread(self._storage.exists, given.name):
                    await asyncio.to_thread(self._create, given)
                await self._open(given.name)
            return self._engines[given.name]

    async def apply(self, declared: Sequence[schema.NewBandit]) -> None:
        """Create the bandits of a file that do not exist, and change the settings of those that do."""
        for wanted in declared:
            if wanted.name not in self.names() and await self.create_unless_exists(wanted):
                continue
            engine = await self.get(wanted.name)
            for part, value in wanted.parts().items():
                if value != (known := getattr(engine.config, part)):
                    raise DataError(
                        f"bandit {wanted.name!r} was created with {part} = {known!r}, but bandits.toml has {value!r}: "
                        "it cannot be changed, so create a bandit with another name"
                    )
            now = engine.info().settings.given()
            new = {name: v for name, v in wanted.settings.given().items() if now.get(name) != v}
            await engine.change(
                schema.BanditChange(schema.Settings(**new), wanted.rewards, wanted.retention)
            )

    async def delete(self, name: str) -> None:
        """Delete a bandit with its journal."""
        async with self._opening:
            await self._check_exists(name)
            await self._close(name)
            self.broken.pop(name, None)
            await asyncio.to_thread(self._storage.delete, name)

    async def _check_exists(self, name: str) -> None:
        if not await asyncio.to_thread(self._storage.exists, name):
            self.broken.pop(name, None)
            raise Refusal(404, f"there is no bandit {name!r}")

    async def _close(self, name: str) -> None:
        engine = self._engines.pop(name, None)
        if engine is not None:
            engine.catalogue.close()
            await asyncio.to_thread(engine.close)

    async def follow(self) -> None:
        """See what other processes have done: bandits created or deleted, documents changed, events written."""
        versions = await asyncio.to_thread(self._storage.look)
        for name, engine in list(self._engines.items()):
            # A bandit that cannot be read is reported by those who write.
            with suppress(JournalError, Refusal):
                await self._follow(name, engine, versions.get(name))
        for name in versions:
            if name not in self._engines:  # so that its windows end, whoever has created it
                with suppress(JournalError, Refusal):
                    await self.get(name)

    async def _follow(self, name: str, engine: Engine, now: Version | None) -> None:
        known = engine.stored_version
        if now is None or known is None or now.bandit != known.bandit:
            async with self._opening:
                # Unless this process has created it just now.
                if not await asyncio.to_thread(self._is_stored, name, known):
                    await self._close(name)
            return
        if now != known:
            await engine.reload()
        engine.catalogue.follow(now.catalogue)
        await asyncio.to_thread(engine.bandit.bandit.refresh)

    def _is_stored(self, name: str, version: Version | None) -> bool:
        if not self._storage.exists(name):
            return False
        now = self._storage.read(name).version
        return version is not None and now is not None and now.bandit == version.bandit

    async def close(self) -> None:
        """Close all journals."""
        async with self._opening:
            for name in list(self._engines):
                await self._close(name)
        await asyncio.to_thread(self._storage.close)

    def _create(self, given: schema.NewBandit) -> None:
        if self._storage.exists(given.name):
            raise Refusal(409, f"there is a bandit {given.name!r} already", field="name")
        rewards = given.rewards.applied_to(schema.RewardRules())
        retention = None if given.retention is UNSET else given.retention
        config = schema.BanditConfig(**given.parts(), rewards=rewards, retention=retention)
        feature_map = feature_map_of(config.features)
        d = n_features_of(config, feature_map)
        if given.state is None:
            policy = policy_of(config.policy, config.options, d, feature_map)
        else:
            policy = _policy_in(given.state)
            _check_fits(policy, feature_map, d)
        check_rewards(rewards, retention, policy)

        def begin(journal: Journal) -> None:
            # The journal begins with the policy and its settings, so that opening it needs neither.
            with Bandit(policy, feature_map=feature_map, journal=journal) as bandit:
                if settings := given.settings.given():
                    change_settings(bandit, settings)

        self._storage.create(given.name, msgspec.json.encode(config), begin)

    def _engine_of(self, name: str) -> Engine:
        """Open the journal of a bandit. Only `_open` calls it, which notes failures."""
        stored = self._storage.read(name)
        documents = Documents.of(name, stored)
        journal = self._storage.journal(name, self._limits.lock_timeout)
        try:
            place = self._storage.catalogue(name, documents.version)
            present = place.read()
            bandit: Bandit[Any] = Bandit(journal=journal, background=not self._read_only)
        except BaseException:
            journal.close()
            raise
        return Engine(
            name,
            self._storage,
            documents,
            AsyncBandit(bandit),
            self._limits,
            fall_back=self._fall_back,
            catalogue=ServedCatalogue(name, place, bandit, present),
            read_only=self._read_only,
        )


def read_bandits(path: Path) -> list[schema.NewBandit]:
    """Return the bandits that a TOML file declares, one table each.

    Parameters
    ----------
    path
        The file; without it, there are none.
    """
    if not path.exists():
        return []
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error
    declared = []
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise DataError(f"{path}: {name} is {table!r}, expected a table: [{name}]")
        try:
            declared.append(msgspec.convert({**table, "name": name}, schema.NewBandit))
        except msgspec.ValidationError as error:
            why = refusal_of(error, schema.NewBandit)
            where = f"{name}.{why.field}" if why.field else name
            raise DataError(f"{path}: {where}: {why}") from error
    return declared


def _check_fits(policy: Policy[Any], feature_map: BaseFeatureMap | None, d: int) -> None:
    """Refuse the policy of a state that was learned from other features than those of the bandit."""
    problem, known = None, policy.feature_map
    if policy.n_features != d:
        problem = f"its policy has {policy.n_features} features, expected {d}"
    elif known is not None and known != feature_map:
        expected = "vectors" if feature_map is None else repr(feature_map)
        problem = f"its policy has learned by {known!r}, expected {expected}"
    if problem is not None:
        raise Refusal(400, f"{problem}, as the features of the bandit", field="state")


def _policy_in(state: bytes) -> Policy[Any]:
    """Return the policy of an uploaded state file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        path.write_bytes(state)
        try:
            return load_or_start(path)
        except StateFileError as error:
            raise Refusal(400, str(error).replace(str(path), "state"), field="state") from error
