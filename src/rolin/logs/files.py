"""Find the files of a log, inspect them, and open them."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from os import PathLike
from typing import Any, NamedTuple

from rolin._support.optional import needs
from rolin.errors import DataError, ParameterError
from rolin.logs import arrow

__all__ = [
    "SUFFIXES",
    "File",
    "Options",
    "arrow_batches",
    "files_of",
    "first_rows",
    "is_url",
    "look",
    "opened",
    "reason_of",
]

SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc", ".arrows")
"""Endings of the files in a folder that are part of a log."""
_THREADS = 16  # files that are inspected at once

Options = Mapping[str, Any]


class File(NamedTuple):
    """What is known of a file before it is read."""

    path: str
    format: str
    """`"parquet"`, `"arrow"` (an Arrow file) or `"stream"` (an Arrow stream)."""
    groups: tuple[int, ...]
    """Uncompressed bytes of each row group; empty for a stream, which does not say."""
    size: int
    stamp: str
    """Text that changes when the file does: its modification time, or its tag in an object store."""
    schema: Any


def is_url(path: str) -> bool:
    """Return whether a path is a URL, which fsspec opens."""
    return "://" in path


def _filesystem(url: str, options: Options) -> tuple[Any, str]:
    with needs("fit"):
        import fsspec
    try:
        return fsspec.core.url_to_fs(url, **options)  # type: ignore[no-any-return]
    except (ImportError, ValueError, TypeError, OSError) as error:
        raise DataError(f"{url} cannot be opened: {reason_of(error)}") from error


def files_of(source: Any, options: Options) -> list[str]:
    """Return the paths of all files of a log, which is a file, a folder, a URL, or several of them."""
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
        if path.endswith((".csv", ".csv.gz")):  # said before a missing package is
            raise DataError(
                f"{path} is a CSV file, expected Parquet or Arrow: convert it first, such as by "
                "pandas.read_csv(…).to_parquet(…)"
            )
        real = path if is_url(path) else os.path.realpath(path)
        if real in seen:
            raise DataError(f"{path} is given twice")
        seen.add(real)
    return found


def _within(path: str, options: Options) -> list[str]:
    """Return a file, or the files of a folder, sorted by name."""
    if not is_url(path):
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
            raise DataError(f"{path} cannot be read: {reason_of(error)}") from error
    if not names:
        raise DataError(f"{path} is a folder without files that end in {', '.join(SUFFIXES)}")
    return sorted(names)


def _walk(path: str) -> list[str]:
    """Return the files of a folder; links are followed."""

    def reject(error: OSError) -> None:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error

    names, seen = [], set()
    for folder, inner, files in os.walk(path, onerror=reject, followlinks=True):
        inner[:] = [name for name in inner if not name.startswith((".", "_"))]
        if (real := os.path.realpath(folder)) in seen:  # a link to a folder that contains it
            inner.clear()
            continue
        seen.add(real)
        names += [os.path.join(folder, name) for name in files if _counts(name)]
    for name in names:
        if not os.path.isfile(name):
            raise DataError(f"{name} is not a file")
    return names


def _counts(path: str) -> bool:
    """Return whether a file of a folder is part of the log; hidden files and `_SUCCESS` are not."""
    parts = path.split("/")
    return not any(part.startswith((".", "_")) for part in parts) and path.lower().endswith(
        SUFFIXES
    )


@contextmanager
def opened(path: str, options: Options) -> Iterator[Any]:
    """Open a file for pyarrow."""
    pa = arrow.pyarrow()
    try:
        if is_url(path):
            fs, root = _filesystem(path, options)
            with fs.open(root, "rb") as file:
                yield file
        else:
            with pa.OSFile(path, "rb") as file:
                yield file
    except OSError as error:
        raise DataError(f"{path} cannot be read: {reason_of(error)}") from error


def reason_of(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def look(paths: Sequence[str], options: Options) -> list[File]:
    """Read the row groups and schemas of files from their footers."""
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(functools.partial(_look, options=options), paths))


def _stamp(path: str, options: Options) -> str:
    """Return a text that changes when a file does, as far as that can be known."""
    if not is_url(path):
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

    with opened(path, options) as file:
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
            raise DataError(f"{path} is damaged or incomplete: {reason_of(error)}") from error
    what = "is empty" if not size else "is neither Parquet nor Arrow"
    raise DataError(f"{path} {what}, expected a Parquet or Arrow file")


def first_rows(files: Sequence[File], options: Options) -> tuple[Any, str]:
    """Return the first rows of the log as a table, and the file that they are in."""
    for file in files:
        sample = _first_rows(file, options)
        if sample.num_rows:
            return sample, file.path
    return files[0].schema.empty_table(), files[0].path


def _first_rows(file: File, options: Options) -> Any:
    """Return the first rows of a file as a table; an empty one if the file has no rows."""
    pa = arrow.pyarrow()
    import pyarrow.parquet as pq

    with opened(file.path, options) as source:
        try:
            if file.format == "parquet":
                batches = pq.ParquetFile(source).iter_batches(batch_size=64)
            else:
                batches = arrow_batches(file.format, source)
            first = next((batch for batch in batches if batch.num_rows), None)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{file.path} cannot be read: {reason_of(error)}") from error
        return file.schema.empty_table() if first is None else pa.Table.from_batches([first[:64]])


def arrow_batches(kind: str, file: Any, groups: Sequence[int] | None = None) -> Iterator[Any]:
    """Yield the batches of an Arrow file or an Arrow stream."""
    pa = arrow.pyarrow()
    if kind == "stream":
        yield from pa.ipc.open_stream(file)
        return
    reader = pa.ipc.open_file(file)
    for group in range(reader.num_record_batches) if groups is None else groups:
        yield reader.get_batch(group)
