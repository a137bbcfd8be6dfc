"""`rolin journal`: what a journal holds, in and out."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from rolin.bandit import Bandit
from rolin.datasets.log import SUFFIXES as TABLES
from rolin.errors import DataError
from rolin.journal import SQLiteJournal, replay
from rolin.journal.dsjson import read_dsjson
from rolin.journal.importing import past_decisions
from rolin.journal.rows import row_of
from rolin.journal.tables import check_target
from rolin.journal.tables import export as export_table
from rolin.policies import find
from rolin.policies.base import options_of
from rolin.progress import bar

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="See what a journal holds, and move it in and out.")

JournalFile = Annotated[Path, typer.Argument(help="The file of the journal.", show_default=False)]


@app.command()
def show(journal: JournalFile) -> None:
    """Say what a journal holds."""
    with SQLiteJournal(journal, readonly=True) as opened:
        policy, version = replay(opened)
        header = opened.header()
        assert header is not None  # replay has looked
        kinds: Counter[str] = Counter()
        times = []
        for _, event in opened.read():
            kinds[row_of(event).kind] += 1
            times.append(event.time)
        waiting = len(opened.waiting(float("inf"), 10**9))
    typer.echo(f"policy     {policy!r}")
    typer.echo(f"version    {version}")
    if header.first:
        typer.echo(f"complete   after event {header.first}; some before it were erased")
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
) -> None:
    """Learn from past decisions, and record them in a journal; repeating it is harmless."""
    if log.name.endswith(TABLES):
        listed = None if features is None else [name.strip() for name in features.split(",")]
        pasts = past_decisions(log, arm=arm or "arm", reward=reward, features=listed)
    else:
        known: Any = json.loads(names.read_text()) if names is not None and names.exists() else None
        read = read_dsjson(log, features=known, arm=arm)
        pasts = read.decisions
        if names is not None and known is None:
            names.write_text(json.dumps(read.features, indent=1) + "\n", encoding="utf-8")
        if read.skipped:
            typer.echo(f"{read.skipped} lines hold no decision and were left out", err=True)
    if not pasts:
        raise DataError(f"{log} has no decisions")
    d = pasts[0].decision.offered_contexts.shape[1]
    with Bandit(None if journal.exists() else _new(policy, d), journal=journal) as bandit:
        n = bandit.import_log(pasts)
    typer.echo(f"{n} of {len(pasts)} decisions were new; the journal is {journal}")


def _new(name: str, n_features: int) -> Any:
    """Return a policy of that name that learns its scales, if it can."""
    policies: dict[str, Any] = dict(find())
    if name not in policies:
        raise DataError(f"there is no policy {name}, only {', '.join(sorted(policies))}")
    known = options_of(policies[name]) or []
    learned: dict[str, Any] = {}
    if "learn_by" in known:
        learned = {scale: "learn" for scale in ("noise_std", "arm_std") if scale in known}
    return policies[name](n_features=n_features, **learned)


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
    age = None if older_than is None else timedelta(days=older_than)
    if not journal.exists():
        raise DataError(f"there is no journal {journal}")
    with Bandit(journal=journal) as bandit:
        n = bandit.erase(ids=id or (), person=person, before=age)
    typer.echo(f"{n} decisions were erased")
