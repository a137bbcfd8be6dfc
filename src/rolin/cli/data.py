"""`rolin data`: data sets that experiments need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rolin.datasets import fetch_movielens

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Fetch data sets.")


@app.callback()
def _data() -> None:
    """Fetch data sets."""


@app.command()
def movielens(
    out: Annotated[Path, typer.Option(help="Folder to put it in.")] = Path("data"),
    name: Annotated[Literal["ml-1m", "ml-100k"], typer.Option(help="Which one.")] = "ml-1m",
) -> None:
    """Fetch MovieLens from GroupLens: for research, not to be redistributed."""
    folder = fetch_movielens(out, name=name, progress=True)
    typer.echo(f"The ratings are in {folder}: rolin reproduce movielens --data {folder}")
