"""The names of up to millions of arms, in about 20 bytes each plus their characters.

A Python dictionary takes more than 100 bytes per name. Here all names form one text, and a name is found in a
sorted array of hashes. Hashes differ between processes, so they are never written to a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name, canonical
from rolin.errors import ArmError, ShapeError

__all__ = ["Names"]

Indices = NDArray[np.int64]


class Names:
    """The names of n arms, without duplicates, and the index of each.

    Parameters
    ----------
    names
        The names. A range or an array of integers is stored without a Python object per name.

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
        self._reject_duplicates()

    @staticmethod
    def check(names: Sequence[Name]) -> None:
        """Reject duplicates, and names that are neither strings nor integers."""
        Names(list(names))

    def _reject_duplicates(self) -> None:
        for i in np.flatnonzero(self._keys[1:] == self._keys[:-1]).tolist():
            j = i + 1
            while j < self._n and self._keys[j] == self._keys[i]:
                if self[int(self._order[i])] == self[int(self._order[j])]:
                    name = self[int(self._order[i])]
                    raise ArmError(f"arm {name!r} is given twice, expected every arm once")
                j += 1

    def __len__(self) -> int:
        """Return the number of names."""
        return self._n

    def __getitem__(self, index: int) -> Name:
        """Return the name at an index."""
        if self._range is not None:
            return self._range[index]
        if self._numbers is not None:
            return int(self._numbers[index])
        start = int(self._ends[index - 1]) if index else 0
        return _decoded(self._text[start : int(self._ends[index])])

    def find(self, names: Sequence[Name]) -> Indices:
        """Return the index of each name, -1 for unknown names."""
        wanted = [n if type(n) in (str, int) else canonical(n) for n in names]
        indices = np.full(len(wanted), -1, dtype=np.int64)
        if self._range is not None:
            for i, name in enumerate(wanted):
                if type(name) is int and name in self._range:
                    indices[i] = self._range.index(name)
            return indices
        if self._numbers is not None:
            to_find = [i for i, name in enumerate(wanted) if type(name) is int and _fit([name])]
            keys = np.array([wanted[i] for i in to_find], dtype=np.int64)
        else:
            to_find = list(range(len(wanted)))
            keys = np.fromiter(map(hash, wanted), np.int64, len(wanted))
        for i, key, at in zip(
            to_find, keys.tolist(), np.searchsorted(self._keys, keys).tolist(), strict=True
        ):
            while at < self._n and self._keys[at] == key:
                index = int(self._order[at])
                if self[index] == wanted[i]:
                    indices[i] = index
                    break
                at += 1
        return indices

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        if self._range is not None:
            return 0
        arrays = (self._numbers, self._ends, self._keys, self._order)
        return len(self._text) + sum(a.nbytes for a in arrays if a is not None)


def _fit(numbers: list[int]) -> bool:
    """Return whether all integers fit into int64."""
    return min(numbers) >= -(2**63) and max(numbers) < 2**63


def _encoded(name: Name) -> bytes:
    """Return a name as bytes: an integer begins with a zero byte, a text does not."""
    if type(name) is int:
        return b"\0i%d" % name
    if type(name) is not str:
        raise ArmError(
            f"arm {name!r} is a {type(name).__name__}, expected a string or an integer as the name of an arm "
            "in a catalogue"
        )
    text = name.encode("utf-8", errors="surrogatepass")
    return b"\0s" + text if text.startswith(b"\0") else text


def _decoded(text: bytes) -> Name:
    """Return the name that `_encoded` encoded."""
    if text.startswith(b"\0i"):
        return int(text[2:])
    return text.removeprefix(b"\0s").decode("utf-8", errors="surrogatepass")
