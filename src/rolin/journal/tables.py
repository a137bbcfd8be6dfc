"""Decisions as tables: one row each, in CSV, Parquet or a data frame.

What is exported can be imported again: the same arms (7 is not "7"), the same numbers to the bit,
times to the microsecond. Tables of other origin need an arm, a reward and the features of the arm.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import math
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rolin.arms import Name, canonical
from rolin.checks import LAST_TIME, text_of
from rolin.datasets.log import SUFFIXES, read_table
from rolin.errors import DataError, InputError, RolinError
from rolin.extras import needs
from rolin.journal.base import Journal
from rolin.journal.events import LoggedDecision, Outcome

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COLUMNS",
    "PastDecision",
    "as_frame",
    "check_target",
    "export",
    "read_decisions",
    "read_journal",
]

COLUMNS = {
    "id": "what rewards are joined by",
    "time": "when it was decided",
    "person": "whom for",
    "arm": "the chosen arm",
    "reward": "its reward",
    "weight": "how much the reward counts",
    "outcome": "reward, expired or open",
    "reward_time": "when the reward came",
    "propensity": "probability with which the arm was chosen",
    "version": "last event that the model knew",
    "control": "whether it belongs to the control group",
    "offered": "the K arms to choose from",
    "contexts": "their K contexts",
    "propensities": "their K probabilities",
    "chosen": "places, among those offered, of the ranking",
    "rewards": "rewards of the ranking",
    "weights": "their weights",
    "outcomes": "reward, expired or open, of each",
}
"""The columns of an exported table, and what they mean."""
_LISTS = {"offered", "contexts", "propensities", "chosen", "rewards", "weights", "outcomes"}
_OUTCOMES = ("reward", "expired", "open")
_GROUP = 10_000  # rows written at a time


class PastDecision(NamedTuple):
    """A decision and what became of it, by place in its ranking."""

    decision: LoggedDecision
    outcomes: dict[int, Outcome]


def read_journal(journal: Journal) -> Iterator[PastDecision]:
    """Yield the decisions of a journal, in order, with what became of each."""
    for _, event in journal.read():
        if isinstance(event, LoggedDecision):
            yield PastDecision(event, journal.outcomes(event.id))


# -- writing ---------------------------------------------------------------------------------


def export(
    journal: Journal, path: str | Path, *, progress: Callable[[int], None] | None = None
) -> int:
    """Write all decisions to a table, `.csv`, `.csv.gz` or `.parquet`; return how many.

    The file is there when all of it is written, and not before.
    """
    target = check_target(path)
    write = _write_csv if target.name.endswith((".csv", ".csv.gz")) else _write_parquet
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        n = write(journal, part, progress or (lambda _: None), zipped=target.name.endswith(".gz"))
        os.replace(part, target)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error}") from error
    finally:
        with suppress(OSError):  # where nothing can be written, there is nothing to remove
            part.unlink(missing_ok=True)
    return n


def check_target(path: str | Path) -> Path:
    """Refuse a place where no table can be written."""
    target = Path(path)
    if not target.name.endswith(SUFFIXES):
        raise DataError(f"{path} has no known ending, expected one of {', '.join(SUFFIXES)}")
    if not target.parent.is_dir():
        raise DataError(f"{path} cannot be written: there is no folder {target.parent}")
    return target


def as_frame(journal: Journal) -> pd.DataFrame:
    """Return all decisions as a data frame, one row each."""
    with needs("sim"):
        import pandas as pd
    return pd.DataFrame([_row_of(past) for past in read_journal(journal)], columns=list(COLUMNS))


def _row_of(past: PastDecision) -> dict[str, Any]:
    decision, outcomes = past
    all_ = [outcomes.get(place) for place in range(len(decision.chosen))]
    kinds = ["open" if o is None else _OUTCOMES[o.expired] for o in all_]
    rewards, weights = ([getattr(o, name, None) for o in all_] for name in ("value", "weight"))
    p = decision.propensities
    return {
        "id": decision.id,
        "time": _datetime(decision.time),
        "person": decision.person,
        "arm": decision.arm,
        "reward": rewards[0],
        "weight": weights[0],
        "outcome": kinds[0],
        "reward_time": None if all_[0] is None else _datetime(all_[0].time),
        "propensity": decision.propensity,
        "version": decision.version,
        "control": decision.control,
        "offered": decision.offered,
        "contexts": decision.offered_contexts.tolist(),
        "propensities": None if p is None else p.tolist(),
        "chosen": list(decision.chosen),
        "rewards": rewards,
        "weights": weights,
        "outcomes": kinds,
    }


def _datetime(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC)


def _write_csv(
    journal: Journal, path: Path, progress: Callable[[int], None], *, zipped: bool
) -> int:
    n = 0
    with (
        path.open("wb") as raw,
        gzip.open(raw, "wb") if zipped else nullcontext(raw) as binary,
        io.TextIOWrapper(binary, encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, list(COLUMNS))
        writer.writeheader()
        for past in read_journal(journal):
            row = _row_of(past)
            for name in ("time", "reward_time"):
                row[name] = row[name] and row[name].isoformat()
            row |= {name: json.dumps(row[name]) for name in _LISTS if row[name] is not None}
            writer.writerow(row)
            n += 1
            progress(1)
    return n


def _write_parquet(
    journal: Journal, path: Path, progress: Callable[[int], None], **_options: bool
) -> int:
    with needs("frames"):
        pa = importlib.import_module("pyarrow")
        pq = importlib.import_module("pyarrow.parquet")
    kinds = {type(name) for past in read_journal(journal) for name in past.decision.offered}
    # Names of two kinds are not a type of Parquet: as JSON then.
    names, plain = {
        frozenset({str}): (pa.string(), True),
        frozenset({int}): (pa.int64(), True),
        frozenset(): (pa.string(), True),
    }.get(frozenset(kinds), (pa.string(), False))
    time, number = pa.timestamp("us", "UTC"), pa.float64()
    numbers = pa.list_(number)
    types = {
        "time": time, "reward_time": time, "reward": number, "weight": number, "propensity": number,
        "version": pa.int64(), "control": pa.bool_(), "arm": names,
        "offered": pa.list_(names) if plain else pa.string(), "contexts": pa.list_(numbers),
        "propensities": numbers, "chosen": pa.list_(pa.int64()), "rewards": numbers,
        "weights": numbers, "outcomes": pa.list_(pa.string()),
    }  # fmt: skip
    schema = pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS])
    n = 0
    rows: list[dict[str, Any]] = []

    def flush() -> None:
        columns = {name: [row[name] for row in rows] for name in COLUMNS}
        try:
            writer.write_table(pa.table(columns, schema=schema))
        except (pa.ArrowInvalid, OverflowError) as error:
            raise DataError(f"the journal does not fit into Parquet: {error}") from error
        rows.clear()

    with pq.ParquetWriter(path, schema) as writer:
        for past in read_journal(journal):
            row = _row_of(past)
            if not plain:
                row["arm"], row["offered"] = str(row["arm"]), json.dumps(row["offered"])
            rows.append(row)
            n += 1
            progress(1)
            if len(rows) == _GROUP:
                flush()
        flush()
    return n


# -- reading ---------------------------------------------------------------------------------


def read_decisions(
    source: str | Path | pd.DataFrame,
    *,
    arm: str = "arm",
    reward: str = "reward",
    propensity: str = "propensity",
    features: Sequence[str] | None = None,
    now: float = 0.0,
) -> list[PastDecision]:
    """Read past decisions from a table: an exported one, or any with an arm and a reward.

    Parameters
    ----------
    source
        A file (CSV or Parquet) or a data frame. Columns that it has are read as those of an exported
        table: id, time, person, weight, and so on.
    arm
        Column of the arm that was chosen.
    reward
        Column of its reward.
    propensity
        Column of the probability with which it was chosen; it may be missing.
    features
        Columns of the chosen arm's features, of tables without `contexts`; by default all columns of
        numbers with other names.
    now
        Time of decisions that have none, in seconds since 1970.
    """
    where, columns, n = _columns_of(source)
    table = _Table(where, columns, now)
    whole = "offered" in columns and "contexts" in columns
    for name in (reward, *(["chosen"] if whole else [arm]), *(features or ())):
        if name not in columns:
            raise DataError(f"{where} has no column {name!r}, only {', '.join(map(repr, columns))}")
    if not whole and features is None:
        taken = {*COLUMNS, arm, reward, propensity}
        features = [name for name in columns if name not in taken and table.is_numeric(name)]
    pasts: list[PastDecision] = []
    rows_of: dict[str, int] = {}
    for i in range(n):
        with table.row(i):
            past = (
                table.whole(i, reward)
                if whole
                else table.plain(i, arm, reward, propensity, features or ())
            )
        id = past.decision.id
        if id in rows_of:
            raise DataError(f"{where}, row {i + 1}: id {id!r} is that of row {rows_of[id]} too")
        rows_of[id] = i + 1
        pasts.append(past)
    return pasts


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

    def __init__(self, where: str, columns: dict[str, list[Any]], now: float) -> None:
        self._where, self._columns, self._now = where, columns, now

    @contextmanager
    def row(self, i: int) -> Iterator[None]:
        """Say in which row something is wrong."""
        try:
            yield
        except RolinError as error:
            raise DataError(f"{self._where}, row {i + 1}: {error}") from error

    def is_numeric(self, name: str) -> bool:
        """Return whether a column holds numbers, missing ones aside."""
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

    def items(self, i: int, name: str) -> list[Any]:
        """Return a cell that holds a list, as such or as JSON."""
        value = self.get(i, name)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                raise DataError(f"{name} is {value[:60]!r}, expected a list") from None
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            raise DataError(f"{name} is {value!r}, expected a list")
        return list(value)

    def plain(
        self, i: int, arm: str, reward: str, propensity: str, features: Sequence[str]
    ) -> PastDecision:
        """Return a decision of which only the chosen arm is known."""
        given = self.get(i, arm)
        if given is None:
            raise DataError(f"{arm} is empty, expected the name of an arm")
        name = _name(arm, given)
        x = np.array([[self.number(i, feature) for feature in features]]).reshape(1, -1)
        p = self.get(i, propensity)
        propensities = None if p is None else np.array([_propensity(propensity, p)])
        return self._past(i, (name,), x, (0,), propensities, reward)

    def whole(self, i: int, reward: str) -> PastDecision:
        """Return a decision with the whole question."""
        offered = tuple(_name("offered", name) for name in self.items(i, "offered"))
        k = len(offered)
        if len(set(offered)) != k or not offered:
            raise DataError(f"offered is {list(offered)!r}, expected at least one arm, each once")
        rows = self.items(i, "contexts")
        listed = all(isinstance(row, (list, tuple, np.ndarray)) for row in rows)
        if len(rows) != k or not listed or len({len(row) for row in rows}) != 1:
            raise DataError(f"contexts is not a table with {k} rows, one per arm offered")
        x = np.array([[_number("contexts", v) for v in row] for row in rows]).reshape(k, -1)
        chosen = tuple(self.items(i, "chosen"))
        whole = all(type(place) is int for place in chosen)
        if (
            not whole
            or not chosen
            or not set(chosen) <= set(range(k))
            or len(set(chosen)) < len(chosen)
        ):
            raise DataError(f"chosen is {list(chosen)!r}, expected places among {k} arms")
        p = None
        if self.get(i, "propensities") is not None:
            p = np.array([_number("propensities", v) for v in self.items(i, "propensities")])
            if len(p) != len(offered) or not ((p >= 0) & (p <= 1)).all() or abs(p.sum() - 1) > 1e-6:
                raise DataError("propensities are not probabilities of the arms that sum to 1")
        return self._past(i, offered, x, chosen, p, reward)

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
        id = f"{_place(self._where)}row-{i + 1}" if given is None else text_of("id", str(given))
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
                    id, came, place, offered[k], x[k], value, weight, kind == "expired"
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
            if kind not in _OUTCOMES:
                raise DataError(f"outcome is {kind!r}, expected reward, expired or open")
            if _missing(value) and kind == "reward":
                raise DataError(f"{names[0]} is missing, expected a number")
            number = 1.0 if _missing(weight) else _number(names[1], weight)
            if not number > 0.0:
                raise DataError(f"{names[1]} is {weight!r}, expected above 0")
            found.append((kind, None if _missing(value) else _number(names[0], value), number))
        return found


def _place(where: str) -> str:
    """Return what tells the rows of one file from those of another."""
    return f"{Path(where).name}-" if where != "the table" else ""


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
