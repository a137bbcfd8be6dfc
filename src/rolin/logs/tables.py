"""Decisions as tables, in: from CSV, Parquet or a data frame.

Tables that were exported hold the whole question; tables of other origin need an arm, a reward and
the features of the arm.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rolin._support.arms import Name, canonical
from rolin._support.checks import LAST_TIME, text_of
from rolin.errors import DataError, InputError, RolinError
from rolin.features import (
    BaseFeatureMap,
    Boolean,
    Category,
    FeatureMap,
    Number,
    RecordedFeatures,
    Tags,
)
from rolin.features.sklearn import MissingFeatureMap
from rolin.journal.events import LoggedDecision, Outcome
from rolin.journal.validation import listed
from rolin.logs.frames import read_table
from rolin.logs.raw_columns import RawColumns, raw_columns, require
from rolin.logs.record import COLUMNS, OUTCOMES, PastDecision

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_decisions"]


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
    now: float = 0.0,
) -> list[PastDecision]:
    """Read past decisions from a table: an exported one, or any with an arm, a reward and features.

    Parameters
    ----------
    source
        A file (CSV or Parquet) or a data frame.
    arm
        Column of the arm that was chosen.
    reward
        Column of its reward.
    propensity
        Column of the probability with which it was chosen; it may be missing.
    features
        Columns of the chosen arm's features, of tables that were not exported; `[]` for none.
    id
        Column of the decision's id; if it is missing, rows are named by the table and their number.
    time
        Column of the time, or of seconds since 1970; it may be missing.
    person
        Column of whom the decision was for; it may be missing.
    weight
        Column of how much the reward counts; it may be missing.
    feature_map
        What makes vectors of raw features: then `features` are columns of those of the arm, by default all
        that the map has as fields of the arm.
    situation
        Columns of the raw features of the situation, by default all that the map has as such.
    now
        Time of decisions that have none, in seconds since 1970.
    """
    if features is not None:
        features = listed("features", features)
    where, columns, n = _columns_of(source)
    digest = _digest(columns)  # before columns get their own names
    for own, given in (("id", id), ("time", time), ("person", person), ("weight", weight)):
        if given != own:
            require(where, columns, [given])
            columns[own] = columns[given]
    table = _Table(where, columns, now, digest)
    whole = "offered" in columns and "contexts" in columns
    require(where, columns, [reward, *(["chosen"] if whole else [arm]), *(features or ())])
    raw = None
    if feature_map is not None and whole:
        raw = RawColumns(feature_map, (), ()) if "features" in columns else None
    elif feature_map is not None:
        taken = {arm, reward, propensity, id, time, person, weight}
        raw = raw_columns(where, columns, feature_map, features, situation, taken)
    elif situation is not None:
        raise DataError("situation names raw features, expected a feature_map that uses them")
    if not whole and features is None and raw is None:
        taken = {*COLUMNS, arm, reward, propensity, id, time, person, weight}
        numeric = [name for name in columns if name not in taken and table.is_numeric(name)]
        raise DataError(
            f"{where} does not say which columns are the features of the arm: say features=[…], with commas "
            f"between them on the command line; columns of numbers are {numeric!r}"
        )
    pasts: list[PastDecision] = []
    rows_of: dict[str, int] = {}
    for i in range(n):
        with table.row(i):
            if whole:
                past = table.whole(i, reward, raw)
            else:
                past = table.plain(i, arm, reward, propensity, features or (), raw)
        name = past.decision.id
        if name in rows_of:
            raise DataError(f"{where}, row {i + 1}: id {name!r} is that of row {rows_of[name]} too")
        rows_of[name] = i + 1
        pasts.append(past)
    return pasts


def _digest(columns: dict[str, list[Any]]) -> str:
    """Return what names the rows of this table that have no id, so that it can be imported again."""
    content = repr(sorted(columns.items(), key=lambda column: column[0]))
    return hashlib.blake2b(content.encode(errors="replace"), digest_size=6).hexdigest()


def _columns_of(source: str | Path | pd.DataFrame) -> tuple[str, dict[str, list[Any]], int]:
    if isinstance(source, (str, Path)):
        where = str(source)
        frame = read_table(Path(source), None)  # says clearly what is wrong with a file
        if where.endswith((".parquet", ".pq")):
            pq = importlib.import_module("pyarrow.parquet")
            try:
                table = pq.read_table(source)
                return where, table.to_pydict(), table.num_rows
            except (OverflowError, ValueError) as error:  # pyarrow's too
                raise DataError(f"{where} cannot be read as a table: {error}") from error
    else:
        where, frame = "the table", source
    try:
        return where, {str(name): frame[name].to_list() for name in frame.columns}, len(frame)
    except (AttributeError, TypeError):
        raise InputError(
            f"{type(source).__name__} is not a table, expected a file or a data frame"
        ) from None


class _Table:
    """Columns of anything, read one cell at a time; errors name the row and the column."""

    def __init__(self, where: str, columns: dict[str, list[Any]], now: float, digest: str) -> None:
        self._where, self._columns, self._now, self._digest = where, columns, now, digest
        self._numeric: dict[str, bool] = {}

    @contextmanager
    def row(self, i: int) -> Iterator[None]:
        """Say in which row something is wrong."""
        try:
            yield
        except RolinError as error:
            raise DataError(f"{self._where}, row {i + 1}: {error}") from error

    def is_numeric(self, name: str) -> bool:
        """Return whether a column holds numbers, missing ones aside."""
        if name not in self._numeric:
            self._numeric[name] = self._is_numeric(name)
        return self._numeric[name]

    def _is_numeric(self, name: str) -> bool:
        try:
            for value in self._columns[name]:
                if not _missing(value):
                    _number(name, value)
        except DataError:
            return False
        return True

    def get(self, i: int, name: str) -> Any:
        """Return a cell; `None` if it is empty or there is no such column."""
        value = self._columns[name][i] if name in self._columns else None
        return None if _missing(value) else value

    def number(self, i: int, name: str) -> float:
        value = self.get(i, name)
        if value is None:
            raise DataError(f"{name} is missing, expected a number")
        return _number(name, value)

    def items(self, i: int, name: str, *, alone: bool = False) -> list[Any]:
        """Return a cell that holds a list, as such or as JSON; or a single thing."""
        value = self.get(i, name)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                raise DataError(f"{name} is {value[:60]!r}, expected a list") from None
        if alone:
            return [value]
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            raise DataError(f"{name} is {value!r}, expected a list")
        return list(value)

    def plain(
        self,
        i: int,
        arm: str,
        reward: str,
        propensity: str,
        features: Sequence[str],
        raw: RawColumns | None,
    ) -> PastDecision:
        """Return a decision of which only the chosen arm is known."""
        given = self.get(i, arm)
        if given is None:
            raise DataError(f"{arm} is empty, expected the name of an arm")
        name = _name(arm, given)
        x: Any
        if raw is not None:
            x = self._raw(
                raw, (name,), self._cells(i, raw, "situation"), [self._cells(i, raw, "arm")]
            )
        else:
            x = np.array([[self.number(i, feature) for feature in features]]).reshape(1, -1)
        p = self.get(i, propensity)
        propensities = None if p is None else np.array([_propensity(propensity, p)])
        return self._past(i, (name,), x, (0,), propensities, reward)

    def _cells(self, i: int, raw: RawColumns, side: str) -> dict[str, Any]:
        """Return raw features from their columns; texts of a CSV file become what the field is."""
        fields = getattr(raw.features, side, {}) if isinstance(raw.features, FeatureMap) else {}
        found: dict[str, Any] = {}
        for name in getattr(raw, side):
            value, field = self.get(i, name), fields.get(name)
            if isinstance(value, str):
                value = self._meant(i, name, value, field)
            found[name] = value
        return found

    def _meant(self, i: int, name: str, value: str, field: Any) -> Any:
        """Return what a text in a table means: a file of texts has all kinds of values as such."""
        if isinstance(field, Number):
            return _number(name, value)
        if isinstance(field, Boolean):
            return _flag(name, value)
        if isinstance(field, Tags):
            return self.items(i, name)
        if isinstance(field, Category):
            if value not in (field.values or (value,)):
                with suppress(DataError):  # 18.0 is 18
                    return _number(name, value)
            return value
        if field is None and value.startswith(("{", "[")):  # objects, of fields with dots
            with suppress(ValueError, RecursionError):
                return json.loads(value)
        if field is None and self.is_numeric(name):
            return _number(name, value)
        return {"true": True, "false": False}.get(value.lower(), value)

    @staticmethod
    def _raw(
        raw: RawColumns, arms: tuple[Name, ...], situation: Any, rows: list[Any]
    ) -> RecordedFeatures:
        """Return raw features as they are recorded, from which vectors can be made."""
        for what, row in (("situation", situation), *(("features", row) for row in rows)):
            if not isinstance(row, dict):
                raise DataError(f"{what} holds {row!r}, expected fields with their values")
        return RecordedFeatures.record(raw.features, arms, rows, situation)

    def whole(self, i: int, reward: str, raw: RawColumns | None) -> PastDecision:
        """Return a decision with the whole question."""
        offered = tuple(_name("offered", name) for name in self.items(i, "offered"))
        k = len(offered)
        if len(set(offered)) != k or not offered:
            raise DataError(f"offered is {list(offered)!r}, expected at least one arm, each once")
        if raw is not None and self.get(i, "features") is not None:
            given = self.items(i, "features")
            if len(given) != k:
                raise DataError(
                    f"features has {len(given)} items, expected {k}, one per arm offered"
                )
            (situation,) = self.items(i, "situation", alone=True)
            return self._past(
                i,
                offered,
                self._raw(raw, offered, situation or {}, given),
                self._chosen(i, k),
                self._all_propensities(i, k),
                reward,
            )
        rows = self.items(i, "contexts")
        listed = all(isinstance(row, (list, tuple, np.ndarray)) for row in rows)
        if len(rows) != k or not listed or len({len(row) for row in rows}) != 1:
            raise DataError(f"contexts is not a table with {k} rows, one per arm offered")
        x: Any = np.array([[_number("contexts", v) for v in row] for row in rows]).reshape(k, -1)
        if self.get(i, "features") is not None:  # made by a map that is not given here
            (situation,) = self.items(i, "situation", alone=True)
            fields = {"situation": situation or {}, "arms": self.items(i, "features")}
            x = RecordedFeatures(
                MissingFeatureMap([f"x{j}" for j in range(x.shape[1])]), offered, fields, x
            )
        return self._past(i, offered, x, self._chosen(i, k), self._all_propensities(i, k), reward)

    def _chosen(self, i: int, k: int) -> tuple[int, ...]:
        chosen = tuple(self.items(i, "chosen"))
        whole = all(type(place) is int for place in chosen)
        if (
            not whole
            or not chosen
            or not set(chosen) <= set(range(k))
            or len(set(chosen)) < len(chosen)
        ):
            raise DataError(f"chosen is {list(chosen)!r}, expected places among {k} arms")
        return chosen

    def _all_propensities(self, i: int, k: int) -> Any:
        p = None
        if self.get(i, "propensities") is not None:
            p = np.array([_number("propensities", v) for v in self.items(i, "propensities")])
            if len(p) != k or not ((p >= 0) & (p <= 1)).all() or abs(p.sum() - 1) > 1e-6:
                raise DataError("propensities are not probabilities of the arms that sum to 1")
        return p

    def _past(
        self,
        i: int,
        offered: tuple[Name, ...],
        x: Any,
        chosen: tuple[int, ...],
        p: Any,
        reward: str,
    ) -> PastDecision:
        given, person = self.get(i, "id"), self.get(i, "person")
        id = f"{self._digest}-row-{i + 1}" if given is None else text_of("id", str(given))
        time = _time("time", self.get(i, "time"), self._now)
        decision = LoggedDecision(
            id, time, offered, x, chosen, p,
            None,  # the version of another model
            None if person is None else text_of("person", str(person)),
            _flag("control", self.get(i, "control")),
        )  # fmt: skip
        came = _time("reward_time", self.get(i, "reward_time"), time)
        outcomes: dict[int, Outcome] = {}
        for place, (kind, value, weight) in enumerate(self._outcomes(i, reward, len(chosen))):
            k = chosen[place]
            if kind != "open":
                outcomes[place] = Outcome(
                    id,
                    came,
                    place,
                    offered[k],
                    decision.context_of(k),
                    value,
                    weight,
                    kind == "expired",
                )
        return PastDecision(decision, outcomes)

    def _outcomes(self, i: int, reward: str, n: int) -> list[tuple[str, float | None, float]]:
        """Return what became of each arm of a ranking; that of the first may stand alone."""
        if self.get(i, "outcomes") is None:
            kinds = [self.get(i, "outcome") or "reward", *["open"] * (n - 1)]
            cells = [[self.get(i, reward)], [self.get(i, "weight")]]
            names = (reward, "weight")
        else:
            kinds, names = self.items(i, "outcomes"), ("rewards", "weights")
            cells = [self.items(i, name) for name in names]
            if {len(kinds), *map(len, cells)} != {n}:
                raise DataError(
                    f"rewards, weights and outcomes differ in length, expected {n} each"
                )
        found: list[tuple[str, float | None, float]] = []
        for place, kind in enumerate(kinds):
            value, weight = (cell[place] if place < len(cell) else None for cell in cells)
            if kind not in OUTCOMES:
                raise DataError(f"outcome is {kind!r}, expected reward, expired or open")
            if _missing(value) and kind == "reward":
                raise DataError(f"{names[0]} is missing, expected a number")
            number = 1.0 if _missing(weight) else _number(names[1], weight)
            if not number > 0.0:
                raise DataError(f"{names[1]} is {weight!r}, expected above 0")
            found.append((kind, None if _missing(value) else _number(names[0], value), number))
        return found


def _missing(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return not value
    if isinstance(value, (list, tuple, dict, np.ndarray)):
        return False
    try:
        return bool(value != value)  # NaN, NaT
    except TypeError:  # what pandas calls NA is neither equal nor unequal
        return True


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, str) and "_" in value:
            raise ValueError
        number = float(value)
    except (TypeError, ValueError):
        raise DataError(f"{name} is {value!r}, expected a number") from None
    except OverflowError:
        raise DataError(f"{name} is a number too large to compute with") from None
    if not math.isfinite(number):
        raise DataError(f"{name} is {value!r}, expected a finite number")
    return number


def _propensity(name: str, value: Any) -> float:
    p = _number(name, value)
    if not 0.0 < p <= 1.0:
        raise DataError(f"{name} is {value!r}, expected above 0 and at most 1")
    return p


def _name(column: str, value: Any) -> Name:
    if value is None:
        raise DataError(f"{column} is empty, expected the name of an arm")
    name = canonical(value)
    if type(name) is not str and type(name) is not int:
        raise DataError(f"{column} is {value!r}, expected a text or an integer")
    return name


def _time(name: str, value: Any, default: float) -> float:
    """Return seconds since 1970, of a time or a number."""
    if value is None:
        return default
    moment = value
    if isinstance(value, str):
        with suppress(ValueError):
            moment = datetime.fromisoformat(value)
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        time = (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    else:
        time = _number(name, value)
    if not 0.0 <= time < LAST_TIME:
        raise DataError(f"{name} is {value!r}, expected a time, or seconds, since 1970")
    return time


def _flag(name: str, value: Any) -> bool:
    text = str(value).lower()
    if value is not None and text not in ("true", "false", "1", "0", "1.0", "0.0"):
        raise DataError(f"{name} is {value!r}, expected true or false")
    return text in ("true", "1", "1.0")
