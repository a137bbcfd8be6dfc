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
from rolin.logs.rules import UNREADABLE, BadCell, arm_in, check_columns, check_weights
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
        Columns of the chosen arm's features; by default all other columns of numbers.
    """
    table = read_table(Path(path), arm)
    try:
        check_columns(
            list(table.columns), arm=arm, reward=reward, weight=weight, features=features or ()
        )
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    if features is None:
        taken = {arm, reward, weight}
        features = [
            str(name) for name in table.columns
            if name not in taken and table[name].dtype.kind in "biuf"
        ]  # fmt: skip
    arms = _arms(path, table, arm)
    columns = [numbers(path, table, name) for name in features]
    weights = np.ones(len(table)) if weight is None else numbers(path, table, weight)
    try:
        check_weights(weight, weights)
    except BadCell as bad:
        raise bad.at(1 + (bad.row or 0), str(path)) from None
    contexts = np.column_stack(columns) if columns else np.empty((len(table), 0))
    return RewardLog(arms, contexts, numbers(path, table, reward), weights, list(features))


def _arms(path: str | Path, table: pd.DataFrame, arm: str) -> list[Any]:
    """Return the names of the arms, one per row."""
    names: list[Any] = []
    for row, value in enumerate(table[arm].tolist(), start=1):
        try:
            names.append(arm_in(arm, value))
        except BadCell as bad:
            raise bad.at(row, str(path)) from None
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
    import pandas as pd

    if table[column].dtype.kind in "mM":
        raise BadCell(column, None, "holds times, expected numbers", str(path))
    numeric = pd.to_numeric(table[column], errors="coerce")
    values: Floats = numeric.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        given = table[column].tolist()[row]
        raise BadCell(column, row + 1, f"is {given!r}, expected a finite number", str(path))
    return values
