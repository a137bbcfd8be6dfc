"""Running counts of every arm: how often it was offered, expected and chosen, and its rewards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["ArmCounts"]

_CHOSEN, _EXPECTED, _VARIANCE, _REWARDS, _REWARD_SUM = range(5)
_OFFERS = 64  # lists of offered arms whose indices are kept, because most decisions share one


class ArmCounts:
    """Counts by arm, in arrays that grow."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        """Row of each arm."""
        self._rows = np.zeros((16, 5))
        self._offers: dict[tuple[object, ...], NDArray[np.int64]] = {}

    def rows_of(self, offered: tuple[object, ...]) -> NDArray[np.int64]:
        """Return the rows of offered arms."""
        found = self._offers.get(offered)
        if found is None:
            if len(self._offers) >= _OFFERS:
                self._offers.clear()
            known = [self.index.get(name, -1) for name in offered]  # type: ignore[call-overload]  # or no text
            if -1 in known:
                known = [self._row(str(name)) for name in offered]
            found = np.array(known, dtype=np.int64)
            self._offers[offered] = found
        return found

    def _row(self, arm: str) -> int:
        row = self.index.setdefault(arm, len(self.index))
        if row >= len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        return row

    def choose(self, arm: str) -> None:
        """Count a choice."""
        row = self._row(arm)  # first, because it may replace the array
        self._rows[row, _CHOSEN] += 1.0

    def expect(self, rows: NDArray[np.int64], p: NDArray[np.float64], chosen: int) -> None:
        """Count the probabilities of a decision, from which it drew one arm."""
        # An arm is offered once, so no row is repeated.
        self._rows[rows, _EXPECTED] += p
        self._rows[rows, _VARIANCE] += p * (1.0 - p)
        # What was drawn is kept as its difference to what was expected.
        self._rows[rows[chosen], _EXPECTED] -= 1.0

    def reward(self, arm: str, value: float) -> None:
        """Count a reward."""
        row = self._row(arm)
        self._rows[row, _REWARDS] += 1.0
        self._rows[row, _REWARD_SUM] += value

    def chosen(self, arms: Sequence[str]) -> NDArray[np.float64]:
        """Return how often each arm was chosen first."""
        return self._column(arms, _CHOSEN)

    def rewards(self, arms: Sequence[str]) -> NDArray[np.float64]:
        """Return the number of rewards of each arm."""
        return self._column(arms, _REWARDS)

    def mean_rewards(self, arms: Sequence[str]) -> NDArray[np.float64]:
        """Return the mean observed reward of each arm; NaN without rewards."""
        n, total = self.rewards(arms), self._column(arms, _REWARD_SUM)
        means: NDArray[np.float64] = np.full(len(arms), np.nan)
        np.divide(total, n, out=means, where=n > 0.0)
        return means

    def dump(self) -> tuple[list[str], bytes]:
        """Return the names of all arms, and their counts as bytes."""
        return list(self.index), self._rows[: len(self.index)].astype("<f8").tobytes()

    def load(self, names: list[str], counts: bytes) -> None:
        """Replace all counts with those that `dump` returned."""
        self.index = {name: row for row, name in enumerate(names)}
        rows = np.frombuffer(counts, dtype="<f8").reshape(len(names), self._rows.shape[1])
        self._rows = np.concatenate([rows, np.zeros((16, rows.shape[1]))])
        self._offers.clear()

    def _column(self, arms: Sequence[str], column: int) -> NDArray[np.float64]:
        rows = [self.index.get(arm, -1) for arm in arms]
        with_zero = np.append(self._rows[: len(self.index), column], 0.0)
        found: NDArray[np.float64] = with_zero[rows]
        return found

    def deviations(self, few: float) -> NDArray[np.float64]:
        """Return by how many standard deviations each arm was chosen more often than expected.

        Parameters
        ----------
        few
            Arms with a smaller variance are left out.
        """
        rows = self._rows[: len(self.index)]
        rows = rows[rows[:, _VARIANCE] >= few]
        z: NDArray[np.float64] = -rows[:, _EXPECTED] / np.sqrt(rows[:, _VARIANCE])
        return z
