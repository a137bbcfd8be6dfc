"""One pure function from a batch of a log to its moments: the same on a laptop and on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.errors import NotFiniteError
from rolin.logs.reward_reader import RewardReader
from rolin.logs.rules import BadCell
from rolin.model.moments import Moments

__all__ = ["Fold"]


@dataclass(frozen=True)
class Fold(RewardReader):
    """A pure function from a batch of Arrow data to its `Moments`.

    Use [`of`][rolin.fitting.Fold.of] to make one: it looks at the types of the columns. It can be
    sent to other processes.
    """

    def __call__(self, batch: Any) -> Moments:
        """Return the moments of a batch; a cell that cannot be used raises a `DataError`."""
        if batch.num_rows == 0:
            return Moments.zero(self.n_features)
        rows = self.rows(batch)
        if not len(rows.codes):
            return Moments.zero(self.n_features)
        names, codes = _used(rows.names, rows.codes)
        try:
            return Moments.of_codes(names, codes, rows.contexts, rows.rewards, rows.weights)
        except NotFiniteError as error:
            self.check_all_finite(rows)
            raise BadCell(None, None, str(error)) from None


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
