"""`rolin diagnose`: test whether arms differ in ways the features do not explain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rolin._support.files import check_output, is_figure, is_report, write_bytes, write_figure
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
from rolin.errors import DataError, StateFileError
from rolin.journal import load_policy
from rolin.logs.frames import SUFFIXES, read_log, read_table
from rolin.model.diagnosis import Diagnosis, diagnose
from rolin.policies import LinearPolicy
from rolin.policies.bayes_rolin_ts import BayesRoLinTS
from rolin.policies.registry import load_or_start

__all__ = ["run"]

_SQLITE = b"SQLite format 3"  # the first bytes of such files


def run(
    source: Annotated[
        Path,
        typer.Argument(help="A state file of a policy, a journal, or a log as CSV or Parquet."),
    ],
    arm: ArmColumn = "arm",
    reward: RewardColumn = "reward",
    weight: WeightColumn = None,
    features: FeatureColumns = None,
    feature_map: MapFile = None,
    missing: MissingRewards = "refuse",
    json: Annotated[
        Path | None, typer.Option(help="Also write the report to this file, as JSON.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Also draw the report to this file (.png, .pdf, .svg).")
    ] = None,
) -> None:
    """Test whether arms differ in ways the features do not explain."""
    if json is not None:
        check_output(
            json, is_report("answer", "because", "log_scores"), "a report of this command", [source]
        )
    if figure is not None:
        others = [] if json is None else [json]
        check_output(figure, is_figure, "a figure of this command", [source, *others])
    columns = {
        "arm": arm,
        "reward": reward,
        "weight": weight,
        "features": listed_names(features),
        "feature_map": None if feature_map is None else read_map(feature_map),
        "missing": missing_of(missing),
    }
    report = _report(source, columns)
    typer.echo(str(report))
    try:
        if json is not None:
            write_bytes(json, f"{report.to_json()}\n".encode())
        if figure is not None:
            write_figure(figure, report.plot(), dpi=150)
    except (OSError, ValueError, StateFileError) as error:
        raise DataError(f"the report cannot be written: {error}") from error


def _report(source: Path, columns: dict[str, Any]) -> Diagnosis:
    if source.name.endswith(SUFFIXES):
        plain = columns["features"] is None and columns["feature_map"] is None
        if plain and {"offered", "contexts"} <= set(read_table(source, None).columns):
            raise DataError(
                f"{source} is a table that was exported from a journal: diagnose the journal, or import the table "
                "into a new one first (rolin journal import)"
            )
        log = read_log(source, **columns)
        if not log.arms:
            raise DataError(f"{source} has no rows")
        return diagnose(log.moments, feature_names=log.features)
    if not source.is_file():
        known = source.exists()
        raise DataError(f"{source} is not a file" if known else f"there is no file {source}")
    try:
        with source.open("rb") as file:
            is_journal = file.read(len(_SQLITE)) == _SQLITE
        policy = load_policy(source).policy if is_journal else load_or_start(source)
    except StateFileError as error:
        raise StateFileError(
            f"{error} (the name of a log ends in {', '.join(SUFFIXES)})"
        ) from error
    if not isinstance(policy, (LinearPolicy, BayesRoLinTS)):
        raise DataError(
            f"{source} holds a {type(policy).__name__}, which has no arm effects to diagnose"
        )
    return policy.diagnose()
