"""Pieces of files, which are folded one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rolin.blas import one_thread_for_good
from rolin.errors import DataError
from rolin.fitting import arrow
from rolin.fitting.arrow import BadCell
from rolin.fitting.files import File, Options, arrow_batches, is_url, opened, reason_of
from rolin.fitting.fold import Fold
from rolin.moments import Moments

__all__ = ["Piece", "Place", "bad_data", "batches_of", "check_schemas", "fold_piece", "pieces_of"]

# Bytes of a piece, at least, unless the file ends: what is done again when a worker dies.
_BYTES = 256 << 20
# Numbers folded at a time: many, because every batch has its own list of arms.
_BATCH = 1 << 24


class Piece(NamedTuple):
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


def pieces_of(files: Sequence[File]) -> list[Piece]:
    """Divide files into pieces."""
    pieces: list[Piece] = []
    for file in files:
        if file.format == "stream":
            pieces.append(Piece(file.path, file.format, 0, 0, file.size))
            continue
        first, size = 0, 0
        for g, n in enumerate(file.groups):
            size += n
            if size >= _BYTES or g == len(file.groups) - 1:
                pieces.append(Piece(file.path, file.format, first, g + 1, size))
                first, size = g + 1, 0
    return pieces


# -- reading -------------------------------------------------------------------------------------


def fold_piece(piece: Piece, fold: Fold, options: Options, process: int) -> Moments:
    """Read a piece and fold it, a batch at a time."""
    if os.getpid() != process:
        one_thread_for_good()
    return Moments.sum(_folded(piece, fold, options))


def _folded(piece: Piece, fold: Fold, options: Options) -> Iterator[Moments]:
    yield Moments.zero(fold.n_features)
    for place, batch in batches_of(piece, fold.columns, fold.n_features, options):
        try:
            yield fold.fold(batch)
        except BadCell as bad:
            raise bad_data(place, bad) from None


class Place:
    """Where a batch begins: in which row group, and how many rows of it came before.

    Parameters
    ----------
    piece
        The piece that it is of.
    rows
        Rows in the batch's row groups, from the first group of the piece on; of an Arrow stream, none.
    before
        Rows of the piece before the batch.
    """

    def __init__(self, piece: Piece, rows: Sequence[int], before: int) -> None:
        self._piece, self._rows, self._before = piece, rows, before

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


def bad_data(place: Place, bad: BadCell) -> DataError:
    """Return the error that says which file, row group, row and column is wrong."""
    where, row = place.told(bad.row)
    return DataError(f"{where}: {BadCell(bad.column, row, bad.text)}")


def batches_of(
    piece: Piece,
    names: Sequence[str],
    n_features: int,
    options: Options,
) -> Iterator[tuple[Place, Any]]:
    """Yield the batches of a piece, each with its place.

    Parameters
    ----------
    piece
        The piece.
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
    with opened(piece.path, options) as file:
        try:
            if piece.format == "parquet":
                import pyarrow.parquet as pq

                # Names of arms as texts: as dictionaries, they would end a batch with every row group.
                parquet = pq.ParquetFile(file, pre_buffer=is_url(piece.path))
                groups = range(piece.first, piece.last)
                rows = [parquet.metadata.row_group(g).num_rows for g in groups]
                # Batches go across row groups, which may be small.
                for batch in parquet.iter_batches(
                    batch_size=size, row_groups=list(groups), columns=columns, use_threads=False
                ):
                    yield Place(piece, rows, before), batch
                    before += batch.num_rows
            else:
                which = None if piece.format == "stream" else range(piece.first, piece.last)
                for whole in arrow_batches(piece.format, file, which):
                    rows.append(whole.num_rows)
                    whole.validate(full=True)  # Arrow trusts what it reads, down to a crash
                    chosen = whole.select(columns)
                    for start in range(0, chosen.num_rows, size):
                        batch = chosen.slice(start, size)
                        yield Place(piece, rows, before), batch
                        before += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(piece, Place(piece, rows, before), columns, options, error) from error


def _unreadable(
    piece: Piece, place: Place, columns: Sequence[str], options: Options, error: Exception
) -> DataError:
    """Say which row group and column cannot be read."""
    pa = arrow.pyarrow()
    if piece.format == "parquet":
        import pyarrow.parquet as pq

        for group in range(piece.first, piece.last):
            for column in columns:
                try:
                    with opened(piece.path, options) as file:
                        pq.ParquetFile(file).read_row_group(group, [column])
                except (pa.ArrowException, OSError, DataError) as found:
                    where = f"{piece.path}, row group {group}"
                    return DataError(
                        f"{where}, column {column!r} cannot be read: {reason_of(found)}"
                    )
    return DataError(f"{place.told(0)[0]} cannot be read: {reason_of(error)}")
