"""The interface of every feature map, and how the arms of a decision are read."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name, index_names
from rolin._support.checks import as_floats, as_names
from rolin._support.files import write_bytes
from rolin.errors import InputError, ParameterError, ShapeError
from rolin.features.field_error import SITUATION
from rolin.features.tables import is_table, read_row, rows_of

__all__ = [
    "ARM",
    "FORMAT",
    "BaseFeatureMap",
    "Label",
    "Part",
    "arm_labels",
    "read_arm_rows",
    "situation_label",
]

Floats = NDArray[np.float64]
Label = Callable[[int], str]
"""Returns what error messages call the row with that index, such as `arm 'red'`."""

FORMAT = 1
"""Version of the JSON format."""
ARM = "_arm"
"""The field that holds the name of the arm."""


class Part(NamedTuple):
    """One named term of an arm's vector."""

    name: str
    """Name of the feature."""
    feature_index: int
    """Index, in the vector, of the number that the term is added to."""
    value: float
    """Value of the term."""


class BaseFeatureMap(ABC):
    """Encodes raw features as vectors of a fixed size, and names the features of a vector.

    A feature map never changes after it was made.
    """

    n_features: int
    """Number d of features of a vector."""
    needs_vectors = False
    """Whether a journal must store the vectors of a decision, because the map itself is not saved."""
    is_bounded = False
    """Whether its features are always small enough to be learned from, whatever the fields are."""
    has_one_context = False
    """Whether all arms always have the same context, because it has fields of the situation only."""
    must_clean_keys = False
    """Whether keys that are not texts must be removed from rows before these are written as JSON.

    JSON turns the key 1 into `"1"`, which would then be read as the field `"1"` of the map.
    """

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of the d features."""

    @abstractmethod
    def encode(
        self, rows: Sequence[dict[str, Any]], situation: dict[str, Any], arms: Sequence[Name]
    ) -> Floats:
        """Return the (K, d) contexts of K arms in one situation.

        Parameters
        ----------
        rows
            The fields of the K arms.
        situation
            The fields of the situation.
        arms
            The names of the K arms.
        """

    @abstractmethod
    def parts(
        self, row: dict[str, Any], situation: dict[str, Any], arm: Name, vector: Floats
    ) -> list[Part]:
        """Return the named terms that an arm's vector is the sum of.

        Parameters
        ----------
        row
            The fields of the arm.
        situation
            The fields of the situation.
        arm
            The name of the arm.
        vector
            (d,): the arm's context, as `encode` returned it.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything that defines the map, as values that JSON can hold."""

    def contexts(
        self,
        arms: Mapping[Any, Any] | Iterable[Any] | None,
        situation: Any = None,
        *,
        names: Iterable[Name] | None = None,
    ) -> Floats:
        """Return the (K, d) contexts of the arms of one decision.

        Parameters
        ----------
        arms
            A mapping from arm to its fields, a list of K mappings, or a table of K rows (pandas, polars,
            Arrow). JSON texts are parsed. `None` for arms without fields: then all rows are the same, and the array
            is read-only.
        situation
            The fields of the situation, which all arms share.
        names
            The names of the arms, if `arms` is a list or a table. The default is the index of a pandas frame,
            unless it only numbers the rows, and otherwise 0 … K - 1. Without `arms`, these arms have no fields of
            their own.
        """
        rows, found = read_arm_rows(arms, names)
        return self.encode(rows, read_row(SITUATION, situation), found)

    def transform(
        self, arms: Any, situations: Any = None, *, names: Iterable[Name] | None = None
    ) -> Any:
        """Return the (n, d) contexts of n rows of a log, each with its own situation.

        Parameters
        ----------
        arms
            The fields of n arms: a table of pandas, polars or Arrow, or a list of rows.
        situations
            The fields of their n situations; by default, situations have no fields.
        names
            The names of the n arms.
        """
        rows, found = read_arm_rows(arms, names)
        shared = [{}] * len(rows) if situations is None else read_arm_rows(situations, None)[0]
        if len(shared) != len(rows):
            raise ShapeError(
                f"there are {len(shared)} situations and {len(rows)} arms, expected the same number of both"
            )
        return self._encode_each(rows, shared, found)

    def _encode_each(
        self,
        rows: Sequence[dict[str, Any]],
        situations: Sequence[dict[str, Any]],
        arms: Sequence[Name],
    ) -> Floats:
        """Return the contexts of arms that each have their own situation."""
        out = np.empty((len(rows), self.n_features))
        for i, (row, situation) in enumerate(zip(rows, situations, strict=True)):
            out[i] = self.encode([row], situation, [arms[i]])[0]
        return out

    @cached_property
    def version(self) -> str:
        """A digest of everything that defines the map: equal maps have equal versions."""
        text = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=True, allow_nan=False)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def to_json(self) -> str:
        """Return the map as a JSON text; [`features.from_json`][rolin.features.from_json] reads it."""
        body = {"rolin-features": FORMAT, "version": self.version, **self.to_dict()}
        return json.dumps(body, allow_nan=False)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the map to a JSON file, atomically; [`features.load`][rolin.features.load] reads it.

        Parameters
        ----------
        path
            The file.
        """
        write_bytes(path, f"{self.to_json()}\n".encode())

    def named(self, context: Any) -> dict[str, float]:
        """Return the features of a (d,) context that are not zero, by name.

        Parameters
        ----------
        context
            The (d,) context.
        """
        x = as_floats("context", context)
        if x.shape != (self.n_features,):
            raise ShapeError(
                f"context has shape {x.shape}, expected ({self.n_features},): one number per feature of the map"
            )
        names = self.names
        return {names[i]: float(x[i]) for i in np.flatnonzero(x)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BaseFeatureMap) and self.version == other.version

    def __hash__(self) -> int:
        return hash(self.version)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the map itself, because it never changes."""
        return self


def read_arm_rows(
    given: Any, names: Iterable[Name] | None
) -> tuple[list[dict[str, Any]], Sequence[Name]]:
    """Return the fields of the arms, one dict per arm, and their names; see `BaseFeatureMap.contexts`."""
    if isinstance(given, (str, bytes)):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"arms is a text that is not JSON ({error}), expected a JSON object from arm to its fields"
            ) from None
    if isinstance(given, Mapping):
        if names is not None:
            raise ParameterError(
                "names of arms were given beside a mapping from arm to its fields, whose keys are the names: leave the "
                "names out; or pass the fields that all arms share as situation={…}"
            )
        found: Sequence[Name] = list(given)
        rows = list(given.values())
        if not {dict}.issuperset(map(type, rows)):
            rows = [read_row(f"arm {name!r}", row) for name, row in given.items()]
        return rows, found
    if given is None and names is not None:  # arms without fields
        found = as_names(names)
        return [{} for _ in found], found
    if given is None:
        raise InputError(
            "arms=None, expected the names of the arms, such as arms=['a', 'b'], or a mapping from arm to its fields, a "
            "list, or a table"
        )
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
        if not {dict}.issuperset(map(type, each)):
            each = [_row_of_list(i, row) for i, row in enumerate(each)]
        rows = each
    found = range(len(rows)) if names is None else as_names(names)
    if len(found) != len(rows):
        raise ShapeError(f"there are {len(found)} names for {len(rows)} arms, expected one per arm")
    return rows, found


def _row_of_list(i: int, row: Any) -> dict[str, Any]:
    """Return the fields of the arm with index i of a list."""
    if isinstance(row, str) and not row.lstrip().startswith("{"):
        raise InputError(
            f"arm {i} is the text {row!r}, expected its fields: a mapping from name to value, or a JSON object; to "
            "offer arms without fields, pass contexts=None and arms=[…]"
        )
    return read_row(f"arm {i}", row)


def arm_labels(arms: Sequence[Name]) -> Label:
    """Return a function that names an arm in error messages, by its index."""
    return lambda i: f"arm {arms[i]!r}"


def situation_label(_: int) -> str:
    """Return what error messages call the situation."""
    return SITUATION
