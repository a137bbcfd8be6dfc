"""What several commands share: where work is done, and tables of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

import typer
from rich.table import Table

from rolin._support.parallel import Engine
from rolin.simulation.comparison import rounded

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Address", "Jobs", "OnEngine", "Seed", "Where", "summary_table"]

Jobs = Annotated[int, typer.Option(help="Processes; -1 for all cores.")]
Seed = Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")]
OnEngine = Annotated[
    Literal["dask", "ray"] | None,
    typer.Option(help="Play on a cluster; by default processes of this machine."),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Of the cluster; by default one on this machine, which ends with the command."
    ),
]


class Where(TypedDict):
    """Where work is done."""

    n_jobs: int
    engine: Engine | None
    address: str | None


def summary_table(title: str, summary: pd.DataFrame) -> Table:
    """Return a summary as a table, with errors beside their means."""
    texts = {}
    for name in summary.columns:
        if name in ("experiment", "runs", "rounds") or name.endswith("std_error"):
            continue
        error = {"mean": "std_error"}.get(name, f"{name}_std_error")
        texts[name] = [
            _number(value) + (f" ± {rounded(row[error], 2)}" if error in summary else "")
            for value, (_, row) in zip(summary[name], summary.iterrows(), strict=True)
        ]
    table = Table(title=title)
    for name in texts:
        left = name in ("environment", "policy")
        heading = {"last_quarter_over_third": "last quarter / third"}.get(
            name, name.replace("_", " ")
        )
        table.add_column(heading, justify="left" if left else "right", no_wrap=left)
    rows = list(zip(*texts.values(), strict=True))
    for row, after in zip(rows, [*rows[1:], rows[-1]], strict=True):
        # a line below the last row of an environment
        table.add_row(*row, end_section="environment" in texts and row[0] != after[0])
    return table


def _number(value: object) -> str:
    return rounded(value, 4) if isinstance(value, float) else str(value)
