"""Divide files into partitions, and read a partition in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rolin.errors import DataError
from rolin.logs import arrow
from rolin.logs.files import File, Options, arrow_batches, is_url, opened, reason_of
from rolin.logs.rules import BadCell

__all__ = ["Partition", "RowLocation", "bad_data", "batches_of", "partitions_of"]

# Least number of bytes in a partition, except for the last one of a file. If a worker dies, this much is read again.
_BYTES = 256 << 20
# Numbers in a batch, about those of a partition: every batch has its own list of arms, which takes time to merge.
_BATCH = 1 << 25
# Rows in a batch.
_ROWS = 1 << 19


class Partition(NamedTuple):
    """Row groups of one file."""

    path: str
    format: str
    first: int
    last: int
    """One more than the number of the last row group."""
    size: int
    """Approximate size in bytes."""

    def __str__(self) -> str:
        """Return the path and the row groups."""
        if self.format == "stream":
            return self.path
        groups = (
            f"{self.first}" if self.last == self.first + 1 else f"{self.first} to {self.last - 1}"
        )
        return f"{self.path}, row group{'s' * (self.last > self.first + 1)} {groups}"


def partitions_of(files: Sequence[File]) -> list[Partition]:
    """Divide files into partitions."""
    partitions: list[Partition] = []
    for file in files:
        if file.format == "stream":
            partitions.append(Partition(file.path, file.format, 0, 0, file.size))
            continue
        first, size = 0, 0
        for g, n in enumerate(file.groups):
            size += n
            if size >= _BYTES or g == len(file.groups) - 1:
                partitions.append(Partition(file.path, file.format, first, g + 1, size))
                first, size = g + 1, 0
    return partitions


class RowLocation:
    """Where a batch begins, so that its rows can be named by row group and number.

    Parameters
    ----------
    partition
        The partition of the batch.
    rows
        Number of rows of each row group of the partition that has been opened.
    before
        Number of rows of the partition before the batch.
    """

    def __init__(self, partition: Partition, rows: Sequence[int], before: int) -> None:
        self._partition, self._rows, self._before = partition, rows, before

    def group_of(self, row: int) -> tuple[int, int]:
        """Return the row group of a row of the batch, and the row's number in that group."""
        at = self._before + row
        for i, n in enumerate(self._rows):
            if at < n:
                return self._partition.first + i, at
            at -= n
        return self._partition.last, at

    def describe(self, row: int | None) -> tuple[str, int | None]:
        """Return the file and row group of a row of the batch, as text, and the row's number there."""
        path = self._partition.path
        if self._partition.format == "stream":
            return path, None if row is None else self._before + row
        group, at = self.group_of(row or 0)
        return f"{path}, row group {group}", None if row is None else at


def bad_data(location: RowLocation, bad: BadCell) -> BadCell:
    """Return an error in a batch with the file, the row group and the row there."""
    source, row = location.describe(bad.row)
    return bad.at(row, source)


def batches_of(
    partition: Partition,
    names: Sequence[str],
    n_features: int,
    options: Options,
) -> Iterator[tuple[RowLocation, Any]]:
    """Yield the batches of a partition, each with its location.

    Parameters
    ----------
    partition
        The partition.
    names
        The columns to read.
    n_features
        Approximate number of numbers in a row.
    options
        Options of the file system.
    """
    pa = arrow.pyarrow()
    columns, before = list(names), 0
    size = min(max(_BATCH // (1 + n_features), 1024), _ROWS)
    rows: list[int] = []
    with opened(partition.path, options) as file:
        try:
            if partition.format == "parquet":
                import pyarrow.parquet as pq

                # Arms are read as texts: with dictionaries, a batch would end with every row group.
                parquet = pq.ParquetFile(file, pre_buffer=is_url(partition.path))
                groups = range(partition.first, partition.last)
                rows = [parquet.metadata.row_group(g).num_rows for g in groups]
                # A batch may span row groups, because they may be small.
                reader = parquet.iter_batches(
                    batch_size=size, row_groups=list(groups), columns=columns, use_threads=False
                )
                while (batch := next(reader, None)) is not None:
                    n = batch.num_rows
                    yield RowLocation(partition, rows, before), batch
                    batch = None  # two batches need too much memory
                    before += n
            else:
                which = (
                    None if partition.format == "stream" else range(partition.first, partition.last)
                )
                for whole in arrow_batches(partition.format, file, which):
                    rows.append(whole.num_rows)
                    whole.validate(full=True)  # Arrow does not check what it reads, and may crash
                    chosen = whole.select(columns)
                    for start in range(0, chosen.num_rows, size):
                        batch = chosen.slice(start, size)
                        yield RowLocation(partition, rows, before), batch
                        before += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(
                partition, RowLocation(partition, rows, before), columns, options, error
            ) from error


def _unreadable(
    partition: Partition,
    location: RowLocation,
    columns: Sequence[str],
    options: Options,
    error: Exception,
) -> DataError:
    """Return an error that names the row group and the column that cannot be read."""
    pa = arrow.pyarrow()
    if partition.format == "parquet":
        import pyarrow.parquet as pq

        for group in range(partition.first, partition.last):
            for column in columns:
                try:
                    with opened(partition.path, options) as file:
                        pq.ParquetFile(file).read_row_group(group, [column])
                except (pa.ArrowException, OSError, DataError) as found:
                    where = f"{partition.path}, row group {group}"
                    return DataError(
                        f"{where}, column {column!r} cannot be read: {reason_of(found)}"
                    )
    return DataError(f"{location.describe(0)[0]} cannot be read: {reason_of(error)}")
