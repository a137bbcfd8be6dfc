"""What everything that makes vectors of raw features has in common."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name, index_names
from rolin._support.checks import as_floats, as_names
from rolin._support.files import write_bytes
from rolin.errors import InputError, ParameterError, ShapeError
from rolin.features.tables import is_table, row_of, rows_of

__all__ = ["ARM", "FORMAT", "BaseFeatureMap", "Part", "arms_of", "whose"]

Floats = NDArray[np.float64]

FORMAT = 1
"""Version of the JSON."""
ARM = "_arm"
"""The field that is the name of the arm itself."""


class Part(NamedTuple):
    """One term of an arm's vector, by name."""

    name: str
    place: int
    """Which of the d features it is, or is added to."""
    value: float


class BaseFeatureMap(ABC):
    """From raw features to vectors of a fixed size, and back to names. Never changed."""

    n_features: int
    """Number d of features of a vector."""
    careful = False
    """Whether the name of a field might be that of a key which is no text, once it is JSON."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """What the d features are called."""

    @abstractmethod
    def encode(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> Floats:
        """Return the (K, d) vectors of K arms in one situation."""

    @abstractmethod
    def parts(
        self, row: dict[str, Any], situation: dict[str, Any], arm: Name, vector: Floats
    ) -> list[Part]:
        """Return what an arm's vector consists of, by name, without what is zero."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything there is to it, as JSON has it."""

    def contexts(
        self,
        arms: Mapping[Any, Any] | Iterable[Any],
        situation: Any = None,
        *,
        names: Iterable[Name] | None = None,
    ) -> Floats:
        """Return the (K, d) contexts of the arms of one decision.

        Parameters
        ----------
        arms
            A mapping from arm to its fields, a list of K mappings, or a table of K rows (pandas, polars,
            Arrow). JSON texts are read.
        situation
            The fields of the situation, which all arms share.
        names
            With a list or a table, the names of the arms; by default the index of a pandas frame, if it has one
            of its own, or else 0 … K - 1.
        """
        rows, found = arms_of(arms, names)
        return self.encode(rows, row_of("the situation", situation), found)

    def transform(
        self, arms: Any, situations: Any = None, *, names: Iterable[Name] | None = None
    ) -> Any:
        """Return the (n, d) contexts of n rows, each with a situation of its own: of a log.

        Parameters
        ----------
        arms
            The fields of n arms: a table of pandas, polars or Arrow, or a list of rows.
        situations
            The fields of their n situations; by default there are none.
        names
            The names of the n arms.
        """
        rows, found = arms_of(arms, names)
        shared = [{}] * len(rows) if situations is None else arms_of(situations, None)[0]
        if len(shared) != len(rows):
            raise ShapeError(
                f"there are {len(shared)} situations and {len(rows)} arms, expected as many"
            )
        return self._encode_each(rows, shared, found)

    def _encode_each(
        self,
        rows: Sequence[dict[str, Any]],
        situations: Sequence[dict[str, Any]],
        arms: Sequence[Name],
    ) -> Floats:
        """Return the vectors of arms that are each in a situation of their own."""
        out = np.empty((len(rows), self.n_features))
        for i, (row, situation) in enumerate(zip(rows, situations, strict=True)):
            out[i] = self.encode([row], situation, [arms[i]])[0]
        return out

    @cached_property
    def version(self) -> str:
        """What tells it from every other: a digest of everything there is to it."""
        text = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=True, allow_nan=False)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def to_json(self) -> str:
        """Return it as a JSON text, which [`features.from_json`][rolin.features.from_json] reads."""
        body = {"rolin-features": FORMAT, "version": self.version, **self.to_dict()}
        return json.dumps(body, allow_nan=False)

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a JSON file, atomically; [`features.load`][rolin.features.load] reads it."""
        write_bytes(path, f"{self.to_json()}\n".encode())

    def named(self, context: Any) -> dict[str, float]:
        """Return the numbers of a (d,) context that are not zero, by name."""
        x = as_floats("context", context)
        if x.shape != (self.n_features,):
            raise ShapeError(f"context has shape {x.shape}, expected ({self.n_features},)")
        names = self.names
        return {names[i]: float(x[i]) for i in np.flatnonzero(x)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BaseFeatureMap) and self.version == other.version

    def __hash__(self) -> int:
        return hash(self.version)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: it is never changed."""
        return self


def arms_of(
    given: Any, names: Iterable[Name] | None
) -> tuple[list[dict[str, Any]], Sequence[Name]]:
    """Return the rows of the arms, and their names."""
    if isinstance(given, (str, bytes)):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise InputError(f"arms is a text that is not JSON: {error}") from None
    if isinstance(given, Mapping):
        if names is not None:
            raise ParameterError("names of arms were given beside a mapping, whose keys they are")
        found: Sequence[Name] = list(given)
        rows = list(given.values())
        if not {dict}.issuperset(map(type, rows)):
            rows = [row_of(f"arm {name!r}", row) for name, row in given.items()]
        return rows, found
    if given is None and names is not None:  # arms without fields
        found = as_names(names)
        return [{} for _ in found], found
    if is_table(given):
        rows = rows_of(given)
        names = index_names(given) if names is None else names
    else:
        try:
            each = list(given)
        except TypeError:
            raise InputError(
                f"arms={given!r}, expected a mapping from arm to its fields, a list, or a table"
            ) from None
        rows = [row if type(row) is dict else row_of(f"arm {i}", row) for i, row in enumerate(each)]
    found = range(len(rows)) if names is None else as_names(names)
    if len(found) != len(rows):
        raise ShapeError(f"there are {len(found)} names for {len(rows)} arms")
    return rows, found


def whose(arms: Sequence[Name]) -> Any:
    """Return what says of whom a field is."""
    return lambda i: f"arm {arms[i]!r}"
