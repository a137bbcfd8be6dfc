"""Checks of arguments: return them in a canonical form, or raise an error that says what was expected."""

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
    "flag_of",
    "level_of",
    "number_of",
    "share_of",
    "text_of",
]

Floats = NDArray[np.float64]
FLOAT64 = np.dtype(np.float64)  # one object, so that it can be compared by identity


class Batch(NamedTuple):
    """n checked observations."""

    arms: Sequence[Name]
    """n names."""
    contexts: Floats
    """(n, d)."""
    rewards: Floats
    """(n,)."""
    weights: Floats
    """(n,)."""


def _argument(name: str) -> str | None:
    """Return the name of an argument; `None` if messages call the value by several words."""
    return name if name.isidentifier() else None


def count_of(name: str, value: object, *, least: int = 0, most: int = 2**63) -> int:
    """Return a whole number from `least` to `most`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
    if not whole or int(value) < least:  # type: ignore[call-overload]  # whole says it is an int
        raise ParameterError(
            f"{name}={value!r}, expected a whole number of at least {least}",
            argument=_argument(name),
        )
    if int(value) > most:  # type: ignore[call-overload]  # the same
        raise ParameterError(
            f"{name} is a number over {most}, the maximum", argument=_argument(name)
        )
    return int(value)  # type: ignore[call-overload, no-any-return]  # the same


_LONGEST = 500  # characters of an id
LAST_TIME = 253_402_300_800.0
"""Seconds from 1970 to the year 10000, which Python's calendar does not reach."""
_TEXTS = (str, bytes, bytearray, memoryview)


def number_of(name: str, value: object, error: type[InputError] = InputError) -> float:
    """Return a real number as a float; texts are rejected even if they look like numbers."""
    if type(value) is float:
        return value
    try:
        if isinstance(value, (*_TEXTS, complex, np.complexfloating)):
            raise TypeError
        if isinstance(value, np.ndarray) and (value.ndim or value.dtype.kind not in "biuf"):
            raise TypeError
        return float(value)  # type: ignore[arg-type]  # whatever the user gave
    except OverflowError:
        raise NotFiniteError(
            f"{name} is a number too large to compute with", argument=_argument(name)
        ) from None
    except (TypeError, ValueError):
        raise error(f"{name}={value!r}, expected a number", argument=_argument(name)) from None


def finite_number_of(name: str, value: object) -> float:
    """Return a finite real number."""
    number = number_of(name, value)
    if not math.isfinite(number):
        raise NotFiniteError(
            f"{name} is {number}, expected a finite number", argument=_argument(name)
        )
    return number


def level_of(value: object) -> float:
    """Return the level of an interval: a number between 0 and 1, exclusive."""
    level = number_of("level", value, ParameterError)
    if not 0.0 < level < 1.0 - 1e-15:
        raise ParameterError(f"level={value!r}, expected a number between 0 and 1")
    return level


def share_of(name: str, value: object) -> float:
    """Return a number from 0 to 1."""
    share = number_of(name, value, ParameterError)
    if not 0.0 <= share <= 1.0:
        raise ParameterError(
            f"{name}={value!r}, expected a number from 0 to 1", argument=_argument(name)
        )
    return share


def flag_of(name: str, value: object) -> bool:
    """Return True or False; nothing else has a truth value that everybody expects."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name}={value!r}, expected True or False", argument=_argument(name))
    return bool(value)


def text_of(name: str, value: object) -> str:
    """Return a text that every database can store as a name. Every id comes from here.

    The text is the characters themselves. A subclass of `str` may say anything about its length, its encoding or its
    text: that of an `Enum` is its label.
    """
    value = str.__str__(value) if isinstance(value, str) else value
    if not isinstance(value, str) or not value:
        problem = f"{name}={value!r}, expected a non-empty text"
    elif len(value) > _LONGEST:
        problem = f"{name} has {len(value)} characters, expected at most {_LONGEST}"
    elif "\0" in value or not _can_be_encoded(value):
        problem = f"{name}={value!r} has characters that cannot be stored"
    else:
        return value
    raise InputError(problem, argument=_argument(name))


def _can_be_encoded(text: str) -> bool:
    """Return whether UTF-8 can hold a text: it has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_floats(name: str, value: ArrayLike) -> Floats:
    """Return an array that the kernels can read: contiguous, aligned and writable float64.

    It shares memory with the argument if possible. Nothing writes to it, but a read-only array is another type to
    Numba, for which the kernels would be compiled again.
    """
    try:
        if isinstance(value, _TEXTS):
            raise TypeError(f"it is a {type(value).__name__}")
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise TypeError("some of its values are masked")
        array = np.asarray(value)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"its type is {array.dtype}")
        if array.dtype.kind == "O":  # Decimals and other numbers, but also texts
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
    """Return the names of excluded arms; their order does not matter."""
    if type(exclude) is tuple and not exclude:  # the default
        return set()
    return {canonical(name) for name in _as_list("exclude", exclude)}


def _as_list(what: str, names: Iterable[Name]) -> list[Name]:
    if isinstance(names, _TEXTS):  # its characters would be the names
        raise ArmError(f"{what}={names!r} is one text, expected a sequence of names", argument=what)
    try:
        if isinstance(names, np.ndarray):
            if names.ndim != 1:
                raise TypeError
            return list(names.tolist() if names.dtype.kind in "biufU" else names)
        return list(names)
    except TypeError:
        raise ArmError(f"{what}={names!r}, expected a sequence of names", argument=what) from None


def first_not_finite(name: str, values: Floats) -> NotFiniteError:
    """Return an error that names the first number that is not finite."""
    bad = np.argwhere(~np.isfinite(values))
    if not len(bad):
        return NotFiniteError(
            f"{name} has numbers up to {np.abs(values).max(initial=0.0):.3g}, which are too large to compute with, "
            "given what has been learned",
            argument=_argument(name),
        )
    index = tuple(int(i) for i in bad[0])
    where = f"[{', '.join(map(str, index))}]" if index else ""
    return NotFiniteError(
        f"{name}{where} is {values[index]}, expected finite numbers", argument=_argument(name)
    )


def as_batch(
    arms: Iterable[Name],
    contexts: ArrayLike,
    rewards: ArrayLike,
    weights: ArrayLike | None,
    n_features: int | None = None,
) -> Batch:
    """Check all of n observations before any of them is used."""
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
