"""Logs to fit, their moments computed at once, and when two moments are the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rolin.model.moments import Moments

Command = Callable[..., tuple[int, str]]
PARTS = ("count", "sum_log_weight", "scatter", "cross", "reward_scatter", "weight")


def same(a: Moments, b: Moments, tolerance: float = 1e-10) -> None:
    """Both are the evidence of the same observations, in whatever order their arms stand."""
    assert set(a.arms) == set(b.arms)
    order = [b.arms.index(arm) for arm in a.arms]
    for name in PARTS[:5]:
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=tolerance, atol=tolerance
        )
    for name in ("weight", "mean_context", "mean_reward"):
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name)[order], rtol=tolerance, atol=tolerance
        )


def log(rng: np.random.Generator, n: int = 1000, d: int = 4, k: int = 7) -> dict[str, Any]:
    """Return columns of a log."""
    x = rng.normal(size=(n, d)) + 3.0
    arms = [f"item-{i}" for i in rng.integers(k, size=n)]
    return {
        "arm": arms,
        "reward": x @ np.arange(d) + rng.normal(size=n),
        "weight": rng.uniform(0.5, 2.0, size=n),
        **{f"x{j}": x[:, j] for j in range(d)},
    }


def oracle(columns: dict[str, Any], *, weighted: bool = True) -> Moments:
    """Return the moments of all rows at once."""
    names = [name for name in columns if name.startswith("x")]
    x = np.column_stack([columns[name] for name in names])
    weights = columns["weight"] if weighted else None
    return Moments.of(columns["arm"], x, columns["reward"], weights)


def folder_of(columns: dict[str, Any], path: Path, files: int = 3, group: int = 100) -> Path:
    """Write a log as several Parquet files, in row groups."""
    path.mkdir(exist_ok=True)
    table = pa.table(columns)
    size = -(-len(table) // files)
    for i in range(files):
        part = table.slice(i * size, size)
        pq.write_table(part, path / f"part-{i}.parquet", row_group_size=group)
    return path


FEATURES = ["x0", "x1", "x2", "x3"]


def arrow_file(columns: dict[str, Any], path: Path) -> Path:
    """Write an Arrow file of several batches."""
    table = pa.table(columns)
    target = path / "log.arrow"
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=150)
    return target


def exported(**changes: Any) -> pa.Table:
    """Return two decisions as they are exported, with other columns."""
    columns: dict[str, Any] = {
        "offered": [["a", "b"], ["a", "b"]],
        "contexts": [[[1.0], [2.0]], [[3.0], [4.0]]],
        "chosen": [[1], [0]],
        "rewards": [[0.5], [None]],
        "weights": [[1.0], [None]],
    }
    return pa.table({**columns, **changes})
