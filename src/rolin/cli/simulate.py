"""`rolin simulate`: policies by name, played on problems of which the answer is known."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from rolin import environments
from rolin.cli.policies import new_policy
from rolin.cli.shared import Address, Jobs, OnEngine, Seed, summary_table
from rolin.errors import DataError
from rolin.simulation.runner import simulate

__all__ = ["run"]

_WORLDS = {
    "synthetic": environments.Synthetic,
    "clicks": environments.Clicks,
    "drifting": environments.Drifting,
}


def run(
    policies: Annotated[
        list[str], typer.Argument(help="Names of policies, such as RoLinTS LinTS Uniform.")
    ],
    world: Annotated[
        Literal["synthetic", "clicks", "drifting"], typer.Option(help="What they are played on.")
    ] = "synthetic",
    arms: Annotated[int, typer.Option(min=1, help="Number of arms.")] = 50,
    features: Annotated[int, typer.Option(min=0, help="Number of features of an arm.")] = 10,
    arm_std: Annotated[
        float, typer.Option(min=0.0, help="How much arms differ by what no feature shows.")
    ] = 0.5,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of a run.")] = 1000,
    runs: Annotated[int, typer.Option(min=1, help="Runs.")] = 20,
    seed: Seed = 0,
    n_jobs: Jobs = -1,
    engine: OnEngine = None,
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the runs and a figure; finished runs are not played again."),
    ] = None,
) -> None:
    """Let policies play the same problems, and compare their regret.

    Scales that a policy can learn are learned; everything else is as by default.
    """
    made: Any = _WORLDS[world]
    problem = made(n_arms=arms, n_features=features, arm_std=arm_std)
    players = {name: functools.partial(new_policy, name, features) for name in policies}
    if len(players) < len(policies):
        raise DataError("a policy is named twice")
    if out is not None:
        if out.exists() and not out.is_dir():
            raise DataError(f"--out {out} is a file, expected a folder")
        out.mkdir(parents=True, exist_ok=True)
    result = simulate(
        players,
        problem,
        rounds=rounds,
        runs=runs,
        seed=seed,
        n_jobs=n_jobs,
        engine=engine,
        address=address,
        checkpoint=None if out is None else out / "runs.jsonl",
    )
    title = f"Regret after {rounds} rounds of {len(result.runs)} runs, {world}"
    Console().print(summary_table(title, result.summary()))
    if out is not None:
        figure: Any = result.plot().figure
        figure.savefig(out / "regret.png", dpi=150)
        typer.echo(f"Runs and figure: {out}")
