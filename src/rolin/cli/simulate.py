"""`rolin simulate`: compare policies, given by name, in a simulated environment."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from rolin import environments
from rolin._support.files import check_output, is_figure, write_figure
from rolin.cli.policies import new_policy, slope_options
from rolin.cli.shared import (
    Address,
    Jobs,
    OnEngine,
    Seed,
    SlopeFeatures,
    SlopeStd,
    summary_table,
)
from rolin.errors import DataError
from rolin.simulation.runner import simulate

__all__ = ["run"]

_ENVIRONMENTS = {
    "synthetic": environments.Synthetic,
    "clicks": environments.Clicks,
    "drifting": environments.Drifting,
}


def run(
    policies: Annotated[
        list[str], typer.Argument(help="Names of policies, such as RoLinTS LinTS Uniform.")
    ],
    environment: Annotated[
        Literal["synthetic", "clicks", "drifting"],
        typer.Option(
            metavar="NAME",
            help="synthetic (Gaussian rewards), clicks (binary rewards) or drifting (arm effects that change).",
        ),
    ] = "synthetic",
    n_arms: Annotated[int, typer.Option(min=1, help="Number of arms.")] = 50,
    n_features: Annotated[int, typer.Option(min=0, help="Number of features of an arm.")] = 10,
    arm_std: Annotated[
        float,
        typer.Option(
            min=0.0, help="Standard deviation of the arm effects, which the features do not show."
        ),
    ] = 0.5,
    slope_std: SlopeStd = None,
    slopes: SlopeFeatures = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds in a run.")] = 1000,
    runs: Annotated[int, typer.Option(min=1, help="Number of runs.")] = 20,
    seed: Seed = 0,
    n_jobs: Jobs = -1,
    engine: OnEngine = None,
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the runs and a figure. The same command with the same folder resumes."
        ),
    ] = None,
) -> None:
    """Simulate policies on the same problems and compare their regret.

    Each policy learns the scales that it can learn; all other settings are defaults.
    """
    world: Any = _ENVIRONMENTS[environment]
    repeated = {name for name in policies if policies.count(name) > 1}
    if repeated:
        raise DataError(f"{', '.join(sorted(repeated))} is given twice, expected each policy once")
    options = slope_options(slope_std, slopes, policies)
    if out is not None:
        if out.exists() and not out.is_dir():
            raise DataError(f"--out {out} is a file, expected a folder")
        out.mkdir(parents=True, exist_ok=True)
        check_output(out / "regret.png", is_figure, "a figure of this command")
    result = simulate(
        {
            name: functools.partial(new_policy, name, n_features, **each)
            for name, each in options.items()
        },
        world(n_arms=n_arms, n_features=n_features, arm_std=arm_std),
        rounds=rounds,
        runs=runs,
        seed=seed,
        n_jobs=n_jobs,
        engine=engine,
        address=address,
        checkpoint=None if out is None else out / "runs.jsonl",
    )
    title = f"Regret after {rounds} rounds, {len(result.runs)} runs, {environment} environment"
    Console().print(summary_table(title, result.summary()))
    if out is not None:
        figure: Any = result.plot().figure
        write_figure(out / "regret.png", figure, dpi=150)
        typer.echo(f"Runs and figure: {out}")
