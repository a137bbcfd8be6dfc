"""Past decisions from wherever they are."""

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
from rolin.logs.tables import read_decisions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["past_decisions"]


def past_decisions(
    source: Journal | str | PathLike[str] | Iterable[PastDecision] | pd.DataFrame,
    *,
    now: float = 0.0,
    feature_map: BaseFeatureMap | None = None,
    **columns: Any,
) -> list[PastDecision]:
    """Return the decisions of a journal, a table, or a log of Vowpal Wabbit's.

    Parameters
    ----------
    source
        A journal or its file, a CSV or Parquet file, a data frame, a `.dsjson` file, or a list.
    now
        Time of decisions that have none, in seconds since 1970.
    feature_map
        What makes vectors of raw features, also of those that were read by another map.
    columns
        What the reader of that kind of source takes.
    """
    if feature_map is not None:
        if not isinstance(feature_map, BaseFeatureMap):
            raise ParameterError(f"feature_map={feature_map!r}, expected a feature map")
        found = _past_decisions(source, now, {**columns, "feature_map": feature_map})
        return [reread(past, feature_map) for past in found]
    return _past_decisions(source, now, columns)


def _past_decisions(source: Any, now: float, columns: dict[str, Any]) -> list[PastDecision]:
    if isinstance(source, Journal):
        _takes(read_journal, columns)
        return list(read_journal(source))
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        if path.name.endswith(TABLES):
            _takes(read_decisions, columns)
            return read_decisions(path, now=now, **columns)
        if path.name.endswith(DSJSON):
            _takes(read_dsjson, columns)
            return read_dsjson(path, **columns).decisions
        _takes(read_journal, columns)
        if not path.is_file():
            raise DataError(
                f"{path} is not a file" if path.exists() else f"there is no file {path}"
            )
        with SQLiteJournal(path, readonly=True) as journal:
            return list(read_journal(journal))
    if hasattr(source, "columns"):
        _takes(read_decisions, columns)
        return read_decisions(source, now=now, **columns)
    _takes(read_journal, columns)
    try:
        return list(source)
    except TypeError:
        raise InputError(
            f"{source!r} holds no decisions, expected a file, a journal, a data frame or a list"
        ) from None


def _takes(reader: Callable[..., Any], columns: Mapping[str, Any]) -> None:
    """Refuse options that this kind of source has no use for; raw features are read in any case."""
    known = set(inspect.signature(reader).parameters) - {"source", "path", "journal", "now"}
    if unknown := sorted(set(columns) - known - {"feature_map"}):
        said = f"only {', '.join(sorted(known))}" if known else "none"
        raise UnknownOption(f"this kind of log takes no {unknown[0]}, {said}")
