"""The named bandits of a service: one folder each."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from rolin._support.files import sync_folder, write_bytes
from rolin.bandit import AsyncBandit, Bandit
from rolin.errors import DataError, StateFileError
from rolin.journal import SQLiteJournal
from rolin.policies import Policy
from rolin.policies.registry import load_or_start
from rolin.service import schema
from rolin.service.building import check_rewards, feature_map_of, n_features_of, policy_of
from rolin.service.engine import Engine, Limits
from rolin.service.errors import Refusal, failure_of, field_of

__all__ = ["Bandits", "read_bandits"]

Read = TypeVar("Read", bound=msgspec.Struct)
_NAME = re.compile(schema.NAME_PATTERN)


class Bandits:
    """All bandits of a data folder.

    Parameters
    ----------
    folder
        The data folder; it is created if it does not exist.
    limits
        How much one request may hold.
    fall_back
        Whether a decision that cannot be recorded is answered with the baseline, instead of an error.
    compress
        Whether to compress the features in new decisions.
    """

    def __init__(
        self, folder: Path, limits: Limits, *, fall_back: bool = False, compress: bool = False
    ) -> None:
        self._compress = compress
        self._folder = folder / "bandits"
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in (*self._folder.glob(".new-*"), *self._folder.glob(".deleted-*")):
            shutil.rmtree(left)  # of a process that was killed
        self._limits, self._fall_back = limits, fall_back
        self._engines: dict[str, Engine] = {}
        self.broken: dict[str, str] = {}
        """Why bandits could not be opened, by name."""
        self._opening = asyncio.Lock()

    def names(self) -> list[str]:
        """Return the names of all bandits."""
        return sorted(
            path.name for path in self._folder.iterdir() if _NAME.match(path.name) and path.is_dir()
        )

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
                self._check_exists(name)
                try:
                    self._engines[name] = await asyncio.to_thread(self._open, name)
                except Exception as error:
                    self.broken[name] = failure_of(error).message
                    raise
                self.broken.pop(name, None)
            return self._engines[name]

    async def create(self, given: schema.NewBandit) -> Engine:
        """Create a bandit; it exists completely or not at all."""
        async with self._opening:
            await asyncio.to_thread(self._create, given)
            self._engines[given.name] = await asyncio.to_thread(self._open, given.name)
            return self._engines[given.name]

    async def get_or_create(self, given: schema.NewBandit) -> Engine:
        """Return a bandit by name; create it if there is none."""
        engine = self._engines.get(given.name)
        if engine is not None:
            return engine
        return await asyncio.shield(self._get_or_create(given))

    async def _get_or_create(self, given: schema.NewBandit) -> Engine:
        async with self._opening:
            if given.name not in self._engines:
                if not (self._folder / given.name).is_dir():
                    await asyncio.to_thread(self._create, given)
                self._engines[given.name] = await asyncio.to_thread(self._open, given.name)
            return self._engines[given.name]

    async def apply(self, declared: Sequence[schema.NewBandit]) -> None:
        """Create the bandits of a file that do not exist, and change the settings of those that do."""
        for wanted in declared:
            if wanted.name not in self.names():
                await self.create(wanted)
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
            self._check_exists(name)
            engine = self._engines.pop(name, None)
            self.broken.pop(name, None)
            if engine is not None:
                await asyncio.to_thread(engine.close)
            await asyncio.to_thread(self._delete, name)

    def _check_exists(self, name: str) -> None:
        if not _NAME.match(name) or not (self._folder / name).is_dir():
            raise Refusal(404, f"there is no bandit {name!r}")

    async def close(self) -> None:
        """Close all journals."""
        async with self._opening:
            for engine in self._engines.values():
                await asyncio.to_thread(engine.close)
            self._engines.clear()

    def _create(self, given: schema.NewBandit) -> None:
        folder = self._folder / given.name
        if folder.exists():
            raise Refusal(409, f"there is a bandit {given.name!r} already", field="name")
        rewards = given.rewards.applied_to(schema.RewardRules())
        retention = None if given.retention is UNSET else given.retention
        config = schema.BanditConfig(**given.parts(), rewards=rewards, retention=retention)
        feature_map = feature_map_of(config.features)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".new-") as made:
            whole = Path(made) / "bandit"
            whole.mkdir()
            d = n_features_of(config, feature_map)
            if given.state is None:
                policy = policy_of(config.policy, config.options, d)
            else:
                policy = _policy_in(given.state, Path(made) / "state")
            check_rewards(rewards, retention, policy)
            write_bytes(whole / "config.json", msgspec.json.encode(config))
            # The journal begins with the policy and its settings, so that opening it needs neither.
            with Bandit(policy, feature_map=feature_map, journal=whole / "journal.db") as bandit:
                if settings := given.settings.given():
                    bandit.change_settings(**settings)
            os.rename(whole, folder)
            sync_folder(self._folder)  # or a power failure could take the bandit away

    def _open(self, name: str) -> Engine:
        folder = self._folder / name
        config = _read(folder / "config.json", schema.BanditConfig)
        arms = None
        if (registered := folder / "arms.json").exists():
            arms = _read(registered, schema.ArmList).arms
        if not (folder / "journal.db").exists():  # opening it would create an empty one
            raise Refusal(503, f"bandit {name!r} cannot be opened: there is no journal.db")
        journal = SQLiteJournal(
            folder / "journal.db", lock_timeout=self._limits.lock_timeout, compress=self._compress
        )
        try:
            bandit: Bandit[Any] = Bandit(journal=journal, background=True)
        except BaseException:
            journal.close()
            raise
        return Engine(
            name,
            folder,
            config,
            AsyncBandit(bandit),
            self._limits,
            arms=arms,
            fall_back=self._fall_back,
        )

    def _delete(self, name: str) -> None:
        # Renamed first, so that a half-deleted bandit is never opened.
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".deleted-") as gone:
            os.rename(self._folder / name, Path(gone) / name)
            sync_folder(self._folder)
            shutil.rmtree(Path(gone) / name)


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
            text, field = field_of(str(error))
            raise DataError(f"{path}: {name}{f'.{field}' if field else ''}: {text}") from error
    return declared


def _read(path: Path, kind: type[Read]) -> Read:
    """Return the content of a file of a bandit."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error  # without the path
        raise Refusal(
            503, f"bandit {path.parent.name!r} cannot be opened: {path.name}: {reason}"
        ) from error


def _policy_in(state: bytes, path: Path) -> Policy[Any]:
    """Return the policy of an uploaded state file."""
    path.write_bytes(state)
    try:
        return load_or_start(path)
    except StateFileError as error:
        raise Refusal(400, str(error).replace(str(path), "state"), field="state") from error
