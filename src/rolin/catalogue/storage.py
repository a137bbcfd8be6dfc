"""The arms of a catalogue: their names, their features, and the slot of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.catalogue.names import Names
from rolin.errors import ArmError

__all__ = ["BLOCK", "ArmStore", "Block", "Slots"]

Features = NDArray[Any]  # (K, p), float32 or float64
Floats = NDArray[np.float64]
Slots = NDArray[np.int64]
BLOCK = 32_768
"""Number of arms that are processed at a time."""
# The arrays of added arms grow by this share of all arms, and by at least so many.
_GROWTH = 0.125
_LEAST_GROWTH = 1024


class Block(NamedTuple):
    """A run of slots, with their features."""

    start: int
    stop: int
    features: Features

    @property
    def slots(self) -> slice:
        """The slots as a slice."""
        return slice(self.start, self.stop)


class ArmStore:
    """Names and features of arms. An arm keeps its slot, 0 … n - 1, until it is removed.

    Parameters
    ----------
    features
        (K, p) array of the first K arms. It is neither copied nor written to, so it may be memory-mapped.
    names
        Their names.
    """

    def __init__(self, features: Features, names: Names) -> None:
        self._first, self._first_names = features, names
        # Arms that were added later have the slots behind the first arms.
        self._added: Features = np.empty((0, features.shape[1]), dtype=features.dtype)
        self._added_names: list[Name] = []
        self._added_slots: dict[Name, int] = {}
        self._free: list[int] = []  # slots of arms that were added and removed again
        self.n = len(names)
        """Number of slots in use, those of removed arms included."""
        self.additions = 0
        """How often arms have been added. Only then the features of slots change."""
        self.offered = np.ones(self.n, dtype=np.bool_)
        """(capacity,): which slots hold an arm that is in the catalogue."""

    @property
    def capacity(self) -> int:
        """Number of slots that memory is allocated for."""
        return len(self.offered)

    @property
    def n_offered(self) -> int:
        """Number of arms in the catalogue."""
        return int(np.count_nonzero(self.offered[: self.n]))

    @property
    def width(self) -> int:
        """Number p of features that are stored per arm."""
        return int(self._first.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the features."""
        return self._first.dtype

    @property
    def arrays(self) -> list[tuple[int, Features]]:
        """The arrays of the features, each with the first of its slots."""
        first = len(self._first)
        added = [(first, self._added)] if self.n > first else []
        return [(0, self._first), *added]

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """Yield all slots in blocks of at most `size`, all about as long."""
        for offset, features in self.arrays:
            end = min(self.n, offset + len(features))
            for start, stop in _even(offset, end, size):
                yield Block(start, stop, features[start - offset : stop - offset])

    def features(self, slots: Slots) -> Floats:
        """Return the features in some slots, in double precision."""
        first = len(self._first)
        if self.n == first or not len(slots) or slots.max() < first:
            return np.asarray(self._first[slots], dtype=np.float64)
        out = np.empty((len(slots), self._first.shape[1]))
        added = slots >= first
        out[~added] = self._first[slots[~added]]
        out[added] = self._added[slots[added] - first]
        return out

    def name(self, slot: int) -> Name:
        """Return the name of the arm in a slot."""
        first = len(self._first_names)
        return self._first_names[slot] if slot < first else self._added_names[slot - first]

    def find(self, names: Sequence[Name]) -> Slots:
        """Return the slot of each arm, -1 for arms that are not in the catalogue."""
        slots = self._first_names.find(names)
        if self._added_slots:
            first = len(self._first)
            for i, name in enumerate(names):
                slot = self._added_slots.get(name, -1)
                # After an addition that was interrupted, the slot may belong to nobody, or to another arm by now.
                if slot >= 0:
                    mine = slot < self.n and self._added_names[slot - first] == name
                    slots[i] = slot if mine else -1
        slots[(slots >= 0) & ~self.offered[slots]] = -1
        return slots

    def slots_of(self, names: Sequence[Name]) -> Slots:
        """Return the slot of each arm; raise `ArmError` for unknown and for repeated names."""
        slots = self.find(names)
        if (slots < 0).any():
            name = names[int(np.argmax(slots < 0))]
            raise ArmError(f"arm {name!r} is not in the catalogue")
        if len(np.unique(slots)) < len(slots):
            seen: set[Name] = set()
            for name in names:
                if name in seen:
                    raise ArmError(f"arm {name!r} is given twice, expected every arm once")
                seen.add(name)
        return slots

    def add(self, features: Features, names: Sequence[Name]) -> Slots:
        """Add arms and return their slots: free slots first, then new ones."""
        known = self.find(names) >= 0
        if known.any():
            raise ArmError(f"arm {names[int(np.argmax(known))]!r} is in the catalogue already")
        Names.check(names)
        n_reused = min(len(self._free), len(names))
        n, first, capacity = self.n + len(names) - n_reused, len(self._first), self.capacity
        slots = np.array([*self._free[:n_reused], *range(self.n, n)], dtype=np.int64)
        added = self._added
        if n > capacity:
            capacity = max(n, self.n + max(_LEAST_GROWTH, int(_GROWTH * self.n)))
            added = np.empty((capacity - first, self.width), dtype=self.dtype)
            added[: self.n - first] = self._added[: self.n - first]
        added[slots - first] = features
        self._added_names.extend([None] * (n - first - len(self._added_names)))
        for name, slot in zip(names, slots.tolist(), strict=True):
            self._added_names[slot - first] = name
            self._added_slots[name] = slot
        # Until here, nothing has changed for readers: these slots are not offered.
        offered = np.zeros(capacity, dtype=np.bool_)
        offered[: self.n] = self.offered[: self.n]
        offered[slots] = True
        vars(self).update(
            offered=offered, n=n, additions=self.additions + 1,
            _added=added, _free=self._free[n_reused:],
        )  # fmt: skip
        return slots

    def remove(self, names: Sequence[Name]) -> Slots:
        """Remove arms and return the slots that they had."""
        slots = self.slots_of(names)
        self.offered[slots] = False
        for name in names:
            self._added_slots.pop(name, None)
        self._free += [slot for slot in slots.tolist() if slot >= len(self._first)]
        return slots

    @property
    def nbytes(self) -> int:
        """Memory in bytes, the features included."""
        arrays = (self._first, self._added, self.offered, self._first_names)
        return int(sum(array.nbytes for array in arrays))


def _even(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """Divide a range into parts of about the same length, at most `size`, so that no thread waits long for another."""
    n_parts = -(-(stop - start) // size)
    for i in range(n_parts):
        first, last = i * (stop - start) // n_parts, (i + 1) * (stop - start) // n_parts
        yield start + first, start + last
