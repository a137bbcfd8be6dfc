"""`rolin reproduce`: run the experiments of the paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

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

app = typer.Typer(
    cls=in_order(
        *("synthetic", "movielens", "runtime", "perturbed", "ucb", "scales", "bounds"),
        *(
            "joint",
            "fixed",
            "horizon",
            "alternatives",
            "readings",
            "movielens-readings",
            "movielens-zeros",
            "all",
        ),
    ),
    no_args_is_help=True,
    help="Run the experiments of the paper and check its claims.\n\n"
    "With the default number of runs, on two cores: perturbed, ucb and fixed take about 2 minutes each, scales, "
    "joint, horizon, alternatives and readings 4 to 5 minutes each, synthetic about 6 minutes, movielens and movielens-zeros about 8 minutes each, "
    "movielens-readings more than an hour, all of them about two hours.\n\n"
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

_SYMBOLS = "σ₀: true standard deviation of the arm effects; s₀: the value the policy assumes"

console = Console()


def _run(
    experiment: Experiment, runs: int | None, seed: int, workers: Workers, out: Path | None
) -> None:
    folder = out or Path("out") / experiment.name
    try:
        report = reproduce(experiment, folder, runs=runs, seed=seed, **workers)
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


def _command(make: Callable[..., Experiment]) -> Callable[..., None]:
    """Return the command of an experiment with synthetic problems."""

    def command(
        runs: Runs = None,
        rounds: Rounds = None,
        n_jobs: Jobs = -1,
        engine: OnEngine = None,
        address: Address = None,
        seed: Seed = 0,
        out: Out = None,
        contexts: Contexts = "fresh",
        sampling: Sampling = "marginal",
    ) -> None:
        _run(
            make(rounds=rounds, contexts=contexts, sampling=sampling),
            runs,
            seed,
            {"n_jobs": n_jobs, "engine": engine, "address": address},
            out,
        )

    return command


SYNTHETIC = (synthetic, perturbed, ucb, scales, horizon, alternatives, readings)
for _make in SYNTHETIC:
    app.command(name=_make.__name__, help=_make.__doc__)(_command(_make))


@app.command(name="joint", help=joint.__doc__)
def _joint_command(
    runs: Runs = None,
    rounds: Rounds = None,
    n_jobs: Jobs = -1,
    engine: OnEngine = None,
    address: Address = None,
    seed: Seed = 0,
    out: Out = None,
    contexts: Contexts = "fresh",
) -> None:
    workers: Workers = {"n_jobs": n_jobs, "engine": engine, "address": address}
    _run(joint(rounds=rounds, contexts=contexts), runs, seed, workers, out)


@app.command(name="fixed", help=fixed.__doc__)
def _fixed_command(
    runs: Runs = None,
    rounds: Rounds = None,
    n_jobs: Jobs = -1,
    engine: OnEngine = None,
    address: Address = None,
    seed: Seed = 0,
    out: Out = None,
    sampling: Sampling = "marginal",
) -> None:
    workers: Workers = {"n_jobs": n_jobs, "engine": engine, "address": address}
    _run(fixed(rounds=rounds, sampling=sampling), runs, seed, workers, out)


def _movielens(make: Callable[..., Experiment], data: Path | None, **options: object) -> Experiment:
    """Return an experiment that needs the ratings."""
    if data is None:
        raise typer.BadParameter(
            "this experiment needs the ratings: --data DIR (`rolin data movielens` downloads them)"
        )
    with console.status("factorizing the ratings"):
        experiment = make(data, **options)
    for note in experiment.notes:
        typer.echo(note)
    return experiment


@app.command(name="movielens", help=movielens.__doc__)
def _movielens_command(
    data: Data = None,
    runs: Runs = None,
    rounds: Rounds = None,
    n_jobs: Jobs = -1,
    engine: OnEngine = None,
    address: Address = None,
    seed: Seed = 0,
    out: Out = None,
    sampling: Sampling = "marginal",
    rank: Rank = 10,
    ridge: Ridge = 1.0,
    center: Center = False,
    weighted: Weighted = False,
) -> None:
    experiment = _movielens(
        movielens, data, rounds=rounds, sampling=sampling, seed=seed,
        rank=rank, ridge=ridge, center=center, weighted=weighted,
    )  # fmt: skip
    _run(experiment, runs, seed, {"n_jobs": n_jobs, "engine": engine, "address": address}, out)


def _movielens_variant(make: Callable[..., Experiment]) -> Callable[..., None]:
    """Return the command of a variant of Figure 2."""

    def command(
        data: Data = None,
        runs: Runs = None,
        rounds: Rounds = None,
        n_jobs: Jobs = -1,
        engine: OnEngine = None,
        address: Address = None,
        seed: Seed = 0,
        out: Out = None,
        sampling: Sampling = "marginal",
    ) -> None:
        experiment = _movielens(make, data, rounds=rounds, sampling=sampling, seed=seed)
        _run(experiment, runs, seed, {"n_jobs": n_jobs, "engine": engine, "address": address}, out)

    return command


MOVIELENS_VARIANTS = (movielens_readings, movielens_zeros)
for _variant in MOVIELENS_VARIANTS:
    _name = _variant.__name__.replace("_", "-")
    app.command(name=_name, help=_variant.__doc__)(_movielens_variant(_variant))


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


@app.command(name="all")
def _all_command(
    data: Data = None,
    runs: Runs = None,
    rounds: Rounds = None,
    n_jobs: Jobs = -1,
    engine: OnEngine = None,
    address: Address = None,
    seed: Seed = 0,
    out: Out = None,
    contexts: Contexts = "fresh",
    sampling: Sampling = "marginal",
    rank: Rank = 10,
    ridge: Ridge = 1.0,
    center: Center = False,
    weighted: Weighted = False,
) -> None:
    """All experiments, each in its own folder."""
    # All experiments are made first, so that bad options show now and not after an hour.
    experiments = [
        _movielens(
            movielens, data, rounds=rounds, sampling=sampling, seed=seed,
            rank=rank, ridge=ridge, center=center, weighted=weighted,
        ),
        *(
            _movielens(make, data, rounds=rounds, sampling=sampling, seed=seed)
            for make in MOVIELENS_VARIANTS
        ),
    ]  # fmt: skip
    experiments += [make(rounds=rounds, contexts=contexts, sampling=sampling) for make in SYNTHETIC]
    experiments += [
        joint(rounds=rounds, contexts=contexts),
        fixed(rounds=rounds, sampling=sampling),
    ]
    folder = out or Path("out")
    workers: Workers = {"n_jobs": n_jobs, "engine": engine, "address": address}
    for experiment in experiments:
        _run(experiment, runs, seed, workers, folder / experiment.name)
    _runtime_command(runs=runs, rounds=rounds, seed=seed, out=folder / "runtime")
    _bounds_command(seed=seed, out=folder / "bounds")
