"""`rolin fit`: from a log of any length to a state that policies start from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rolin._support.files import check_target
from rolin.cli.policies import missing_of, read_map
from rolin.errors import DataError
from rolin.fitting import fit
from rolin.fitting.checkpoint import OtherFold
from rolin.logs.files import SUFFIXES

__all__ = ["run"]


def run(
    log: Annotated[
        list[str],
        typer.Argument(
            help="Files of Parquet or Arrow, folders, or URLs such as s3://bucket/log; also tables that "
            "`rolin journal export` wrote."
        ),
    ],
    out: Annotated[Path, typer.Option(help="State file to write, for rolin.load.")],
    arm: Annotated[str, typer.Option(help="Column of the arm.")] = "arm",
    reward: Annotated[str, typer.Option(help="Column of the reward.")] = "reward",
    weight: Annotated[str | None, typer.Option(help="Column of the weight.")] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Columns of the features, numbers or lists of numbers, with commas between; default all other "
            "columns of numbers, ids too."
        ),
    ] = None,
    map: Annotated[Path | None, typer.Option(help="Feature map (.json) for raw features.")] = None,
    missing: Annotated[
        str, typer.Option(help="Rows without a reward: refuse, drop, or a number to count instead.")
    ] = "refuse",
    intercept_std: Annotated[
        float | None, typer.Option(help="Prior standard deviation of an intercept; default none.")
    ] = None,
    engine: Annotated[
        Literal["dask", "ray", "spark"] | None,
        typer.Option(help="Fold on a cluster; by default threads of this machine."),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of the cluster; by default one on this machine, which ends with the command."
        ),
    ] = None,
    n_jobs: Annotated[int, typer.Option(help="Threads or workers; -1 for all cores.")] = -1,
    storage: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE for the file system of a URL, such as anon=true. Repeatable."
        ),
    ] = None,
) -> None:
    """Fold a log into its evidence, learn the scales, and write a state for any policy.

    Stopped, it goes on where it was when the same command is given again: how far it has come is
    noted beside the state file, in OUT.part.
    """
    check_target(out)
    _check_apart(out, log)
    began = time.monotonic()
    part = out.with_name(f"{out.name}.part")
    options: dict[str, Any] = {
        "arm": arm,
        "reward": reward,
        "weight": weight,
        "features": None if features is None else [name.strip() for name in features.split(",")],
        "feature_map": None if map is None else read_map(map),
        "missing": missing_of(missing),
        "intercept_std": intercept_std,
        "engine": engine,
        "address": address,
        "n_jobs": n_jobs,
        "checkpoint": part,
        "storage_options": dict(_option(text) for text in storage or ()),
    }
    try:
        found = fit(log, **options)
    except OtherFold as error:
        typer.echo(f"Begun anew: {error}", err=True)
        part.unlink()
        found = fit(log, **options)
    took = time.monotonic() - began
    if not found.moments.arms:
        raise DataError("the log has no rows with a reward")
    text = str(found)
    found.save(out)
    typer.echo(
        f"{text}\nFolded in {took:.1f} s. Start a policy: rolin.RoLinTS.from_fit({str(out)!r})"
    )


def _check_apart(out: Path, log: list[str]) -> None:
    """Refuse to write over the log, or into it."""
    target = out.resolve()
    for source in log:
        place = Path(source.removeprefix("file://")).resolve()
        if target == place or (place in target.parents and out.name.lower().endswith(SUFFIXES)):
            raise DataError(f"--out {out} is, or would be, a part of the log {source}")


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise DataError(f"--storage {text}, expected NAME=VALUE")
    return name, {"true": True, "false": False}.get(value.lower(), value)
