"""Run an experiment of the paper into a folder."""

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
from rolin.paper import figures
from rolin.paper.claims import Check, Claim, verdict
from rolin.paper.experiment import Experiment
from rolin.paper.folder import Folder
from rolin.simulation.result import Result
from rolin.simulation.runner import MOST, simulate

__all__ = ["Report", "claims_page", "records", "reproduce"]

# Exceptions to a claim that its verdict names one by one.
_SHOWN = 4


@dataclass(frozen=True)
class Report:
    """What an experiment found."""

    title: str
    folder: Path
    summary: pd.DataFrame
    """One row per environment and policy."""
    verdicts: Sequence[tuple[Claim, Sequence[Check]]]


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
    progress: bool = True,
) -> Report:
    """Run an experiment, and write figure, regrets, summary, claims and settings to a folder.

    Run again after it was stopped, it goes on from the last finished run; run again with more runs,
    it adds those.
    """
    runs = experiment.runs if runs is None else count_of("runs", runs, least=1, most=MOST)
    # All that can be refused is, before anything is written.
    check_n_jobs(n_jobs)
    check_engine(engine, address)
    seed, n_points = count_of("seed", seed), count_of("n_points", n_points, least=1)
    count_of("rounds", experiment.rounds, least=1, most=MOST)
    for make in experiment.policies.values():
        make(seed=seed)
    asked = {
        "experiment": experiment.name,
        "rounds": experiment.rounds,
        "seed": seed,
        "checkpoints": n_points,
        **experiment.settings,
    }
    place = Folder(folder, asked)
    results = {}
    with connected(engine, address, n_jobs):
        for i, (title, environment) in enumerate(experiment.environments.items(), start=1):
            with warnings.catch_warnings():
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
                    progress=f"{experiment.name}, {title}" if progress else False,
                    checkpoint=folder / f"runs-{i}.jsonl",
                )
            if len(results[title].runs) < runs:
                raise KeyboardInterrupt
    return _write(experiment, place, results, asked)


def _write(
    experiment: Experiment, place: Folder, results: Mapping[str, Result], asked: Mapping[str, Any]
) -> Report:
    """Write all files but the runs themselves."""
    head = {"experiment": experiment.name}
    frames, summaries = [], []
    for title, result in results.items():
        frames.append(result.to_frame().assign(**head, environment=title))
        summaries.append(result.summary().assign(**head, environment=title))
    regret, summary = pd.concat(frames), pd.concat(summaries, ignore_index=True)
    regret = regret[["experiment", "environment", "policy", "run", "round", "regret"]]
    with place.file("regret.csv") as path:
        regret.to_csv(path, index=False, float_format="%.10g")
    summary = summary.rename(
        columns={
            "growth": "last_quarter_over_third",
            "growth_std_error": "last_quarter_over_third_std_error",
        }
    )
    columns = ["experiment", "environment", "policy"]
    summary = summary[[*columns, *(c for c in summary.columns if c not in columns)]]
    place.write("summary.json", records(summary))
    verdicts = [(claim, claim.check(results)) for claim in experiment.claims]
    runs = max(len(result.runs) for result in results.values())
    notes = list(experiment.notes)
    if runs < experiment.least_runs:
        notes.append(
            f"**Only {runs} runs, of at least {experiment.least_runs} that these verdicts need.**"
        )
    settings = ", ".join(f"{name} {value}" for name, value in asked.items() if name != "experiment")
    heading = f"{experiment.source}: {runs} runs, {settings}"
    place.write("claims.md", claims_page(heading, verdicts, notes))
    figure = figures.draw(experiment, results)
    for ending in ("png", "svg"):
        with place.file(f"figure.{ending}") as path:
            figures.save(figure, path)
    first = next(iter(results.values()))
    place.write_settings(
        runs=runs,
        policies=first.settings["policies"],
        environments={title: r.settings["environment"] for title, r in results.items()},
        notes=notes,
    )
    return Report(experiment.title, place.path, summary, verdicts)


def records(summary: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows for JSON, which has no NaN."""
    return [
        {name: None if isinstance(v, float) and np.isnan(v) else v for name, v in row.items()}
        for row in summary.to_dict("records")
    ]


def claims_page(
    heading: str, verdicts: Sequence[tuple[Claim, Sequence[Check]]], notes: Sequence[str]
) -> str:
    """Return the ledger of claims as Markdown: the verdicts, then the numbers behind them."""
    marks = {True: "yes", False: "no", None: "cannot be told"}
    lines = [heading, "", "| claim | the paper says | verdict | except |", "|---|---|---|---|"]
    for claim, checks in verdicts:
        word = verdict(checks)
        exceptions = "" if word in ("holds", "fails", "cannot be told") else _exceptions(checks)
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
    """Return where a claim does not hold, and where the runs cannot tell."""
    parts = []
    for words, outcome in (("not", False), ("cannot be told", None)):
        where = [check.where for check in checks if check.outcome is outcome]
        if len(where) > _SHOWN:
            parts.append(f"{words}: {len(where)} of {len(checks)}, see below")
        elif where:
            parts.append(f"{words}: {'; '.join(where)}")
    return "<br>".join(parts)
