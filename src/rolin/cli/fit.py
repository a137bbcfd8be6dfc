"""`rolin fit`: fit a model to a log, and save it as the starting state of any policy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rolin._support.files import check_output
from rolin.cli.policies import missing_of, read_map
from rolin.cli.shared import (
    ArmColumn,
    FeatureColumns,
    MapFile,
    MissingRewards,
    RewardColumn,
    WeightColumn,
    listed_names,
)
from rolin.errors import DataError
from rolin.fitting import fit
from rolin.fitting.checkpoint import CheckpointMismatch
from rolin.logs.files import SUFFIXES, is_url
from rolin.model import state_file

__all__ = ["run"]


def run(
    log: Annotated[
        list[str],
        typer.Argument(
            help="Parquet or Arrow files, folders, or URLs such as s3://bucket/log. Tables of "
            "`rolin journal export` are read, too."
        ),
    ],
    out: Annotated[Path, typer.Option(help="State file to write.")],
    arm: ArmColumn = "arm",
    reward: RewardColumn = "reward",
    weight: WeightColumn = None,
    features: FeatureColumns = None,
    feature_map: MapFile = None,
    missing: MissingRewards = "refuse",
    intercept_std: Annotated[
        float | None,
        typer.Option(
            help="Prior standard deviation of an intercept. Default: learned from the log."
        ),
    ] = None,
    slopes: Annotated[
        str | None,
        typer.Option(
            help="Features that arms may have slopes of their own for, separated by commas, or `all`. Default: none."
        ),
    ] = None,
    engine: Annotated[
        Literal["dask", "ray", "spark"] | None,
        typer.Option(help="Run on a cluster. Default: threads of this machine."),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the cluster. Default: a new one on this machine, which ends with the command."
        ),
    ] = None,
    n_jobs: Annotated[
        int, typer.Option(help="Number of threads or workers; -1 for all cores.")
    ] = -1,
    storage: Annotated[
        list[str] | None,
        typer.Option(
            help="Option NAME=VALUE of the file system of a URL, such as anon=true. Repeatable."
        ),
    ] = None,
) -> None:
    """Fit a model to a log and save it as the starting state of any policy.

    Run the same command again to resume an interrupted fit: its progress is in the file OUT.part.
    """
    _check_apart(out, log)
    files = [source for source in log if not is_url(source)]
    inputs: list[str | Path] = [*files, *filter(None, [feature_map])]
    check_output(out, state_file.holds_moments, "a fit", inputs)
    began = time.monotonic()
    part = out.with_name(f"{out.name}.part")
    options: dict[str, Any] = {
        "arm": arm,
        "reward": reward,
        "weight": weight,
        "features": listed_names(features),
        "feature_map": None if feature_map is None else read_map(feature_map),
        "missing": missing_of(missing),
        "intercept_std": "learn" if intercept_std is None else intercept_std,
        "slopes": slopes == "all" or listed_names(slopes) or False,
        "engine": engine,
        "address": address,
        "n_jobs": n_jobs,
        "checkpoint": part,
        "storage_options": dict(_option(text) for text in storage or ()),
    }
    try:
        found = fit(log, **options)
    except CheckpointMismatch as error:
        typer.echo(f"Starting again: {error}", err=True)
        part.unlink()
        found = fit(log, **options)
    took = time.monotonic() - began
    if not found.moments.arms:
        raise DataError("the log has no rows with a reward")
    text = str(found)
    found.save(out)
    typer.echo(
        f"{text}\nFitted in {took:.1f} s. Start a policy from it: "
        f"rolin.RoLinTS.from_fit({str(out)!r}{', slope_std=' + repr('learn') if found.moments.slopes else ''})"
    )


def _check_apart(out: Path, log: list[str]) -> None:
    """Reject an output file that is the log, or would be a part of it."""
    target = out.resolve()
    for source in log:
        path = Path(source.removeprefix("file://")).resolve()
        if target == path or (path in target.parents and out.name.lower().endswith(SUFFIXES)):
            raise DataError(f"--out {out} is, or would be, a part of the log {source}")


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise DataError(f"--storage {text}, expected NAME=VALUE")
    return name, {"true": True, "false": False}.get(value.lower(), value)
