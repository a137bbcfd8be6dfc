"""Files of a log, and the pieces of them that are folded one at a time."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from os import PathLike
from typing import Any, NamedTuple

from rolin.blas import one_thread_for_good
from rolin.errors import DataError, ParameterError
from rolin.extras import needs
from rolin.fitting import arrow
from rolin.fitting.arrow import BadCell
from rolin.fitting.fold import Fold
from rolin.moments import Moments

__all__ = [
    "SUFFIXES",
    "File",
    "Piece",
    "Place",
    "bad_data",
    "batches_of",
    "check_schemas",
    "files_of",
    "fold_piece",
    "look",
    "pieces_of",
    "sample_of",
]

SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc", ".arrows")
"""How the names of files in a folder end that are read."""
# Bytes of a piece, at least, unless the file ends: what is done again when a worker dies.
_BYTES = 256 << 20
# Numbers folded at a time: many, because every batch has its own list of arms.
_BATCH = 1 << 24
_LOOKERS = 16  # files that are looked at at once

Options = Mapping[str, Any]


class File(NamedTuple):
    """What is known of a file before it is read."""

    path: str
    format: str
    """`"parquet"`, `"arrow"` (a file of Arrow's) or `"stream"`."""
    groups: tuple[int, ...]
    """Bytes of each row group, without compression; of a stream, none is known."""
    size: int
    stamp: str
    """What changes when the file does, where it can be known: when it was written, or its tag in a store."""
    schema: Any


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


# -- files ---------------------------------------------------------------------------------------


def _is_url(path: str) -> bool:
    return "://" in path


def _filesystem(url: str, options: Options) -> tuple[Any, str]:
    with needs("fit"):
        import fsspec
    try:
        return fsspec.core.url_to_fs(url, **options)  # type: ignore[no-any-return]
    except (ImportError, ValueError, TypeError, OSError) as error:
        raise DataError(f"{url} cannot be opened: {_reason(error)}") from error


def files_of(source: Any, options: Options) -> list[str]:
    """Return the files of a log: a file, a folder, a URL, or several of them."""
    if isinstance(source, (str, PathLike)):
        source = [source]
    try:
        given = [os.fspath(path) for path in source]
    except TypeError:
        raise ParameterError(
            f"source={source!r}, expected a file, a folder or a URL, several of them, or a table"
        ) from None
    if not given:
        raise ParameterError("source is empty, expected at least one file")
    found: list[str] = []
    for path in given:
        found.extend(_within(str(path).removeprefix("file://"), options))
    seen: set[str] = set()
    for path in found:
        real = path if _is_url(path) else os.path.realpath(path)
        if real in seen:
            raise DataError(f"{path} is given twice")
        seen.add(real)
    return found


def _within(path: str, options: Options) -> list[str]:
    """Return a file, or the files of a folder, in the order of their names."""
    if not _is_url(path):
        if os.path.isfile(path):
            return [path]
        if not os.path.isdir(path):
            raise DataError(f"there is no file or folder {path}")
        names = _walk(path)
    else:
        fs, root = _filesystem(path, options)
        try:
            if fs.isfile(root):
                return [path]
            if not fs.exists(root):
                raise DataError(f"there is no file or folder {path}")
            names = [n for n in fs.find(root) if _counts(n[len(root) :].lstrip("/"))]
            names = [fs.unstrip_protocol(name) for name in names]
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read: {_reason(error)}") from error
    if not names:
        raise DataError(f"{path} is a folder without files that end in {', '.join(SUFFIXES)}")
    return sorted(names)


def _walk(path: str) -> list[str]:
    """Return the files of a folder, those behind links too."""

    def refuse(error: OSError) -> None:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error

    names, seen = [], set()
    for folder, inner, files in os.walk(path, onerror=refuse, followlinks=True):
        inner[:] = [name for name in inner if not name.startswith((".", "_"))]
        if (real := os.path.realpath(folder)) in seen:  # a link that leads back
            inner.clear()
            continue
        seen.add(real)
        names += [os.path.join(folder, name) for name in files if _counts(name)]
    for name in names:
        if not os.path.isfile(name):
            raise DataError(f"{name} is not a file")
    return names


def _counts(path: str) -> bool:
    """Return whether a file of a folder is part of the log: hidden ones, and `_SUCCESS`, are not."""
    parts = path.split("/")
    return not any(part.startswith((".", "_")) for part in parts) and path.lower().endswith(
        SUFFIXES
    )


@contextmanager
def _opened(path: str, options: Options) -> Iterator[Any]:
    """Open a file for pyarrow."""
    pa = arrow.pyarrow()
    try:
        if _is_url(path):
            fs, root = _filesystem(path, options)
            with fs.open(root, "rb") as file:
                yield file
        else:
            with pa.OSFile(path, "rb") as file:
                yield file
    except OSError as error:
        raise DataError(f"{path} cannot be read: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def look(paths: Sequence[str], options: Options) -> list[File]:
    """Look at the footers of files: their row groups and schemas."""
    with ThreadPoolExecutor(_LOOKERS) as threads:
        return list(threads.map(functools.partial(_look, options=options), paths))


def _stamp(path: str, options: Options) -> str:
    """Return what changes when a file does, as far as it can be known."""
    if not _is_url(path):
        return str(os.stat(path).st_mtime_ns)
    fs, root = _filesystem(path, options)
    about = fs.info(root)
    known = (
        about.get(name) for name in ("ETag", "etag", "md5Hash", "mtime", "LastModified", "created")
    )
    return str(next((value for value in known if value is not None), ""))


def _look(path: str, options: Options) -> File:
    pa = arrow.pyarrow()
    import pyarrow.parquet as pq

    with _opened(path, options) as file:
        stamp = _stamp(path, options)
        file.seek(0, 2)
        size = file.tell()
        file.seek(0)
        start = bytes(file.read(8))
        file.seek(0)
        try:
            if start[:4] == b"PAR1":
                parquet = pq.ParquetFile(file)
                meta = parquet.metadata
                groups = tuple(
                    meta.row_group(g).total_byte_size for g in range(meta.num_row_groups)
                )
                return File(path, "parquet", groups, size, stamp, parquet.schema_arrow)
            if start[:6] == b"ARROW1":
                reader = pa.ipc.open_file(file)
                n = reader.num_record_batches
                return File(path, "arrow", (-(-size // max(n, 1)),) * n, size, stamp, reader.schema)
            if start[:4] == b"\xff\xff\xff\xff":
                return File(path, "stream", (), size, stamp, pa.ipc.open_stream(file).schema)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DataError(
                f"{path} is damaged, or was not written to its end: {_reason(error)}"
            ) from error
    what = "is empty" if not size else "is neither Parquet nor Arrow"
    raise DataError(f"{path} {what}, expected a file that begins with PAR1 or ARROW1")


def sample_of(file: File, options: Options) -> Any:
    """Return the first rows of a file, as a table; none, if there are none."""
    pa = arrow.pyarrow()
    import pyarrow.parquet as pq

    with _opened(file.path, options) as opened:
        try:
            if file.format == "parquet":
                batches = pq.ParquetFile(opened).iter_batches(batch_size=64)
            else:
                batches = _arrow_batches(file.format, opened)
            first = next((batch for batch in batches if batch.num_rows), None)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{file.path} cannot be read: {_reason(error)}") from error
        return file.schema.empty_table() if first is None else pa.Table.from_batches([first[:64]])


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
    with _opened(piece.path, options) as file:
        try:
            if piece.format == "parquet":
                import pyarrow.parquet as pq

                # Names of arms as texts: as dictionaries, they would end a batch with every row group.
                parquet = pq.ParquetFile(file, pre_buffer=_is_url(piece.path))
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
                for whole in _arrow_batches(piece.format, file, which):
                    rows.append(whole.num_rows)
                    whole.validate(full=True)  # Arrow trusts what it reads, down to a crash
                    chosen = whole.select(columns)
                    for start in range(0, chosen.num_rows, size):
                        batch = chosen.slice(start, size)
                        yield Place(piece, rows, before), batch
                        before += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(piece, Place(piece, rows, before), columns, options, error) from error


def _arrow_batches(kind: str, file: Any, groups: Sequence[int] | None = None) -> Iterator[Any]:
    pa = arrow.pyarrow()
    if kind == "stream":
        yield from pa.ipc.open_stream(file)
        return
    reader = pa.ipc.open_file(file)
    for group in range(reader.num_record_batches) if groups is None else groups:
        yield reader.get_batch(group)


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
                    with _opened(piece.path, options) as file:
                        pq.ParquetFile(file).read_row_group(group, [column])
                except (pa.ArrowException, OSError, DataError) as found:
                    where = f"{piece.path}, row group {group}"
                    return DataError(f"{where}, column {column!r} cannot be read: {_reason(found)}")
    return DataError(f"{place.told(0)[0]} cannot be read: {_reason(error)}")
