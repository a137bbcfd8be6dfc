"""Arguments become arrays here, or an error that says what was given and what was expected."""

from __future__ import annotations

import math
from collections.abc import Iterable, KeysView, Sequence, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name, canonical
from rolin.errors import ArmError, InputError, NotFiniteError, ParameterError, ShapeError

__all__ = [
    "FLOAT64",
    "LAST_TIME",
    "Batch",
    "as_batch",
    "as_excluded",
    "as_floats",
    "as_names",
    "count_of",
    "finite_number_of",
    "first_not_finite",
    "level_of",
    "number_of",
    "share_of",
    "text_of",
]

Floats = NDArray[np.float64]
FLOAT64 = np.dtype(np.float64)  # one object, so that it can be compared by identity


class Batch(NamedTuple):
    """Checked observations."""

    arms: Sequence[Name]  # n
    contexts: Floats  # (n, d)
    rewards: Floats  # (n,)
    weights: Floats  # (n,)


def count_of(name: str, value: object, *, least: int = 0, most: int = 2**63) -> int:
    """Return a whole number of at least `least` and at most `most`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
    if not whole or int(value) < least:  # type: ignore[call-overload]  # whole says it is an int
        raise ParameterError(f"{name}={value!r}, expected a whole number of at least {least}")
    if int(value) > most:  # type: ignore[call-overload]  # the same
        raise ParameterError(f"{name} is a number over {most}, the most there can be")
    return int(value)  # type: ignore[call-overload, no-any-return]  # the same


_LONGEST = 500  # letters of an id
LAST_TIME = (
    253_402_300_800.0  # seconds from 1970 to the year 10000, which no calendar of Python's knows
)
_TEXTS = (str, bytes, bytearray, memoryview)


def number_of(name: str, value: object, error: type[InputError] = InputError) -> float:
    """Return a real number as a float; a text that looks like one is still a text."""
    try:
        if isinstance(value, (*_TEXTS, complex, np.complexfloating)):
            raise TypeError
        if isinstance(value, np.ndarray) and (value.ndim or value.dtype.kind not in "biuf"):
            raise TypeError
        return float(value)  # type: ignore[arg-type]  # whatever the user gave
    except OverflowError:
        raise NotFiniteError(f"{name} is a number too large to compute with") from None
    except (TypeError, ValueError):
        raise error(f"{name}={value!r}, expected a number") from None


def finite_number_of(name: str, value: object) -> float:
    """Return a finite real number."""
    number = number_of(name, value)
    if not math.isfinite(number):
        raise NotFiniteError(f"{name} is {number}, expected a finite number")
    return number


def level_of(value: object) -> float:
    """Return the level of an interval, between 0 and 1."""
    level = number_of("level", value, ParameterError)
    if not 0.0 < level < 1.0 - 1e-15:
        raise ParameterError(f"level={value!r}, expected a number between 0 and 1")
    return level


def share_of(name: str, value: object) -> float:
    """Return a number from 0 to 1."""
    share = number_of(name, value, ParameterError)
    if not 0.0 <= share <= 1.0:
        raise ParameterError(f"{name}={value!r}, expected a number from 0 to 1")
    return share


def text_of(name: str, value: object) -> str:
    """Return a text that can name something in every database."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{name}={value!r}, expected a text that is not empty")
    if len(value) > _LONGEST:
        raise InputError(f"{name} has {len(value)} letters, expected at most {_LONGEST}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name}={value!r} holds letters that cannot be stored") from None
    if "\0" in value:
        raise InputError(f"{name}={value!r} holds letters that cannot be stored")
    return str(value)


def as_floats(name: str, value: ArrayLike) -> Floats:
    """Return an array that the kernels can read, sharing memory where it can.

    That is contiguous, aligned and writable float64. (Nothing writes to it, but a read-only array
    is another type to them, compiled anew.)
    """
    try:
        if isinstance(value, _TEXTS):
            raise TypeError(f"it is a {type(value).__name__}")
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise TypeError("some of it is masked")
        array = np.asarray(value)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"its type is {array.dtype}")
        if array.dtype.kind == "O":  # Decimals and the like; but texts would pass as numbers too
            for item in array.flat:
                number_of("an item", item)
        ready: Floats = np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ShapeError(f"{name} is not an array of numbers: {error}") from None
    return ready


def as_names(arms: Iterable[Name]) -> Sequence[Name]:
    """Return the names of arms as a sequence, in the order of their contexts."""
    if isinstance(arms, (list, tuple, range)):
        return arms
    if isinstance(arms, Set) and not isinstance(arms, KeysView):
        raise ArmError("arms is a set, which has no order, expected a sequence of names")
    return _as_list("arms", arms)


def as_excluded(exclude: Iterable[Name]) -> set[Name]:
    """Return the names of arms to leave out, in any order."""
    return {canonical(name) for name in _as_list("exclude", exclude)}


def _as_list(what: str, names: Iterable[Name]) -> list[Name]:
    if isinstance(names, _TEXTS):  # its letters would be the names
        raise ArmError(f"{what}={names!r} is one text, expected a sequence of names")
    try:
        if isinstance(names, np.ndarray):
            if names.ndim != 1:
                raise TypeError
            return list(names.tolist() if names.dtype.kind in "biufU" else names)
        return list(names)
    except TypeError:
        raise ArmError(f"{what}={names!r}, expected a sequence of names") from None


def first_not_finite(name: str, values: Floats) -> NotFiniteError:
    """Return an error that names the first number that cannot be computed with."""
    bad = np.argwhere(~np.isfinite(values))
    if not len(bad):
        return NotFiniteError(
            f"{name} holds numbers up to {np.abs(values).max(initial=0.0):.3g}: with what has been "
            "learned, too large to compute with"
        )
    place = tuple(int(i) for i in bad[0])
    where = f"[{', '.join(map(str, place))}]" if place else ""
    return NotFiniteError(f"{name}{where} is {values[place]}, expected finite numbers")


def as_batch(
    arms: Iterable[Name],
    contexts: ArrayLike,
    rewards: ArrayLike,
    weights: ArrayLike | None,
    n_features: int | None = None,
) -> Batch:
    """Check n observations whole, before any of them is used."""
    names = as_names(arms)
    n = len(names)
    x = as_floats("contexts", contexts)
    if x.shape == (0,) and (n == 0 or not n_features):
        x = x.reshape(n, n_features or 0)
    width = "d" if n_features is None else str(n_features)
    if x.ndim != 2 or len(x) != n or (n_features is not None and x.shape[1] != n_features):
        raise ShapeError(f"contexts has shape {x.shape}, expected ({n}, {width})")
    r = as_floats("rewards", rewards)
    h = np.ones(n) if weights is None else as_floats("weights", weights)
    for name, values in (("rewards", r), ("weights", h)):
        if values.shape != (n,):
            raise ShapeError(f"{name} has shape {values.shape}, expected ({n},)")
    for name, values in (("contexts", x), ("rewards", r), ("weights", h)):
        if not np.isfinite(values).all():
            raise first_not_finite(name, values)
    if not (h > 0).all():
        i = int(np.argmax(~(h > 0)))
        raise InputError(f"weights[{i}] is {h[i]}, expected a positive number")
    return Batch(names, x, r, h)
