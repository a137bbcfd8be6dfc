"""Options and tables that several commands share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

import typer
from rich.table import Table
from typer.core import TyperGroup

from rolin._support.parallel import Engine
from rolin.simulation.comparison import format_number

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Address",
    "ArmColumn",
    "FeatureColumns",
    "Jobs",
    "MapFile",
    "MissingRewards",
    "OnEngine",
    "RewardColumn",
    "Seed",
    "SlopeFeatures",
    "SlopeStd",
    "WeightColumn",
    "Workers",
    "in_order",
    "listed_names",
    "summary_table",
]

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

# The columns of a log with one row per reward, and how they are read.
ArmColumn = Annotated[str, typer.Option(help="For a log: column of the arm.")]
RewardColumn = Annotated[str, typer.Option(help="For a log: column of the reward.")]
WeightColumn = Annotated[str | None, typer.Option(help="For a log: column of the weight.")]
FeatureColumns = Annotated[
    str | None,
    typer.Option(
        help="For a log: columns of the features, separated by commas. Default: all other columns of numbers, "
        "including ids; with a feature map, the columns that it reads."
    ),
]
MapFile = Annotated[
    Path | None,
    typer.Option(help="For a log: file (.json) with the feature map that reads raw features."),
]
MissingRewards = Annotated[
    str,
    typer.Option(
        metavar="refuse|drop|NUMBER",
        help="Rows without a reward: `refuse` raises an error, `drop` skips the rows, NUMBER is used as the reward.",
    ),
]

# The slopes of a policy that the command creates.
SlopeStd = Annotated[
    str | None,
    typer.Option(
        metavar="learn|NUMBER",
        help="For policies that have this option: standard deviation of the arms' own slopes. Default: no slopes.",
    ),
]
SlopeFeatures = Annotated[
    str | None,
    typer.Option(
        help="With --slope-std: features that arms have slopes for, separated by commas: their numbers, from 0 on, or "
        "fields of the feature map. Default: all."
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


def listed_names(text: str | None) -> list[str] | None:
    """Return names that are separated by commas; `None` if there are none."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


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
