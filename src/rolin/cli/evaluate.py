"""`rolin evaluate`: whether another policy would have been better."""

from __future__ import annotations

import json as json_
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from rolin import offline
from rolin.checks import level_of
from rolin.cli.policies import new_policy
from rolin.errors import DataError, OverlapWarning
from rolin.policies import find, load
from rolin.progress import bar

__all__ = ["run"]


def run(
    log: Annotated[
        Path,
        typer.Argument(
            help="A journal, an exported table (.csv, .parquet), a .dsjson log, or a folder of the Open "
            "Bandit Dataset."
        ),
    ],
    policy: Annotated[
        list[str],
        typer.Option(
            help="A state that a policy saved, evaluated as it is; uniform; or the name of a policy, such "
            "as RoLinTS, that learns as it replays the log. Repeatable."
        ),
    ],
    missing: Annotated[
        str,
        typer.Option(
            help="Decisions without a reward: refuse, drop, or a number to count instead."
        ),
    ] = "refuse",
    first_place: Annotated[
        bool, typer.Option(help="Evaluate rankings by their first place.")
    ] = False,
    arm: Annotated[
        str | None, typer.Option(help="Of a plain table: the column of the arm.")
    ] = None,
    reward: Annotated[str | None, typer.Option(help="The column of the reward.")] = None,
    propensity: Annotated[str | None, typer.Option(help="The column of the propensity.")] = None,
    features: Annotated[
        str | None,
        typer.Option(help="Of a plain table: the features' columns, with commas between."),
    ] = None,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    json: Annotated[Path | None, typer.Option(help="Also write everything as JSON here.")] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Also draw the first policy to this file (.png, .pdf, .svg)."),
    ] = None,
) -> None:
    """Say what policies would have been worth, by the decisions of another."""
    columns: dict[str, Any] = {
        name: value
        for name, value in (("arm", arm), ("reward", reward), ("propensity", propensity))
        if value is not None
    }
    if features is not None:
        columns["features"] = [name.strip() for name in features.split(",")]
    targets = {name: _target(name) for name in policy}
    level = level_of(level)
    if figure is not None and all(isinstance(target, type) for target in targets.values()):
        raise DataError("--figure draws policies that are evaluated as they are, and none is given")
    read = offline.read(log, missing=_missing(missing), first_place=first_place, **columns)
    reports: list[dict[str, Any]] = []
    first = None
    for name, target in targets.items():
        with bar(name, len(read)) as done:
            if isinstance(target, type):
                result = offline.replay(
                    read, new_policy(name, read.n_features, seed=0), level=level, progress=done
                )
                text = f"{name}, learning as it goes: {result}"
                reports.append(
                    {"policy": name, "replay": result.value, "low": result.low, "high": result.high,
                     "kept": len(result.kept), "n": len(read)}
                )  # fmt: skip
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", OverlapWarning)  # they are in the report
                    report = offline.evaluate(read, target, label=name, level=level, progress=done)
                text, first = str(report), first or report
                reports.append(json_.loads(report.to_json()))
        typer.echo(text + "\n")
    if read.control.any() and not read.control.all():
        typer.echo(f"Lift over the control group: {offline.lift(read, level=level)}")
    try:
        if json is not None:
            json.write_text(json_.dumps(reports, indent=2) + "\n", encoding="utf-8")
        if figure is not None and first is not None:
            first.plot().savefig(figure, dpi=150)
    except (OSError, ValueError) as error:
        raise DataError(f"the report cannot be written: {error}") from error


def _target(name: str) -> Any:
    """Return what is to be evaluated: a policy as it is, or the class of one that learns."""
    if name == "uniform":
        return name
    policies = find()
    if name in policies:
        return policies[name]
    if not Path(name).is_file():
        raise DataError(
            f"--policy {name} is neither a file, nor uniform, nor one of {', '.join(sorted(policies))}"
        )
    return load(name)


def _missing(text: str) -> Any:
    if text in ("refuse", "drop"):
        return text
    try:
        return float(text)
    except ValueError:
        raise DataError(f"--missing {text}, expected refuse, drop or a number") from None
