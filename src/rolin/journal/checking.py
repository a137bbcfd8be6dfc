"""Check that a journal is whole: every event, every snapshot, and what waits for a reward."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from rolin._support.progress import Progress, reporter
from rolin.errors import JournalError, RolinError
from rolin.journal.base import ended_by, waiting_since
from rolin.journal.events import (
    Activated,
    EarlyReward,
    HeldReward,
    IgnoredReward,
    LoggedDecision,
    Outcome,
)
from rolin.journal.folding import load_policy, load_with_snapshot, split_state
from rolin.journal.sqlite import SQLiteJournal
from rolin.journal.table_journal import TableJournal
from rolin.model import state_file
from rolin.policies import Policy

__all__ = ["JournalReport", "check_journal"]

_SHOWN = 20  # problems in a report


class JournalReport(NamedTuple):
    """What a check of a journal has found."""

    events: int
    """Number of events that were read."""
    unchecked: int
    """How many of them have no checksum, because an earlier format wrote them."""
    removed: int
    """Number of the last event before which some may have been erased; 0 if none was."""
    problems: tuple[str, ...]
    """What is wrong; empty if the journal is whole."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def check_journal(
    journal: TableJournal | str | PathLike[str], *, progress: Progress = False
) -> JournalReport:
    """Read a whole journal and report everything that is damaged, missing or contradictory.

    Parameters
    ----------
    journal
        The path of its file, or an open journal of a database; it is not changed. Nobody should write meanwhile.
    progress
        `True` shows a bar; a function is called with the number of events read since its last call.
    """
    if not isinstance(journal, TableJournal):
        with SQLiteJournal(journal, readonly=True, verify=False) as opened:
            return check_journal(opened, progress=progress)
    problems: list[str] = []

    @contextmanager
    def noting() -> Iterator[None]:
        try:
            yield
        except RolinError as error:
            problems.append(str(error))

    events = unchecked = removed = 0
    with noting():
        problems += journal.integrity_problems()
    with noting():
        header = journal.header()
        if header is None:
            raise JournalError("the journal has not begun: it holds no policy")
        removed, unchecked = header.first, journal.events_without_checksum()
        with reporter(progress, "checking", header.last) as advance:
            events = _check_events(journal, problems, advance)
        with warnings.catch_warnings():  # about damaged snapshots, which are among the problems
            warnings.simplefilter("ignore")
            _check_states(journal, header.first, problems)
    if len(problems) > _SHOWN:
        problems[_SHOWN:] = [f"… and {len(problems) - _SHOWN} more"]
    return JournalReport(events, unchecked, removed, tuple(problems))


def _check_events(
    journal: TableJournal, problems: list[str], advance: Callable[[int], object]
) -> int:
    """Read every event, and compare what waits for a reward with the decisions and outcomes."""
    waiting: dict[tuple[str, int], float] = {}
    early: dict[str, list[tuple[str, int]]] = {}  # what waits for a decision, by its id
    decided: set[str] = set()
    inactive: set[str] = set()
    count = 0
    for seq, event in journal.read_all(problems):
        count += 1
        advance(1)
        waiting |= {(id, rank): time for time, id, rank in waiting_since(event)}
        ended = ended_by(event)
        did_wait = ended is None or waiting.pop(ended, None) is not None
        if isinstance(event, LoggedDecision):
            decided.add(event.id)
            for key in early.pop(event.id, ()):
                waiting.pop(key, None)
            if not event.active:
                inactive.add(event.id)
        elif isinstance(event, EarlyReward):
            early.setdefault(event.id, []).append((event.id, event.waiting_rank))
            if event.id in decided:
                problems.append(f"event {seq}: decision {event.id!r} was made before")
        elif isinstance(event, IgnoredReward):
            if not did_wait:
                problems.append(f"event {seq}: no early reward of {event.id!r} waited")
            elif ended is None and event.id not in decided:
                problems.append(f"event {seq}: decision {event.id!r} was never made")
        elif isinstance(event, Outcome):
            if not did_wait:
                problems.append(f"event {seq}: decision {event.id!r} did not wait for this outcome")
            elif event.id in inactive and event.value is not None:
                problems.append(f"event {seq}: decision {event.id!r} was never activated")
        elif isinstance(event, HeldReward) and (event.id, event.rank) not in waiting:
            problems.append(f"event {seq}: decision {event.id!r} did not wait for this reward")
        elif isinstance(event, Activated):
            if event.id not in inactive:
                problems.append(f"event {seq}: decision {event.id!r} did not wait for activation")
            inactive.discard(event.id)
    stored = {(arm.id, arm.rank): arm.time for arm in journal.waiting(float("inf"), 1 << 62)}
    wrong = [
        key[0] for key in waiting.keys() | stored.keys() if waiting.get(key) != stored.get(key)
    ]
    if wrong:
        problems.append(
            f"the table of decisions that wait for a reward is wrong for {len(set(wrong))} decisions, such as "
            f"{min(wrong)!r}"
        )
    return count


def _check_states(journal: TableJournal, first: int, problems: list[str]) -> None:
    """Check that every snapshot is the state that the events before it lead to."""
    versions = journal.snapshot_versions()
    for start, version in pairwise(versions):
        try:
            snapshot = journal.latest_snapshot(version)
            assert snapshot is not None  # it was just listed
            stored = split_state(state_file.unpack(snapshot.state, f"snapshot {version}"))
            if start >= first:
                computed = load_with_snapshot(journal, upto=version, start=start)
                if not (_close(stored[0], computed.policy) and _close(stored[1], computed.shadow)):
                    problems.append(
                        f"snapshot {version} is not the state that the events before it lead to"
                    )
        except RolinError as error:
            problems.append(str(error))
    load_policy(journal)


def _close(a: state_file.State | None, computed: Policy[Any] | None) -> bool:
    """Return whether two states are equal up to the rounding of other processors."""
    if a is None or computed is None:
        return a is None and computed is None
    b = computed.state()
    return (
        (a.policy, list(a.names), list(a.removed)) == (b.policy, list(b.names), list(b.removed))
        and a.arrays.keys() == b.arrays.keys()
        and all(
            array.shape == b.arrays[name].shape
            and np.allclose(array, b.arrays[name], rtol=1e-6, atol=1e-6)
            for name, array in a.arrays.items()
        )
    )
