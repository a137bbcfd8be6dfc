"""Read Arrow data with one row per reward, or tables that a journal exported, into arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from rolin.errors import DataError, ParameterError
from rolin.features import BaseFeatureMap, from_json
from rolin.logs import arrow
from rolin.logs.exported import EXPORTED, check_exported, exported_rewards, exported_width
from rolin.logs.raw_columns import columns_of_map, encode_rows
from rolin.logs.reward_rows import RewardRows
from rolin.logs.rules import (
    Missing,
    check_columns,
    check_finite,
    check_missing,
    check_weights,
    require,
)

__all__ = ["RewardReader"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RewardReader:
    """How batches of a log are read: which columns mean what, and what to do with missing rewards.

    Use `of` to make one: it looks at the types of the columns.
    """

    columns: tuple[str, ...]
    """Columns to read."""
    kind: Literal["strings", "integers", "exported"]
    """`"strings"` or `"integers"`: what arms are named by. `"exported"`: a table that `rolin journal export` wrote, which
    holds all arms that were offered."""
    arm: str = "arm"
    """Column of the arm."""
    reward: str = "reward"
    """Column of the reward."""
    weight: str | None = None
    """Column of the weight."""
    features: tuple[str, ...] = ()
    """Columns of the features: numbers, or lists of numbers."""
    widths: tuple[int, ...] = ()
    """Number of features in each of these columns."""
    missing: Missing = "refuse"
    """What to do with rows that have no reward."""
    feature_map: str | None = None
    """The feature map that makes vectors of the columns, as JSON."""

    @classmethod
    def of(
        cls,
        sample: Any,
        *,
        arm: str = "arm",
        reward: str = "reward",
        weight: str | None = None,
        features: str | Sequence[str] | None = None,
        feature_map: BaseFeatureMap | None = None,
        missing: Missing = "refuse",
    ) -> Self:
        """Return the reader for batches like a sample.

        Parameters
        ----------
        sample
            A batch or a table. It may be empty, unless a feature is a list whose length is not part of its type.
        arm
            Column of the arm that was chosen.
        reward
            Column of its reward.
        weight
            Column of the reward's weight; by default every weight is 1.
        features
            Columns of the chosen arm's features: numbers, or lists of numbers. By default all other such columns;
            with a feature map, the columns that it reads.
        feature_map
            The feature map that makes vectors of raw features.
        missing
            What to do with rows that have no reward: `"refuse"`, `"drop"`, or a number to count instead.
        """
        missing = check_missing(missing)
        schema = sample.schema
        names: list[str] = schema.names
        if len(set(names)) < len(names):
            raise DataError("two columns have the same name")
        plain = (arm, reward, weight, features, feature_map) == ("arm", "reward", None, None, None)
        if plain and set(EXPORTED) <= set(names):
            check_exported(schema)
            return cls(EXPORTED, "exported", widths=(exported_width(sample),), missing=missing)
        if isinstance(features, str):
            features = [features]
        if features is not None and not isinstance(features, Sequence):
            raise ParameterError(f"features={features!r}, expected names of columns")
        given = [] if features is None else list(features)
        check_columns(names, arm=arm, reward=reward, weight=weight, features=given)
        kind = arrow.kind_of_arms(schema, arm)
        own = (arm, reward, *([] if weight is None else [weight]))
        for column in own[1:]:
            arrow.check_numbers(schema, column)
        others = [name for name in names if name not in own]
        text: str | None = None
        widths: tuple[int, ...]
        if feature_map is not None:
            if not isinstance(feature_map, BaseFeatureMap):
                raise ParameterError(f"feature_map={feature_map!r}, expected a feature map")
            if features is None:
                given = columns_of_map(feature_map, others)
            text, widths = feature_map.to_json(), (feature_map.n_features,)
        else:
            if features is None:
                given = [name for name in others if arrow.is_feature(schema, name)]
            widths = tuple(arrow.width_of(sample, column) for column in given)
        columns = tuple(dict.fromkeys([*own, *given]))
        return cls(columns, kind, arm, reward, weight, tuple(given), widths, missing, text)

    @property
    def n_features(self) -> int:
        """Number d of features."""
        return sum(self.widths)

    @property
    def feature_names(self) -> list[str]:
        """Names of the d features."""
        if (features := self.map) is not None:
            return features.names
        if self.kind == "exported":
            return [f"x{j}" for j in range(self.n_features)]
        return [
            column if width == 1 else f"{column}[{j}]"
            for column, width in zip(self.features, self.widths, strict=True)
            for j in range(width)
        ]

    @cached_property
    def map(self) -> BaseFeatureMap | None:
        """The feature map that makes vectors of raw features."""
        return None if self.feature_map is None else from_json(self.feature_map, "the feature map")

    def check_schema(self, schema: Any, first: Any, first_path: str) -> None:
        """Reject a file whose columns have other types than those of the first file.

        Parameters
        ----------
        schema
            The schema of the file.
        first
            The schema of the first file.
        first_path
            The path of the first file, for errors.
        """
        require(schema.names, self.columns)
        if self.kind == "exported":
            check_exported(schema)
            return
        kind = arrow.kind_of_arms(schema, self.arm)
        if kind != self.kind:
            raise DataError(
                f'column {self.arm!r} holds {kind}, but {self.kind} in {first_path}: 7 and "7" are two arms'
            )
        for measured in (self.reward, self.weight):
            if measured is not None:
                arrow.check_numbers(schema, measured)
        if self.feature_map is not None:
            return
        for column in self.features:
            one = arrow.is_number(schema, column)
            if one != arrow.is_number(first, column) or not (
                one or arrow.is_list_of_numbers(schema, column)
            ):
                raise DataError(
                    f"column {column!r} is of type {schema.field(column).type}, but of type "
                    f"{first.field(column).type} in {first_path}"
                )

    def rows(self, batch: Any) -> RewardRows:
        """Return the rewards of a batch; a cell that cannot be used is a `BadCell`."""
        if self.kind == "exported":
            rows = exported_rewards(batch, self.n_features, self.missing)
        else:
            rows = self._plain_rows(batch.select(list(self.columns)))
        with arrow.rows_renumbered(rows.rows):
            check_weights(self.weight or "weights", rows.weights)
        return rows

    def _plain_rows(self, batch: Any) -> RewardRows:
        r, counts = arrow.rewards(batch.column(self.reward), self.reward, self.missing)
        selected = None
        if counts is not None:
            batch, selected = batch.filter(arrow.pyarrow().array(counts)), np.flatnonzero(counts)
        with arrow.rows_renumbered(selected):
            names, codes = arrow.encoded(batch.column(self.arm), self.arm)
            h = np.ones(len(r))
            if self.weight is not None:
                h = arrow.numbers(batch.column(self.weight), self.weight)
            return RewardRows(names, codes, self._contexts(batch, names, codes), r, h, selected)

    def _contexts(self, batch: Any, names: Sequence[Any], codes: NDArray[np.int64]) -> Floats:
        features = self.map
        if features is None:
            columns = [(n, batch.column(n)) for n in self.features]
            return arrow.side_by_side(columns, self.widths, batch.num_rows)
        table = arrow.table(batch.select(list(self.features)))
        return encode_rows(features, table, lambda: [names[code] for code in codes.tolist()])

    def check_all_finite(self, rows: RewardRows) -> None:
        """Reject a number that is not finite, by its column and row."""
        contexts, exported = np.asarray(rows.contexts), self.kind == "exported"
        with arrow.rows_renumbered(rows.rows):
            check_finite("rewards" if exported else self.reward, rows.rewards)
            check_finite("weights" if exported else self.weight, rows.weights)
            if not np.isfinite(contexts).all():
                j = int(np.argwhere(~np.isfinite(contexts))[0, 1])
                check_finite("contexts" if exported else self.feature_names[j], contexts[:, j])
