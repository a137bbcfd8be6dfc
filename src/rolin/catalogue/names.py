"""Names of a million arms, in some twenty bytes each beside their letters.

A dictionary of Python's takes more than a hundred. Names are texts, one after the other; they are found
by their hashes, which are sorted. Hashes differ from one process to the next, so they are never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name, canonical
from rolin.errors import ArmError, ShapeError

__all__ = ["Names"]

Places = NDArray[np.int64]


class Names:
    """The names of n arms, each once, and where each of them stands.

    Parameters
    ----------
    names
        The names; a range, or an array of integers, is kept as it is.

    Examples
    --------
    >>> names = Names(["red", "blue", 7])
    >>> names[2], names.find(["blue", "green"]).tolist()
    (7, [1, -1])
    """

    def __init__(self, names: Iterable[Name]) -> None:
        given: Any = names if isinstance(names, (range, np.ndarray)) else list(names)
        if isinstance(given, np.ndarray):
            if given.ndim != 1:
                raise ShapeError(f"arms has shape {given.shape}, expected a list of names")
            if given.dtype.kind not in "iu" or (given.size and int(given.max()) >= 2**63):
                given = given.tolist()
        if isinstance(given, list):
            given = [n if type(n) in (str, int) else canonical(n) for n in given]
            if given and {type(n) for n in given} == {int} and _fit(given):
                given = np.array(given, dtype=np.int64)
        self._range = given if isinstance(given, range) else None
        self._numbers: NDArray[np.int64] | None = None
        self._text, self._ends = b"", np.zeros(0, dtype=np.int64)
        self._n = len(given)
        if self._range is not None:
            return
        if isinstance(given, np.ndarray):
            self._numbers = given.astype(np.int64)
            keys = self._numbers
        else:
            texts = [_encoded(name) for name in given]
            self._text = b"".join(texts)
            self._ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
            keys = np.fromiter(map(hash, given), np.int64, len(given))
        order = np.argsort(keys, kind="stable")
        self._keys, self._order = keys[order], order.astype(np.int32)
        self._refuse_twice()

    def _refuse_twice(self) -> None:
        for i in np.flatnonzero(self._keys[1:] == self._keys[:-1]).tolist():
            j = i + 1
            while j < self._n and self._keys[j] == self._keys[i]:
                if self[int(self._order[i])] == self[int(self._order[j])]:
                    name = self[int(self._order[i])]
                    raise ArmError(f"arm {name!r} is given twice, expected every arm once")
                j += 1

    def __len__(self) -> int:
        """Return how many there are."""
        return self._n

    def __getitem__(self, place: int) -> Name:
        """Return the name at a place."""
        if self._range is not None:
            return self._range[place]
        if self._numbers is not None:
            return int(self._numbers[place])
        start = int(self._ends[place - 1]) if place else 0
        return _decoded(self._text[start : int(self._ends[place])])

    def find(self, names: Sequence[Name]) -> Places:
        """Return the places of some names, -1 where there is none."""
        found = [n if type(n) in (str, int) else canonical(n) for n in names]
        places = np.full(len(found), -1, dtype=np.int64)
        if self._range is not None:
            for i, name in enumerate(found):
                if type(name) is int and name in self._range:
                    places[i] = self._range.index(name)
            return places
        if self._numbers is not None:
            asked = [i for i, name in enumerate(found) if type(name) is int and _fit([name])]
            keys = np.array([found[i] for i in asked], dtype=np.int64)
        else:
            asked = list(range(len(found)))
            keys = np.fromiter(map(hash, found), np.int64, len(found))
        for i, key, at in zip(
            asked, keys.tolist(), np.searchsorted(self._keys, keys).tolist(), strict=True
        ):
            while at < self._n and self._keys[at] == key:
                place = int(self._order[at])
                if self[place] == found[i]:
                    places[i] = place
                    break
                at += 1
        return places

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        if self._range is not None:
            return 0
        arrays = (self._numbers, self._ends, self._keys, self._order)
        return len(self._text) + sum(a.nbytes for a in arrays if a is not None)


def _fit(numbers: list[int]) -> bool:
    """Return whether integers are such as NumPy has."""
    return min(numbers) >= -(2**63) and max(numbers) < 2**63


def _encoded(name: Name) -> bytes:
    """Return a name as bytes; those of integers begin with a zero, those of texts do not."""
    if type(name) is int:
        return b"\0i%d" % name
    if type(name) is not str:
        raise ArmError(
            f"arm {name!r} is a {type(name).__name__}; the arms of a catalogue are named by strings or integers"
        )
    text = name.encode("utf-8", errors="surrogatepass")
    return b"\0s" + text if text.startswith(b"\0") else text


def _decoded(text: bytes) -> Name:
    if text.startswith(b"\0i"):
        return int(text[2:])
    return text.removeprefix(b"\0s").decode("utf-8", errors="surrogatepass")
