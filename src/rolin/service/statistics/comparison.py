"""Running mean rewards of groups of people, for the lift of the policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rolin.offline.control_lift import GroupMean

__all__ = ["RunningMean"]

_SUMS = ("_n", "_people", "_origin", "_w", "_s", "_ss", "_sw", "_ww")


class RunningMean:
    """The weighted mean of rewards, with the standard error for people who got several decisions.

    Let S and W be the sums of weighted rewards and of weights of one person. The squared error of the mean m is a sum over
    people, Σ (S - mW)² = Σ S² - 2m Σ SW + m² Σ W², so the three sums are all that is kept beside S and W.
    """

    def __init__(self) -> None:
        self._n = 0
        self._people = 0  # a decision without a person is one of its own
        self._origin = (
            0.0  # rewards are counted from the first one, so that their squares stay small
        )
        self._w = self._s = self._ss = self._sw = self._ww = 0.0
        self._by_person: dict[str, tuple[float, float]] = {}

    def add(self, person: str | None, reward: float, weight: float) -> None:
        """Add the reward of a decision."""
        if not self._n:
            self._origin = reward
        self._n += 1
        before_s, before_w = 0.0, 0.0
        known = None if person is None else self._by_person.get(person)
        if known is None:
            self._people += 1
        else:
            before_s, before_w = known
        s, w = before_s + weight * (reward - self._origin), before_w + weight
        if person is not None:
            self._by_person[person] = s, w
        self._s += s - before_s
        self._w += w - before_w
        self._ss += s * s - before_s * before_s
        self._sw += s * w - before_s * before_w
        self._ww += w * w - before_w * before_w

    def dump(self) -> list[Any]:
        """Return the sums as plain values, without those of each person."""
        return [getattr(self, name) for name in _SUMS]

    def people(self) -> Iterator[tuple[str, float, float]]:
        """Yield the people, and the sums of each."""
        return ((person, s, w) for person, (s, w) in self._by_person.items())

    def load(self, values: list[Any]) -> None:
        """Replace the sums with those that `dump` returned."""
        for name, value in zip(_SUMS, values, strict=True):
            setattr(self, name, value)

    def load_people(self, people: Iterable[tuple[str, float, float]]) -> None:
        """Add people that `people` has yielded."""
        self._by_person.update((person, (s, w)) for person, s, w in people)

    @property
    def effective_n(self) -> float:
        """Number of people with equal weights that would be as informative (Kish)."""
        return self._w**2 / self._ww if self._n else 0.0

    def mean(self) -> GroupMean:
        """Return the mean and its standard error."""
        if not self._n:
            return GroupMean(float("nan"), float("nan"), 0, 0)
        mean, k = self._s / self._w, self._people
        squares = max(self._ss - 2.0 * mean * self._sw + mean**2 * self._ww, 0.0)
        error = (squares * k / (k - 1)) ** 0.5 / self._w if k > 1 else float("nan")
        return GroupMean(self._origin + mean, error, self._n, k)
