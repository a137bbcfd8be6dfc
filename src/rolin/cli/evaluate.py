"""`rolin evaluate`: estimate the value of policies from the decisions logged by another one."""

from __future__ import annotations

import json as json_
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from rolin import offline
from rolin._support.checks import level_of
from rolin._support.files import check_output, is_figure, is_report, write_bytes, write_figure
from rolin._support.progress import reporter
from rolin.cli.policies import missing_of, new_policy, read_map, slope_options
from rolin.cli.shared import MissingRewards, SlopeFeatures, SlopeStd, listed_names
from rolin.errors import DataError, OverlapWarning, RolinError, StateFileError
from rolin.features import BaseFeatureMap
from rolin.logs.frames import numbers, read_table
from rolin.offline.figures import draw_estimates
from rolin.policies import Policy, find
from rolin.policies.registry import load_or_start

__all__ = ["run"]


def run(
    log: Annotated[
        Path,
        typer.Argument(
            help="A journal, a table (.csv, .parquet), a Vowpal Wabbit log (.dsjson), or a folder of the Open "
            "Bandit Dataset."
        ),
    ],
    policy: Annotated[
        list[str],
        typer.Option(
            help="State file of a policy, which is evaluated as it is; uniform; or the name of a policy, such as "
            "RoLinTS, which learns while it replays the log. Repeatable."
        ),
    ],
    missing: MissingRewards = "refuse",
    first_rank: Annotated[
        bool, typer.Option(help="Evaluate rankings by the arm of the first rank.")
    ] = False,
    arm: Annotated[str | None, typer.Option(help="For a table: column of the arm.")] = None,
    reward: Annotated[str | None, typer.Option(help="For a table: column of the reward.")] = None,
    propensity: Annotated[
        str | None, typer.Option(help="For a table: column of the propensity.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="For a table that was not exported: columns of the features, separated by commas."
        ),
    ] = None,
    arm_features: Annotated[
        Path | None,
        typer.Option(
            help="For a table that was not exported: CSV file with the features of every arm; the arm is its first "
            "column."
        ),
    ] = None,
    feature_map: Annotated[
        Path | None,
        typer.Option(
            help="File (.json) with the feature map that reads raw features. Default: that of the policy."
        ),
    ] = None,
    slope_std: SlopeStd = None,
    slopes: SlopeFeatures = None,
    control_only: Annotated[
        bool, typer.Option("--control-only", help="Use only the decisions of the control group.")
    ] = False,
    last: Annotated[
        float | None,
        typer.Option(help="Use only the last decisions, this share of all, such as 0.5."),
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    json: Annotated[
        Path | None, typer.Option(help="Also write the report to this file, as JSON.")
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Also draw the report to this file (.png, .pdf, .svg)."),
    ] = None,
) -> None:
    """Estimate the value of policies from the decisions logged by another one."""
    columns: dict[str, Any] = {
        name: value
        for name, value in (("arm", arm), ("reward", reward), ("propensity", propensity))
        if value is not None
    }
    if features is not None:
        columns["features"] = listed_names(features)
    inputs: list[str | Path] = [
        log,
        *filter(None, (arm_features, feature_map)),
        *filter(_is_file, policy),
    ]
    if json is not None:
        check_output(json, is_report("policy", "n"), "a report of this command", inputs)
    if figure is not None:
        others = [] if json is None else [json]
        check_output(figure, is_figure, "a figure of this command", [*inputs, *others])
    targets = {name: _target(name) for name in policy}
    level = level_of(level)
    if figure is not None and all(isinstance(target, type) for target in targets.values()):
        raise DataError(
            "--figure needs a fixed policy (a state file or uniform), but all given policies are replayed"
        )
    if (own_map := _map(feature_map, targets)) is not None:
        columns["feature_map"] = own_map
    replayed = [name for name, target in targets.items() if isinstance(target, type)]
    options = slope_options(slope_std, slopes, replayed, own_map)
    if arm_features is not None:
        columns["arm_features"] = _arm_features(arm_features, raw=own_map is not None)
    read = offline.read(log, missing=missing_of(missing), first_rank=first_rank, **columns)
    if control_only:
        read = read.take(read.control)
    if last is not None:
        if not 0.0 < last <= 1.0:
            raise DataError(f"--last {last}, expected a share above 0 and at most 1")
        read = read.take(np.arange(len(read) - round(last * len(read)), len(read)))
    reports: list[dict[str, Any]] = []
    evaluations: list[offline.Evaluation] = []
    failed: list[str] = []
    for name, target in targets.items():
        try:
            with reporter(True, name, len(read)) as advance, warnings.catch_warnings():
                warnings.simplefilter("ignore", OverlapWarning)  # the text contains them
                if isinstance(target, type):
                    fresh = new_policy(name, read.n_features, seed=0, **options[name])
                    result = offline.replay(read, fresh, level=level, progress=advance)
                    text = f"{name}, learning from the log: {result}"
                    reports.append(
                        {"policy": name, "replay": result.value, "low": result.low,
                         "high": result.high, "rows": len(result.rows), "n": len(read)}
                    )  # fmt: skip
                else:
                    report = offline.evaluate(
                        read, target, label=name, level=level, progress=advance
                    )
                    text = str(report)
                    evaluations.append(report)
                    reports.append(json_.loads(report.to_json()))
            typer.echo(text + "\n")
        except RolinError as error:  # the other policies are evaluated all the same
            failed.append(f"{name}: {error}")
    groups: list[tuple[Literal["control", "share"], Any, str]] = [
        ("control", read.control, "the control group"),
        ("share", read.outside_share, "the baseline"),
    ]
    for by, others, title in groups:
        if others.any() and not others.all():
            try:
                typer.echo(f"Lift over {title}: {offline.lift(read, by=by, level=level)}")
            except RolinError as error:
                failed.append(f"lift over {title}: {error}")
    try:
        if json is not None:
            write_bytes(json, (json_.dumps(reports, indent=2) + "\n").encode())
        if figure is not None and evaluations:
            write_figure(figure, draw_estimates(*evaluations), dpi=150)
    except (OSError, ValueError, StateFileError) as error:
        raise DataError(f"the report cannot be written: {error}") from error
    if failed:
        raise DataError("; ".join(failed))


def _arm_features(path: Path, *, raw: bool) -> Any:
    """Return the features of every arm from a table whose first column is the arm."""
    table = read_table(path, None)
    arm, *features = table.columns
    if raw:
        return read_table(path, arm).set_index(arm)
    if not features or table[arm].duplicated().any():
        raise DataError(f"{path} is not a table with features and with every arm once")
    columns = [numbers(path, table, name) for name in features]
    return dict(zip(table[arm].tolist(), np.column_stack(columns).tolist(), strict=True))


def _map(path: Path | None, targets: dict[str, Any]) -> BaseFeatureMap | None:
    """Return the feature map of a file, or that of the policies."""
    if path is not None:
        return read_map(path)
    maps = {target.feature_map for target in targets.values() if isinstance(target, Policy)} - {
        None
    }
    if len(maps) > 1:
        raise DataError("the policies have different feature maps: evaluate them one at a time")
    return maps.pop() if maps else None


def _is_file(name: str) -> bool:
    """Return whether a policy is a state file, not a name."""
    return name != "uniform" and name not in find()


def _target(name: str) -> Any:
    """Return the policy of a state file, the class of a policy that learns, or "uniform"."""
    if name == "uniform":
        return name
    policies = find()
    if name in policies:
        return policies[name]
    if not Path(name).is_file():
        raise DataError(
            f"--policy {name} is neither a file, nor uniform, nor one of {', '.join(sorted(policies))}"
        )
    return load_or_start(name)
