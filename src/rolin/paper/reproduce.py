"""Run an experiment of the paper and write its results to a folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rolin._support.checks import count_of
from rolin._support.parallel import Engine, check_engine, check_n_jobs, connected
from rolin._support.progress import Progress, check_progress, reporter
from rolin.paper import drawing
from rolin.paper.claims import Check, Claim, verdict
from rolin.paper.experiment import Experiment
from rolin.paper.folder import Folder
from rolin.simulation.result import Result
from rolin.simulation.run_file import completed_runs
from rolin.simulation.runner import MAX_COUNT, simulate

__all__ = ["Report", "claims_page", "records", "reproduce"]

# Number of exceptions to a claim up to which its verdict names each of them.
_SHOWN = 4


@dataclass(frozen=True)
class Report:
    """The results of an experiment."""

    title: str
    """Title of the figure or table."""
    folder: Path
    """The folder with all files."""
    summary: pd.DataFrame
    """One row per environment and policy."""
    verdicts: Sequence[tuple[Claim, Sequence[Check]]]
    """Every claim with its checks."""


def reproduce(
    experiment: Experiment,
    folder: Path,
    *,
    runs: int | None = None,
    seed: int = 0,
    n_jobs: int | None = -1,
    engine: Engine | None = None,
    address: str | None = None,
    n_points: int = 100,
    progress: Progress = True,
) -> Report:
    """Run an experiment, and write figure, regrets, summary, claims and settings to a folder.

    The same call resumes an interrupted experiment after its last completed run. A call with more runs
    adds the new ones.

    Parameters
    ----------
    experiment
        The experiment.
    folder
        Output folder; created if it does not exist.
    runs
        Number of runs; by default that of the experiment.
    seed
        A non-negative integer.
    n_jobs
        Number of processes; `None` means 1, -1 means all cores.
    engine
        `"dask"` or `"ray"` to run on a cluster; by default processes of this machine.
    address
        Address of the cluster; by default a new one on this machine.
    n_points
        Number of evenly spaced rounds after which the regret is recorded.
    progress
        `True` shows a progress bar for each environment, `False` shows nothing. A function is called with
        the number of runs that were completed since its last call.
    """
    runs = experiment.runs if runs is None else count_of("runs", runs, least=1, most=MAX_COUNT)
    # Everything is checked before anything is written.
    check_n_jobs(n_jobs)
    check_engine(engine, address)
    check_progress(progress)
    seed, n_points = count_of("seed", seed), count_of("n_points", n_points, least=1)
    count_of("rounds", experiment.rounds, least=1, most=MAX_COUNT)
    for make in experiment.policies.values():
        make(seed=seed)
    settings = {
        "experiment": experiment.name,
        "rounds": experiment.rounds,
        "seed": seed,
        "checkpoints": n_points,
        **experiment.settings,
    }
    output = Folder(folder, settings)
    results = {}
    with connected(engine, address, 1 if n_jobs is None else n_jobs):
        for i, (title, environment) in enumerate(experiment.environments.items(), start=1):
            checkpoint = folder / f"runs-{i}.jsonl"
            label = f"{experiment.name}, {title}"
            done = sum(run < runs for run in completed_runs(checkpoint))
            with warnings.catch_warnings(), reporter(progress, label, runs, done) as advance:
                warnings.filterwarnings("ignore", "interrupted:")
                results[title] = simulate(
                    experiment.policies,
                    environment,
                    rounds=experiment.rounds,
                    runs=runs,
                    seed=seed,
                    n_jobs=n_jobs,
                    engine=engine,
                    address=address,
                    n_points=n_points,
                    progress=advance,
                    checkpoint=checkpoint,
                )
            if len(results[title].runs) < runs:
                raise KeyboardInterrupt
    return _write(experiment, output, results, settings)


def _write(
    experiment: Experiment,
    output: Folder,
    results: Mapping[str, Result],
    settings: Mapping[str, Any],
) -> Report:
    """Write all files except the runs themselves."""
    head = {"experiment": experiment.name}
    frames, summaries = [], []
    for title, result in results.items():
        frames.append(result.to_frame().assign(**head, environment=title))
        summaries.append(result.summary().assign(**head, environment=title))
    regret, summary = pd.concat(frames), pd.concat(summaries, ignore_index=True)
    regret = regret[["experiment", "environment", "policy", "run", "round", "regret"]]
    with output.file("regret.csv") as path:
        regret.to_csv(path, index=False, float_format="%.10g")
    summary = summary.rename(
        columns={
            "growth": "last_quarter_over_third",
            "growth_std_error": "last_quarter_over_third_std_error",
        }
    )
    columns = ["experiment", "environment", "policy"]
    summary = summary[[*columns, *(c for c in summary.columns if c not in columns)]]
    output.write("summary.json", records(summary))
    verdicts = [(claim, claim.check(results)) for claim in experiment.claims]
    runs = max(len(result.runs) for result in results.values())
    notes = list(experiment.notes)
    if runs < experiment.min_runs:
        notes.append(f"**Only {runs} runs; these verdicts need at least {experiment.min_runs}.**")
    options = ", ".join(
        f"{name} {value}" for name, value in settings.items() if name != "experiment"
    )
    heading = f"{experiment.source}: {runs} runs, {options}"
    output.write("claims.md", claims_page(heading, verdicts, notes))
    figure = drawing.draw(experiment, results)
    for ending in ("png", "svg"):
        with output.file(f"figure.{ending}") as path:
            drawing.save(figure, path)
    first = next(iter(results.values()))
    output.write_settings(
        runs=runs,
        policies=first.settings["policies"],
        environments={title: r.settings["environment"] for title, r in results.items()},
        notes=notes,
    )
    return Report(experiment.title, output.path, summary, verdicts)


def records(summary: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame for JSON, with `None` for NaN, which JSON does not have."""
    return [
        {name: None if isinstance(v, float) and np.isnan(v) else v for name, v in row.items()}
        for row in summary.to_dict("records")
    ]


def claims_page(
    heading: str, verdicts: Sequence[tuple[Claim, Sequence[Check]]], notes: Sequence[str]
) -> str:
    """Return the claims as Markdown: a table of verdicts, then a table of the numbers of every check."""
    marks = {True: "yes", False: "no", None: "inconclusive"}
    lines = [heading, "", "| claim | the paper says | verdict | except |", "|---|---|---|---|"]
    for claim, checks in verdicts:
        word = verdict(checks)
        exceptions = "" if word in ("holds", "fails", "inconclusive") else _exceptions(checks)
        lines.append(
            f"| {claim.name} | {claim.says} ({claim.source}) | **{word}** | {exceptions} |"
        )
    lines += ["", *(f"{note}\n" for note in notes)]
    lines += ["| claim | where | holds | numbers |", "|---|---|---|---|"]
    for claim, checks in verdicts:
        lines += [
            f"| {claim.name} | {check.where} | {marks[check.outcome]} | {check.evidence} |"
            for check in checks
        ]
    return "\n".join(lines) + "\n"


def _exceptions(checks: Sequence[Check]) -> str:
    """Return the checks in which a claim does not hold, and those that are inconclusive."""
    parts = []
    for words, outcome in (("not", False), ("inconclusive", None)):
        where = [check.where for check in checks if check.outcome is outcome]
        if len(where) > _SHOWN:
            parts.append(f"{words}: {len(where)} of {len(checks)}, see below")
        elif where:
            parts.append(f"{words}: {'; '.join(where)}")
    return "<br>".join(parts)
