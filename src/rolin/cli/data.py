"""`rolin data`: download the data sets that experiments need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rolin.datasets import fetch_movielens

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Download the data sets that experiments need."""


@app.command()
def movielens(
    out: Annotated[Path, typer.Option(help="Parent folder of the data set.")] = Path("data"),
    name: Annotated[
        Literal["ml-1m", "ml-100k"], typer.Option(help="Name of the data set.")
    ] = "ml-1m",
) -> None:
    """Download MovieLens ratings from GroupLens.

    The license allows use for research, but no redistribution.
    """
    folder = fetch_movielens(out, name=name, progress=True)
    typer.echo(f"The ratings are in {folder}. Next: rolin reproduce movielens --data {folder}")
