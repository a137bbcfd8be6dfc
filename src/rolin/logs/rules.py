"""The rules for the cells of a log, shared by every reader.

A log is a table of past decisions from anywhere. Rows of Python values, columns of pandas and batches of Arrow
data all follow these rules:

- A cell is missing if it is null, an empty text or NaN.
- A missing reward is an error, unless the caller says what it means: `"drop"` leaves the row out, and a number
  counts as the reward.
- A decision that a journal exported without a reward is open: its reward may still come.
- The name of an arm is a text or an integer, and 7 is not "7". A missing name is an error.
- A feature is a finite number. The arm, the reward and the weight are never features.
- A weight is a finite number above 0.
- A propensity is above 0 and at most 1. Those of all arms of a decision are from 0 to 1 and sum to 1.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name, canonical
from rolin._support.checks import finite_number_of
from rolin.errors import DataError, ParameterError

__all__ = [
    "ROUNDING",
    "UNREADABLE",
    "BadCell",
    "Missing",
    "UnnamedColumns",
    "arm_in",
    "check_columns",
    "check_finite",
    "check_missing",
    "check_weights",
    "is_distribution",
    "is_empty_cell",
    "number_in",
    "propensity_in",
    "require",
    "rows_with_reward",
    "weight_in",
]

Floats = NDArray[np.float64]
Missing = Literal["refuse", "drop"] | float
"""What to do with rows that have no reward: `"refuse"` the log, `"drop"` them, or a number to count instead."""

# Probabilities that were logged in single precision sum to 1 as nearly as this.
ROUNDING = 1e-4


class BadCell(DataError):
    """A cell of a log has a value that it cannot have.

    Parameters
    ----------
    column
        Name of the column, if it is known.
    row
        Number of the row in its source, if it is known.
    text
        What was found, and what was expected.
    source
        What the row is in, such as a file.
    """

    def __init__(
        self, column: str | None, row: int | None, text: str, source: str | None = None
    ) -> None:
        super().__init__(column, row, text, source)  # so that it can be sent to other processes
        self.column, self.row, self.text, self.source = column, row, text, source

    def __str__(self) -> str:
        """Return the message: source, row, column, text."""
        where = [] if self.source is None else [self.source]
        if self.row is not None:
            where.append(f"row {self.row}")
        column = "" if self.column is None else f"column {self.column!r} "
        head = f"{', '.join(where)}: " if where else ""
        return f"{head}{column}{self.text}"

    def at(self, row: int | None, source: str | None = None) -> BadCell:
        """Return the same error with another row and source."""
        return BadCell(self.column, row, self.text, source)


class UnnamedColumns(DataError):
    """It is not known which columns of a table are features.

    Parameters
    ----------
    why
        Why it is not known.
    expected
        How a caller in Python names them, as the end of the message.
    columns
        The columns that there are.
    """

    def __init__(self, why: str, expected: str, columns: Sequence[str]) -> None:
        super().__init__(why, expected, columns)
        self.why, self.columns = why, columns

    def __str__(self) -> str:
        """Return the message."""
        return f"{self.args[0]}{self.args[1]}"


# -- columns -------------------------------------------------------------------------------------


def require(columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Reject a table that lacks a column, or has one twice."""
    for column in wanted:
        if (n := list(columns).count(column)) != 1:
            known = ", ".join(map(repr, columns))
            raise DataError(
                f"there are {n} columns {column!r}, expected one"
                if n
                else f"there is no column {column!r}, only {known}"
            )


def check_columns(
    columns: Sequence[str],
    *,
    arm: str,
    reward: str,
    weight: str | None = None,
    propensity: str | None = None,
    features: Sequence[str] = (),
) -> None:
    """Reject columns that do not exist, or that have two meanings.

    Parameters
    ----------
    columns
        Columns of the table.
    arm
        Column of the arm.
    reward
        Column of the reward.
    weight
        Column of the weight, if there is one.
    propensity
        Column of the propensity, if there is one.
    features
        Columns of the features, as far as they are named.
    """
    given = {"arm": arm, "reward": reward, "weight": weight, "propensity": propensity}
    own = {meaning: column for meaning, column in given.items() if column is not None}
    require(columns, [*own.values(), *features])
    if len(set(own.values())) < len(own):
        *others, last = (f"{meaning}={column!r}" for meaning, column in own.items())
        raise DataError(f"{', '.join(others)} and {last}, expected different columns")
    for column in features:
        if column in own.values():
            raise DataError(
                f"column {column!r} cannot be a feature: it is the arm, the reward, the weight or the propensity"
            )
    if len(set(features)) < len(features):
        raise DataError("a column of features is named twice")


# -- rewards that are missing --------------------------------------------------------------------


def check_missing(missing: object) -> Missing:
    """Return the rule for missing rewards, or reject it."""
    if missing == "refuse" or missing == "drop":
        return missing
    if isinstance(missing, (bool, str)):
        raise ParameterError(f"missing={missing!r}, expected 'refuse', 'drop' or a number")
    return finite_number_of("missing", missing)


def rows_with_reward(
    column: str, absent: NDArray[np.bool_], missing: Missing
) -> NDArray[np.int64] | None:
    """Return the rows that count; `None` for all of them.

    Parameters
    ----------
    column
        Column of the reward.
    absent
        (n,): whether the reward of each row is missing.
    missing
        What to do with such rows. If it is a number, all rows count, and the caller fills it in.
    """
    if missing == "refuse" and absent.any():
        raise BadCell(
            column,
            int(np.argmax(absent)),
            "is missing, expected a number; missing='drop' (--missing drop) leaves out rows without a reward, "
            "missing=0.0 (--missing 0) counts them as 0",
        )
    return np.flatnonzero(~absent) if missing == "drop" and absent.any() else None


UNREADABLE = (ValueError, OSError, EOFError, zlib.error)
"""What reading a damaged text file, or a compressed one, may raise."""


# -- single cells --------------------------------------------------------------------------------


def is_empty_cell(value: Any) -> bool:
    """Return whether a cell has no value."""
    if value is None or isinstance(value, str):
        return not value
    if isinstance(value, (list, tuple, dict, np.ndarray)):
        return False
    try:
        return bool(value != value)  # NaN, NaT
    except TypeError:  # pandas.NA is neither equal nor unequal
        return True


def number_in(column: str, value: Any) -> float:
    """Return a cell as a finite number."""
    try:
        if isinstance(value, str) and "_" in value:  # 1_000 is a number in Python only
            raise ValueError
        number = float(value)
    except (TypeError, ValueError):
        raise BadCell(column, None, f"is {value!r}, expected a number") from None
    except OverflowError:
        raise BadCell(column, None, "is a number too large to compute with") from None
    if not math.isfinite(number):
        raise BadCell(column, None, f"is {value!r}, expected a finite number")
    return number


def weight_in(column: str, value: Any) -> float:
    """Return a cell as a weight."""
    weight = number_in(column, value)
    if not weight > 0.0:
        raise BadCell(column, None, f"is {value!r}, expected above 0")
    return weight


def propensity_in(column: str, value: Any) -> float:
    """Return a cell as the propensity of the chosen arm."""
    p = number_in(column, value)
    if not 0.0 < p <= 1.0:
        raise BadCell(column, None, f"is {value!r}, expected above 0 and at most 1")
    return p


def arm_in(column: str, value: Any, *, in_list: bool = False) -> Name:
    """Return a cell, or an item of a list in a cell, as the name of an arm.

    An empty cell is no name, but an empty text in a list is one.
    """
    if is_empty_cell(value) and not (in_list and value == ""):
        raise BadCell(column, None, "is empty, expected the name of an arm")
    name = canonical(value)
    if type(name) is not str and type(name) is not int:
        raise BadCell(column, None, f"is {value!r}, expected a text or an integer")
    return name


# -- arrays --------------------------------------------------------------------------------------


def check_finite(column: str | None, values: Floats) -> None:
    """Reject numbers that are not finite."""
    if not np.isfinite(values).all():
        row = int(np.argmax(~np.isfinite(values)))
        raise BadCell(column, row, f"is {values[row]}, expected a finite number")


def check_weights(column: str | None, weights: Floats) -> None:
    """Reject weights that are not above 0."""
    if not (weights > 0.0).all():
        row = int(np.argmax(~(weights > 0.0)))
        raise BadCell(column, row, f"is {weights[row]}, expected above 0")


def is_distribution(p: Floats, n: int) -> bool:
    """Return whether these are the propensities of n arms: from 0 to 1, and they sum to 1."""
    inside = p.shape == (n,) and bool(((p >= 0.0) & (p <= 1.0)).all())
    return inside and abs(float(p.sum()) - 1.0) <= ROUNDING
