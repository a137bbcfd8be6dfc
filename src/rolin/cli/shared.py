"""Options and tables that several commands share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

import typer
from rich.table import Table
from typer.core import TyperGroup

from rolin._support.parallel import Engine
from rolin.simulation.comparison import format_number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Address", "Jobs", "OnEngine", "Seed", "Workers", "in_order", "summary_table"]

Jobs = Annotated[int, typer.Option(help="Number of processes; -1 for all cores.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
OnEngine = Annotated[
    Literal["dask", "ray"] | None,
    typer.Option(help="Run on a Dask or Ray cluster; by default in processes of this machine."),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Address of the cluster; by default a temporary cluster is started on this machine."
    ),
]


# Headings that differ from the names of the columns.
_HEADINGS = {
    "mean": "mean regret",
    "median": "median regret",
    "last_quarter_over_third": "growth",
}
_GROWTH = (
    "growth: regret of the last quarter of the rounds over that of the third quarter; "
    "1 if regret is linear, 0.84 if it grows like a square root, 0.71 like a logarithm"
)


class Workers(TypedDict):
    """The options that say which processes do the work."""

    n_jobs: int
    engine: Engine | None
    address: str | None


def in_order(*names: str) -> type[TyperGroup]:
    """Return a class of command groups that lists its commands in this order."""

    class Ordered(TyperGroup):
        def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
            return sorted(super().list_commands(ctx), key=names.index)

    return Ordered


def summary_table(title: str, summary: pd.DataFrame) -> Table:
    """Return a summary as a table for the terminal, with ± standard errors beside the numbers."""
    texts = {}
    for name in summary.columns:
        if name in ("experiment", "runs", "rounds") or name.endswith("std_error"):
            continue
        error = {"mean": "std_error"}.get(name, f"{name}_std_error")
        texts[name] = [
            _number(value) + _plus_minus(row.get(error, math.nan))
            for value, (_, row) in zip(summary[name], summary.iterrows(), strict=True)
        ]
    headings = [_HEADINGS.get(name, name.replace("_", " ")) for name in texts]
    table = Table(title=title, caption=_GROWTH if "growth" in headings else None)
    for name, heading in zip(texts, headings, strict=True):
        left = name in ("environment", "policy")
        table.add_column(heading, justify="left" if left else "right", no_wrap=left)
    rows = list(zip(*texts.values(), strict=True))
    for row, after in zip(rows, [*rows[1:], rows[-1]], strict=True):
        # A line separates the environments.
        table.add_row(*row, end_section="environment" in texts and row[0] != after[0])
    return table


def _plus_minus(std_error: float) -> str:
    return "" if math.isnan(std_error) else f" ± {format_number(std_error, 2)}"


def _number(value: object) -> str:
    return format_number(value, 4) if isinstance(value, float) else str(value)
