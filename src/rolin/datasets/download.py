"""Download MovieLens from GroupLens, who publish it."""

from __future__ import annotations

import hashlib
import http.client
import re
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from os import PathLike
from pathlib import Path, PurePosixPath

from rolin._support.optional import needs
from rolin._support.progress import check_progress
from rolin.datasets.ratings import FILE_NAMES
from rolin.errors import DataError, ParameterError

__all__ = ["CHECKSUMS", "fetch_movielens"]

CHECKSUMS = {
    "ml-1m": "c4d9eecfca2ab87c1945afe126590906",
    "ml-100k": "0e33842e24a9c977be4e0107933c0723",
}
"""MD5 of the archives, as GroupLens publishes them."""

_ADDRESS = "https://files.grouplens.org/datasets/movielens/{name}.zip"
_TIMEOUT = 30.0  # seconds without receiving a byte
_CHUNK = 1 << 16
_TERMS = (
    "The data may be used for research but not redistributed, and must be cited as Harper & Konstan "
    "(2015). The README in the archive has the terms."
)
_BAD_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def fetch_movielens(
    folder: str | PathLike[str],
    *,
    name: str = "ml-1m",
    url: str | None = None,
    progress: bool | Callable[[int], object] = False,
) -> Path:
    """Download a MovieLens data set, unless it exists already, and return the folder of its ratings.

    Parameters
    ----------
    folder
        Where to store it: the ratings will be in `folder/name`.
    name
        `"ml-1m"` or `"ml-100k"`, whose checksums are known. With a `url`, any name.
    url
        Address of the archive; by default, that of GroupLens.
    progress
        Whether to show a progress bar (needs the extra `cli`), or a function that is called with
        the number of bytes received since its last call.

    Raises
    ------
    DataError
        If the download fails, the archive is not what was expected, or the files cannot be
        written. After an error or an interrupt, no incomplete files remain.

    Notes
    -----
    GroupLens allows research but no redistribution, and asks you to cite:
    Harper & Konstan, *The MovieLens Datasets: History and Context*, ACM TiiS 5(4), 2015.
    """
    check_progress(progress)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ParameterError(f"name={name!r}, expected letters, digits, dots and dashes")
    if url is None and name not in CHECKSUMS:
        raise ParameterError(f"name={name!r}, expected one of {tuple(CHECKSUMS)}, or a url")
    target = Path(folder) / name
    if _holds_ratings(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Incomplete files are only in here, and are removed with it.
        with tempfile.TemporaryDirectory(suffix=".part", prefix=name, dir=target.parent) as part:
            archive = Path(part, "archive.zip")
            _download(url or _ADDRESS.format(name=name), archive, target, progress)
            _check(archive, name)
            _move(_extract(archive, Path(part, "content")), target)
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror or error}") from error
    return target


def _holds_ratings(folder: Path) -> bool:
    return any((folder / name).is_file() for name in FILE_NAMES)


def _download(
    url: str, archive: Path, target: Path, progress: bool | Callable[[int], object]
) -> None:
    """Download an archive to a file."""
    try:
        response = urllib.request.urlopen(url, timeout=_TIMEOUT)
    except (OSError, ValueError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection open
        why = error.reason if type(error) is urllib.error.URLError else error
        raise _not_fetched(url, target, why) from error
    with ExitStack() as stack:
        stack.enter_context(response)
        file = stack.enter_context(archive.open("wb"))
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else None
        advance = progress
        if progress is True:
            with needs("cli"):
                from rolin._support.progress import bar
            advance = stack.enter_context(bar(target.name, total, in_bytes=True))
        done = 0
        while True:
            try:
                chunk = response.read(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise _not_fetched(url, target, error) from error
            if not chunk:
                break
            file.write(chunk)
            done += len(chunk)
            if callable(advance):
                advance(len(chunk))
    if total is not None and done != total:
        raise _not_fetched(url, target, f"the connection ended after {done} of {total} bytes")


def _not_fetched(url: str, target: Path, why: object) -> DataError:
    return DataError(
        f"{url} could not be downloaded: {why}. Download it by other means, extract it, and put its "
        f"ratings ({', '.join(FILE_NAMES[:-1])} or {FILE_NAMES[-1]}) into {target}. {_TERMS}"
    )


def _check(archive: Path, name: str) -> None:
    """Compare the checksum of an archive with the published one, if there is one."""
    expected = CHECKSUMS.get(name)
    if expected is None:
        return
    with archive.open("rb") as file:
        # MD5 is what GroupLens publishes; it finds damage, not attacks.
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != expected:
        raise DataError(
            f"{name}.zip has the MD5 checksum {found}, expected {expected}: the download is damaged, try again"
        )


def _extract(archive: Path, content: Path) -> Path:
    """Extract an archive and return the folder in it that holds the ratings."""
    try:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.namelist():
                path = PurePosixPath(member.replace("\\", "/"))
                if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
                    raise DataError(f"the archive holds {member!r}, a path outside its folder")
            opened.extractall(content)
    except _BAD_ARCHIVE as error:
        raise DataError(f"the downloaded file is not a valid zip archive: {error}") from error
    for folder in (content, *sorted(path for path in content.rglob("*") if path.is_dir())):
        if _holds_ratings(folder):
            return folder
    raise DataError(f"the archive holds no ratings, expected one of {', '.join(FILE_NAMES)}")


def _move(source: Path, target: Path) -> None:
    """Move a complete folder to its final path."""
    try:
        source.rename(target)
    except OSError:
        if _holds_ratings(target):  # another process was faster
            return
        if not target.is_dir():
            raise
        # The folder exists without ratings: its other files stay.
        shutil.copytree(source, target, dirs_exist_ok=True)
