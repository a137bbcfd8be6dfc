"""One pure function from a batch of a log to its moments: the same on a laptop and on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rolin.errors import NotFiniteError, ParameterError
from rolin.features import BaseFeatureMap
from rolin.logs.reward_reader import RewardReader
from rolin.logs.rules import BadCell, Missing
from rolin.model.moments import Moments
from rolin.model.slope_moments import slopes_below

__all__ = ["Fold", "Slopes"]

Slopes = bool | str | Sequence[str | int]
"""`True` for all features, `False` for none, or a list of features: names of features or columns, or indices."""


@dataclass(frozen=True)
class Fold(RewardReader):
    """A pure function from a batch of Arrow data to its `Moments`.

    Use [`of`][rolin.fitting.Fold.of] to make one: it looks at the types of the columns. It can be
    sent to other processes.
    """

    slopes: tuple[int, ...] = ()
    """Indices of the features that arms may have slopes for."""

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
        slopes: Slopes = False,
    ) -> Self:
        """Return the fold of batches like a sample.

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
        slopes
            The features that arms may have slopes for; see [`fit`][rolin.fit].
        """
        self = super().of(
            sample, arm=arm, reward=reward, weight=weight, features=features, feature_map=feature_map,
            missing=missing,
        )  # fmt: skip
        return replace(self, slopes=_indices(slopes, self))

    def zero(self) -> Moments:
        """Return the moments of no row."""
        return Moments.zero(self.n_features, slopes=self.slopes)

    def __call__(self, batch: Any) -> Moments:
        """Return the moments of a batch; a cell that cannot be used raises a `DataError`."""
        if batch.num_rows == 0:
            return self.zero()
        rows = self.rows(batch)
        if not len(rows.codes):
            return self.zero()
        names, codes = _used(rows.names, rows.codes)
        try:
            return Moments.of_codes(
                names, codes, rows.contexts, rows.rewards, rows.weights, slopes=self.slopes
            )
        except NotFiniteError as error:
            self.check_all_finite(rows)
            raise BadCell(None, None, str(error)) from None


def _indices(slopes: object, fold: Fold) -> tuple[int, ...]:
    """Return the indices of the features that have slopes: all, or those that are named."""
    if isinstance(slopes, bool) or slopes is None:
        return tuple(range(fold.n_features)) if slopes else ()
    given = [slopes] if isinstance(slopes, str) else slopes
    if not isinstance(given, Sequence):
        raise ParameterError(
            f"slopes={slopes!r}, expected True for all features, or a list of features or columns"
        )
    names, found = fold.feature_names, []
    for item in given:
        if not isinstance(item, str):
            found.append(item)
            continue
        here = [j for j, name in enumerate(names) if name == item]
        if not here and fold.feature_map is None and item in fold.features:
            # A column of lists stands for all its features.
            at = fold.features.index(item)
            first = sum(fold.widths[:at])
            here = list(range(first, first + fold.widths[at]))
        if not here:
            raise ParameterError(
                f"slopes has {item!r}, expected features of the log: {', '.join(names[:10])}"
                f"{', …' if len(names) > 10 else ''}"
            )
        found += here
    return slopes_below(found, fold.n_features)


def _used(
    names: Sequence[Any], codes: NDArray[np.int64]
) -> tuple[tuple[Any, ...], NDArray[np.int64]]:
    """Leave out names that no row has."""
    found = np.bincount(codes, minlength=len(names)) > 0
    if found.all():
        return tuple(names), codes
    new_code = np.cumsum(found) - 1
    used = tuple(name for name, here in zip(names, found.tolist(), strict=True) if here)
    return used, new_code[codes]
