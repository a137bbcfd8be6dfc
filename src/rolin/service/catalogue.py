"""A catalogue: up to millions of arms with their features, in a file, so that requests need only their names.

The file has one JSON object per line, as the caller sent it. In memory are the names and where each line ends.
"""

from __future__ import annotations

import hashlib
import mmap
import time
from array import array
from collections.abc import Callable, Collection, Sequence
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.catalogue.names import Names
from rolin.errors import ArmError
from rolin.journal.validation import LARGEST
from rolin.service import schema
from rolin.service.decoding import decode
from rolin.service.errors import Refusal, failure_of
from rolin.service.json_text import check_json

__all__ = ["StoredCatalogue", "check_arm"]

_MAX_LINE = 1 << 20  # bytes of one arm
_MAX_ARMS = 10_000_000  # names and ends of lines take about 40 bytes each
_TOGETHER = 64  # lines that are read while other threads wait
_ENCODED = 1000  # arms that are encoded while other threads wait


class _Named(msgspec.Struct):
    """A line of which only the name is decoded."""

    id: str


_arm_decoder = msgspec.json.Decoder(schema.Arm)
_name_decoder = msgspec.json.Decoder(_Named)


def check_arm(arm: schema.Arm, n_features: int | None) -> None:
    """Reject features of the wrong kind.

    Parameters
    ----------
    arm
        The arm.
    n_features
        Number of features of a vector; `None` if features are fields.
    """
    given = arm.features
    if n_features is None:
        if isinstance(given, list):
            raise Refusal(
                400,
                "features is a vector, but the bandit has a feature map, expected an object of fields",
            )
        return
    if not isinstance(given, list) or len(given) != n_features:
        found = f"a list of {len(given)} numbers" if isinstance(given, list) else "not a list"
        raise Refusal(400, f"features is {found}, expected a list of {n_features} numbers")
    if any(abs(value) > LARGEST for value in given):
        raise Refusal(400, f"features has a number beyond {LARGEST:g}, which cannot be learned")


class StoredCatalogue:
    """A catalogue in a file. The file may be closed, replaced or deleted afterwards: this object keeps what it was.

    Parameters
    ----------
    file
        The file, which is open.
    check
        Rejects an arm. Without it, lines are trusted, because they were checked when they were stored.
    max_depth
        Deepest nesting of features.
    """

    def __init__(
        self,
        file: BinaryIO,
        check: Callable[[schema.Arm], None] | None = None,
        *,
        max_depth: int = 32,
    ) -> None:
        digest, names, ends, end = hashlib.sha256(), [], array("q"), 0
        file.seek(0)
        while line := file.readline(_MAX_LINE + 1):
            n = len(ends)
            if n == _MAX_ARMS:
                raise Refusal(413, f"the catalogue has more than {_MAX_ARMS} arms")
            try:
                names.append(_name_of(line, check, max_depth))
            except (UnicodeError, RecursionError, Refusal) as error:
                failure = failure_of(error)
                at = "" if failure.field is None else f"{failure.field}: "
                raise Refusal(failure.status, f"line {n + 1}: {at}{failure.message}") from error
            digest.update(line)
            end += len(line)
            ends.append(end)
            if n % _TOGETHER == 0:
                time.sleep(0)  # or requests would wait 5 ms whenever they need the interpreter
        if not names:
            raise Refusal(400, "the catalogue is empty, expected one arm per line")
        self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self._names = Names(names)
        except ArmError as error:  # a name that is given twice
            raise Refusal(400, str(error)) from error
        self._ends = np.frombuffer(ends, dtype=np.int64)
        self.info = schema.CatalogueInfo(len(names), end, digest.hexdigest())
        """What it is."""

    def arms(self, names: Sequence[str]) -> list[schema.Arm]:
        """Return some arms by name; refuse unknown names."""
        rows = self._names.find(names)
        if (rows < 0).any():
            k = int(np.argmax(rows < 0))
            raise Refusal(
                400, f"arm {names[k]!r} is not in the catalogue", field=f"candidates[{k}]"
            )
        stops = self._ends[rows].tolist()
        starts = np.where(rows > 0, self._ends[rows - 1], 0).tolist()
        return [
            _arm_decoder.decode(self._lines[start:stop])
            for start, stop in zip(starts, stops, strict=True)
        ]

    def count(self, names: Collection[Name]) -> int:
        """Return how many of some different names are in the catalogue."""
        return int((self._names.find(list(names)) >= 0).sum())

    def names(self) -> list[str]:
        """Return the names of all arms."""
        return [str(self._names[i]) for i in range(len(self._names))]

    def vectors(self, n_features: int) -> NDArray[np.float32]:
        """Return the features of all arms, if they are vectors."""
        found = np.empty((len(self._names), n_features), dtype=np.float32)
        start = 0
        for i, end in enumerate(self._ends.tolist()):
            row: Any = _arm_decoder.decode(self._lines[start:end]).features
            found[i] = row
            start = end
            if i % _TOGETHER == 0:
                time.sleep(0)
        return found

    def encoded(
        self, encode: Callable[[list[dict[str, Any]], list[str]], Any]
    ) -> NDArray[np.float32]:
        """Return the features of all arms, if they are fields, as a function encodes some arms at a time.

        Parameters
        ----------
        encode
            Returns the vectors of arms, given their fields and their names.
        """
        n, start, parts = len(self._names), 0, []
        for first in range(0, n, _ENCODED):
            stop = min(first + _ENCODED, n)
            rows: list[dict[str, Any]] = []
            for end in self._ends[first:stop].tolist():
                features: Any = _arm_decoder.decode(self._lines[start:end]).features
                rows.append(features or {})
                start = end
            names = [str(self._names[i]) for i in range(first, stop)]
            parts.append(np.asarray(encode(rows, names), dtype=np.float32))
            time.sleep(0)
        return np.concatenate(parts)


def _name_of(line: bytes, check: Callable[[schema.Arm], None] | None, max_depth: int) -> str:
    if check is None:
        return str(decode(_name_decoder, line).id)
    if len(line) > _MAX_LINE:
        raise Refusal(413, f"it is longer than {_MAX_LINE} bytes")
    check_json(line, max_depth, "it")
    arm: Any = decode(_arm_decoder, line)
    check(arm)
    return str(arm.id)
