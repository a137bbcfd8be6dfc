"""Read an exported log, with the same values as the journal has."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from rolin._support.spreadsheets import without_apostrophe

__all__ = ["read_csv"]

_READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("id", "person", "arm"), without_apostrophe),
    **dict.fromkeys(("time", "reward_time"), datetime.fromisoformat),
    **dict.fromkeys(("reward", "weight", "propensity"), float),
    **dict.fromkeys(("control", "outside_share"), "True".__eq__),
    **dict.fromkeys(
        (
            "offered", "situation", "features", "contexts", "propensities", "chosen", "rewards", "weights", "outcomes",
        ),
        json.loads,
    ),
    "version": int,
}  # fmt: skip
"""How the cells of a column are read; those of other columns are texts."""
_changing_limit = threading.Lock()
_LARGEST_CELL = (
    1 << 31
) - 1  # bytes; the usual limit of the module is 128 KiB, and many arms have longer lists


def read_csv(path: Path) -> dict[str, Any]:
    """Return the rows of an exported table, and the names of its columns, as `pandas.DataFrame` takes them."""
    with _larger_cells(), path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        columns = next(lines)
        readers = [_READ.get(name, str) for name in columns]
        rows = [
            [read(cell) if cell else None for read, cell in zip(readers, line, strict=True)]
            for line in lines
        ]
    return {"data": rows, "columns": columns}


@contextmanager
def _larger_cells() -> Iterator[None]:
    """Allow cells of any length in the block; the limit belongs to the module, so only one thread may change it."""
    with _changing_limit:
        before = csv.field_size_limit(_LARGEST_CELL)
        try:
            yield
        finally:
            csv.field_size_limit(before)
