"""Export decisions as tables, one row each: CSV, Parquet or a data frame.

An exported table can be imported again: with the same arms (7 is not "7"), the same numbers to the bit, and the same
times to the microsecond.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import zlib
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolin._support.files import check_output, replace_file
from rolin._support.optional import needs
from rolin._support.progress import Progress, check_progress, reporter
from rolin._support.spreadsheets import with_apostrophe
from rolin.errors import DataError, ParameterError, StateFileError
from rolin.journal.base import Journal
from rolin.journal.events import Proposal
from rolin.journal.sqlite import SQLiteJournal
from rolin.logs.frames import SUFFIXES
from rolin.logs.record import COLUMNS, OUTCOMES, PastDecision, read_journal

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_table_path", "export", "frame_of", "to_frame"]

_RAW = ("situation", "features")
_PROPOSALS = ("proposal", "shadow")
_LISTS = {
    *_RAW, "offered", "contexts", "propensities", "chosen", "rewards", "weights", "outcomes",
    *_PROPOSALS, *(f"{name}_propensities" for name in _PROPOSALS),
}  # fmt: skip
_TEXTS = ("id", "person", "arm")  # which others may have chosen
_GROUP = 10_000  # rows written at a time


def export(journal: Journal, path: str | Path, *, progress: Progress = False) -> int:
    """Write all decisions of a journal to a table, and return their number.

    The file appears under its name when it is complete, and not before.

    Parameters
    ----------
    journal
        The journal.
    path
        A file that ends in `.csv`, `.csv.gz`, `.parquet` or `.pq`.
    progress
        `True` shows a bar; a function is called with the number of decisions written since its last call.
    """
    target = check_table_path(path, journal)
    check_progress(progress)
    total = sum(1 for _ in read_journal(journal)) if progress is True else 0
    write = _write_csv if target.name.endswith((".csv", ".csv.gz")) else _write_parquet
    zipped = target.name.endswith(".gz")
    try:
        with replace_file(target) as temporary, reporter(progress, "exporting", total) as advance:
            return write(journal, temporary, advance, zipped=zipped)
    except (OSError, StateFileError) as error:
        raise DataError(f"{path} cannot be written: {error}") from error


def check_table_path(path: str | Path, journal: Journal | str | Path) -> Path:
    """Reject a path to which no table can be written: the journal, or a file that is no exported table."""
    target = Path(path)
    if not target.name.endswith(SUFFIXES):
        raise DataError(f"{path} has no known ending, expected one of {', '.join(SUFFIXES)}")
    if isinstance(journal, Journal):
        journal = getattr(journal, "path", "")  # one in memory has none
    check_output(target, _is_exported, "an exported table", [journal] if journal else [])
    return target


def _is_exported(path: Path) -> bool:
    """Return whether a file is a table that `export` wrote."""
    known = list(COLUMNS)[:4]
    if path.name.endswith((".parquet", ".pq")):
        with needs("frames"):
            parquet = importlib.import_module("pyarrow.parquet")
        return list(parquet.read_schema(path).names[:4]) == known
    zipped = path.name.endswith(".gz")
    with gzip.open(path) if zipped else path.open("rb") as file:
        try:
            return bool(file.read(200).startswith(",".join(known).encode()))
        except (EOFError, zlib.error):
            return False


def to_frame(journal: Any) -> pd.DataFrame:
    """Return all decisions as a data frame, one row each.

    Parameters
    ----------
    journal
        A journal, the path of its file, or a `Bandit`.
    """
    if isinstance(journal, (str, PathLike)):
        with SQLiteJournal(journal, readonly=True) as opened:
            return to_frame(opened)
    source = getattr(journal, "journal", journal)
    if not isinstance(source, Journal):
        raise ParameterError(
            f"journal={journal!r}, expected a journal, the path of its file, or a Bandit"
        )
    return frame_of(read_journal(source))


def frame_of(decisions: Iterable[PastDecision]) -> pd.DataFrame:
    """Return past decisions as a data frame, one row each."""
    with needs("sim"):
        import pandas as pd
    return pd.DataFrame([_row_of(past) for past in decisions], columns=list(COLUMNS))


def _row_of(past: PastDecision) -> dict[str, Any]:
    decision, outcomes = past
    by_rank = [outcomes.get(rank) for rank in range(len(decision.chosen))]
    kinds = ["open" if o is None else OUTCOMES[o.expired] for o in by_rank]
    rewards, weights = ([getattr(o, name, None) for o in by_rank] for name in ("value", "weight"))
    p, raw = decision.propensities, decision.raw
    return {
        "id": decision.id,
        "time": _datetime(decision.time),
        "person": decision.person,
        "arm": decision.arm,
        "reward": rewards[0],
        "weight": weights[0],
        "outcome": kinds[0],
        "reward_time": None if by_rank[0] is None else _datetime(by_rank[0].time),
        "propensity": decision.propensity,
        "version": decision.version,
        "control": decision.control,
        "bandit_mode": decision.mode,
        "outside_share": decision.outside_share,
        "offered": decision.offered,
        "situation": None if raw is None else raw.situation,
        "features": None if raw is None else raw.rows,
        "contexts": decision.offered_contexts.tolist(),
        "propensities": None if p is None else p.tolist(),
        "chosen": list(decision.chosen),
        "rewards": rewards,
        "weights": weights,
        "outcomes": kinds,
        **_cells_of("proposal", decision.proposal),
        **_cells_of("shadow", decision.shadow),
    }


def _cells_of(column: str, proposal: Proposal | None) -> dict[str, Any]:
    chosen, p = (None, None) if proposal is None else proposal
    return {
        column: None if chosen is None else list(chosen),
        f"{column}_propensities": None if p is None else p.tolist(),
    }


def _datetime(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC)


def _write_csv(
    journal: Journal, path: Path, advance: Callable[[int], None], *, zipped: bool
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
            row |= {
                name: with_apostrophe(row[name]) for name in _TEXTS if isinstance(row[name], str)
            }
            writer.writerow(row)
            n += 1
            advance(1)
    return n


def _write_parquet(
    journal: Journal, path: Path, advance: Callable[[int], None], **_options: bool
) -> int:
    with needs("frames"):
        pa = importlib.import_module("pyarrow")
        pq = importlib.import_module("pyarrow.parquet")
    kinds = {type(name) for past in read_journal(journal) for name in past.decision.offered}
    # Parquet has no type for names of two kinds: they are written as JSON.
    names, plain = {
        frozenset({str}): (pa.string(), True),
        frozenset({int}): (pa.int64(), True),
        frozenset(): (pa.string(), True),
    }.get(frozenset(kinds), (pa.string(), False))
    time, number = pa.timestamp("us", "UTC"), pa.float64()
    numbers = pa.list_(number)
    types = {
        "time": time, "reward_time": time, "reward": number, "weight": number, "propensity": number,
        "version": pa.int64(), "control": pa.bool_(), "outside_share": pa.bool_(),
        "arm": names,
        "offered": pa.list_(names) if plain else pa.string(), "contexts": pa.list_(numbers),
        "propensities": numbers, "chosen": pa.list_(pa.int64()), "rewards": numbers,
        "weights": numbers, "outcomes": pa.list_(pa.string()),
        **{name: pa.list_(pa.int64()) for name in _PROPOSALS},
        **{f"{name}_propensities": numbers for name in _PROPOSALS},
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
            row |= {name: json.dumps(row[name]) for name in _RAW if row[name] is not None}
            if not plain:
                row["arm"], row["offered"] = str(row["arm"]), json.dumps(row["offered"])
            rows.append(row)
            n += 1
            advance(1)
            if len(rows) == _GROUP:
                flush()
        flush()
    return n
