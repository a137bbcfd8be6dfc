"""Names of arms, and the rows of a model's arrays that belong to them.

Arms are named by strings or integers (in memory, by any hashable). 1, True, 1.0 and `np.int64(1)` are one arm, "1" is
another. Row 0 belongs to no arm. It is the prior, which all unseen arms share, so that a decision about new names
allocates nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.errors import ArmError, ParameterError

__all__ = ["ArmIndex", "ArmRows", "Name", "PastArm", "canonical", "index_names"]

Name = Any
"""A string or an integer; in memory, any hashable."""
_PLAIN = {str, int}


@dataclass(frozen=True)
class PastArm:
    """The name of the row of an arm that was restored without its past.

    The restored arm is a new arm with an old name. What the old arm taught about the coefficients stays, together with
    the old arm's effect.
    """

    name: Name
    life: int


class ArmRows(NamedTuple):
    """The names of K arms, and their rows."""

    names: Sequence[Name]
    rows: NDArray[np.int64]
    """(K,): 0 for an arm that was never observed."""


@dataclass(frozen=True, slots=True)  # its attributes are read faster than those of a named tuple
class _Lookup:
    """The names that were looked up last, in a form that can be compared without calling any code of theirs."""

    given: Sequence[Name] | None
    """The sequence itself."""
    names: Sequence[Name]
    """A copy, because the caller may change a list."""
    layout: str | None
    """Of integers that were packed; `None` if the content is a text, or the names."""
    content: Any
    found: ArmRows

    @classmethod
    def of(cls, names: Sequence[Name], found: ArmRows) -> _Lookup:
        copy = list(names) if isinstance(names, list) else names
        kinds = {range} if isinstance(names, range) else set(map(type, names))
        if kinds == {str}:
            text = _BETWEEN.join(names)
            if text.count(_BETWEEN) == len(names) - 1:
                return cls(names, copy, None, text, found)
        elif kinds == {int}:
            layout = f"{len(names)}q"
            try:
                return cls(names, copy, layout, struct.pack(layout, *names), found)
            except struct.error:  # over 64 bits
                pass
        elif kinds != {range} and not kinds <= _PLAIN:
            return _NOTHING_FOUND  # names of other types may be equal without being the same (Decimal(1) and 1)
        return cls(names, copy, None, copy, found)

    def has(self, names: Sequence[Name]) -> bool:
        """Return whether these are the names, or names with the same canonical form."""
        content = self.content
        try:
            if type(content) is str:
                # It reads the characters of texts, whatever a subclass of `str` says about itself.
                return _BETWEEN.join(names) == content and len(names) == len(self.found.names)
            if self.layout is not None:
                return bool(struct.pack(self.layout, *names) == content)
            return _PLAIN.issuperset(map(type, names)) and bool(names == content)
        except (TypeError, ValueError, struct.error):
            return False  # they are not names, or of another type: `canonical` raises if it must


_BETWEEN = "\0"
_NOTHING_FOUND = _Lookup(None, [], None, None, ArmRows([], np.empty(0, dtype=np.int64)))


def canonical(name: Name) -> Name:
    """Return the canonical form of a name: plain `int` for whole numbers, plain `str` for text.

    >>> canonical(np.int64(1)), canonical(True), canonical(1.0), canonical("1")
    (1, 1, 1, '1')
    """
    kind = type(name)
    if kind is str or kind is int:
        return name
    if isinstance(name, str):
        return str.__str__(name)  # the text itself; `str` of an Enum would be its label
    try:
        if isinstance(name, (int, np.integer, np.bool_)) and kind is not np.timedelta64:
            return int.__index__(name) if isinstance(name, int) else int(name)
        if kind is np.timedelta64:  # NumPy says that it is an integer
            raise TypeError
        hash(name)
        itself = bool(name == name)
    except Exception:
        raise ArmError(
            f"arm {_shown(name)} is a {kind.__name__}, expected a string, an integer or another hashable"
        ) from None
    if not itself:
        raise ArmError(
            f"an arm is named {name!r}, which does not equal itself, expected a string or an integer"
        )
    if isinstance(name, (float, np.floating)):
        return int(name) if float(name).is_integer() else float(name)
    return name


def _shown(name: object) -> str:
    """Return how an error message shows a name; the name's own code may raise anything."""
    try:
        return repr(name)
    except Exception:
        return object.__repr__(name)


def index_names(table: object) -> list[Name] | None:
    """Return the index of a pandas data frame as names of arms, and `None` for anything else."""
    if not (hasattr(table, "columns") and hasattr(table, "iloc") and hasattr(table, "index")):
        return None
    index: Any = table.index
    return list(index.tolist())


class ArmIndex:
    """The row of every arm. A row belongs to its arm forever and is never reused."""

    def __init__(self, names: Iterable[Name] = (), removed: Iterable[Name] = ()) -> None:
        self.names: list[Name] = [canonical(name) for name in names]
        """The name of every row except row 0, in order of appearance."""
        self._removed = {canonical(name): 0 for name in removed}
        self.row_of: dict[Name, int] = {}
        """The row of every name; equal names of any type (1, True, 1.0) have the same row."""
        for row, name in enumerate(self.names, start=1):
            if name in self.row_of:
                raise ArmError(f"arm {name!r} is given twice, expected every arm once")
            if name in self._removed:
                self._removed[name] = row
            self.row_of[name] = row
        if missing := [name for name, row in self._removed.items() if row == 0]:
            raise ArmError(f"arm {missing[0]!r} is listed as removed, but is not among the arms")
        self._lives: dict[Name, int] = {}
        for name in self.names:
            if isinstance(name, PastArm):
                self._lives[name.name] = max(name.life, self._lives.get(name.name, 0))
        self.changes = 0
        """How often the name of a row was changed or taken away."""
        self._last = _NOTHING_FOUND

    def __deepcopy__(self, memo: dict[int, Any]) -> ArmIndex:
        """Return a copy of the index; the names themselves are not copied."""
        other = ArmIndex.__new__(ArmIndex)
        other.names, other.row_of = list(self.names), dict(self.row_of)
        other._removed, other._lives = dict(self._removed), dict(self._lives)
        other._last, other.changes = _NOTHING_FOUND, self.changes
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle needs; the last question is not part of it."""
        return {**vars(self), "_last": _NOTHING_FOUND}

    def __len__(self) -> int:
        """Return the number of rows, without row 0."""
        return len(self.names)

    @property
    def active(self) -> list[Name]:
        """Arms that have been observed and not removed."""
        removed = self._removed
        return [n for n in self.names if n not in removed and not isinstance(n, PastArm)]

    @property
    def removed(self) -> list[Name]:
        """Arms that were removed and have not come back."""
        return list(self._removed)

    def find(self, names: Sequence[Name]) -> ArmRows:
        """Return the rows of arms, in the order given; raise for duplicates and removed arms."""
        last = self._last
        # Callers mostly offer the same arms again. Comparing the names takes a few ns each, looking them up about ten
        # times as long.
        if names is last.given:
            # The same list: its items are equal at once unless they were replaced.
            try:
                if names == last.names:
                    return last.found
            except Exception:
                pass  # `canonical` raises for them
        elif type(names) is range:
            if type(last.given) is range and names == last.given:
                return last.found
        elif type(names) is type(last.given) and last.has(names):
            return last.found
        named = self._find(names)
        self._last = _Lookup.of(names, named)
        return named

    def _find(self, names: Sequence[Name]) -> ArmRows:
        n = len(names)
        if n == 0:
            raise ArmError("no arms were given, expected at least one", argument="arms")
        if not isinstance(names, range):
            plain = set(map(type, names)) <= _PLAIN
            names = list(names) if plain else [canonical(name) for name in names]
        if not isinstance(names, range) and len(set(names)) != n:
            seen: set[Name] = set()
            for name in names:
                if name in seen:
                    raise ArmError(
                        f"arm {name!r} is given twice, expected every arm once", argument="arms"
                    )
                seen.add(name)
        if self._removed:
            for name in names:
                self.check_not_removed(name)
        return ArmRows(names, np.fromiter(map(self.row_of.get, names, repeat(0)), np.int64, n))

    def check_not_removed(self, name: Name) -> None:
        """Raise if an arm was removed."""
        if name in self._removed:
            raise ArmError(
                f"arm {name!r} was removed; restore_arm({name!r}) restores it, with or without its past",
                argument="arms",
            )

    def add(self, name: Name) -> int:
        """Give a new canonical name the next row. After an interruption, `drop` removes it again."""
        if isinstance(name, PastArm):
            # a reward for an arm that was restored before this index began
            self._lives[name.name] = max(name.life, self._lives.get(name.name, 0))
        self._forget_last()
        self.names.append(name)
        row = self.row_of[name] = len(self.names)
        return row

    def extend(self, names: Sequence[Name]) -> None:
        """Give new canonical names the next rows, in a tenth of the time of `add`."""
        for name in names:
            if type(name) is PastArm:
                self._lives[name.name] = max(name.life, self._lives.get(name.name, 0))
        self._forget_last()
        first = len(self.names) + 1
        self.names.extend(names)
        self.row_of.update(zip(names, range(first, first + len(names)), strict=True))

    def drop(self, last_row: int) -> None:
        """Remove the rows after this one again, after an update that failed."""
        self._forget_last()
        for name in self.names[last_row:]:
            self.row_of.pop(name, None)
        del self.names[last_row:]
        self.changes += 1

    def remove(self, name: Name) -> None:
        """Mark an arm as removed; its row and name stay."""
        name = canonical(name)
        if name not in self.row_of:
            raise ArmError(f"arm {name!r} was never observed, so there is nothing to remove")
        self.check_not_removed(name)
        vars(self).update(_removed={**self._removed, name: self.row_of[name]}, _last=_NOTHING_FOUND)

    def restore(self, name: Name, *, with_past: bool) -> None:
        """Restore a removed arm, with its past or as a new arm of the same name."""
        if not isinstance(with_past, (bool, np.bool_)):
            raise ParameterError(f"with_past={with_past!r}, expected True or False")
        name = canonical(name)
        row = self._removed.get(name, 0)
        if row == 0:
            raise ArmError(f"arm {name!r} is not among the removed arms: {self.removed!r}")
        changed: dict[str, Any] = {
            "_removed": {n: r for n, r in self._removed.items() if n != name}
        }
        if not with_past:
            life = self._lives.get(name, 0) + 1
            past = PastArm(name, life)
            names, row_of = list(self.names), {**self.row_of, past: row}
            names[row - 1] = past
            del row_of[name]
            changed |= {"names": names, "row_of": row_of, "changes": self.changes + 1}
            changed["_lives"] = {**self._lives, name: life}
        vars(self).update(changed, _last=_NOTHING_FOUND)  # all at once, also if a signal comes

    def _forget_last(self) -> None:
        self._last = _NOTHING_FOUND
