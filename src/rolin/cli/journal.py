"""`rolin journal`: what a journal holds, in and out."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time as clock
from typing import Annotated

import typer

from rolin._support.progress import bar
from rolin.bandit.bandit import Bandit
from rolin.cli.policies import new_policy, read_map
from rolin.errors import DataError, RolinError
from rolin.features import BaseFeatureMap
from rolin.journal import SQLiteJournal, load_policy
from rolin.journal.codec import row_of
from rolin.journal.events import SettingsChanged
from rolin.logs.dsjson import read_dsjson
from rolin.logs.export import check_target
from rolin.logs.export import export as export_table
from rolin.logs.frames import SUFFIXES as TABLES
from rolin.logs.reader import past_decisions

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="See what a journal holds, and move it in and out.")

_MOST_DAYS = 1e6

JournalFile = Annotated[Path, typer.Argument(help="The file of the journal.", show_default=False)]


@app.command()
def show(journal: JournalFile) -> None:
    """Say what a journal holds."""
    with SQLiteJournal(journal, readonly=True) as opened:
        policy, version = load_policy(opened)
        header = opened.header()
        assert header is not None  # replay has looked
        kinds: Counter[str] = Counter()
        times = []
        for _, event in opened.read():
            kinds[row_of(event).kind] += 1
            times.append(event.time)
        waiting = len(opened.waiting(float("inf"), 10**9))
        settings = [
            event for _, event in opened.permanent_events() if isinstance(event, SettingsChanged)
        ]
    typer.echo(f"policy     {policy!r}")
    _, floor, share, propensities = settings[-1] if settings else SettingsChanged(0.0)
    typer.echo(f"settings   floor {floor:g}, control_share {share:g}, propensities {propensities}")
    if policy.feature_map is not None:
        typer.echo(f"feature map {policy.feature_map!r}")
    typer.echo(f"events     {version}")
    if header.first:
        typer.echo(f"erased     some of the events up to {header.first}")
    for kind, n in kinds.most_common():
        typer.echo(f"{kind:<10} {n}")
    typer.echo(f"{'waiting':<10} {waiting}")
    if times:
        first, last = (
            datetime.fromtimestamp(t, UTC).isoformat(" ", "seconds")
            for t in (min(times), max(times))
        )
        typer.echo(f"from       {first}\nto         {last}")


@app.command()
def export(
    journal: JournalFile,
    out: Annotated[Path, typer.Argument(help="Where to: .csv, .csv.gz or .parquet.")],
) -> None:
    """Write all decisions with their rewards to a table, one row each."""
    check_target(out)
    with SQLiteJournal(journal, readonly=True) as opened:
        total = sum(row_of(event).kind == "decision" for _, event in opened.read())
        with bar("exporting", total) as done:
            n = export_table(opened, out, progress=done)
    typer.echo(f"{n} decisions are in {out}")


@app.command("import")
def import_(
    log: Annotated[
        Path, typer.Argument(help="A CSV, Parquet or Vowpal Wabbit (.dsjson) file of decisions.")
    ],
    journal: JournalFile,
    policy: Annotated[
        str, typer.Option(help="Of a new journal: the policy, with its default settings.")
    ] = "RoLinTS",
    arm: Annotated[
        str | None,
        typer.Option(
            help="Column of the arm; of .dsjson, the feature that names it, such as i.id."
        ),
    ] = None,
    reward: Annotated[str, typer.Option(help="Of a table: the column of the reward.")] = "reward",
    propensity: Annotated[str, typer.Option(help="The column of the propensity.")] = "propensity",
    id: Annotated[str, typer.Option(help="The column of the decision's id.")] = "id",
    time: Annotated[str, typer.Option(help="The column of the time.")] = "time",
    person: Annotated[str, typer.Option(help="The column of whom it was for.")] = "person",
    features: Annotated[
        str | None,
        typer.Option(
            help="Of a table without contexts: the features' columns, with commas between."
        ),
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(help="Of .dsjson: file with the features' names, written if it is not there."),
    ] = None,
    map: Annotated[
        Path | None,
        typer.Option(
            help="Feature map (.json) for raw features; by default that of the journal, if it has one."
        ),
    ] = None,
) -> None:
    """Learn from past decisions, and record them in a journal; repeating it is harmless."""
    feature_map = _map(map, journal)
    if log.name.endswith(TABLES):
        listed = (
            None
            if features is None
            else [name.strip() for name in features.split(",") if name.strip()]
        )
        pasts = past_decisions(
            log, arm=arm or "arm", reward=reward, propensity=propensity, features=listed, id=id,
            time=time, person=person, now=clock(), feature_map=feature_map,
        )  # fmt: skip
    else:
        known = _names(names)
        read = read_dsjson(log, features=known, arm=arm, feature_map=feature_map)
        pasts = read.decisions
        if names is not None and known is None:
            try:
                names.write_text(json.dumps(read.features, indent=1) + "\n", encoding="utf-8")
            except OSError as error:
                raise DataError(f"{names} cannot be written: {error}") from error
        if read.skipped:
            typer.echo(f"{read.skipped} lines hold no decision and were left out", err=True)
    if not pasts:
        raise DataError(f"{log} has no decisions")
    d = pasts[0].decision.offered_contexts.shape[1]
    begun = journal.exists()
    try:
        new = None if begun else new_policy(policy, d)
        with Bandit(new, feature_map=feature_map, journal=journal) as bandit:
            n = bandit.import_log(pasts)
    except RolinError:
        if not begun:  # a journal that came to nothing
            for ending in ("", "-wal", "-shm"):
                journal.with_name(journal.name + ending).unlink(missing_ok=True)
        raise
    typer.echo(f"{n} of {len(pasts)} decisions were new; the journal is {journal}")


def _map(path: Path | None, journal: Path) -> BaseFeatureMap | None:
    """Return the feature map of a file, or that of a journal that has begun."""
    if path is not None:
        return read_map(path)
    return load_policy(journal)[0].feature_map if journal.exists() else None


def _names(path: Path | None) -> list[str] | None:
    """Return the names of features that were written to a file; `None` if there is none yet."""
    if path is None or not path.exists():
        return None
    try:
        names = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as a list of names: {error}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{path} does not hold a list of names")
    return names


@app.command()
def erase(
    journal: JournalFile,
    person: Annotated[str | None, typer.Option(help="All decisions made for this person.")] = None,
    id: Annotated[
        list[str] | None, typer.Option(help="The decision of this id; repeatable.")
    ] = None,
    older_than: Annotated[
        float | None, typer.Option(help="All decisions older than so many days.")
    ] = None,
) -> None:
    """Remove decisions for good. What was learned from them stays in the state."""
    if sum(given is not None for given in (person, id, older_than)) != 1:
        raise DataError("expected one of --person, --id and --older-than")
    if older_than is not None and not 0.0 <= older_than <= _MOST_DAYS:
        raise DataError(f"--older-than {older_than}, expected a number of days from 0 on")
    age = None if older_than is None else timedelta(days=older_than)
    if not journal.exists():
        raise DataError(f"there is no journal {journal}")
    with Bandit(journal=journal) as bandit:
        n = bandit.erase(ids=id, person=person, older_than=age)
    typer.echo(f"{n} decisions were erased")
