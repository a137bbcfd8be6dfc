"""Ratings of items by users, and the files in which MovieLens publishes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.checks import as_floats, first_not_finite, number_of
from rolin.errors import DataError, InputError, ParameterError, ShapeError

__all__ = ["FILE_NAMES", "Ratings", "read_ratings"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

FILE_NAMES = ("ratings.dat", "ratings.csv", "u.data")
"""File names of ratings in a folder; the first one that exists is read."""

_SEPARATORS = {".dat": "::", ".csv": ",", ".data": "\t"}
_HEADER = {"userid": "user_id or userId", "movieid": "movie_id or movieId", "rating": "rating"}
_COLUMNS = ("a user id", "a movie id", "a rating")
_LARGEST_ID = 2.0**53  # ids are read as floats, which hold every integer up to here


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings of items by users: one row per rating, with codes for users and items.

    Parameters
    ----------
    users, items
        (n,): codes from 0. A pair may occur more than once.
    values
        (n,): the ratings, any finite numbers.
    user_names, item_names
        (U,), (I,): the ids that the codes stand for. Parts of the same ratings share all names,
        so that a code means the same in all parts.
    """

    users: Codes
    items: Codes
    values: Floats
    user_names: Codes
    item_names: Codes

    def __post_init__(self) -> None:
        """Check that the columns match."""
        values = as_floats("values", self.values)
        if values.ndim != 1:
            raise ShapeError(f"values has shape {values.shape}, expected (n,)")
        if not np.isfinite(values).all():
            raise first_not_finite("values", values)
        object.__setattr__(self, "values", values)
        for column, names in (("users", "user_names"), ("items", "item_names")):
            ids = _whole(names, getattr(self, names))
            codes = _whole(column, getattr(self, column))
            if codes.shape != values.shape:
                raise ShapeError(f"{column} has shape {codes.shape}, expected {values.shape}")
            if len(codes) and not 0 <= codes.min() <= codes.max() < len(ids):
                raise InputError(
                    f"{column} holds codes from {codes.min()} to {codes.max()}, expected 0 to "
                    f"{len(ids) - 1}: one per name"
                )
            object.__setattr__(self, names, ids)
            object.__setattr__(self, column, codes)

    @classmethod
    def from_ids(cls, users: ArrayLike, items: ArrayLike, values: ArrayLike) -> Ratings:
        """Return ratings by id; codes are assigned to the ids in increasing order.

        Parameters
        ----------
        users
            (n,): ids of the users.
        items
            (n,): ids of the items.
        values
            (n,): the ratings.

        Examples
        --------
        >>> ratings = Ratings.from_ids([7, 3, 7], [10, 10, 20], [5.0, 3.0, 4.0])
        >>> ratings
        Ratings(3 ratings, 2 users, 2 items)
        >>> ratings.users
        array([1, 0, 1])
        """
        user_names, user_codes = np.unique(_whole("users", users), return_inverse=True)
        item_names, item_codes = np.unique(_whole("items", items), return_inverse=True)
        return cls(user_codes, item_codes, as_floats("values", values), user_names, item_names)

    @property
    def n_users(self) -> int:
        """Number U of users, including those without a rating in this part."""
        return len(self.user_names)

    @property
    def n_items(self) -> int:
        """Number I of items, including those without a rating in this part."""
        return len(self.item_names)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Ratings({len(self)} ratings, {self.n_users} users, {self.n_items} items)"

    def split(self, share: float, generator: np.random.Generator) -> tuple[Ratings, Ratings]:
        """Split the ratings at random into two parts.

        Parameters
        ----------
        share
            Share of the ratings in the first part, rounded to a whole number of ratings.
        generator
            Source of randomness. With equal generators, the first part for a larger share
            contains the first part for a smaller one.
        """
        share = number_of("share", share, ParameterError)
        if not 0.0 <= share <= 1.0:
            raise ParameterError(f"share={share!r}, expected a number from 0 to 1")
        order = generator.permutation(len(self))
        size = round(share * len(self))
        return self._part(order[:size]), self._part(order[size:])

    def sample(self, share: float, generator: np.random.Generator) -> Ratings:
        """Return the first part of `split`.

        Parameters
        ----------
        share
            Share of the ratings, from 0 to 1.
        generator
            Source of randomness.
        """
        return self.split(share, generator)[0]

    def _part(self, rows: Codes) -> Ratings:
        rows = np.sort(rows)  # keeps the order of the ratings, and is faster to index
        return Ratings(
            self.users[rows], self.items[rows], self.values[rows], self.user_names, self.item_names
        )


def read_ratings(path: str | PathLike[str]) -> Ratings:
    """Read the ratings of a MovieLens data set.

    Parameters
    ----------
    path
        A file, or a folder that contains one: `ratings.dat`
        (`UserID::MovieID::Rating::Timestamp`), `ratings.csv` (with a header that names the
        columns `user_id` or `userId`, `movie_id` or `movieId`, and `rating`), or `u.data` (four
        columns separated by tabs). For a file with another name, the extension decides.

    Raises
    ------
    DataError
        If there is no such file, or a line is not a rating. The message names file and line.
    """
    file = _file_of(Path(path))
    separator = _SEPARATORS.get(file.suffix)
    if separator is None:
        extensions = ", ".join(_SEPARATORS)
        raise DataError(f"{file} has the extension {file.suffix!r}, expected one of {extensions}")
    lines = _lines_of(file)
    if file.suffix == ".csv":
        columns, n_fields = _columns_of(file, lines[0]), lines[0].count(separator) + 1
        first = 1
    else:
        columns, n_fields = (0, 1, 2), 4
        first = 0
    if len(lines) == first:
        raise DataError(f"{file} has a header but no ratings, expected at least one")
    for i in range(first, len(lines)):
        if lines[i].count(separator) != n_fields - 1:
            found = lines[i].count(separator) + 1 if lines[i] else "no"
            raise DataError(
                f"{file}, line {i + 1} has {found} fields, expected {n_fields} separated by "
                f"{separator!r}: {_short(lines[i])}"
            )
    table = _numbers_of(file, lines, first, separator, columns)
    return Ratings.from_ids(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2])


def _file_of(path: Path) -> Path:
    """Return the file of ratings: the path itself, or a file in that folder."""
    try:
        if not path.exists():
            raise DataError(f"{path} does not exist, expected a folder or file with ratings")
        if not path.is_dir():
            return path
        found = next((path / name for name in FILE_NAMES if (path / name).is_file()), None)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    if found is None:
        raise DataError(f"{path} holds no ratings, expected one of {', '.join(FILE_NAMES)}")
    return found


def _lines_of(file: Path) -> list[str]:
    """Return the lines of a text file, at least one, without line ends."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from error
    data = data.removeprefix(b"\xef\xbb\xbf")  # the byte order mark that some programs write
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{file}, line {line} is not text: byte {data[error.start]:#04x} is not UTF-8"
        ) from None
    text = text.rstrip("\n")
    if not text.strip():
        raise DataError(f"{file} is empty, expected ratings")
    return text.split("\n")


def _columns_of(file: Path, header: str) -> tuple[int, ...]:
    """Return the indices of the columns of users, movies and ratings."""
    names = [name.strip().lower().replace("_", "") for name in header.split(",")]
    for name, spelling in _HEADER.items():
        if names.count(name) != 1:
            found = "more than one column" if name in names else "no column"
            raise DataError(
                f"{file}, line 1 has {found} {spelling}, expected a header with user_id, movie_id "
                f"and rating: {_short(header)}"
            )
    return tuple(names.index(name) for name in _HEADER)


def _numbers_of(
    file: Path, lines: Sequence[str], first: int, separator: str, columns: tuple[int, ...]
) -> Floats:
    """Return (n, 3): users, movies and ratings. Every line must have enough fields."""
    letters = len(separator) * lines[first].count(separator)
    try:
        if any(line.count(separator[0]) != letters for line in lines[first:]):
            # NumPy would read half a separator as a whole one.
            raise ValueError("half a separator inside a field")
        table = np.loadtxt(
            lines,
            delimiter=separator[0],
            comments=None,
            skiprows=first,
            # NumPy splits at single characters, so `::` gives an extra empty field.
            usecols=[column * len(separator) for column in columns],
            ndmin=2,
        )
    except ValueError:  # a field is not a number: read field by field
        table = np.array(
            [[_number(line.split(separator)[c]) for c in columns] for line in lines[first:]]
        )
    good = np.isfinite(table)
    ids = table[:, :2]
    good[:, :2] &= (ids == np.floor(ids)) & (np.abs(ids) < _LARGEST_ID)
    if not good.all():
        row, column = (int(i) for i in np.argwhere(~good)[0])
        field = lines[first + row].split(separator)[columns[column]]
        expected = "a finite number" if column == 2 else "a whole number"
        raise DataError(
            f"{file}, line {first + row + 1} has {_short(field)} as {_COLUMNS[column]}, "
            f"expected {expected}"
        )
    return table


def _number(field: str) -> float:
    """Return a field as a number, or NaN; `1_0` is a number in Python only."""
    try:
        return float(field) if field.isascii() and "_" not in field else np.nan
    except ValueError:
        return np.nan


def _short(text: str) -> str:
    """Return the beginning of a text, quoted."""
    return repr(text if len(text) <= 60 else text[:57] + "…")


def _whole(name: str, value: ArrayLike) -> Codes:
    """Return a column of integers."""
    array = np.asarray(value)
    if array.ndim != 1:
        raise ShapeError(f"{name} has shape {array.shape}, expected one dimension")
    if array.dtype.kind not in "iu" and array.size:
        raise InputError(f"{name} is an array of {array.dtype}, expected whole numbers")
    return array.astype(np.int64)
