"""Read CSV and Parquet files as data frames, and logs with one row per reward."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.optional import needs
from rolin.errors import DataError
from rolin.features import BaseFeatureMap
from rolin.logs.raw_columns import columns_of_map, encode_rows
from rolin.logs.rules import (
    UNREADABLE,
    BadCell,
    Missing,
    arm_in,
    check_columns,
    check_missing,
    check_weights,
    rows_with_reward,
)
from rolin.model.moments import Moments

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SUFFIXES", "RewardLog", "numbers", "read_log", "read_table"]

Floats = NDArray[np.float64]

# How CSV files write a missing number. In the column of the arm, only the first one means that it is missing.
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq")
"""Endings of the names of tables."""


class RewardLog(NamedTuple):
    """A log with one row per reward."""

    arms: list[Any]
    """The arm of each of the n rewards."""
    contexts: Floats
    """(n, d)"""
    rewards: Floats
    """(n,)"""
    weights: Floats
    """(n,)"""
    features: list[str]
    """Names of the d features."""

    @property
    def moments(self) -> Moments:
        """The evidence of the log."""
        return Moments.of(self.arms, self.contexts, self.rewards, self.weights)


def read_log(
    path: str | Path,
    *,
    arm: str = "arm",
    reward: str = "reward",
    weight: str | None = None,
    features: Sequence[str] | None = None,
    feature_map: BaseFeatureMap | None = None,
    missing: Missing = "refuse",
) -> RewardLog:
    """Read a log with one row per reward from a CSV or Parquet file.

    Parameters
    ----------
    path
        The file.
    arm
        Column of the arm that was chosen.
    reward
        Column of its reward.
    weight
        Column of the reward's weight; by default every weight is 1.
    features
        Columns of the chosen arm's features; by default all other columns of numbers, or with a feature map, the
        columns that it reads.
    feature_map
        The feature map that makes vectors of raw features.
    missing
        What to do with rows that have no reward: `"refuse"`, `"drop"`, or a number to count instead.
    """
    missing = check_missing(missing)
    table = read_table(Path(path), arm)
    try:
        check_columns(
            list(table.columns), arm=arm, reward=reward, weight=weight, features=features or ()
        )
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    if features is None:
        others = [str(name) for name in table.columns if name not in (arm, reward, weight)]
        if feature_map is None:
            features = [name for name in others if table[name].dtype.kind in "biuf"]
        else:
            features = columns_of_map(feature_map, others)
    absent = table[reward].isna().to_numpy()
    rows = np.arange(len(table))  # of the file, for errors
    try:
        counted = rows_with_reward(reward, absent, missing)
        if counted is not None:
            table, rows, absent = table.iloc[counted], counted, absent[counted]
        return _reward_log(table, absent, arm, reward, weight, features, feature_map, missing)
    except BadCell as bad:
        raise bad.at(None if bad.row is None else 1 + int(rows[bad.row]), str(path)) from None


def _reward_log(
    table: pd.DataFrame,
    absent: NDArray[np.bool_],
    arm: str,
    reward: str,
    weight: str | None,
    features: Sequence[str],
    feature_map: BaseFeatureMap | None,
    missing: Missing,
) -> RewardLog:
    """Return the log of a table whose rows all count; a cell that cannot be used is a `BadCell`."""
    n, arms = len(table), _arms(table, arm)
    rewards = _numbers(table[[reward]].fillna(missing) if absent.any() else table, reward)
    weights = np.ones(n) if weight is None else _numbers(table, weight)
    check_weights(weight, weights)
    if feature_map is not None:
        x = encode_rows(feature_map, table[list(features)], lambda: arms)
        return RewardLog(arms, x, rewards, weights, list(feature_map.names))
    columns = [_numbers(table, name) for name in features]
    contexts = np.column_stack(columns) if columns else np.empty((n, 0))
    return RewardLog(arms, contexts, rewards, weights, list(features))


def _arms(table: pd.DataFrame, arm: str) -> list[Any]:
    """Return the names of the arms, one per row."""
    names: list[Any] = []
    for row, value in enumerate(table[arm].tolist()):
        try:
            names.append(arm_in(arm, value))
        except BadCell as bad:
            raise bad.at(row) from None
    return names


def read_table(path: Path, arm: str | None) -> pd.DataFrame:
    """Read a CSV or Parquet file as a data frame.

    Parameters
    ----------
    path
        The file.
    arm
        Column of the arm, which a CSV file holds as text: 001 is not 1. `None` to read every column of a CSV file
        as text.
    """
    if not path.is_file():
        raise DataError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
    with needs("sim"):
        import pandas as pd
    try:
        if path.name.endswith((".parquet", ".pq")):
            with needs("frames"):
                importlib.import_module("pyarrow")  # the error of pandas names no extra
            return pd.read_parquet(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            if arm is None:
                return pd.read_csv(path, index_col=False, dtype=str, keep_default_na=False)
            columns = pd.read_csv(path, index_col=False, nrows=0).columns
            return pd.read_csv(
                path, index_col=False, dtype={arm: str}, keep_default_na=False,
                na_values={name: [""] if name == arm else _MISSING for name in columns},
            )  # fmt: skip
    except (*UNREADABLE, pd.errors.ParserWarning) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path} cannot be read as a table: {reason}") from error


def numbers(path: str | Path, table: pd.DataFrame, column: str) -> Floats:
    """Return a column as finite numbers, or raise an error that names the row."""
    try:
        return _numbers(table, column)
    except BadCell as bad:
        raise bad.at(None if bad.row is None else bad.row + 1, str(path)) from None


def _numbers(table: pd.DataFrame, column: str) -> Floats:
    """Return a column as finite numbers; a cell that is none is a `BadCell` with the index of its row."""
    import pandas as pd

    if table[column].dtype.kind in "mM":
        raise BadCell(column, None, "holds times, expected numbers")
    numeric = pd.to_numeric(table[column], errors="coerce")
    values: Floats = numeric.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        given = table[column].tolist()[row]
        raise BadCell(column, row, f"is {given!r}, expected a finite number")
    return values
