"""The one place where a bandit writes: requests become events, and written events are folded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from rolin._support.process import process_id
from rolin.bandit.deciding import Decider
from rolin.bandit.pending import Pending, Plan
from rolin.bandit.planning import change_event, ids_of, plan
from rolin.bandit.requests import Change, Decide, Request
from rolin.bandit.state import BanditState
from rolin.bandit.upkeep import Upkeep
from rolin.bandit.watching import BanditStats, Finished, Observer, Written
from rolin.errors import JournalError, RolinError
from rolin.journal.base import OutOfDate, Removal, Removed, reached
from rolin.journal.events import Event, Rejected
from rolin.journal.folding import check_can_fold, state_bytes
from rolin.journal.group_commit import GroupCommit, Queued

__all__ = ["Writer"]

Answer = TypeVar("Answer")
_log = logging.getLogger("rolin")


class _Planned(NamedTuple):
    """A queued request with its plan, or with the error that rejected it."""

    queued: Queued[Request]
    plan: Plan
    error: Exception | None = None


class Writer:
    """Writes requests to the journal and folds them into the state.

    Parameters
    ----------
    state
        The state; it knows its journal.
    decider
        Chooses arms by the present state.
    clock
        Returns the time.
    snapshot_every
        Number of events after which a snapshot is stored in a durable journal; `None` for never.
    in_background
        Whether a thread learns scales and stores snapshots.
    """

    def __init__(
        self,
        state: BanditState[Any],
        decider: Decider,
        clock: Callable[[], float],
        snapshot_every: int | None,
        *,
        in_background: bool,
    ) -> None:
        self._state, self._decider, self._clock = state, decider, clock
        self._commits: GroupCommit[Request] = GroupCommit(self._write)
        self.upkeep = Upkeep(
            state,
            self._exclusively,
            self._until_up_to_date,
            clock,
            snapshot_every,
            in_background=in_background,
        )
        """Learns scales and stores snapshots when they are due."""
        self.observers: list[Observer] = []
        """Told of every batch that was written."""
        self._process = process_id()

    def submit(self, request: Request) -> Any:
        """Write a request together with those of other threads, and return its answer."""
        self._check_process()
        return self._commits.submit(request)

    def enqueue(self, queued: Queued[Request]) -> None:
        """Have a request written by a thread, together with those of other callers, and return at once."""
        self._check_process()
        self._commits.enqueue(queued)

    def _exclusively(self) -> AbstractContextManager[object]:
        """Return a block in which no other thread writes."""
        self._check_process()
        return self._commits.alone()

    def change(self, change: Change) -> None:
        """Write a change of the state on its own, while nothing else is written."""
        state = self._state

        def attempt() -> tuple[Event, int]:
            event = change_event(change, state.policy, state.settings, self._clock())
            check_can_fold(state.policy, state.shadow, event)
            return event, state.journal.append([event], after=state.version)

        with self._commits.alone():
            self.refresh()
            event, last = self._until_up_to_date(attempt)
            state.fold([event], last)
            self.upkeep.after_write()

    def refresh(self) -> None:
        """Fold the events that other processes have written."""
        self._check_process()
        with self._commits.lock:
            self._state.catch_up()

    def remove(self, what: Removal) -> int:
        """Remove decisions from the journal, store a snapshot, and return the number of decisions."""
        state = self._state

        def attempt() -> Removed:
            packed = state_bytes(state.policy, state.shadow)
            return state.journal.remove(what, after=state.version, state=packed)

        with self._commits.alone():
            self.refresh()
            # In a file, removing ends with writing back the log, which is not possible during a turn.
            removed = self._until_up_to_date(attempt, in_turn=False)
            if removed.last > state.version:  # otherwise there was nothing to remove
                state.note_removal(removed.last, self._clock())
                self.upkeep.after_write()
            return removed.decisions

    def stats(self) -> BanditStats:
        """Return how much waits, and since when the state is as it is."""
        state = self._state
        header, backlog = state.journal.header(), self._commits.backlog()
        version = state.version  # without the lock: a long fold is exactly what should be seen
        return BanditStats(
            version,
            0 if header is None else max(header.last - version, 0),
            *backlog,
            version - state.snapshot_version,
            state.snapshot_time,
            state.reward_time,
            state.scales_time,
            state.journal.storage(),
        )

    @property
    def writing(self) -> float:
        """Seconds that the present write has taken so far; 0 if there is none."""
        return self._commits.writing

    def _check_process(self) -> None:
        if process_id() != self._process:
            raise JournalError(
                "this bandit was opened by another process, before a fork: open one in each process"
            )

    def _write(self, batch: list[Queued[Request]]) -> None:
        """Write a batch of requests, fold it, and settle every request; one thread at a time."""
        state = self._state
        with state.lock:
            state.repair()
        planned: list[_Planned] = []
        start = planned_at = perf_counter()
        pending: Pending

        def attempt() -> tuple[list[Event], int]:
            nonlocal pending, planned_at
            pending = Pending(state)
            planned[:] = self._planned(batch, pending)
            events = [event for item in planned for event in item.plan.events]
            reached("planned")
            planned_at = perf_counter()
            if not events:
                # Recent decisions are known from memory: appending would notice if another process had removed one.
                header = state.journal.header()
                if header is None or header.last != state.version:
                    raise OutOfDate
                return [], state.version
            return events, state.journal.append(events, after=state.version)

        events, last = self._until_up_to_date(attempt)
        commit = perf_counter() - planned_at if events else None
        rejected = state.fold(events, last)
        reached("folded")
        finished = _finished(planned, rejected)
        if self.observers:
            waited = start - batch[0].since
            self._tell(Written(finished, events, pending.decision, waited, commit))
        for queued, (_, answer, error) in zip(batch, finished, strict=True):
            queued.settle(answer, error)
        if rejected:
            self._note_rejected({last - len(events) + 1 + i: e for i, e in rejected.items()})
        self.upkeep.after_write()

    def _tell(self, batch: Written) -> None:
        """Tell the observers; never fail, because the batch is written."""
        for observer in self.observers:
            try:
                observer.written(batch)
            except Exception:
                _log.exception("an observer of a bandit failed; nothing is lost")

    def _note_rejected(self, rejected: Mapping[int, RolinError]) -> None:
        """Record which events taught nothing; a failure is harmless, as they teach nothing again."""
        state = self._state
        notes = [Rejected(self._clock(), event, str(error)) for event, error in rejected.items()]
        with suppress(JournalError, OutOfDate):
            last = self._until_up_to_date(lambda: state.journal.append(notes, after=state.version))
            state.fold(notes, last)

    def _planned(self, batch: Sequence[Queued[Request]], pending: Pending) -> list[_Planned]:
        alone = len(batch) == 1
        ids = (
            ids_of(batch[0].work) if alone else [i for queued in batch for i in ids_of(queued.work)]
        )
        if len(ids) > 1:
            with suppress(JournalError):  # a damaged one: the request that needs it gets the error
                pending.fetch(ids)
        planned: list[_Planned] = []
        for queued in batch:
            try:
                layer = pending if alone else pending.nested()
                found = plan(queued.work, layer, self._decider)
            except Exception as error:  # also of a policy or a transformer that is not ours
                planned.append(_Planned(queued, Plan([]), error))
            else:
                planned.append(_Planned(queued, found))
                if not alone:
                    for event in found.events:
                        pending.add(event)
        return planned

    def _until_up_to_date(self, attempt: Callable[[], Answer], *, in_turn: bool = True) -> Answer:
        """Try to write; after events of another process, read them and try again.

        Nobody else can write during the second attempt, unless `in_turn` is false. If others often write, the journal
        asks for this from the start, so that nothing is planned in vain.
        """
        while not self._state.journal.takes_turns:
            try:
                return attempt()
            except OutOfDate:
                if in_turn:
                    break
            self.refresh()
        with self._state.journal.turn():
            self.refresh()
            return attempt()


def _finished(planned: Sequence[_Planned], rejected: Mapping[int, RolinError]) -> list[Finished]:
    """Return what the caller of every request gets, given the errors of events that taught nothing."""
    if not rejected:
        return [Finished(queued.work, answer, error) for queued, (_, answer), error in planned]
    finished = []
    start = 0
    for queued, (own, answer), error in planned:
        errors = [rejected[i] for i in range(start, start + len(own)) if i in rejected]
        if isinstance(queued.work, Decide):
            errors = []  # of early rewards, which are no fault of the decision
        finished.append(Finished(queued.work, answer, errors[0] if errors else error))
        start += len(own)
    return finished
