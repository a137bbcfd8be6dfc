"""Section m: logs folded into their evidence, beside reading the columns and one product."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from report import Section, Target, number, table
from threadpoolctl import threadpool_limits
from timing import Plan, interleave, loop

import rolin

ROWS, FILES, GROUP = 1_000_000, 2, 100_000
CORES = len(os.sched_getaffinity(0))


def write(folder: Path, d: int, k: int, *, lists: bool) -> None:
    """Write a log of random numbers, in files with row groups."""
    rng = np.random.default_rng(0)
    for i in range(FILES):
        n = ROWS // FILES
        x = rng.standard_normal((n, d))
        columns: dict[str, Any] = {
            "arm": pa.array([f"item-{a}" for a in rng.integers(k, size=n)]),
            "reward": rng.standard_normal(n),
        }
        if lists:
            columns["x"] = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), d)
        else:
            columns |= {f"x{j}": np.ascontiguousarray(x[:, j]) for j in range(d)}
        pq.write_table(pa.table(columns), folder / f"{i}.parquet", row_group_size=GROUP)


def matrix(batch: Any) -> Any:
    """Return the features of a batch, feature by feature."""
    names = [name for name in batch.schema.names if name not in ("arm", "reward")]
    if names == ["x"]:
        return batch.column("x").flatten().to_numpy().reshape(batch.num_rows, -1).T
    return np.stack([batch.column(name).to_numpy() for name in names])


def product_by_threads(folder: Path) -> None:
    """Read all columns and form X'X, a row group at a time, by as many threads as there are cores."""

    def piece(place: tuple[Path, int]) -> Any:
        path, group = place
        total: Any = 0.0
        for batch in pq.ParquetFile(path).iter_batches(
            batch_size=GROUP, row_groups=[group], use_threads=False
        ):
            x = matrix(batch)
            total = total + x @ x.T
        return total

    places = [(p, g) for p in sorted(folder.iterdir()) for g in range(ROWS // FILES // GROUP)]
    with threadpool_limits(1), ThreadPoolExecutor(CORES) as threads:
        sum(threads.map(piece, places))


def product_of_dataset(folder: Path) -> None:
    """Do the same as one writes it down: a loop over the batches of a data set."""
    total: Any = 0.0
    with threadpool_limits(CORES):
        for batch in ds.dataset(folder).to_batches():
            x = matrix(batch)
            total = total + x @ x.T


CASES = ((16, 100, False), (64, 100, False), (64, 10_000, False), (64, 100_000, False), (64, 100, True))  # fmt: skip


def logs(plan: Plan, step: Callable[[], None]) -> Section:
    """Time the fold of a log of a million rows."""
    rows, targets, raw = [], [], {}
    for d, k, lists in CASES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder, d, k, lists=lists)
            features = "x" if lists else None
            found = interleave(
                {
                    "fit": loop(lambda: rolin.fit(folder, features=features, progress=False)),  # noqa: B023
                    "product": loop(lambda: product_by_threads(folder)),  # noqa: B023
                    "dataset": loop(lambda: product_of_dataset(folder)),  # noqa: B023
                },
                plan,
                step,
            )
        what = f"d = {d}, {k:,} arms, {'a column of lists' if lists else f'{d} columns'}"
        share = 1.0 / found["fit"].over(found["product"])
        rows.append(
            [what, *(number(ROWS / t.micro) for t in found.values()), f"{100 * share:.0f} %"]
        )
        raw |= {f"{what}: {n}": t.parts.tolist() for n, t in found.items()}
        if k <= 10_000:
            targets.append(
                Target(f"rolin.fit, {what}, of the product", 60.0, 100 * share, True, "%")
            )
    return Section(
        "A log of a million rows",
        [
            f"Millions of rows a second, from Parquet in the page cache, with {CORES} cores: `rolin.fit`; reading the same "
            "columns and forming X'X, a row group at a time, by as many threads (the fastest way that we know); the same as a "
            "plain loop over a data set of pyarrow's. Medians over turns; the share is that of the second column."
        ],
        [table(["log", "rolin.fit", "read + X'X", "read + X'X, plain loop", "share"], rows)],
        targets,
        raw,
    )
