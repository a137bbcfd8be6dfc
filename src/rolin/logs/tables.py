"""Read tables of past decisions: CSV, Parquet or a data frame, one row per decision.

A table that was exported from a journal holds all arms that were offered. A table of other origin needs an arm, a
reward and the features of the arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rolin._support.arms import Name
from rolin._support.checks import text_of
from rolin._support.spreadsheets import without_apostrophe
from rolin.errors import DataError
from rolin.features import BaseFeatureMap, FeatureMap, RecordedFeatures
from rolin.features.sklearn import MissingFeatureMap
from rolin.journal.events import MODES, LoggedDecision, Mode, Outcome, Proposal
from rolin.journal.validation import listed
from rolin.logs.cells import Cells
from rolin.logs.raw_columns import RawColumns, raw_columns
from rolin.logs.record import COLUMNS, OUTCOMES, PastDecision
from rolin.logs.rules import (
    BadCell,
    Missing,
    UnnamedColumns,
    arm_in,
    check_columns,
    check_missing,
    is_distribution,
    is_empty_cell,
    number_in,
    propensity_in,
    require,
    rows_with_reward,
    weight_in,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_decisions"]


class _OutcomeCells(NamedTuple):
    """What a row says about one arm of its ranking."""

    kind: str
    """One of `OUTCOMES`."""
    value: float | None
    weight: float


class _RewardColumns(NamedTuple):
    """The columns that hold rewards and their weights, by which errors name them."""

    reward: str
    weight: str


def read_decisions(
    source: str | Path | pd.DataFrame,
    *,
    arm: str = "arm",
    reward: str = "reward",
    propensity: str = "propensity",
    features: Sequence[str] | None = None,
    id: str = "id",
    time: str = "time",
    person: str = "person",
    weight: str = "weight",
    feature_map: BaseFeatureMap | None = None,
    situation: Sequence[str] | None = None,
    missing: Missing = "refuse",
    now: float = 0.0,
) -> list[PastDecision]:
    """Read past decisions from a table: an exported one, or any with an arm, a reward and features.

    Parameters
    ----------
    source
        A CSV or Parquet file, or a data frame.
    arm
        Column of the arm that was chosen.
    reward
        Column of its reward.
    propensity
        Column of the probability with which the arm was chosen; optional.
    features
        Columns of the chosen arm's features, for a table that was not exported; `[]` for none.
    id
        Column of the decision's id; optional. Without it, the table's content and the row's number make the id.
    time
        Column of the time, or of seconds since 1970; optional.
    person
        Column of the person whom the decision was for; optional.
    weight
        Column of the reward's weight; optional.
    feature_map
        The feature map that makes vectors of raw features. `features` are then columns with fields of the arm, by
        default all that the map declares.
    situation
        Columns with fields of the situation, by default all that the map declares.
    missing
        What to do with rows that have no reward: `"refuse"` the table, `"drop"` them, or a number to count instead.
        It does not concern open decisions, which an exported table marks as such.
    now
        Time of decisions that have none, in seconds since 1970.
    """
    missing = check_missing(missing)
    if features is not None:
        features = listed("features", features)
    cells = Cells(source)
    columns = cells.columns
    with cells.named():
        for own, given in (("id", id), ("time", time), ("person", person), ("weight", weight)):
            if given != own:
                require(list(columns), [given])
                columns[own] = columns[given]
        names = list(columns)
        exported = "offered" in columns and "contexts" in columns
        if exported:
            require(names, [reward, "chosen", *(features or ())])
        else:
            known = propensity if propensity in columns else None
            check_columns(names, arm=arm, reward=reward, propensity=known, features=features or ())
        taken = {arm, reward, propensity, id, time, person, weight}
        raw = None
        if feature_map is not None and exported:
            raw = RawColumns(feature_map, (), ()) if "features" in columns else None
        elif feature_map is not None:
            raw = raw_columns(names, feature_map, features, situation, taken)
        elif situation is not None:
            raise DataError("situation names raw features, expected a feature_map that uses them")
        if not exported and features is None and raw is None:
            numeric = [n for n in names if n not in {*COLUMNS, *taken} and cells.is_numeric(n)]
            raise UnnamedColumns(
                "the columns of the features are not named",
                ", expected features=['x1', 'x2'] (in a command: --features x1,x2). Columns of numbers are "
                f"{numeric!r}",
                numeric,
            )
    absent = np.array([_lacks_reward(cells, i, reward) for i in range(cells.n_rows)], dtype=bool)
    try:
        rows = rows_with_reward(reward, absent, missing)
    except BadCell as bad:
        raise bad.at(1 + (bad.row or 0), cells.source) from None
    reader = _Reader(cells, arm, reward, propensity, features or (), raw, missing, now)
    pasts: list[PastDecision] = []
    row_of_id: dict[str, int] = {}
    for i in range(cells.n_rows) if rows is None else rows.tolist():
        with cells.row(i):
            past = reader.exported(i) if exported else reader.plain(i)
            first = row_of_id.setdefault(past.decision.id, i)
            if first != i:
                raise DataError(
                    f"id {past.decision.id!r} is also in row {first + 1}, expected one row per id"
                )
        pasts.append(past)
    return pasts


def _lacks_reward(cells: Cells, i: int, reward: str) -> bool:
    """Return whether a row has no reward and is not marked as an open or expired decision either."""
    if cells.get(i, reward) is not None or cells.get(i, "outcomes") is not None:
        return False
    return (cells.get(i, "outcome") or "reward") == "reward"


class _Reader:
    """Makes a past decision of each row of a table."""

    def __init__(
        self,
        cells: Cells,
        arm: str,
        reward: str,
        propensity: str,
        features: Sequence[str],
        raw: RawColumns | None,
        missing: Missing,
        now: float,
    ) -> None:
        self._cells, self._raw, self._missing, self._now = cells, raw, missing, now
        self._arm, self._reward, self._propensity = arm, reward, propensity
        self._features = features
        # Only CSV files hold lists as texts, also after pandas has read them.
        self._exported_csv = any(isinstance(c, str) for c in cells.columns.get("contexts", ()))

    def plain(self, i: int) -> PastDecision:
        """Return a decision of which only the chosen arm is known."""
        cells = self._cells
        name = arm_in(self._arm, cells.get(i, self._arm))
        x: Any
        if self._raw is not None:
            situation, own = (self._fields(i, side) for side in ("situation", "arm"))
            x = self._raw_contexts((name,), situation, [own])
        else:
            x = np.array([[cells.number(i, column) for column in self._features]]).reshape(1, -1)
        p = cells.get(i, self._propensity)
        propensities = None if p is None else np.array([propensity_in(self._propensity, p)])
        return self._past(i, (name,), x, (0,), propensities)

    def _fields(self, i: int, side: str) -> dict[str, Any]:
        """Return raw features from their columns."""
        raw = self._raw
        assert raw is not None
        fields = getattr(raw.feature_map, side) if isinstance(raw.feature_map, FeatureMap) else {}
        return {
            name: self._cells.field_value(i, name, fields.get(name)) for name in getattr(raw, side)
        }

    def _raw_contexts(
        self, arms: tuple[Name, ...], situation: Any, rows: Sequence[Any]
    ) -> RecordedFeatures:
        """Return raw features in the form in which they are recorded."""
        assert self._raw is not None
        for column, row in (("situation", situation), *(("features", row) for row in rows)):
            if not isinstance(row, dict):
                raise BadCell(column, None, f"holds {row!r}, expected fields with their values")
        return RecordedFeatures.record(self._raw.feature_map, arms, rows, situation)

    def exported(self, i: int) -> PastDecision:
        """Return a decision with all arms that were offered."""
        cells = self._cells
        offered = tuple(arm_in("offered", name, in_list=True) for name in cells.items(i, "offered"))
        k = len(offered)
        if len(set(offered)) != k or not offered:
            raise BadCell(
                "offered", None, f"is {list(offered)!r}, expected at least one arm, each once"
            )
        has_fields = cells.get(i, "features") is not None
        if self._raw is not None and has_fields:
            rows = cells.items(i, "features")
            if len(rows) != k:
                raise BadCell(
                    "features", None, f"has {len(rows)} items, expected {k}, one per arm offered"
                )
            x: Any = self._raw_contexts(offered, cells.value(i, "situation") or {}, rows)
        else:
            x = self._vectors(i, k)
            if has_fields:  # raw features of a feature map that is not given here
                fields = {
                    "situation": cells.value(i, "situation") or {},
                    "arms": cells.items(i, "features"),
                }
                x = RecordedFeatures(
                    MissingFeatureMap([f"x{j}" for j in range(x.shape[1])]), offered, fields, x
                )
        p = self._propensities(i, "propensities", k)
        past = self._past(i, offered, x, self._chosen(i, "chosen", k), p)
        proposal, shadow = (self._proposal(i, column, k) for column in ("proposal", "shadow"))
        return past._replace(decision=past.decision._replace(proposal=proposal, shadow=shadow))

    def _vectors(self, i: int, k: int) -> Any:
        rows = self._cells.items(i, "contexts")
        listed = all(isinstance(row, (list, tuple, np.ndarray)) for row in rows)
        if len(rows) != k or not listed or len({len(row) for row in rows}) != 1:
            raise BadCell("contexts", None, f"is not a table with {k} rows, one per arm offered")
        return np.array([[number_in("contexts", v) for v in row] for row in rows]).reshape(k, -1)

    def _chosen(self, i: int, column: str, k: int) -> tuple[int, ...]:
        chosen = tuple(self._cells.items(i, column))
        if (
            not all(type(index) is int for index in chosen)
            or not chosen
            or not set(chosen) <= set(range(k))
            or len(set(chosen)) < len(chosen)
        ):
            raise BadCell(
                column, None, f"is {list(chosen)!r}, expected different indices from 0 to {k - 1}"
            )
        return chosen

    def _propensities(self, i: int, column: str, k: int) -> Any:
        if self._cells.get(i, column) is None:
            return None
        values = self._cells.items(i, column)
        p = np.array([number_in(column, value) for value in values])
        if not is_distribution(p, k):
            raise BadCell(column, None, f"is {values!r}, expected {k} probabilities that sum to 1")
        return p

    def _proposal(self, i: int, column: str, k: int) -> Proposal | None:
        """Return what another policy would have chosen; tables of before there were any have none."""
        if self._cells.get(i, column) is None:
            return None
        p = self._propensities(i, f"{column}_propensities", k)
        return Proposal(self._chosen(i, column, k), p)

    def _text(self, value: Any) -> str:
        """Return an id as a text: its characters, or a number in digits."""
        text = str.__str__(value) if isinstance(value, str) else str(value)
        return without_apostrophe(text) if self._exported_csv else text

    def _mode(self, i: int) -> Mode:
        """Return the mode of the bandit; tables of others, or of before there were modes, have none."""
        given = self._cells.get(i, "bandit_mode")
        for mode in MODES:
            if given is None or given == mode:
                return mode
        raise BadCell("bandit_mode", None, f"is {given!r}, expected one of {', '.join(MODES)}")

    def _past(
        self, i: int, offered: tuple[Name, ...], x: Any, chosen: tuple[int, ...], p: Any
    ) -> PastDecision:
        cells = self._cells
        given, person = cells.get(i, "id"), cells.get(i, "person")
        id = f"{cells.digest}-row-{i + 1}" if given is None else text_of("id", self._text(given))
        time = cells.time(i, "time", self._now)
        decision = LoggedDecision(
            id, time, offered, x, chosen, p,
            None,  # the version of another model
            None if person is None else text_of("person", self._text(person)),
            cells.flag(i, "control"),
            mode=self._mode(i),
            outside_share=cells.flag(i, "outside_share"),
        )  # fmt: skip
        reward_time = cells.time(i, "reward_time", time)
        outcomes: dict[int, Outcome] = {}
        for rank, (kind, value, weight) in enumerate(self._outcomes(i, len(chosen))):
            k = chosen[rank]
            if kind != "open":
                outcomes[rank] = Outcome(
                    id,
                    reward_time,
                    rank,
                    offered[k],
                    decision.context_of(k),
                    value,
                    weight,
                    kind == "expired",
                )
        return PastDecision(decision, outcomes)

    def _outcomes(self, i: int, n: int) -> list[_OutcomeCells]:
        """Return what each arm of a ranking led to; a plain table has only the first."""
        cells = self._cells
        if cells.get(i, "outcomes") is None:
            kinds = [cells.get(i, "outcome") or "reward", *["open"] * (n - 1)]
            lacks = _lacks_reward(cells, i, self._reward)  # then a number counts instead
            value = self._missing if lacks else cells.get(i, self._reward)
            lists = [[value], [cells.get(i, "weight")]]
            names = _RewardColumns(self._reward, "weight")
        else:
            kinds, names = cells.items(i, "outcomes"), _RewardColumns("rewards", "weights")
            lists = [cells.items(i, name) for name in names]
            if {len(kinds), *map(len, lists)} != {n}:
                raise DataError(
                    f"rewards, weights and outcomes differ in length, expected {n} each"
                )
        found: list[_OutcomeCells] = []
        for rank, kind in enumerate(kinds):
            value, weight = (values[rank] if rank < len(values) else None for values in lists)
            if kind not in OUTCOMES:
                raise BadCell("outcome", None, f"is {kind!r}, expected reward, expired or open")
            absent = is_empty_cell(value)
            if absent and kind == "reward":
                raise BadCell(names.reward, None, "is missing, expected a number")
            found.append(
                _OutcomeCells(
                    kind,
                    None if absent else number_in(names.reward, value),
                    1.0 if is_empty_cell(weight) else weight_in(names.weight, weight),
                )
            )
        return found
