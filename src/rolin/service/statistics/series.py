"""Counts over time, in buckets of several widths, so that an hour and a year can both be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Self

__all__ = ["GROUPS", "RANGES", "Bucket", "Series"]

GROUPS = ("policy", "control", "baseline")
"""Who decided: the policy, chance in the control group, or the baseline."""
# Seconds of a bucket, and the number of buckets.
RANGES: dict[str, tuple[float, int]] = {
    "15m": (5.0, 180),
    "1h": (20.0, 180),
    "24h": (600.0, 144),
    "30d": (21_600.0, 120),
    "all": (86_400.0, 730),
}
"""The ranges of time that can be shown."""


class Bucket:
    """What happened in one interval of time. Rewards belong to the time of their decision."""

    __slots__ = ("arms", "decisions", "drawn", "other", "reward_sums", "rewards", "top")

    def __init__(self) -> None:
        self.decisions = dict.fromkeys(GROUPS, 0)
        self.rewards = dict.fromkeys(GROUPS, 0)
        self.reward_sums = dict.fromkeys(GROUPS, 0.0)
        self.arms: Counter[str] = Counter()
        self.drawn = 0  # decisions of the policy with known probabilities
        self.top = 0.0  # sum of their largest probabilities
        self.other = 0  # how many of them chose another arm than the most probable one

    def dump(self) -> list[Any]:
        """Return the content as plain values."""
        return [
            list(self.decisions.values()),
            list(self.rewards.values()),
            list(self.reward_sums.values()),
            self.arms,
            self.drawn,
            self.top,
            self.other,
        ]

    @classmethod
    def load(cls, values: list[Any]) -> Self:
        """Return the bucket that `dump` returned as values."""
        made = cls()
        *groups, arms, made.drawn, made.top, made.other = values
        made.decisions, made.rewards, made.reward_sums = (
            dict(zip(GROUPS, group, strict=True)) for group in groups
        )
        made.arms = Counter(arms)
        return made


class Series:
    """The latest buckets of one width.

    Parameters
    ----------
    width
        Seconds of a bucket.
    most
        Number of buckets; older ones are dropped.
    """

    def __init__(self, width: float, most: int) -> None:
        self.width, self._most = width, most
        self._buckets: dict[int, Bucket] = {}
        self._last: int | None = None

    def at(self, time: float) -> Bucket | None:
        """Return the bucket of a time; `None` if it is too old."""
        index = int(time // self.width)
        found = self._buckets.get(index)
        if found is not None:
            return found
        if self._last is not None and index <= self._last - self._most:
            return None
        found = self._buckets[index] = Bucket()
        if self._last is None or index > self._last:
            self._last = index
            if len(self._buckets) > self._most:
                for old in [each for each in self._buckets if each <= index - self._most]:
                    del self._buckets[old]
        return found

    def dump(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield the number and the content of each bucket as plain values."""
        return ((index, bucket.dump()) for index, bucket in self._buckets.items())

    def load(self, buckets: Iterable[tuple[int, list[Any]]]) -> None:
        """Add buckets that `dump` has yielded."""
        for index, values in buckets:
            self._buckets[index] = Bucket.load(values)
        # The latest bucket is never dropped.
        self._last = max(self._buckets, default=None)

    def upto(self, now: float) -> Iterator[tuple[float, Bucket]]:
        """Yield the start and the content of every bucket from the first one in the range until now, empty ones too."""
        end = int(now // self.width)
        known = [index for index in self._buckets if end - self._most < index <= end]
        for index in range(min(known, default=end), end + 1):
            yield index * self.width, self._buckets.get(index) or Bucket()
