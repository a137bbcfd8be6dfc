"""All commands, in the order in which `rolin --help` lists them."""

from __future__ import annotations

from typing import Annotated

import typer

import rolin
from rolin.cli import (
    backup,
    data,
    diagnose,
    evaluate,
    fit,
    journal,
    keys,
    move,
    reproduce,
    serve,
    simulate,
)
from rolin.cli.shared import in_order

__all__ = ["app"]

_SERVICE, _SIMULATION, _LOGS, _PAPER = "Service", "Simulation", "Logs and journals", "The paper"

app = typer.Typer(
    name="rolin",
    cls=in_order(
        "serve",
        "keys",
        "backup",
        "restore",
        "move",
        "simulate",
        "diagnose",
        "fit",
        "evaluate",
        "journal",
        "reproduce",
        "data",
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # expected errors are one line; any other is a bug and shows a traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve", rich_help_panel=_SERVICE)(serve.run)
app.add_typer(keys.app, name="keys", rich_help_panel=_SERVICE)
app.command("backup", rich_help_panel=_SERVICE)(backup.run_backup)
app.command("restore", rich_help_panel=_SERVICE)(backup.run_restore)
app.command("move", rich_help_panel=_SERVICE)(move.run)
app.command("simulate", rich_help_panel=_SIMULATION)(simulate.run)
app.command("diagnose", rich_help_panel=_LOGS)(diagnose.run)
app.command("fit", rich_help_panel=_LOGS)(fit.run)
app.command("evaluate", rich_help_panel=_LOGS)(evaluate.run)
app.add_typer(journal.app, name="journal", rich_help_panel=_LOGS)
app.add_typer(reproduce.app, name="reproduce", rich_help_panel=_PAPER)
app.add_typer(data.app, name="data", rich_help_panel=_PAPER)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(rolin.__version__)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Robust contextual linear bandits.

    Try: rolin simulate RoLinTS LinTS Uniform
    """
