"""Section m: fit of a log, compared with reading its columns and one matrix product."""

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
    """Write a log of random numbers, in several files with row groups."""
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
    """Return the (d, n) features of a batch."""
    names = [name for name in batch.schema.names if name not in ("arm", "reward")]
    if names == ["x"]:
        return batch.column("x").flatten().to_numpy().reshape(batch.num_rows, -1).T
    return np.stack([batch.column(name).to_numpy() for name in names])


def product_by_threads(folder: Path) -> None:
    """Read all columns and compute X'X, one row group at a time, with one thread per core."""

    def product(partition: tuple[Path, int]) -> Any:
        path, group = partition
        total: Any = 0.0
        for batch in pq.ParquetFile(path).iter_batches(
            batch_size=GROUP, row_groups=[group], use_threads=False
        ):
            x = matrix(batch)
            total = total + x @ x.T
        return total

    partitions = [(p, g) for p in sorted(folder.iterdir()) for g in range(ROWS // FILES // GROUP)]
    with threadpool_limits(1), ThreadPoolExecutor(CORES) as threads:
        sum(threads.map(product, partitions))


def product_of_dataset(folder: Path) -> None:
    """Do the same in the simplest way: a loop over the batches of a data set."""
    total: Any = 0.0
    with threadpool_limits(CORES):
        for batch in ds.dataset(folder).to_batches():
            x = matrix(batch)
            total = total + x @ x.T


CASES = ((16, 100, False), (64, 100, False), (64, 10_000, False), (64, 100_000, False), (64, 100, True))  # fmt: skip


def logs(plan: Plan, step: Callable[[], None]) -> Section:
    """Time the fit of a log of a million rows."""
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
        # With a few rows per arm, the sums of an arm take as long as its rows.
        target = 60.0 if k <= 10_000 else 45.0
        targets.append(Target(f"rolin.fit, {what}, of the product", target, 100 * share, True, "%"))
    return Section(
        "A log of a million rows",
        [
            f"Millions of rows per second, from Parquet in the page cache, with {CORES} cores, for `rolin.fit`, for reading "
            "the same columns and computing X'X, one row group at a time, with one thread per core (the fastest way that we "
            "know), and for the same as a simple loop over a pyarrow data set. Medians over turns. The share is the speed of "
            "`rolin.fit` relative to the second column."
        ],
        [table(["log", "rolin.fit", "read + X'X", "read + X'X, simple loop", "share"], rows)],
        targets,
        raw,
    )
