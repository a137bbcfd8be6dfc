"""`rolin backup` and `rolin restore`: copy the data folder of a service, and bring it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolin._support.optional import needs
from rolin.cli.keys import DEFAULT_DATA, Data, Database
from rolin.errors import DataError

if TYPE_CHECKING:
    from rolin.service.backup_manifest import Manifest

__all__ = ["run_backup", "run_restore"]


def run_backup(
    target: Annotated[
        Path, typer.Argument(help="Folder to make; it must not exist.", show_default=False)
    ],
    data: Data = DEFAULT_DATA,
    database: Database = None,
) -> None:
    """Copy the data folder of a service, which may be running, to a new folder.

    If bandits cannot be copied, the others are, and the exit code is 1.
    """
    if database is not None:
        raise DataError(
            "the bandits are in a database, which PostgreSQL's own program copies while the service runs: "
            'pg_dump --format=custom --file=rolin.dump "$ROLIN_DATABASE". To copy a data folder nevertheless, give no '
            "--database and no ROLIN_DATABASE"
        )
    with needs("service"):
        from rolin.service.backup import backup
    manifest = backup(data, target, progress=True)
    _list_bandits(manifest)
    typer.echo(f"Backup {target}: {len(manifest.files)} files, {_size(manifest)}")
    if n := len(manifest.broken):
        typer.echo(f"{n} bandit{'s are' if n > 1 else ' is'} not in the backup", err=True)
        raise typer.Exit(1)


def run_restore(
    source: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="Folder of the backup.", show_default=False)
    ],
    data: Data = DEFAULT_DATA,
) -> None:
    """Check a backup, and copy it to an empty or a new data folder."""
    with needs("service"):
        from rolin.service.restore import restore
    manifest = restore(source, data, progress=True)
    _list_bandits(manifest)
    typer.echo(f"Restored the backup of {manifest.created} to {data}, {_size(manifest)}")


def _list_bandits(manifest: Manifest) -> None:
    for name, known in manifest.bandits.items():
        typer.echo(f"{name}  {known.events} events")
    for name, why in manifest.broken.items():
        typer.echo(f"{name}  not in the backup: {why}", err=True)


def _size(manifest: Manifest) -> str:
    return f"{manifest.size / 1e6:.1f} MB"
