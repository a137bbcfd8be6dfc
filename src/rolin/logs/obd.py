"""Read campaigns of the Open Bandit Dataset."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.errors import DataError
from rolin.logs.frames import numbers, read_table
from rolin.logs.rules import require

__all__ = ["Campaign", "read_campaign"]

Floats = NDArray[np.float64]


class Campaign(NamedTuple):
    """The n decisions of a campaign, in each of which the same K arms were offered."""

    arms: list[int]
    """Ids of the K items."""
    contexts: Floats
    """(n, K, 4): the item's number feature, the affinity of the user to the item, and two marks of the position."""
    chosen: NDArray[np.int64]
    """(n,): index of the item that was shown."""
    rewards: Floats
    """(n,): whether it was clicked."""
    propensities: Floats
    """(n,): the probability with which it was shown."""


def read_campaign(folder: str | PathLike[str]) -> Campaign:
    """Read a folder with a campaign, such as `random/all`."""
    folder = Path(folder)
    logs = [path for path in sorted(folder.glob("*.csv")) if path.name != "item_context.csv"]
    items_file = folder / "item_context.csv"
    if len(logs) != 1 or not items_file.is_file():
        raise DataError(
            f"{folder} is not a campaign of the Open Bandit Dataset, expected item_context.csv and one other "
            "CSV file, the log"
        )
    log_file = logs[0]
    items, log = read_table(items_file, "item_id"), read_table(log_file, "item_id")
    for path, table, needed in (
        (items_file, items, ["item_id", "item_feature_0"]),
        (log_file, log, ["item_id", "position", "click", "propensity_score"]),
    ):
        try:
            require(list(table.columns), needed)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
    try:
        arms = [int(item) for item in items["item_id"]]
    except ValueError as error:
        raise DataError(f"{items_file}: item_id is not a whole number: {error}") from error
    affinity = [f"user-item_affinity_{item}" for item in arms]
    if lacking := [column for column in affinity if column not in log.columns]:
        raise DataError(f"{log_file}: there is no column {lacking[0]!r}")
    contexts = np.zeros((len(log), len(arms), 4))
    contexts[:, :, 0] = numbers(items_file, items, "item_feature_0")
    for k, column in enumerate(affinity):
        contexts[:, k, 1] = numbers(log_file, log, column)
    position = numbers(log_file, log, "position")
    for j, value in enumerate((2, 3)):  # center and right of three positions
        contexts[:, :, 2 + j] = (position == value)[:, None]
    index = {item: k for k, item in enumerate(arms)}
    try:
        chosen = np.array([index[int(item)] for item in log["item_id"]])
    except (KeyError, ValueError) as error:
        raise DataError(
            f"{log_file} shows item {error}, which {items_file} does not contain"
        ) from error
    return Campaign(
        arms,
        contexts,
        chosen,
        numbers(log_file, log, "click"),
        numbers(log_file, log, "propensity_score"),
    )
