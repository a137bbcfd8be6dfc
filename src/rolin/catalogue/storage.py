"""What a catalogue holds: names and features of its arms, some of them added or taken out since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.catalogue.names import Names
from rolin.errors import ArmError

__all__ = ["BLOCK", "Shelf"]

BaseFeatureMap = NDArray[Any]  # (K, p), float32 or float64
Floats = NDArray[np.float64]
BLOCK = 32_768
"""Arms that are taken at a time."""
# Arms that are added share arrays which grow by this share of all.
_SHARE = 0.125
_LEAST = 1024


class Shelf:
    """Arms at places that never change: 0 … n - 1, of which some are no longer offered.

    Parameters
    ----------
    features
        (K, p) array of the first K arms. It is not copied and never written to: it may be memory-mapped.
    names
        Their names.
    """

    def __init__(self, features: BaseFeatureMap, names: Names) -> None:
        self._first, self._names = features, names
        self._more: BaseFeatureMap = np.empty((0, features.shape[1]), dtype=features.dtype)
        self._added: list[Name] = []
        self._free: list[int] = []  # places of arms that were added and taken out again
        self._place_of: dict[Name, int] = {}  # of arms that were added
        self.n = len(names)
        """Number of places."""
        self.offered = np.ones(self.n, dtype=np.bool_)
        """(capacity,): which places are arms that can be chosen."""

    @property
    def capacity(self) -> int:
        """Places for which there is room."""
        return len(self.offered)

    @property
    def n_offered(self) -> int:
        """Number of arms that can be chosen."""
        return int(np.count_nonzero(self.offered[: self.n]))

    @property
    def width(self) -> int:
        """Number of features that are kept of an arm."""
        return int(self._first.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the features."""
        return self._first.dtype

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[int, int, BaseFeatureMap]]:
        """Yield all places in blocks: where each begins and ends, and its features."""
        first = len(self._first)
        for start in range(0, first, size):
            stop = min(first, start + size)
            yield start, stop, self._first[start:stop]
        for start in range(first, self.n, size):
            stop = min(self.n, start + size)
            yield start, stop, self._more[start - first : stop - first]

    def features(self, places: NDArray[np.int64]) -> Floats:
        """Return the features at some places, in double precision."""
        first = len(self._first)
        if not len(places) or places.max() < first:
            return np.asarray(self._first[places], dtype=np.float64)
        out = np.empty((len(places), self._first.shape[1]))
        added = places >= first
        out[~added] = self._first[places[~added]]
        out[added] = self._more[places[added] - first]
        return out

    def name(self, place: int) -> Name:
        """Return the name of the arm at a place."""
        first = len(self._names)
        return self._names[place] if place < first else self._added[place - first]

    def find(self, names: Sequence[Name]) -> NDArray[np.int64]:
        """Return the places of arms that can be chosen, -1 where there is none."""
        places = self._names.find(names)
        if self._place_of:
            for i, name in enumerate(names):
                places[i] = self._place_of.get(name, places[i])
        places[(places >= 0) & ~self.offered[places]] = -1
        return places

    def at(self, names: Sequence[Name]) -> NDArray[np.int64]:
        """Return the places of arms, all of which have to be there, each once."""
        places = self.find(names)
        if (places < 0).any():
            name = names[int(np.argmax(places < 0))]
            raise ArmError(f"arm {name!r} is not in the catalogue")
        if len(np.unique(places)) < len(places):
            seen: set[Name] = set()
            for name in names:
                if name in seen:
                    raise ArmError(f"arm {name!r} is given twice, expected every arm once")
                seen.add(name)
        return places

    def add(self, features: BaseFeatureMap, names: Sequence[Name]) -> NDArray[np.int64]:
        """Add arms, and return their places: such as are free, then those that come next."""
        known = self.find(names) >= 0
        if known.any():
            raise ArmError(f"arm {names[int(np.argmax(known))]!r} is in the catalogue already")
        Names(list(names))  # refuses two of one name, and names that there cannot be
        reused = min(len(self._free), len(names))
        last, first = self.n + len(names) - reused, len(self._first)
        if last > self.capacity:
            room = max(last, self.n + max(_LEAST, int(_SHARE * self.n)))
            offered = np.zeros(room, dtype=np.bool_)
            offered[: self.n] = self.offered[: self.n]
            more = np.empty((room - first, features.shape[1]), dtype=self._first.dtype)
            more[: self.n - first] = self._more[: self.n - first]
            self.offered, self._more = offered, more
        places = np.array([*self._free[:reused], *range(self.n, last)], dtype=np.int64)
        del self._free[:reused]
        self._more[places - first] = features
        self._added.extend([None] * (last - first - len(self._added)))
        for name, place in zip(names, places.tolist(), strict=True):
            self._added[place - first] = name
            self._place_of[name] = place
        self.offered[places] = True
        self.n = last
        return places

    def remove(self, names: Sequence[Name]) -> NDArray[np.int64]:
        """Take arms out, and return where they were."""
        places = self.at(names)
        self.offered[places] = False
        for name in names:
            self._place_of.pop(name, None)
        self._free += [place for place in places.tolist() if place >= len(self._first)]
        return places

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, the features included."""
        return int(
            self._first.nbytes + self._more.nbytes + self.offered.nbytes + self._names.nbytes
        )
