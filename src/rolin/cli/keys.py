"""`rolin keys`: list, create and revoke the API keys of the service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rolin.cli.shared import listed_names
from rolin.errors import DataError
from rolin.service.keys import SCOPES, Keys, open_keys
from rolin.service.settings import Settings

__all__ = ["DEFAULT_DATA", "Data", "Database", "app"]

app = typer.Typer(no_args_is_help=True, help="List, create and revoke the API keys of the service.")

Data = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder of the service's data.", envvar="ROLIN_DATA")
]
Database = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Database of the service, postgresql://…, if it has one.",
        envvar="ROLIN_DATABASE",
        show_envvar=True,
    ),
]
DEFAULT_DATA = Settings().data


@app.command(name="list")
def list_keys(data: Data = DEFAULT_DATA, database: Database = None) -> None:
    """List the keys: their ids, names, scopes and dates, but not the keys themselves."""
    table = Table()
    for column in ("id", "name", "scopes", "created"):
        table.add_column(column, no_wrap=True)
    for key in _keys(data, database).list():
        scopes = [scope for scope in SCOPES if scope in key.scopes]
        table.add_row(key.id, key.name, ", ".join(scopes), key.created)
    Console().print(table)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Who uses the key. A name has at most two keys.")],
    scopes: Annotated[
        str,
        typer.Option(
            help=f"What the key allows, separated by commas: {', '.join(SCOPES)}. `admin` includes all."
        ),
    ] = "decide,reward",
    data: Data = DEFAULT_DATA,
    database: Database = None,
) -> None:
    """Create a key and print it, once. To replace a key, create another one of its name and then revoke the old one."""
    text, key = _keys(data, database).create(name, listed_names(scopes) or [])
    typer.echo(text)
    typer.echo(f"Key {key.id} of {name}. It is not shown again.", err=True)


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(help="Id of the key, as `rolin keys list` shows it.")],
    data: Data = DEFAULT_DATA,
    database: Database = None,
) -> None:
    """Revoke a key. A running service rejects it within a second."""
    key = _keys(data, database).revoke(id)
    typer.echo(f"Revoked key {key.id} of {key.name}")


def _keys(data: Path, database: str | None) -> Keys:
    settings = Settings(data=data, database=database)
    if database is None and not data.is_dir():
        raise DataError(f"there is no folder {data}; --data DIR names the folder of the service")
    return open_keys(settings)
