"""`rolin move`: move a service from its data folder to a database, or back."""

from __future__ import annotations

from typing import Annotated

import typer

from rolin._support.optional import needs
from rolin.cli.keys import DEFAULT_DATA, Data

__all__ = ["run"]


def run(
    database: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The database, postgresql://…; it must hold no bandits and no keys.",
            envvar="ROLIN_DATABASE",
            show_default=False,
        ),
    ],
    data: Data = DEFAULT_DATA,
    back: Annotated[
        bool, typer.Option("--back", help="Move from the database to the data folder instead.")
    ] = False,
) -> None:
    """Move all bandits and keys of a service from its data folder to a PostgreSQL database.

    Stop the service first. Everything is moved or nothing, and compared afterwards.
    """
    with needs("service"), needs("postgres"):
        from rolin.service.moving import move_to_database, move_to_folder
    if back:
        moved = move_to_folder(database, data, progress=True)
    else:
        moved = move_to_database(data, database, progress=True)
    for name, copied in moved.bandits.items():
        typer.echo(
            f"{name}  {copied.events} events, {copied.waiting} waiting, {copied.snapshots} snapshots"
        )
    n, keys = len(moved.bandits), moved.keys
    where = f"{moved.database} to {data}" if back else f"{data} to {moved.database}"
    typer.echo(
        f"Moved {n} bandit{'s' * (n != 1)} and {keys} key{'s' * (keys != 1)} from {where}; the states are the same, to the bit"
    )
    if back:
        typer.echo("Start the service without --database. Delete the database when you are sure")
    else:
        typer.echo(f"Start the service with --database. Delete {data}/bandits when you are sure")
