"""`rolin journal`: show, check, export, import and erase the decisions of a journal."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time as clock
from typing import Annotated

import typer

from rolin._support.files import write_bytes
from rolin.bandit.bandit import Bandit
from rolin.cli.policies import new_policy, read_map, slope_options
from rolin.cli.shared import SlopeFeatures, SlopeStd, listed_names
from rolin.errors import DataError, RolinError, StateFileError
from rolin.features import BaseFeatureMap
from rolin.journal import (
    PostgresJournal,
    SQLiteJournal,
    check_journal,
    is_database,
    load_policy,
)
from rolin.journal.codec import kind_of
from rolin.journal.events import SettingsChanged
from rolin.journal.folding import load_with_snapshot
from rolin.logs.dsjson import read_dsjson
from rolin.logs.export import check_table_path
from rolin.logs.export import export as export_table
from rolin.logs.frames import SUFFIXES as TABLES
from rolin.logs.reader import past_decisions

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True, help="Show, check, export, import and erase the decisions of a journal."
)

_MAX_DAYS = 1e6

JournalFile = Annotated[Path, typer.Argument(help="File of the journal.", show_default=False)]
Where = Annotated[
    str,
    typer.Argument(
        metavar="JOURNAL",
        help="File of the journal, or its database: postgresql://…",
        show_default=False,
    ),
]
Name = Annotated[
    str, typer.Option(help="In a database: name of the journal, which is that of its bandit.")
]
_DEFAULT = "default"


def _opened(where: str, name: str, *, readonly: bool = True) -> SQLiteJournal | PostgresJournal:
    """Open an existing journal of a file or a database."""
    if is_database(where):
        return PostgresJournal(where, name, create=False)
    if name != _DEFAULT:
        raise DataError(f"--name {name}, but {where} is no database, expected no name")
    if not Path(where).exists():
        raise DataError(f"there is no journal {where}")
    return SQLiteJournal(where, readonly=readonly)


@app.command()
def show(journal: Where, name: Name = _DEFAULT) -> None:
    """Show the policy, the settings and the number of events of a journal."""
    with _opened(journal, name) as opened:
        policy, shadow, version, _ = load_with_snapshot(opened)
        header = opened.header()
        assert header is not None  # otherwise loading would have failed
        kinds: Counter[str] = Counter()
        times = []
        for _, event in opened.read():
            kinds[kind_of(event)] += 1
            times.append(event.time)
        waiting = len(opened.waiting(float("inf"), 10**9))
        settings = [
            event for _, event in opened.permanent_events() if isinstance(event, SettingsChanged)
        ]
    typer.echo(f"policy     {policy!r}")
    now = settings[-1] if settings else SettingsChanged(0.0)
    typer.echo(
        f"bandit     floor {now.floor:g}, control_share {now.control_share:g}, propensities {now.propensities}, "
        f"mode {now.mode}, share {now.share:g}"
    )
    if shadow is not None:
        typer.echo(f"shadow     {shadow!r}")
    if policy.feature_map is not None:
        typer.echo(f"feature map {policy.feature_map!r}")
    typer.echo(f"events     {version}")
    if header.first:
        typer.echo(f"erased     some of the events up to {header.first}")
    typer.echo(f"waiting    {waiting} decisions without an outcome")
    if times:
        first, last = (
            datetime.fromtimestamp(t, UTC).isoformat(" ", "seconds")
            for t in (min(times), max(times))
        )
        typer.echo(f"from       {first}\nto         {last}")
    typer.echo("\nevents by kind")
    for kind, n in kinds.most_common():
        typer.echo(f"  {kind:<10} {n}")


@app.command()
def check(journal: Where, name: Name = _DEFAULT) -> None:
    """Read a whole journal and say whether it is damaged; the exit code is 1 if it is."""
    if is_database(journal):
        with _opened(journal, name) as opened:
            found = check_journal(opened, progress=True)
    else:
        found = check_journal(journal, progress=True)
    typer.echo(f"events     {found.events}")
    if found.unchecked:
        typer.echo(
            f"unchecked  {found.unchecked} of them were written by an earlier version, without checksums"
        )
    if found.removed:
        typer.echo(f"erased     some of the events up to {found.removed}")
    if found.is_whole:
        typer.echo("The journal is whole.")
        return
    typer.echo("The journal is damaged:")
    for problem in found.problems:
        typer.echo(f"- {problem}")
    raise typer.Exit(1)


@app.command()
def export(
    journal: Where,
    out: Annotated[Path, typer.Argument(help="File to write: .csv, .csv.gz or .parquet.")],
    name: Name = _DEFAULT,
) -> None:
    """Write all decisions and their rewards to a table, one row per decision."""
    check_table_path(out, "" if is_database(journal) else journal)
    with _opened(journal, name) as opened:
        n = export_table(opened, out, progress=True)
    typer.echo(f"Exported {n} decisions to {out}")


@app.command("import")
def import_(
    log: Annotated[
        Path, typer.Argument(help="File with decisions: CSV, Parquet or Vowpal Wabbit (.dsjson).")
    ],
    journal: JournalFile,
    policy: Annotated[
        str,
        typer.Option(
            help="For a new journal: name of the policy, which gets its default settings."
        ),
    ] = "RoLinTS",
    slope_std: SlopeStd = None,
    slopes: SlopeFeatures = None,
    arm: Annotated[
        str | None,
        typer.Option(
            help="Column of the arm. For .dsjson: the feature that names the arm, such as i.id."
        ),
    ] = None,
    reward: Annotated[str, typer.Option(help="Column of the reward.")] = "reward",
    propensity: Annotated[str, typer.Option(help="Column of the propensity.")] = "propensity",
    id: Annotated[str, typer.Option(help="Column of the decision's id.")] = "id",
    time: Annotated[str, typer.Option(help="Column of the time.")] = "time",
    person: Annotated[
        str, typer.Option(help="Column of the person whom the decision was for.")
    ] = "person",
    features: Annotated[
        str | None,
        typer.Option(
            help="For a table that was not exported: columns of the features, separated by commas."
        ),
    ] = None,
    feature_names: Annotated[
        Path | None,
        typer.Option(
            help="For .dsjson: file (.json) with the names of the features. It is written if it does not exist."
        ),
    ] = None,
    feature_map: Annotated[
        Path | None,
        typer.Option(
            help="File (.json) with the feature map that reads raw features. Default: that of the journal, if "
            "it has one."
        ),
    ] = None,
) -> None:
    """Import past decisions into a journal, and learn from them. Importing them again changes nothing."""
    if is_database(str(journal)):
        raise DataError(
            "the journal is a database, expected a file: a service imports a log into its database by "
            "POST /v1/bandits/NAME/log"
        )
    own_map = _map(feature_map, journal)
    if log.name.endswith(TABLES):
        pasts = past_decisions(
            log, arm=arm or "arm", reward=reward, propensity=propensity, features=listed_names(features), id=id,
            time=time, person=person, now=clock(), feature_map=own_map,
        )  # fmt: skip
    else:
        known = _names(feature_names)
        read = read_dsjson(log, features=known, arm=arm, feature_map=own_map)
        pasts = read.decisions
        if feature_names is not None and known is None:
            try:
                text = json.dumps(read.features, indent=1) + "\n"
                write_bytes(feature_names, text.encode())
            except (OSError, StateFileError) as error:
                raise DataError(f"{feature_names} cannot be written: {error}") from error
        if read.skipped:
            typer.echo(f"Skipped {read.skipped} lines that hold no decision", err=True)
    if not pasts:
        raise DataError(f"{log} has no decisions")
    d = pasts[0].decision.offered_contexts.shape[1]
    begun = journal.exists()
    options = slope_options(slope_std, slopes, [] if begun else [policy], own_map)
    try:
        new = None if begun else new_policy(policy, d, **options[policy])
        with Bandit(new, feature_map=own_map, journal=journal) as bandit:
            n = bandit.import_log(pasts)
    except RolinError:
        if not begun:  # remove the new journal, which is empty
            for ending in ("", "-wal", "-shm"):
                journal.with_name(journal.name + ending).unlink(missing_ok=True)
        raise
    typer.echo(
        f"Imported {n} of {len(pasts)} decisions into {journal}; the others were there already"
    )


def _map(path: Path | None, journal: Path) -> BaseFeatureMap | None:
    """Return the feature map of a file, or that of an existing journal."""
    if path is not None:
        return read_map(path)
    return load_policy(journal)[0].feature_map if journal.exists() else None


def _names(path: Path | None) -> list[str] | None:
    """Return the names of features from a file; `None` if it does not exist yet."""
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
    journal: Where,
    person: Annotated[str | None, typer.Option(help="Erase all decisions for this person.")] = None,
    id: Annotated[
        list[str] | None, typer.Option(help="Erase the decision with this id. Repeatable.")
    ] = None,
    older_than: Annotated[
        float | None, typer.Option(help="Erase all decisions older than this number of days.")
    ] = None,
    name: Name = _DEFAULT,
) -> None:
    """Erase decisions permanently. What the policy learned from them stays in its state."""
    if sum(given is not None for given in (person, id, older_than)) != 1:
        raise DataError("expected one of --person, --id and --older-than")
    if older_than is not None and not 0.0 <= older_than <= _MAX_DAYS:
        raise DataError(f"--older-than {older_than}, expected a number of days, 0 or more")
    age = None if older_than is None else timedelta(days=older_than)
    with (
        _opened(journal, name, readonly=False) as opened,
        Bandit(journal=opened) as bandit,
    ):
        n = bandit.erase(ids=id, person=person, older_than=age)
    typer.echo(f"Erased {n} decisions")
