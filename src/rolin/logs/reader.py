"""Read past decisions from any source."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolin.errors import DataError, InputError, ParameterError, UnknownOption
from rolin.features import BaseFeatureMap
from rolin.journal.base import Journal
from rolin.journal.sqlite import SQLiteJournal
from rolin.logs.dsjson import SUFFIXES as DSJSON
from rolin.logs.dsjson import read_dsjson
from rolin.logs.frames import SUFFIXES as TABLES
from rolin.logs.record import PastDecision, read_journal, reread
from rolin.logs.rules import Missing, check_missing
from rolin.logs.tables import read_decisions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["past_decisions"]


def past_decisions(
    source: Journal | str | PathLike[str] | Iterable[PastDecision] | pd.DataFrame,
    *,
    now: float = 0.0,
    feature_map: BaseFeatureMap | None = None,
    missing: Missing = "refuse",
    **columns: Any,
) -> list[PastDecision]:
    """Return the decisions of a journal, a table, or a Vowpal Wabbit log.

    Parameters
    ----------
    source
        A journal or its file, a CSV or Parquet file, a data frame, a `.dsjson` file, or a list of past decisions.
    now
        Time of decisions that have none, in seconds since 1970.
    feature_map
        The feature map that makes vectors of raw features, also of those that another map has read.
    missing
        What to do with rows of a table that have no reward: `"refuse"` the table, `"drop"` them, or a number to
        count instead. It does not concern open decisions, whose reward may still come.
    columns
        Options of the reader for that kind of source.
    """
    missing = check_missing(missing)
    if feature_map is not None:
        if not isinstance(feature_map, BaseFeatureMap):
            raise ParameterError(f"feature_map={feature_map!r}, expected a feature map")
        found = _past_decisions(source, now, missing, {**columns, "feature_map": feature_map})
        return [reread(past, feature_map) for past in found]
    return _past_decisions(source, now, missing, columns)


def _past_decisions(
    source: Any, now: float, missing: Missing, columns: dict[str, Any]
) -> list[PastDecision]:
    if isinstance(source, Journal):
        _check_options(read_journal, columns)
        return list(read_journal(source))
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        if path.name.endswith(TABLES):
            _check_options(read_decisions, columns)
            return read_decisions(path, now=now, missing=missing, **columns)
        if path.name.endswith(DSJSON):
            _check_options(read_dsjson, columns)
            return read_dsjson(path, **columns).decisions
        _check_options(read_journal, columns)
        if not path.is_file():
            raise DataError(
                f"{path} is not a file" if path.exists() else f"there is no file {path}"
            )
        with SQLiteJournal(path, readonly=True) as journal:
            return list(read_journal(journal))
    if hasattr(source, "columns"):
        _check_options(read_decisions, columns)
        return read_decisions(source, now=now, missing=missing, **columns)
    _check_options(read_journal, columns)
    try:
        return list(source)
    except TypeError:
        raise InputError(
            f"{source!r} holds no decisions, expected a file, a journal, a data frame or a list"
        ) from None


def _check_options(reader: Callable[..., Any], columns: Mapping[str, Any]) -> None:
    """Reject options that this kind of source does not have; a feature map suits every source."""
    own = {"source", "path", "journal", "now", "missing"}
    known = set(inspect.signature(reader).parameters) - own
    if unknown := sorted(set(columns) - known - {"feature_map"}):
        only = f"only {', '.join(sorted(known))}" if known else "none"
        raise UnknownOption(f"this kind of log takes no {unknown[0]}, {only}", argument=unknown[0])
