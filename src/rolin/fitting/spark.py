"""The same fold on Spark, through `mapInArrow`: of a data frame, or of partitions of files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from rolin._support.optional import needs
from rolin.errors import DataError, EngineError
from rolin.fitting.fold import Fold
from rolin.fitting.partitions import fold_partition
from rolin.logs import arrow
from rolin.logs.batches import Partition
from rolin.logs.files import Options
from rolin.model import state_file
from rolin.model.moments import Moments
from rolin.model.state_file import moments_of, state_of

__all__ = ["fold_frame", "fold_pieces", "is_frame"]

Work = Callable[[Iterator[Any]], Iterator[Any]]
_RESULT = "place long, moments binary, wrong string"
# Pieces for each core before the driver adds them up: what is lost if the driver is stopped.
_ROUND = 4
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.maxResultSize": "0",  # no limit: moments of many arms are large
}


def is_frame(source: object) -> bool:
    """Return whether something is a data frame of Spark's."""
    return hasattr(source, "mapInArrow")


def fold_frame(frame: Any, fold: Fold) -> Iterator[Moments]:
    """Yield the moments of every partition of a data frame."""
    yield from _collected(frame.select(*fold.columns), partial(_fold_partition, fold=fold))


def fold_pieces(
    partitions: Sequence[Partition],
    fold: Fold,
    options: Options,
    address: str | None,
    n_jobs: int | None,
) -> Iterator[Moments]:
    """Yield the moments of every partition of files, in their order."""
    with _session(address, n_jobs) as session:
        n = max(1, _ROUND * session.sparkContext.defaultParallelism)
        work = partial(_fold_given, fold=fold, options=dict(options), process=os.getpid())
        for start in range(0, len(partitions), n):
            some = partitions[start : start + n]
            try:
                found = _collected(_frame_of(session, some), work)
            except EngineError:
                # Whose fault it was, Spark does not say: one by one, it shows.
                found = [_alone(session, partition, work) for partition in some]
            yield from found


def _alone(session: Any, partition: Partition, work: Work) -> Moments:
    """Return the moments of one partition."""
    try:
        return _collected(_frame_of(session, [partition]), work)[0]
    except EngineError as error:
        raise EngineError(
            f"workers died again and again at {partition}, perhaps for want of memory: {error}"
        ) from error


def _frame_of(session: Any, partitions: Sequence[Partition]) -> Any:
    """Return partitions as a data frame, each in a partition of its own: one task."""
    rows = [(place, *partition) for place, partition in enumerate(partitions)]
    return session.createDataFrame(
        session.sparkContext.parallelize(rows, len(rows)),
        "place long, path string, format string, first long, last long, size long",
    )


@contextmanager
def _session(address: str | None, n_jobs: int | None) -> Iterator[Any]:
    with needs("spark"):
        from pyspark.sql import SparkSession
    session = SparkSession.getActiveSession()
    own = session is None
    if not own and address is not None:
        raise EngineError(
            f"address={address!r}, but this process has a session of Spark: leave it out"
        )
    if session is None:
        # as many threads as there are jobs, and four tries for each task
        master = address or f"local[{n_jobs if n_jobs and n_jobs > 0 else '*'},4]"
        try:
            builder = SparkSession.builder.master(master).appName("rolin fit")
            for name, value in _SETTINGS.items():
                builder = builder.config(name, value)
            if address is None:
                # this Python, not whichever comes first in the path
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            session = builder.getOrCreate()
            session.sparkContext.setLogLevel("OFF")  # what goes wrong is told by an error
        except Exception as error:  # Java is not there, or nobody is at the address
            raise EngineError(f"Spark cannot be started at {master}: {error}") from error
    try:
        yield session
    finally:
        if own:
            session.stop()


def _collected(frame: Any, work: Work) -> list[Moments]:
    """Return the moments that the workers made, in the order of their places."""
    with needs("spark"):
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    try:
        rows = frame.mapInArrow(work, _RESULT).collect()
    except (PySparkException, Py4JError) as error:
        # of a page of places in Spark, the line that says what happened
        said = re.findall(
            r"^(?:Caused by: )?[\w.]*(?:Error|Exception): .+", str(error), re.MULTILINE
        )
        reason = said[-1] if said else str(error).strip().splitlines()[0]
        raise EngineError(f"Spark has given up: {reason}") from error
    found = []
    for row in sorted(rows, key=lambda row: row.place):
        if row.wrong is not None:
            raise DataError(row.wrong)
        found.append(moments_of(state_file.unpack(bytes(row.moments), "what a worker returned")))
    return found


def _answer(place: int, make: Callable[[], Moments]) -> Any:
    """Return a batch of one row: moments as bytes, or what was wrong."""
    moments, wrong = None, None
    try:
        moments = state_file.pack(state_of(make()))
    except DataError as error:
        wrong = str(error)
    return arrow.pyarrow().RecordBatch.from_pydict(
        {"place": [place], "moments": [moments], "wrong": [wrong]}
    )


def _fold_partition(batches: Iterator[Any], fold: Fold) -> Iterator[Any]:
    """Fold one partition of a data frame."""

    def parts() -> Iterator[Moments]:
        yield Moments.zero(fold.n_features)
        yield from map(fold, batches)

    yield _answer(0, lambda: Moments.sum(parts()))


def _fold_given(
    batches: Iterator[Any], fold: Fold, options: Options, process: int
) -> Iterator[Any]:
    """Fold the partitions that a task was given."""
    for batch in batches:
        for row in batch.to_pylist():
            place = row.pop("place")
            yield _answer(place, partial(fold_partition, Partition(**row), fold, options, process))
