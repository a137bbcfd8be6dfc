"""The commands, and what they share."""

from __future__ import annotations

from typing import Annotated

import typer

import rolin
from rolin.cli import data, diagnose, evaluate, fit, journal, reproduce, simulate

__all__ = ["app"]

app = typer.Typer(
    name="rolin",
    help="Robust contextual linear bandits.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # errors of ours are one line, others are bugs and need it all
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(journal.app, name="journal")
app.add_typer(data.app, name="data")
app.command("diagnose")(diagnose.run)
app.command("evaluate")(evaluate.run)
app.command("fit")(fit.run)
app.command("simulate")(simulate.run)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(rolin.__version__)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Robust contextual linear bandits."""
