"""Read files in partitions, and partitions in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rolin.errors import DataError
from rolin.logs import arrow
from rolin.logs.arrow import BadCell
from rolin.logs.files import File, Options, arrow_batches, is_url, opened, reason_of

__all__ = ["Partition", "RowLocation", "bad_data", "batches_of", "partitions_of"]

# Bytes of a partition, at least, unless the file ends: what is done again when a worker dies.
_BYTES = 256 << 20
# Numbers folded at a time: many, because every batch has its own list of arms.
_BATCH = 1 << 24


class Partition(NamedTuple):
    """Row groups of one file."""

    path: str
    format: str
    first: int
    last: int
    """One more than the number of the last row group."""
    size: int
    """In bytes, about."""

    def __str__(self) -> str:
        """Say where it is."""
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
    """Where a batch begins: in which row group, and how many rows of it came before.

    Parameters
    ----------
    partition
        The partition that it is of.
    rows
        Rows in the batch's row groups, from the first group of the partition on; of an Arrow stream, none.
    before
        Rows of the partition before the batch.
    """

    def __init__(self, partition: Partition, rows: Sequence[int], before: int) -> None:
        self._piece, self._rows, self._before = partition, rows, before

    def group_of(self, row: int) -> tuple[int, int]:
        """Return the row group of a row of the batch, and which of its rows it is."""
        at = self._before + row
        for i, n in enumerate(self._rows):
            if at < n:
                return self._piece.first + i, at
            at -= n
        return self._piece.last, at

    def told(self, row: int | None) -> tuple[str, int | None]:
        """Return the words for where a row is, and its number there."""
        path = self._piece.path
        if self._piece.format == "stream":
            return path, None if row is None else self._before + row
        group, at = self.group_of(row or 0)
        return f"{path}, row group {group}", None if row is None else at


def bad_data(place: RowLocation, bad: BadCell) -> DataError:
    """Return the error that says which file, row group, row and column is wrong."""
    where, row = place.told(bad.row)
    return DataError(f"{where}: {BadCell(bad.column, row, bad.text)}")


def batches_of(
    partition: Partition,
    names: Sequence[str],
    n_features: int,
    options: Options,
) -> Iterator[tuple[RowLocation, Any]]:
    """Yield the batches of a partition, each with its place.

    Parameters
    ----------
    partition
        The partition.
    names
        The columns to read.
    n_features
        Numbers in a row, about.
    options
        What the file system takes.
    """
    pa = arrow.pyarrow()
    columns, before = list(names), 0
    size = min(max(_BATCH // (1 + n_features), 1024), 1 << 18)
    rows: list[int] = []
    with opened(partition.path, options) as file:
        try:
            if partition.format == "parquet":
                import pyarrow.parquet as pq

                # Names of arms as texts: as dictionaries, they would end a batch with every row group.
                parquet = pq.ParquetFile(file, pre_buffer=is_url(partition.path))
                groups = range(partition.first, partition.last)
                rows = [parquet.metadata.row_group(g).num_rows for g in groups]
                # Batches go across row groups, which may be small.
                for batch in parquet.iter_batches(
                    batch_size=size, row_groups=list(groups), columns=columns, use_threads=False
                ):
                    yield RowLocation(partition, rows, before), batch
                    before += batch.num_rows
            else:
                which = (
                    None if partition.format == "stream" else range(partition.first, partition.last)
                )
                for whole in arrow_batches(partition.format, file, which):
                    rows.append(whole.num_rows)
                    whole.validate(full=True)  # Arrow trusts what it reads, down to a crash
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
    place: RowLocation,
    columns: Sequence[str],
    options: Options,
    error: Exception,
) -> DataError:
    """Say which row group and column cannot be read."""
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
    return DataError(f"{place.told(0)[0]} cannot be read: {reason_of(error)}")
