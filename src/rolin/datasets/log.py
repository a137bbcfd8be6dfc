"""Logs of past decisions: a table with one row per reward."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.errors import DataError
from rolin.extras import needs
from rolin.moments import Moments

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SUFFIXES", "Log", "read_log"]

Floats = NDArray[np.float64]

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq")
"""How the names of logs end."""


class Log(NamedTuple):
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
) -> Log:
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
    table = _read(Path(path))
    for column in (arm, reward, *([weight] if weight else []), *(features or [])):
        if column not in table.columns:
            raise DataError(
                f"{path} has no column {column!r}, only {', '.join(map(repr, table.columns))}"
            )
    if features is None:
        taken = {arm, reward, weight}
        features = [
            str(name) for name in table.columns
            if name not in taken and table[name].dtype.kind in "biuf"
        ]  # fmt: skip
    if table[arm].isna().any():
        raise DataError(f"{path}, row {_first(table[arm].isna())}: column {arm!r} is empty")
    columns = [_numbers(path, table, name) for name in features]
    weights = np.ones(len(table)) if weight is None else _numbers(path, table, weight)
    if not (weights > 0).all():
        row = int(np.argmax(~(weights > 0)))
        raise DataError(f"{path}, row {row + 1}: {weight} is {weights[row]}, expected above 0")
    contexts = np.column_stack(columns) if columns else np.empty((len(table), 0))
    return Log(
        table[arm].tolist(), contexts, _numbers(path, table, reward), weights, list(features)
    )


def _read(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    with needs("sim"):
        import pandas as pd
    try:
        if path.name.endswith((".parquet", ".pq")):
            with needs("frames"):
                importlib.import_module("pyarrow")  # or pandas names it, less clearly
            return pd.read_parquet(path)
        return pd.read_csv(path)
    except (ValueError, OSError) as error:  # of pandas and pyarrow, all of them
        raise DataError(f"{path} cannot be read as a table: {error}") from error


def _numbers(path: str | Path, table: pd.DataFrame, column: str) -> Floats:
    """Return a column as finite numbers, or say which row is not one."""
    import pandas as pd

    numeric = pd.to_numeric(table[column], errors="coerce")
    values: Floats = numeric.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        given = table[column].tolist()[row]
        raise DataError(f"{path}, row {row + 1}: {column} is {given!r}, expected a finite number")
    return values


def _first(wrong: pd.Series[bool]) -> int:
    return int(np.argmax(wrong.to_numpy())) + 1
