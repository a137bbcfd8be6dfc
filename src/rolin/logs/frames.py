"""Logs of past decisions: a table with one row per reward."""

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
from rolin.model.moments import Moments

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SUFFIXES", "RewardLog", "numbers", "read_log", "read_table"]

Floats = NDArray[np.float64]

# How a number that is missing is written; as the name of an arm, all but the first are names.
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq")
"""How the names of logs end."""


class RewardLog(NamedTuple):
    """A log: n rewards with the arms and contexts that they came from."""

    arms: list[Any]
    contexts: Floats
    rewards: Floats
    weights: Floats
    features: list[str]

    @property
    def moments(self) -> Moments:
        """Its evidence."""
        return Moments.of(self.arms, self.contexts, self.rewards, self.weights)


def read_log(
    path: str | Path,
    *,
    arm: str = "arm",
    reward: str = "reward",
    weight: str | None = None,
    features: Sequence[str] | None = None,
) -> RewardLog:
    """Read a log from CSV or Parquet.

    Parameters
    ----------
    path
        The file.
    arm
        Column of the arm that was chosen.
    reward
        Column of its reward.
    weight
        Column of the reward's weight; by default all weigh 1.
    features
        Columns of the chosen arm's features; by default all other columns of numbers.
    """
    table = read_table(Path(path), arm)
    for column in (arm, reward, *(() if weight is None else (weight,)), *(features or ())):
        if column not in table.columns:
            raise DataError(
                f"{path} has no column {column!r}, only {', '.join(map(repr, table.columns))}"
            )
    for column in features or ():
        if column in (arm, reward, weight):
            raise DataError(
                f"{column!r} cannot be a feature: it is the arm, the reward or the weight"
            )
    if features is None:
        taken = {arm, reward, weight}
        features = [
            str(name) for name in table.columns
            if name not in taken and table[name].dtype.kind in "biuf"
        ]  # fmt: skip
    arms = table[arm].tolist()
    for row, name in enumerate(arms, start=1):
        if name is None or name == "" or name != name:
            raise DataError(f"{path}, row {row}: column {arm!r} is empty")
    columns = [numbers(path, table, name) for name in features]
    weights = np.ones(len(table)) if weight is None else numbers(path, table, weight)
    if not (weights > 0).all():
        row = int(np.argmax(~(weights > 0)))
        raise DataError(f"{path}, row {row + 1}: {weight} is {weights[row]}, expected above 0")
    contexts = np.column_stack(columns) if columns else np.empty((len(table), 0))
    return RewardLog(arms, contexts, numbers(path, table, reward), weights, list(features))


def read_table(path: Path, arm: str | None) -> pd.DataFrame:
    """Read a table; from CSV, the arm as it is written, or every column if none is named."""
    if not path.is_file():
        raise DataError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
    with needs("sim"):
        import pandas as pd
    try:
        if path.name.endswith((".parquet", ".pq")):
            with needs("frames"):
                importlib.import_module("pyarrow")  # or pandas names it, less clearly
            return pd.read_parquet(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            # arms as they are written: 001 is not 1, and NA may be a name
            if arm is None:
                return pd.read_csv(path, index_col=False, dtype=str, keep_default_na=False)
            columns = pd.read_csv(path, index_col=False, nrows=0).columns
            return pd.read_csv(
                path, index_col=False, dtype={arm: str}, keep_default_na=False,
                na_values={name: [""] if name == arm else _MISSING for name in columns},
            )  # fmt: skip
    except (
        ValueError,
        OSError,
        EOFError,
        pd.errors.ParserWarning,
    ) as error:  # pandas' and pyarrow's
        reason = str(error).splitlines()[0]
        raise DataError(f"{path} cannot be read as a table: {reason}") from error


def numbers(path: str | Path, table: pd.DataFrame, column: str) -> Floats:
    """Return a column as finite numbers, or say which row is not one."""
    import pandas as pd

    if table[column].dtype.kind in "mM":
        raise DataError(f"{path}: {column} holds times, expected numbers")
    numeric = pd.to_numeric(table[column], errors="coerce")
    values: Floats = numeric.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        given = table[column].tolist()[row]
        raise DataError(f"{path}, row {row + 1}: {column} is {given!r}, expected a finite number")
    return values
