"""`rolin data`: download the data sets that experiments need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from rolin.datasets.download import fetch_movielens

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Download the data sets that experiments need."""


@app.command()
def movielens(
    out: Annotated[Path, typer.Option(help="Folder in which the data set gets a folder.")] = Path(
        "data"
    ),
    name: Annotated[
        Literal["ml-1m", "ml-100k"], typer.Option(help="Name of the data set.")
    ] = "ml-1m",
) -> None:
    """Download MovieLens ratings from GroupLens.

    The license allows use for research, but no redistribution.
    """
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=None)
        folder = fetch_movielens(
            out,
            name=name,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    typer.echo(f"The ratings are in {folder}. Next: rolin reproduce movielens --data {folder}")
