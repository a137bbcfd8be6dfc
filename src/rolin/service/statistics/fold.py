"""Fold the events of a journal into statistics, each event once."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from rolin.journal.events import (
    Event,
    IgnoredReward,
    LoggedDecision,
    Outcome,
    Rejected,
    SettingsChanged,
)
from rolin.service.statistics.arms import ArmCounts
from rolin.service.statistics.calibration import RunningCalibration
from rolin.service.statistics.comparison import RunningMean
from rolin.service.statistics.schema import Change, Group, RecentDecision
from rolin.service.statistics.series import GROUPS, RANGES, Series

__all__ = ["DELAYS", "Statistics"]

Item = TypeVar("Item")

DELAYS = (1.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0)
"""Ends of the groups of delays, in seconds."""
_RECENT = 2000  # decisions that are kept
_CHANGES = 30  # changes of settings that are kept
# What is stored as it is.
_COUNTS = (
    "decisions", "rewards", "reward_sums", "delays", "drawn", "top", "other", "in_play", "first_decision",
    "compared_since", "_period", "_ranks",
)  # fmt: skip
_ITEMS = 500  # stored together
_BUCKETS = 20
_MOST_OPEN = 200_000  # decisions whose reward is waited for; of older ones, the delay is not known


class _Open(NamedTuple):
    """A decision whose reward has not come yet."""

    time: float
    by: Group
    compared: str | None
    """The group of the lift that it belongs to; `None` if to neither."""
    person: str | None
    period: int
    """Number of changes of the shares before it."""
    short: RecentDecision


class Statistics:
    """Everything that is counted of one bandit. Folding reads no clock."""

    def __init__(self) -> None:
        self.series = {name: Series(*size) for name, size in RANGES.items()}
        self.arms = ArmCounts()
        self.calibration = RunningCalibration()
        self.decisions = dict.fromkeys(GROUPS, 0)
        self.rewards = dict.fromkeys(GROUPS, 0)
        self.reward_sums = dict.fromkeys(GROUPS, 0.0)
        self.fates: Counter[str] = Counter()
        self.delays = [0] * (len(DELAYS) + 1)
        self.drawn, self.top, self.other, self.in_play = 0, 0.0, 0, 0.0
        self.recent: deque[RecentDecision] = deque(maxlen=_RECENT)
        self.changes: deque[Change] = deque(maxlen=_CHANGES)
        self.first_decision: float | None = None
        self.compared: dict[str, RunningMean]
        """Running means of `policy`, `control` and `share`, since the shares were last changed."""
        self.compared_since: float | None
        self._settings: SettingsChanged | None = None
        self._period = 0
        self._ranks = 0  # arms that wait for a reward
        # A plain dict finds its oldest item only after looking at all that were removed before it.
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._compare_from(None)

    @property
    def waiting(self) -> int:
        """Arms that wait for a reward."""
        return max(self._ranks, 0)

    def _compare_from(self, time: float | None) -> None:
        self.compared = {name: RunningMean() for name in ("policy", "control", "share")}
        self.compared_since = time

    def dump(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield everything as plain values, in small parts; nothing may be folded meanwhile."""
        # Encoding keeps other threads waiting, so no part is large.
        settings = None if self._settings is None else list(self._settings)
        yield "counts", [getattr(self, name) for name in _COUNTS]
        yield "settings", [settings, [[each.time, each.text] for each in self.changes]]
        yield "fates", [dict(self.fates), self.calibration.dump(), *self.arms.dump()]
        for name, series in self.series.items():
            for some in _batched(series.dump(), _BUCKETS):
                yield "series", [name, some]
        for name, mean in self.compared.items():
            yield "compared", [name, mean.dump()]
            for people in _batched(mean.people(), _ITEMS):
                yield "people", [name, people]
        for opened in _batched(self._open.values(), _ITEMS):
            yield "open", [[*each[:-1], *astuple(each.short)] for each in opened]
        for recent in _batched(self.recent, _ITEMS):
            yield "recent", [astuple(each) for each in recent]

    def load(self, parts: Iterable[tuple[str, list[Any]]]) -> None:
        """Count what `dump` has yielded; nothing may have been counted before."""
        for kind, part in parts:
            getattr(self, f"_load_{kind}")(*part)

    def _load_counts(self, *values: Any) -> None:
        for name, value in zip(_COUNTS, values, strict=True):
            setattr(self, name, value)

    def _load_settings(self, settings: list[Any] | None, changes: list[Any]) -> None:
        self._settings = None if settings is None else SettingsChanged(*settings)
        self.changes.extend(Change(*each) for each in changes)

    def _load_fates(self, fates: dict[str, int], calibration: Any, arms: Any, counts: Any) -> None:
        self.fates.update(fates)
        self.calibration.load(calibration)
        self.arms.load(arms, counts)

    def _load_series(self, name: str, buckets: list[Any]) -> None:
        self.series[name].load(buckets)

    def _load_compared(self, name: str, values: list[Any]) -> None:
        self.compared[name].load(values)

    def _load_people(self, name: str, people: list[Any]) -> None:
        self.compared[name].load_people(people)

    def _load_open(self, *opened: Any) -> None:
        for time, by, compared, person, period, *rest in opened:
            short = RecentDecision(*rest)
            self._open[short.id] = _Open(time, by, compared, person, period, short)

    def _load_recent(self, *recent: Any) -> None:
        for each in recent:
            made = RecentDecision(*each)
            known = self._open.get(made.id)  # which gets its reward later, here as well
            self.recent.append(made if known is None else known.short)

    def fold(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, LoggedDecision):
            self._decision(event)
        elif isinstance(event, Outcome):
            self._outcome(event)
        elif isinstance(event, IgnoredReward):
            self.fates[event.reason] += 1
        elif isinstance(event, Rejected):
            self.fates["rejected"] += 1
        elif isinstance(event, SettingsChanged):
            self._change(event)

    def _decision(self, event: LoggedDecision) -> None:
        by: Group = "policy"
        if event.control:
            by = "control"
        elif event.is_baseline:
            by = "baseline"
        arm, p = str(event.arm), event.propensities
        if self.first_decision is None:
            self.first_decision = event.time
        if self.compared_since is None:
            self.compared_since = event.time
        self.decisions[by] += 1
        self._ranks += len(event.chosen)
        self.arms.choose(arm)
        rows = self.arms.rows_of(event.offered)
        top: float | None = None
        other = False
        if p is not None and len(p) == len(event.offered):
            chosen, top = event.chosen[0], float(p.max())
            other = float(p[chosen]) < top
            if by != "baseline" and not event.imported:
                self.calibration.add(p, chosen)
                self.arms.expect(rows, p, chosen)
            if by == "policy":
                self._explored(p, top, other)
        for series in self.series.values():
            bucket = series.at(event.time)
            if bucket is None:
                continue
            bucket.decisions[by] += 1
            bucket.arms[arm] += 1
            if by == "policy" and top is not None:
                bucket.drawn += 1
                bucket.top += top
                bucket.other += other
        short = RecentDecision(
            event.id, event.time, arm, by, event.mode, len(event.offered), event.propensity, top
        )
        self.recent.append(short)
        compared = "share" if event.outside_share else None if by == "baseline" else by
        self._open[event.id] = _Open(event.time, by, compared, event.person, self._period, short)
        if len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)

    def _explored(self, p: NDArray[np.float64], top: float, other: bool) -> None:
        self.drawn += 1
        self.top += top
        self.other += other
        positive = p[p > 0.0]
        self.in_play += float(np.exp(-(positive * np.log(positive)).sum()))

    def _outcome(self, event: Outcome) -> None:
        self._ranks -= 1
        if event.expired:
            self.fates["default" if event.value is not None else "expired"] += 1
        else:
            self.fates["learned" if event.learned else "not_learned"] += 1
        if event.rank:
            return
        made = self._open.pop(event.id, None)
        if made is None:
            return
        delay = max(event.time - made.time, 0.0)
        made.short.outcome = "expired" if event.expired else "reward"
        made.short.reward, made.short.delay = event.value, None if event.expired else delay
        if not event.expired:
            self.delays[sum(delay >= end for end in DELAYS)] += 1
        if event.value is None:
            return
        self.arms.reward(made.short.arm, event.value)
        self.rewards[made.by] += 1
        self.reward_sums[made.by] += event.value
        for series in self.series.values():
            bucket = series.at(made.time)
            if bucket is not None:
                bucket.rewards[made.by] += 1
                bucket.reward_sums[made.by] += event.value
        if made.compared is not None and made.period == self._period:
            self.compared[made.compared].add(made.person, event.value, event.weight)

    def _change(self, event: SettingsChanged) -> None:
        before, self._settings = self._settings or SettingsChanged(0.0), event
        names = ("mode", "share", "control_share", "floor", "exploration", "propensities")
        changed = [
            f"{name}: {_shown(getattr(before, name))} → {_shown(getattr(event, name))}"
            for name in names
            if getattr(before, name) != getattr(event, name)
        ]
        if changed:
            self.changes.append(Change(event.time, ", ".join(changed)))
        shares = [(each.share, each.control_share) for each in (before, event)]
        if shares[0] != shares[1]:
            self._period += 1
            self._compare_from(event.time)


def _batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def _shown(value: object) -> str:
    """Return a setting as people write it."""
    if isinstance(value, float):
        return f"{value:g}"
    return "default" if value is None else str(value).lower()
