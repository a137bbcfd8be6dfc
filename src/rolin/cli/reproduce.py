"""`rolin reproduce`: run the experiments of the paper."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from rolin.cli.shared import Address, Jobs, OnEngine, Seed, Workers, in_order, summary_table
from rolin.paper.alternatives import alternatives
from rolin.paper.bounds import bounds
from rolin.paper.claims import verdict
from rolin.paper.experiment import Experiment
from rolin.paper.fixed import fixed
from rolin.paper.horizon import horizon
from rolin.paper.joint import joint
from rolin.paper.movielens import movielens
from rolin.paper.movielens_readings import movielens_readings
from rolin.paper.movielens_zeros import movielens_zeros
from rolin.paper.perturbed import perturbed
from rolin.paper.readings import readings
from rolin.paper.reproduce import Report, reproduce
from rolin.paper.runtime import runtime
from rolin.paper.scales import scales
from rolin.paper.synthetic import synthetic
from rolin.paper.ucb import ucb

__all__ = ["app"]

# Of the help: what the paper shows first.
_ORDER = (
    "synthetic", "movielens", "runtime", "perturbed", "ucb", "scales", "bounds", "joint", "fixed", "horizon",
    "alternatives", "readings", "movielens-readings", "movielens-zeros", "all",
)  # fmt: skip

app = typer.Typer(
    cls=in_order(*_ORDER),
    no_args_is_help=True,
    help="Run the experiments of the paper and check its claims.\n\n"
    "On two cores, with the default number of runs, an experiment takes 2 to 8 minutes, movielens-readings more than "
    "an hour, and all of them about two hours.\n\n"
    "Example: rolin reproduce synthetic --runs 20 --out out/try",
)

Runs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of runs; by default that of the paper, or more if its sentences need more.",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(min=1, help="Number of rounds in a run; by default that of the paper."),
]
Out = Annotated[Path | None, typer.Option(help="Output folder; by default out/EXPERIMENT.")]
Contexts = Annotated[
    Literal["fresh", "fixed"],
    typer.Option(help="Draw the contexts in every round, or once per run."),
]
Sampling = Annotated[
    Literal["marginal", "joint"],
    typer.Option(help="Sample arms independently, as in the paper, or jointly."),
]
# It is required, but an error of our own says where the ratings come from. The backslash hides the bracket from rich.
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder with the ratings; `rolin data movielens` downloads it. [red]\\[required][/red]",
    ),
]
Rank = Annotated[int, typer.Option(min=1, help="Number of features of a movie.")]
Ridge = Annotated[float, typer.Option(help="Ridge penalty of the factorization.")]
Center = Annotated[
    bool, typer.Option("--center", help="Subtract the mean rating before the factorization.")
]
Weighted = Annotated[
    bool,
    typer.Option(
        "--weighted", help="Multiply the penalty of a user or movie by its number of ratings."
    ),
]

# All options with their defaults, in the order of the help; then those that every experiment has.
OPTIONS: dict[str, tuple[Any, Any]] = {
    "data": (Data, None), "runs": (Runs, None), "rounds": (Rounds, None), "n_jobs": (Jobs, -1),
    "engine": (OnEngine, None), "address": (Address, None), "seed": (Seed, 0), "out": (Out, None),
    "contexts": (Contexts, "fresh"), "sampling": (Sampling, "marginal"), "rank": (Rank, 10),
    "ridge": (Ridge, 1.0), "center": (Center, False), "weighted": (Weighted, False),
}  # fmt: skip
EVERY = ("runs", "n_jobs", "engine", "address", "seed", "out")

_SYMBOLS = "σ₀: true standard deviation of the arm effects; s₀: the value the policy assumes"

console = Console()


def _run(experiment: Experiment, given: dict[str, Any], folder: Path) -> None:
    workers: Workers = {name: given[name] for name in ("n_jobs", "engine", "address")}  # type: ignore[assignment]  # it has these keys
    try:
        report = reproduce(experiment, folder, runs=given["runs"], seed=given["seed"], **workers)
    except KeyboardInterrupt:
        typer.echo(
            f"Interrupted. Completed runs are in {folder}. Run the same command again to resume."
        )
        raise typer.Exit(130) from None
    _show(report)


def _show(report: Report) -> None:
    """Print the summary and the verdicts."""
    console.print(summary_table(report.title, report.summary))
    if "σ₀" in report.summary.to_string():
        typer.echo(_SYMBOLS)
    verdicts = Table(title="Claims of the paper")
    for name in ("claim", "verdict", "holds in"):
        verdicts.add_column(name)
    colors = {"holds": "green", "fails": "red", "holds in part": "yellow"}
    for claim, checks in report.verdicts:
        word = verdict(checks)
        held = sum(check.outcome is True for check in checks)
        verdicts.add_row(
            claim.name, f"[{colors.get(word, 'dim')}]{word}", f"{held} of {len(checks)} checks"
        )
    console.print(verdicts)
    typer.echo(f"All results, and the claims with their numbers: {report.folder}")


def _made(make: Callable[..., Experiment], given: dict[str, Any]) -> Experiment:
    """Return an experiment with those of the options that it has."""
    options = {name: given[name] for name in inspect.signature(make).parameters}
    if "data" not in options:
        return make(**options)
    if options["data"] is None:
        raise typer.BadParameter(
            "this experiment needs the ratings: --data DIR (`rolin data movielens` downloads them)"
        )
    with console.status("factorizing the ratings"):
        experiment = make(**options)
    for note in experiment.notes:
        typer.echo(note)
    return experiment


def _with_options(command: Callable[..., None], own: Collection[str]) -> Callable[..., None]:
    """Give a command the options of every experiment, and these of its own."""
    names = [name for name in OPTIONS if name in EVERY or name in own]
    annotations, defaults = zip(*(OPTIONS[name] for name in names), strict=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, annotation, default in zip(names, annotations, defaults, strict=True)
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    command.__annotations__ = dict(zip(names, annotations, strict=True))
    return command


def _command(make: Callable[..., Experiment]) -> Callable[..., None]:
    """Return the command of an experiment. Its options are those that the experiment has."""

    def command(**given: Any) -> None:
        experiment = _made(make, given)
        _run(experiment, given, given["out"] or Path("out") / experiment.name)

    return _with_options(command, inspect.signature(make).parameters)


EXPERIMENTS = (
    movielens, movielens_readings, movielens_zeros,
    synthetic, perturbed, ucb, scales, horizon, alternatives, readings, joint, fixed,
)  # fmt: skip
for _make in EXPERIMENTS:
    app.command(name=_make.__name__.replace("_", "-"), help=_make.__doc__)(_command(_make))


@app.command(name="runtime")
def _runtime_command(
    runs: Runs = None,
    rounds: Rounds = None,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """Table 1: run time of RoLinTS and of its naive implementation, by the number of arms."""
    _show(runtime(out or Path("out") / "runtime", rounds=rounds, runs=runs, seed=seed))


@app.command(name="bounds")
def _bounds_command(seed: Seed = 0, out: Out = None) -> None:
    """Theorems 1 and 2: what the paper says about its bounds, in random settings."""
    _show(bounds(out or Path("out") / "bounds", seed=seed))


def _all(**given: Any) -> None:
    """All experiments, each in its own folder."""
    # All experiments are made first, so that bad options show now and not after an hour.
    experiments = [_made(make, given) for make in EXPERIMENTS]
    folder = given["out"] or Path("out")
    for experiment in experiments:
        _run(experiment, given, folder / experiment.name)
    runs, rounds, seed = given["runs"], given["rounds"], given["seed"]
    _runtime_command(runs=runs, rounds=rounds, seed=seed, out=folder / "runtime")
    _bounds_command(seed=seed, out=folder / "bounds")


app.command(name="all")(_with_options(_all, OPTIONS))
