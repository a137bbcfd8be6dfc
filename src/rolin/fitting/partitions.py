"""Fold a log one partition at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from rolin._support.blas import one_thread_for_good
from rolin.errors import DataError
from rolin.fitting.fold import Fold
from rolin.logs.batches import Partition, bad_data, batches_of
from rolin.logs.files import File, Options
from rolin.logs.rules import BadCell
from rolin.model.moments import Moments

__all__ = ["check_schemas", "fold_partition"]


def check_schemas(files: Sequence[File], fold: Fold) -> None:
    """Reject files whose columns differ from those of the first file."""
    for file in files:
        try:
            fold.check_schema(file.schema, files[0].schema, files[0].path)
        except DataError as error:
            raise DataError(f"{file.path}: {error}") from error


def fold_partition(partition: Partition, fold: Fold, options: Options, process: int) -> Moments:
    """Read a partition and fold it, one batch at a time.

    Parameters
    ----------
    partition
        The partition.
    fold
        The fold.
    options
        Options of the file system.
    process
        Id of the process that started the fit; any other one is a worker.
    """
    if os.getpid() != process:
        one_thread_for_good()
    return Moments.sum(_folded(partition, fold, options))


def _folded(partition: Partition, fold: Fold, options: Options) -> Iterator[Moments]:
    is_empty = True
    for location, batch in batches_of(partition, fold.columns, fold.n_features, options):
        try:
            moments = fold(batch)
        except BadCell as bad:
            raise bad_data(location, bad) from None
        del batch  # before the next one is read
        yield moments
        del moments
        is_empty = False
    if is_empty:
        yield fold.zero()
