"""Fold a log one partition at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from rolin._support.blas import one_thread_for_good
from rolin.errors import DataError
from rolin.fitting.fold import Fold
from rolin.logs import arrow
from rolin.logs.arrow import BadCell
from rolin.logs.batches import Partition, bad_data, batches_of
from rolin.logs.files import File, Options
from rolin.model.moments import Moments

__all__ = ["check_schemas", "fold_partition"]


def check_schemas(files: Sequence[File], fold: Fold) -> None:
    """Refuse files that do not hold what the first one does."""
    for file in files:
        try:
            for column in fold.columns:
                arrow.require(file.schema, column)
            if fold.kind == "exported":
                arrow.check_exported(file.schema)
                continue
            kind = arrow.kind_of_arms(file.schema, fold.arm)
            if kind != fold.kind:
                raise DataError(
                    f'column {fold.arm!r} holds {kind}, and in {files[0].path} {fold.kind}: 7 and "7" are two arms'
                )
            for measured in (fold.reward, fold.weight):
                if measured is not None:
                    arrow.check_numbers(file.schema, measured)
            for column in fold.features:
                arrow.require(file.schema, column)
                if fold.feature_map is None:
                    one = arrow.is_number(file.schema, column)
                    if one != arrow.is_number(files[0].schema, column) or not (
                        one or arrow.is_list_of_numbers(file.schema, column)
                    ):
                        raise DataError(
                            f"column {column!r} is of type {file.schema.field(column).type}, and in "
                            f"{files[0].path} of type {files[0].schema.field(column).type}"
                        )
        except DataError as error:
            raise DataError(f"{file.path}: {error}") from error


def fold_partition(partition: Partition, fold: Fold, options: Options, process: int) -> Moments:
    """Read a partition and fold it, a batch at a time."""
    if os.getpid() != process:
        one_thread_for_good()
    return Moments.sum(_folded(partition, fold, options))


def _folded(partition: Partition, fold: Fold, options: Options) -> Iterator[Moments]:
    yield Moments.zero(fold.n_features)
    for place, batch in batches_of(partition, fold.columns, fold.n_features, options):
        try:
            yield fold.fold(batch)
        except BadCell as bad:
            raise bad_data(place, bad) from None
