"""One pure function from a batch of a log to its moments: the same on a laptop and on a cluster."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import finite_number_of
from rolin.errors import DataError, NotFiniteError, ParameterError, RolinError
from rolin.features import BaseFeatureMap, FeatureMap, from_json
from rolin.features.base import ARM
from rolin.logs import arrow
from rolin.logs.arrow import BadCell
from rolin.model.moments import Moments

__all__ = ["Fold", "Missing", "Rows"]

Floats = NDArray[np.float64]
Missing = Literal["refuse", "drop"] | float
"""What to do with rows that have no reward: refuse the log, drop them, or a reward to count instead."""

# A table that `rolin journal export` wrote has these.
_EXPORTED = ("offered", "contexts", "chosen", "rewards", "weights")


class Rows(NamedTuple):
    """The observations of a batch."""

    names: Sequence[Any]
    """The K arms that occur."""
    codes: NDArray[np.int64]
    """(n,): which of them."""
    contexts: Floats
    rewards: Floats
    weights: Floats
    places: NDArray[np.int64] | None = None
    """(n,): which rows of the batch they are, if not all."""


@dataclass(frozen=True)
class Fold:
    """A pure function from a batch of Arrow data to its `Moments`.

    Use [`of`][rolin.fitting.Fold.of] to make one: it looks at the types of the columns. It can be
    sent to other processes.

    Parameters
    ----------
    columns
        Columns that it reads.
    kind
        `"strings"` or `"integers"`: what arms are named by. `"exported"`: a table that
        `rolin journal export` wrote, which holds whole questions.
    arm
        Column of the arm.
    reward
        Column of the reward.
    weight
        Column of the weight.
    features
        Columns of the features: numbers, or lists of them.
    widths
        Number of features in each of these columns.
    missing
        What to do with rows that have no reward.
    feature_map
        What makes vectors of the columns, as JSON.
    """

    columns: tuple[str, ...]
    kind: arrow.Kind
    arm: str = "arm"
    reward: str = "reward"
    weight: str | None = None
    features: tuple[str, ...] = ()
    widths: tuple[int, ...] = ()
    missing: Missing = "refuse"
    feature_map: str | None = None

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
    ) -> Fold:
        """Return what folds batches of this kind.

        Parameters
        ----------
        sample
            A batch or a table: one row is enough, and none if no feature is a list of open length.
        arm
            Column of the arm that was chosen.
        reward
            Column of its reward.
        weight
            Column of the reward's weight; by default all weigh 1.
        features
            Columns of the chosen arm's features, numbers or lists of numbers. By default all other such columns;
            with a map, the columns that it reads.
        feature_map
            What makes vectors of raw features.
        missing
            What to do with rows that have no reward: `"refuse"`, `"drop"`, or a number to count instead.
        """
        if not isinstance(missing, str) or missing not in ("refuse", "drop"):
            if isinstance(missing, (bool, str)):
                raise ParameterError(f"missing={missing!r}, expected 'refuse', 'drop' or a number")
            missing = finite_number_of("missing", missing)
        schema = sample.schema
        names: list[str] = schema.names
        if len(set(names)) < len(names):
            raise DataError("two columns have the same name")
        plain = (arm, reward, weight, features, feature_map) == ("arm", "reward", None, None, None)
        if plain and set(_EXPORTED) <= set(names):
            arrow.check_exported(schema)
            width = arrow.exported_width(sample)
            return cls(_EXPORTED, "exported", widths=(width,), missing=missing)
        if isinstance(features, str):
            features = [features]
        if features is not None and not isinstance(features, Sequence):
            raise ParameterError(f"features={features!r}, expected names of columns")
        given = [] if features is None else list(features)
        for column in (arm, reward, *([] if weight is None else [weight]), *given):
            arrow.require(schema, column)
        if len({arm, reward, weight}) < 3:
            raise DataError(
                "arm, reward and weight are three columns, and two of them have one name"
            )
        for column in given:
            if column in (arm, reward, weight):
                raise DataError(
                    f"column {column!r} cannot be a feature: it is the arm, the reward or the weight"
                )
        if len(set(given)) < len(given):
            raise DataError("a column of features is named twice")
        kind = arrow.kind_of_arms(schema, arm)
        for measured in (reward, weight):
            if measured is not None:
                arrow.check_numbers(schema, measured)
        own = (arm, reward, *([] if weight is None else [weight]))
        if feature_map is not None:
            if not isinstance(feature_map, BaseFeatureMap):
                raise ParameterError(f"feature_map={feature_map!r}, expected a feature map")
            if features is None:
                given = _columns_of_map(feature_map, [n for n in names if n not in own])
            text = feature_map.to_json()
            widths: tuple[int, ...] = (feature_map.n_features,)
        else:
            text = None
            if features is None:
                given = [n for n in names if n not in own and arrow.is_feature(schema, n)]
            widths = tuple(arrow.width_of(sample, column) for column in given)
        columns = tuple(dict.fromkeys([*own, *given]))
        return cls(columns, kind, arm, reward, weight, tuple(given), widths, missing, text)

    @property
    def n_features(self) -> int:
        """Number d of features."""
        return sum(self.widths)

    @property
    def feature_names(self) -> list[str]:
        """What the d features are called."""
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
        """What makes vectors of raw features."""
        return None if self.feature_map is None else from_json(self.feature_map, "the feature map")

    def __call__(self, batch: Any) -> Moments:
        """Return the moments of a batch."""
        try:
            return self.fold(batch)
        except BadCell as bad:
            raise DataError(str(bad)) from None

    def fold(self, batch: Any) -> Moments:
        """Return the moments of a batch; what is wrong with it is a `BadCell`."""
        if batch.num_rows == 0:
            return Moments.zero(self.n_features)
        rows = self.rows(batch)
        if not len(rows.codes):
            return Moments.zero(self.n_features)
        with arrow.rows_at(rows.places):
            self._check_weights(rows.weights)
            names, codes = _used(rows.names, rows.codes)
            try:
                return Moments.of_codes(names, codes, rows.contexts, rows.rewards, rows.weights)
            except NotFiniteError as error:
                raise self._first_not_finite(rows) or BadCell(None, None, str(error)) from None

    def rows(self, batch: Any) -> Rows:
        """Return the observations of a batch."""
        if self.kind == "exported":
            # decisions that wait for their reward are no evidence yet, unless it is said what they count as
            number = None if isinstance(self.missing, str) else self.missing
            return Rows(*arrow.exported_rows(batch, self.n_features, number))
        batch, places = batch.select(list(self.columns)), None
        reward = arrow.as_doubles(batch.column(self.reward))
        if reward.null_count:
            if self.missing == "refuse":
                raise BadCell(
                    self.reward, arrow.first_null(reward),
                    "is null, expected a number (missing='drop', --missing drop, leaves out rows without a reward; "
                    "a number counts in its place)",
                )  # fmt: skip
            if self.missing == "drop":
                known = reward.is_valid()
                places = np.flatnonzero(known.to_numpy(zero_copy_only=False))
                batch, reward = batch.filter(known), reward.filter(known)
            else:
                reward = reward.fill_null(self.missing)
        with arrow.rows_at(places):
            r = arrow.numbers(reward, self.reward)
            names, codes = arrow.encoded(batch.column(self.arm), self.arm)
            h = np.ones(len(r))
            if self.weight is not None:
                h = arrow.numbers(batch.column(self.weight), self.weight)
            return Rows(names, codes, self._contexts(batch, names, codes), r, h, places)

    def _check_weights(self, weights: Floats) -> None:
        if not (weights > 0.0).all():
            place = int(np.argmax(~(weights > 0.0)))
            column = self.weight or "weights"
            raise BadCell(column, place, f"is {weights[place]}, expected above 0")

    def _contexts(self, batch: Any, names: Sequence[Any], codes: NDArray[np.int64]) -> Floats:
        features = self.map
        if features is None:
            columns = [(n, batch.column(n)) for n in self.features]
            return arrow.side_by_side(columns, self.widths, batch.num_rows)
        table, of_row = arrow.table(batch.select(list(self.features))), None
        if not isinstance(features, FeatureMap) or ARM in features.arm:
            of_row = [names[code] for code in codes.tolist()]
        try:
            x: Floats = features.transform(table, names=of_row)
        except RolinError as error:  # it names the field, and the row of this batch
            text = str(error)
            row = re.search(r" of row (\d+)", text)
            raise BadCell(
                None, int(row[1]) if row else None, text.replace(row[0], "", 1) if row else text
            ) from None
        return x

    def _first_not_finite(self, rows: Rows) -> BadCell | None:
        """Return which cell holds a number that is not finite, if one does."""
        contexts = np.asarray(rows.contexts)
        wrong, exported = ~np.isfinite(contexts), self.kind == "exported"
        for column, values in (
            ("rewards" if exported else self.reward, rows.rewards),
            ("weights" if exported else self.weight, rows.weights),
        ):
            if not np.isfinite(values).all():
                place = int(np.argmax(~np.isfinite(values)))
                return BadCell(column, place, f"is {values[place]}, expected a finite number")
        if wrong.any():
            place, j = (int(i) for i in np.argwhere(wrong)[0])
            column = "contexts" if exported else self.feature_names[j]
            return BadCell(column, place, f"is {contexts[place, j]}, expected a finite number")
        return None


def _used(
    names: Sequence[Any], codes: NDArray[np.int64]
) -> tuple[tuple[Any, ...], NDArray[np.int64]]:
    """Leave out names that no row has."""
    found = np.bincount(codes, minlength=len(names)) > 0
    if found.all():
        return tuple(names), codes
    place = np.cumsum(found) - 1
    return tuple(name for name, here in zip(names, found.tolist(), strict=True) if here), place[
        codes
    ]


def _columns_of_map(feature_map: BaseFeatureMap, columns: Sequence[str]) -> list[str]:
    """Return the columns that hold fields of the map, or objects that they are in."""
    if not isinstance(feature_map, FeatureMap):
        raise DataError(
            "say which columns the features are read from, by features=[…]: the map does not name them"
        )
    fields = {name for side in (feature_map.arm, feature_map.situation) for name in side}
    wanted = {field.split(".")[0] for field in fields} | fields
    for field in fields - {ARM}:
        if field not in columns and field.split(".")[0] not in columns:
            raise DataError(
                f"there is no column {field!r}, a field of the map, only {', '.join(map(repr, columns))}"
            )
    return [name for name in columns if name in wanted]
