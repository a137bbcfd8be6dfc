"""`rolin diagnose`: test whether arms differ in ways the features do not explain, and whether intervals hold."""

from __future__ import annotations

import json as json_
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from rolin._support.files import check_output, is_figure, is_report, write_bytes, write_figure
from rolin.cli.policies import missing_of, read_map
from rolin.cli.shared import (
    ArmColumn,
    FeatureColumns,
    MapFile,
    MissingRewards,
    RewardColumn,
    WeightColumn,
    listed_names,
)
from rolin.errors import DataError, RolinError, StateFileError
from rolin.journal import LoggedDecision, SQLiteJournal, load_policy
from rolin.logs.dsjson import SUFFIXES as DSJSON
from rolin.logs.dsjson import read_dsjson
from rolin.logs.frames import SUFFIXES, RewardLog, read_log, read_table
from rolin.logs.past_rewards import rewards_of
from rolin.logs.reader import past_decisions
from rolin.logs.record import PastDecision, read_journal
from rolin.model.diagnosis import Diagnosis, diagnose
from rolin.offline import IntervalCheck, check_intervals
from rolin.policies import LinearPolicy
from rolin.policies.bayes_rolin_ts import BayesRoLinTS
from rolin.policies.registry import load_or_start

__all__ = ["run"]

_SQLITE = b"SQLite format 3"  # the first bytes of such files
_MAX_DECISIONS = 10_000  # the latest ones, whose candidates say what arm effects are worth
_MAX_NUMBERS = 10_000_000  # in the contexts of these candidates


def run(
    source: Annotated[
        Path,
        typer.Argument(
            help="A state file of a policy, a journal, or a log (.csv, .parquet, .dsjson)."
        ),
    ],
    arm: ArmColumn = "arm",
    reward: RewardColumn = "reward",
    weight: WeightColumn = None,
    features: FeatureColumns = None,
    feature_map: MapFile = None,
    missing: MissingRewards = "refuse",
    json: Annotated[
        Path | None, typer.Option(help="Also write the report to this file, as JSON.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Also draw the report to this file (.png, .pdf, .svg).")
    ] = None,
) -> None:
    """Test whether arms differ in ways the features do not explain, and whether intervals hold."""
    if json is not None:
        check_output(
            json, is_report("answer", "because", "log_scores"), "a report of this command", [source]
        )
    if figure is not None:
        others = [] if json is None else [json]
        check_output(figure, is_figure, "a figure of this command", [source, *others])
    columns = {
        "arm": arm,
        "reward": reward,
        "weight": weight,
        "features": listed_names(features),
        "feature_map": None if feature_map is None else read_map(feature_map),
        "missing": missing_of(missing),
    }
    report, check, unchecked = _diagnosed(source, columns)
    typer.echo(str(report))
    if check is not None:
        typer.echo(f"\n{check}")
    if unchecked:
        typer.echo(f"\nThe intervals were not checked: {unchecked}.")
    try:
        if json is not None:
            plain = {**report.to_dict(), "intervals": None if check is None else check.to_dict()}
            text = json_.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False, default=str)
            write_bytes(json, f"{text}\n".encode())
        if figure is not None:
            write_figure(figure, report.plot(), dpi=150)
    except (OSError, ValueError, StateFileError) as error:
        raise DataError(f"the report cannot be written: {error}") from error


class _Diagnosed(NamedTuple):
    report: Diagnosis
    check: IntervalCheck | None
    """Whether the intervals hold; `None` without a log."""
    unchecked: str
    """Why the intervals of a log were not checked; empty if they were."""


def _diagnosed(source: Path, columns: dict[str, Any]) -> _Diagnosed:
    if source.name.endswith(DSJSON):
        fields = {name: columns[name] for name in ("features", "feature_map")}
        found = read_dsjson(source, **fields)
        return _of_decisions(source, found.decisions, found.features)
    if source.name.endswith(SUFFIXES):
        plain = columns["features"] is None and columns["feature_map"] is None
        if plain and {"offered", "contexts"} <= set(read_table(source, None).columns):
            try:
                pasts = past_decisions(source, missing=columns["missing"])
            except RolinError as error:
                raise DataError(
                    f"{error} (the table was exported from a journal: diagnose the journal instead)"
                ) from error
            return _of_decisions(source, pasts, None)
        log = read_log(source, **columns)
        if not log.arms:
            raise DataError(f"{source} has no rows")
        return _Diagnosed(diagnose(log.moments, feature_names=log.features), *_checked(log, None))
    if not source.is_file():
        known = source.exists()
        raise DataError(f"{source} is not a file" if known else f"there is no file {source}")
    try:
        with source.open("rb") as file:
            is_journal = file.read(len(_SQLITE)) == _SQLITE
        policy = load_policy(source).policy if is_journal else load_or_start(source)
    except StateFileError as error:
        raise StateFileError(
            f"{error} (the name of a log ends in {', '.join(SUFFIXES)})"
        ) from error
    if not isinstance(policy, (LinearPolicy, BayesRoLinTS)):
        raise DataError(
            f"{source} holds a {type(policy).__name__}, which has no arm effects to diagnose"
        )
    if not is_journal:
        return _Diagnosed(policy.diagnose(), None, "")
    with SQLiteJournal(source, readonly=True) as journal:
        recent = _Recent(read_journal(journal))
        log = rewards_of(recent)
    report = policy.diagnose(**recent.candidates(policy.n_features))
    return _Diagnosed(report, *_checked(log, policy if isinstance(policy, LinearPolicy) else None))


def _of_decisions(
    source: Path, pasts: Iterable[PastDecision], features: list[str] | None
) -> _Diagnosed:
    """Diagnose decisions with their candidates; by default the features are named as in the decisions."""
    recent = _Recent(pasts)
    log = rewards_of(recent)
    if not log.arms:
        raise DataError(f"{source} has no rewards")
    names = log.features if features is None else features
    report = diagnose(log.moments, feature_names=names, **recent.candidates(log.contexts.shape[1]))
    return _Diagnosed(report, *_checked(log, None))


class _Recent:
    """Past decisions, of which the latest are remembered while they are read.

    Parameters
    ----------
    pasts
        The decisions.
    """

    def __init__(self, pasts: Iterable[PastDecision]) -> None:
        self._pasts = pasts
        self._recent: deque[LoggedDecision] = deque(maxlen=_MAX_DECISIONS)

    def __iter__(self) -> Iterator[PastDecision]:
        for past in self._pasts:
            self._recent.append(past.decision)
            yield past

    def candidates(self, n_features: int) -> dict[str, Any]:
        """Return the candidates of the latest decisions, as `diagnose` takes them."""
        # If the chosen arm stands alone with a propensity below 1, it is not known what else was offered.
        known = [
            decision
            for decision in self._recent
            if len(decision.offered) > 1 or (decision.propensity or 0.0) == 1.0
        ]
        # The latest ones, as many as fit into memory.
        numbers = np.cumsum([n_features * len(decision.offered) for decision in known[::-1]])
        known = known[len(known) - max(int(np.searchsorted(numbers, _MAX_NUMBERS)), 1) :]
        if not known:
            return {}
        padded = []
        for decision in known:
            x = decision.offered_contexts
            # Features that a map got later were 0 before.
            missing = n_features - x.shape[1]
            padded.append(np.pad(x, ((0, 0), (0, missing))) if missing else x)
        return {"contexts": padded, "arms": [list(decision.offered) for decision in known]}


def _checked(log: RewardLog, policy: LinearPolicy | None) -> tuple[IntervalCheck | None, str]:
    """Return whether the intervals of a policy hold, or why that was not checked."""
    try:
        return check_intervals(log, policy, progress=True), ""
    except RolinError as error:  # the report is shown all the same
        return None, str(error)
