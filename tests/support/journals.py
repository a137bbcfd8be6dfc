"""Events of a journal, and when two of them are the same."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from rolin.journal.codec import Row
from rolin.journal.events import LoggedDecision
from rolin.journal.schema import COLUMNS, event_checksum


def forged(path: Path, statement: str) -> None:
    """Change a journal by hand, with checksums that match."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)
        rows = db.execute(f"SELECT seq, {COLUMNS} FROM events").fetchall()
        sums = [(event_checksum(seq, Row(*values)), seq) for seq, *values in rows]
        db.executemany("UPDATE events SET checksum = ? WHERE seq = ?", sums)


def decided(id: str, time: float = 1.0, n_ranks: int = 1, **more: Any) -> LoggedDecision:
    """A decision among three arms."""
    fields: dict[str, Any] = {"propensities": np.array([0.2, 0.3, 0.5]), "version": 0} | more
    return LoggedDecision(
        id, time, ("a", 2, "c"), np.arange(6.0).reshape(3, 2), (2, 0, 1)[:n_ranks], **fields
    )


def same(a: Any, b: Any) -> bool:
    """Whether two events are equal, of the same types, to the bit."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, (tuple, list)) and not isinstance(a, str):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and repr(a) == repr(b)
