"""Fold a Spark data frame, or partitions of files, on Spark through `mapInArrow`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from rolin._support.optional import needs
from rolin._support.parallel import worker_count
from rolin.errors import DataError, EngineError
from rolin.fitting.fold import Fold
from rolin.fitting.partitions import fold_partition
from rolin.logs import arrow
from rolin.logs.batches import Partition
from rolin.logs.files import Options
from rolin.model import state_file
from rolin.model.moments import Moments
from rolin.model.state_file import moments_of, state_of

__all__ = ["fold_frame", "fold_partitions", "is_frame"]

Work = Callable[[Iterator[Any]], Iterator[Any]]
_RESULT = "number long, moments binary, error string"
# Partitions per core before the driver adds them up. If the driver is stopped, these are lost.
_ROUND = 4
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.maxResultSize": "0",  # no limit: moments of many arms are large
}


def is_frame(source: object) -> bool:
    """Return whether something is a Spark data frame."""
    return hasattr(source, "mapInArrow")


def fold_frame(frame: Any, fold: Fold) -> Iterator[Moments]:
    """Yield the moments of each partition of a data frame."""
    yield from _collected(frame.select(*fold.columns), partial(_fold_partition, fold=fold))


def fold_partitions(
    partitions: Sequence[Partition],
    fold: Fold,
    options: Options,
    address: str | None,
    n_jobs: int | None,
) -> Iterator[Moments]:
    """Yield the moments of each partition of the files, in order."""
    with _session(address, n_jobs) as session:
        n = max(1, _ROUND * session.sparkContext.defaultParallelism)
        work = partial(_fold_given, fold=fold, options=dict(options), process=os.getpid())
        for start in range(0, len(partitions), n):
            some = partitions[start : start + n]
            try:
                found = _collected(_frame_of(session, some), work)
            except EngineError:
                # Spark does not say which partition failed: fold them one by one to find it.
                found = [_alone(session, partition, work) for partition in some]
            yield from found


def _alone(session: Any, partition: Partition, work: Work) -> Moments:
    """Return the moments of one partition."""
    try:
        return _collected(_frame_of(session, [partition]), work)[0]
    except EngineError as error:
        raise EngineError(
            f"workers died repeatedly at {partition}, perhaps for lack of memory: {error}"
        ) from error


def _frame_of(session: Any, partitions: Sequence[Partition]) -> Any:
    """Return a data frame with one row, in a task of its own, for each partition of the files."""
    rows = [(number, *partition) for number, partition in enumerate(partitions)]
    return session.createDataFrame(
        session.sparkContext.parallelize(rows, len(rows)),
        "number long, path string, format string, first long, last long, size long",
    )


@contextmanager
def _session(address: str | None, n_jobs: int | None) -> Iterator[Any]:
    with needs("spark"):
        from pyspark.sql import SparkSession
    session = SparkSession.getActiveSession()
    own = session is None
    if not own and address is not None:
        raise EngineError(
            f"address={address!r}, but this process has a Spark session already: leave the address out"
        )
    if session is None:
        master = address or f"local[{worker_count(n_jobs)},4]"  # four attempts for each task
        try:
            builder = SparkSession.builder.master(master).appName("rolin fit")
            for name, value in _SETTINGS.items():
                builder = builder.config(name, value)
            if address is None:
                # workers use this Python, not the first one in the path
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            session = builder.getOrCreate()
            session.sparkContext.setLogLevel("OFF")  # failures are raised as errors
        except Exception as error:  # Java is not installed, or nothing answers at the address
            raise EngineError(f"Spark cannot be started at {master}: {error}") from error
    try:
        yield session
    finally:
        if own:
            session.stop()


def _collected(frame: Any, work: Work) -> list[Moments]:
    """Return the moments that the workers computed, in the order of their partitions."""
    with needs("spark"):
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    try:
        rows = frame.mapInArrow(work, _RESULT).collect()
    except (PySparkException, Py4JError) as error:
        # the message is a long stack trace: find the line with the reason
        reasons = re.findall(
            r"^(?:Caused by: )?[\w.]*(?:Error|Exception): .+", str(error), re.MULTILINE
        )
        reason = reasons[-1] if reasons else str(error).strip().splitlines()[0]
        raise EngineError(f"Spark failed: {reason}") from error
    found = []
    for row in sorted(rows, key=lambda row: row.number):
        if row.error is not None:
            raise DataError(row.error)
        found.append(moments_of(state_file.unpack(bytes(row.moments), "the result of a worker")))
    return found


def _result(number: int, make: Callable[[], Moments]) -> Any:
    """Return a batch of one row: the moments as bytes, or the message of an error."""
    moments, message = None, None
    try:
        moments = state_file.pack(state_of(make()))
    except DataError as error:
        message = str(error)
    return arrow.pyarrow().RecordBatch.from_pydict(
        {"number": [number], "moments": [moments], "error": [message]}
    )


def _fold_partition(batches: Iterator[Any], fold: Fold) -> Iterator[Any]:
    """Fold one partition of a data frame."""

    def parts() -> Iterator[Moments]:
        yield fold.zero()
        yield from map(fold, batches)

    yield _result(0, lambda: Moments.sum(parts()))


def _fold_given(
    batches: Iterator[Any], fold: Fold, options: Options, process: int
) -> Iterator[Any]:
    """Fold the partitions of files that a task was given."""
    for batch in batches:
        for row in batch.to_pylist():
            number = row.pop("number")
            yield _result(number, partial(fold_partition, Partition(**row), fold, options, process))
