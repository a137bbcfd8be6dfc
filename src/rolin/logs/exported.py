"""Tables that `rolin journal export` wrote, as Arrow data: one row per decision, with all arms that were offered."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.errors import DataError
from rolin.logs import arrow
from rolin.logs.reward_rows import RewardRows
from rolin.logs.rules import BadCell, Missing

__all__ = ["EXPORTED", "check_exported", "exported_rewards", "exported_width"]

Floats = NDArray[np.float64]

EXPORTED = ("offered", "contexts", "chosen", "rewards", "weights")
"""The columns that make a table an exported one."""


def check_exported(schema: Any) -> None:
    """Reject an exported table whose columns have other types than those that are exported."""
    types = arrow.pyarrow().types
    inner: dict[str, Any] = {}
    for name in EXPORTED:
        kind = arrow.type_of(schema, name)
        if not arrow.is_list(kind):
            hint = ""
            if name == "offered":
                hint = (
                    ': arms of two kinds (7 and "7") are exported as JSON; import the table into a journal instead '
                    "(rolin journal import)"
                )
            raise DataError(f"column {name!r} is of type {kind}, expected lists{hint}")
        inner[name] = kind.value_type
    text = types.is_string(inner["offered"]) or types.is_large_string(inner["offered"])
    contexts = inner["contexts"]
    for name, good, expected in (
        ("offered", text or types.is_integer(inner["offered"]), "strings or integers"),
        (
            "contexts",
            arrow.is_list(contexts) and arrow.is_numeric(contexts.value_type),
            "lists of numbers",
        ),
        ("chosen", types.is_integer(inner["chosen"]), "integers"),
        ("rewards", _numbers_or_nulls(inner["rewards"]), "numbers"),
        ("weights", _numbers_or_nulls(inner["weights"]), "numbers"),
    ):
        if not good:
            raise DataError(
                f"column {name!r} holds lists of type {inner[name]}, expected lists of {expected}"
            )


def _numbers_or_nulls(kind: Any) -> bool:
    return arrow.is_numeric(kind) or bool(arrow.pyarrow().types.is_null(kind))


def exported_width(sample: Any) -> int:
    """Return the number of features of an exported table."""
    for contexts in sample.column("contexts"):
        if contexts.is_valid and len(contexts):
            return len(contexts[0])
    raise DataError("the table of decisions has no rows")


def exported_rewards(batch: Any, width: int, missing: Missing) -> RewardRows:
    """Return the rewards of a batch, with the arms and contexts that they belong to.

    Parameters
    ----------
    batch
        The batch.
    width
        Number of features.
    missing
        A number is the reward of open decisions. Otherwise they are left out: their reward may still come.
    """
    pa = arrow.pyarrow()
    columns = {name: arrow.as_one_array(batch.column(name)) for name in EXPORTED}
    for name, column in columns.items():
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise BadCell(name, row, "is null, expected a list")
    sizes = {name: c.value_lengths().to_numpy(zero_copy_only=False) for name, c in columns.items()}
    for name, like in (("contexts", "offered"), ("rewards", "chosen"), ("weights", "chosen")):
        if (sizes[name] != sizes[like]).any():
            row = int(np.argmax(sizes[name] != sizes[like]))
            raise BadCell(
                name, row, f"has {sizes[name][row]} items, expected {sizes[like][row]} as {like}"
            )
    row_of = np.repeat(np.arange(batch.num_rows), sizes["chosen"])
    starts = np.concatenate([[0], np.cumsum(sizes["offered"])])[:-1]
    chosen = arrow.numbers(columns["chosen"].flatten(), "chosen").astype(np.int64)
    outside = (chosen < 0) | (chosen >= sizes["offered"][row_of])
    if outside.any():
        first = int(np.argmax(outside))
        raise BadCell(
            "chosen", int(row_of[first]), f"is {chosen[first]}, expected an index into offered"
        )
    # Open decisions are no evidence yet, unless the caller says what they count as.
    r, counts = arrow.rewards(
        columns["rewards"].flatten(), "rewards", "drop" if isinstance(missing, str) else missing
    )
    if counts is None:
        counts = np.ones(len(row_of), dtype=bool)
    rows, indices = row_of[counts], pa.array((starts[row_of] + chosen)[counts])
    with arrow.rows_renumbered(rows):
        names, codes = arrow.encoded(
            columns["offered"].flatten().take(indices), "offered", in_lists=True
        )
        contexts = arrow.lists_of_numbers(
            columns["contexts"].flatten().take(indices), "contexts", width
        )
        weights = arrow.as_doubles(columns["weights"].flatten().filter(pa.array(counts)))
        h = arrow.numbers(weights.fill_null(1.0), "weights")
    return RewardRows(names, codes, contexts, r, h, rows)
