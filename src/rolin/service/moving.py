"""Move the bandits and keys of a service from its data folder to a PostgreSQL database, or back.

Either everything is moved, or nothing: a database gets all of it in one transaction, and a folder gets its bandits by one
renaming. The source is kept as it is.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable
from contextlib import ExitStack, closing
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rolin._support.files import sync_folder, sync_folders, write_bytes
from rolin._support.progress import Progress, reporter
from rolin.errors import DataError, JournalError
from rolin.journal import Journal, PostgresJournal, SQLiteJournal
from rolin.journal.copying import CopiedJournal, copy_to_postgres, copy_to_sqlite
from rolin.journal.folding import load_with_snapshot, state_bytes
from rolin.journal.postgres_tables import NAME, schema_of
from rolin.service.backup_manifest import JOURNAL
from rolin.service.catalogue_place import CATALOGUE, FolderPlace
from rolin.service.data_folder import (
    check_folder,
    check_not_moved,
    lock_folder,
    mark_folder,
    mark_moved,
)
from rolin.service.database import LOCK, open_database
from rolin.service.database_catalogue import DatabasePlace, add_catalogue
from rolin.service.documents import Documents
from rolin.service.errors import Refusal
from rolin.service.keys import Keys
from rolin.service.schema import NAME_PATTERN
from rolin.service.storage import Stored

if TYPE_CHECKING:
    from rolin.journal.postgres_database import PostgresDatabase

__all__ = ["Moved", "move_to_database", "move_to_folder"]

_UNFINISHED = (
    ".move-"  # begin of the name of a folder that exists while bandits are moved to a folder
)
_WAIT = 10.0  # seconds, for another process that changes the database


class Moved(NamedTuple):
    """What was moved."""

    bandits: dict[str, CopiedJournal]
    keys: int
    database: str
    """Name of the database, without secrets."""


def move_to_database(data: str | PathLike[str], dsn: str, *, progress: Progress = False) -> Moved:
    """Copy everything that a data folder holds to an empty database, and mark the folder as moved.

    Parameters
    ----------
    data
        The data folder. No service may be running on it.
    dsn
        Where the database is.
    progress
        `True` shows a bar; a function is called with the number of events copied or compared since its last call.

    Raises
    ------
    DataError, JournalError
        If something cannot be moved, is damaged or in use, or if the database is not empty; nothing is moved.
    """
    source = Path(data)
    if not (source / "bandits").is_dir():
        raise DataError(f"{source} is not the data folder of a service: it has no folder bandits")
    check_folder(source)
    check_not_moved(source)
    with ExitStack() as opened:
        opened.enter_context(lock_folder(source, alone=True))
        folders = _movable(source / "bandits")
        documents = {name: _documents(folder) for name, folder in folders.items()}
        journals = {
            name: opened.enter_context(SQLiteJournal(folder / JOURNAL))
            for name, folder in folders.items()
        }
        keys = Keys(source)
        text = (source / "keys.json").read_text() if (source / "keys.json").exists() else None
        database = opened.enter_context(closing(open_database(dsn, _WAIT)))
        with database.transaction(LOCK):
            _check_empty(database, list(folders))
            with reporter(progress, "moving", _work(journals.values())) as advance:
                moved = {
                    name: copy_to_postgres(journal, database, name, advance)
                    for name, journal in journals.items()
                }
            for name, (config, arms, _) in documents.items():
                database.execute(
                    "INSERT INTO bandits (name, config, arms) VALUES (?, ?, ?)",
                    (name, config.decode(), None if arms is None else arms.decode()),
                )
                _copy_catalogue(folders[name], database)
            if text is not None:
                database.execute("INSERT INTO keys VALUES (?, 0)", (text,))
        for name, journal in journals.items():
            with PostgresJournal(dsn, name) as copy:
                _compare(name, journal, copy)
        mark_moved(source, database.where)
        return Moved(moved, len(keys.list()), database.where)


def move_to_folder(dsn: str, data: str | PathLike[str], *, progress: Progress = False) -> Moved:
    """Copy everything that a database holds to a data folder without bandits and keys.

    Parameters
    ----------
    dsn
        Where the database is. No service may be running on it.
    data
        The data folder; it is created if it does not exist.
    progress
        `True` shows a bar; a function is called with the number of events copied or compared since its last call.

    Raises
    ------
    DataError, JournalError
        If something cannot be moved, is damaged or in use, or if the folder has bandits or keys; nothing is moved.
    """
    target = Path(data)
    with ExitStack() as opened:
        database = opened.enter_context(closing(open_database(dsn, _WAIT)))
        opened.enter_context(database.transaction(LOCK))  # nobody changes a document or a key
        _check_alone(database)
        _check_tables(database)
        bandits = database.query("SELECT name, config, arms, bandit FROM bandits ORDER BY name")
        texts = [text for (text,) in database.query("SELECT content FROM keys")]
        mark_folder(target)
        check_not_moved(target)
        opened.enter_context(lock_folder(target, alone=True))
        for left in target.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left)  # of a process that was killed
        _check_place(target, texts)
        made = target / f"{_UNFINISHED}{secrets.token_hex(4)}"
        opened.callback(shutil.rmtree, made, ignore_errors=True)
        (made / "bandits").mkdir(parents=True, mode=0o700)
        journals = {name: opened.enter_context(PostgresJournal(dsn, name)) for name, *_ in bandits}
        moved = {}
        with reporter(progress, "moving", _work(journals.values())) as advance:
            for name, config, arms, bandit in bandits:
                folder = made / "bandits" / name
                folder.mkdir(mode=0o700)
                write_bytes(folder / "config.json", config.encode())
                if arms is not None:
                    write_bytes(folder / "arms.json", arms.encode())
                place = FolderPlace(folder)
                with place.arriving() as file:
                    found = DatabasePlace(database, dsn, bandit, made, _WAIT).copy_to(file)
                    if found.stored is not None:
                        place.put(file, found.stored)
                moved[name] = copy_to_sqlite(journals[name], folder / JOURNAL, advance)
                with SQLiteJournal(folder / JOURNAL) as copy:
                    _compare(name, journals[name], copy)
        sync_folders(made)
        if texts:
            write_bytes(target / "keys.json", texts[0].encode())
            (target / "keys.json").chmod(0o600)
        # From here on there are bandits, all of them.
        os.rename(made / "bandits", target / "bandits")
        sync_folder(target)
        return Moved(moved, len(Keys(target).list()), database.where)


def _movable(bandits: Path) -> dict[str, Path]:
    """Return the folders of all bandits by name; reject what a database cannot hold."""
    found = {
        folder.name: folder
        for folder in sorted(bandits.iterdir())
        if re.match(NAME_PATTERN, folder.name) and folder.is_dir()
    }
    for name, folder in found.items():
        if not NAME.fullmatch(name):
            raise DataError(
                f"bandit {name!r} cannot be moved: its name has {len(name)} characters, expected at most 57 in a database"
            )
        for path in sorted(folder.iterdir()):
            if path.name.startswith((".", f"{JOURNAL}-")):
                continue  # temporary files, and what belongs to the journal
            if path.name not in ("config.json", "arms.json", CATALOGUE, JOURNAL):
                raise DataError(f"bandit {name!r} cannot be moved: {path} is not a file of rolin")
        if not (folder / JOURNAL).exists():  # opening it would create an empty one
            raise DataError(f"bandit {name!r} cannot be moved: there is no {folder / JOURNAL}")
    return found


def _copy_catalogue(folder: Path, database: PostgresDatabase) -> None:
    """Copy the catalogue of a bandit, if it has one, in the transaction of this thread."""
    try:
        stored = FolderPlace(folder).read().stored
    except Refusal as error:
        raise DataError(f"bandit {folder.name!r} cannot be moved: {error}") from error
    if stored is not None:
        ((bandit,),) = database.query("SELECT bandit FROM bandits WHERE name = ?", (folder.name,))
        with (folder / CATALOGUE).open("rb") as file:
            add_catalogue(database, bandit, file, stored)


def _documents(folder: Path) -> Stored:
    """Return the documents of a bandit, if they can be read."""
    arms = folder / "arms.json"
    try:
        found = Stored(
            (folder / "config.json").read_bytes(), arms.read_bytes() if arms.exists() else None
        )
    except OSError as error:
        raise DataError(
            f"bandit {folder.name!r} cannot be moved: {error.filename}: {error.strerror}"
        ) from error
    Documents.of(folder.name, found)
    return found


def _check_empty(database: PostgresDatabase, names: list[str]) -> None:
    """Reject a database that holds bandits, keys, or journals with these names."""
    bandits = [name for (name,) in database.query("SELECT name FROM bandits ORDER BY name")]
    found = [f"the bandit {name!r}" for name in bandits[:3]]
    if database.query("SELECT 1 FROM keys"):
        found.append("API keys")
    schemas = [schema_of(name) for name in names if name not in bandits]
    known = "SELECT nspname FROM pg_namespace WHERE nspname = ANY (?::text[]) ORDER BY nspname"
    found += [f"the schema {name!r}" for (name,) in database.query(known, (schemas,))[:3]]
    if found:
        raise DataError(
            f"{database.where} is not empty: it has {', '.join(found)}; expected an empty database, such as a new one. "
            "Nothing was moved"
        )


def _check_alone(database: PostgresDatabase) -> None:
    """Reject a database that other processes of rolin use."""
    if n := len(database.others()):
        raise DataError(
            f"{database.where} is in use by {n} other connection{'s' if n > 1 else ''} of rolin: stop all services first"
        )


def _check_tables(database: PostgresDatabase) -> None:
    """Reject a database that holds something which would be lost."""
    for (name,) in database.query(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'rolin' AND tablename NOT IN ("
        "'bandits', 'keys', 'catalogues', 'catalogue_parts') ORDER BY tablename"
    ):
        if database.query(f'SELECT 1 FROM "{name}" LIMIT 1'):
            raise DataError(
                f"{database.where} cannot be moved: the rows of its table rolin.{name} have no place in a folder"
            )


def _check_place(target: Path, keys: list[str]) -> None:
    """Reject a data folder that has bandits or keys."""
    bandits = target / "bandits"
    if bandits.exists() and any(bandits.iterdir()):
        raise DataError(
            f"{target} has bandits already, expected a folder without; nothing was moved"
        )
    stored = target / "keys.json"
    # An interrupted move may have left the same keys.
    if stored.exists() and stored.read_text() not in keys:
        raise DataError(f"{target} has API keys already: {stored}; nothing was moved")


def _compare(name: str, one: Journal, other: Journal) -> None:
    """Raise unless two journals lead to the same state, to the bit."""
    states = []
    for journal in (one, other):
        policy, shadow, version, _ = load_with_snapshot(journal)
        states.append((version, state_bytes(policy, shadow)))
    if states[0] != states[1]:
        raise JournalError(
            f"bandit {name!r}: the copy leads to another state than the original; somebody has written to one of them. Do "
            "not use the copy"
        )


def _work(journals: Iterable[Journal]) -> int:
    """Return how many events are copied and compared, at most."""
    headers = [journal.header() for journal in journals]
    return 2 * sum(header.last for header in headers if header is not None)
