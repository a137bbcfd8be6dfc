"""The state that a journal leads to, kept up to date while events are written.

A call becomes a plan; plans that queue are written together; only what has been written changes the
state, in the order of the journal. An interruption between writing and folding loses nothing: the
state is taken from the journal again.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from rolin._support.arms import Name, PastArm
from rolin.errors import JournalError, RolinError
from rolin.journal.base import Behind, Header, Journal, Removal, reached
from rolin.journal.events import (
    ArmRestored,
    Event,
    LoggedDecision,
    Outcome,
    ScalesLearned,
    SettingsChanged,
)
from rolin.journal.folding import adaptive_of, digest_of, fold, packed, replayed
from rolin.journal.group_commit import GroupCommit, Request
from rolin.policies import Policy

__all__ = ["LiveState", "Pending", "Plan"]

Answer = TypeVar("Answer")


class Pending:
    """The journal as it will be when what is being written has been.

    Parameters
    ----------
    under
        The journal, or what is pending already.
    """

    def __init__(self, under: Journal | Pending) -> None:
        self._under = under
        self._decisions: dict[str, LoggedDecision] = {}
        self._outcomes: dict[str, dict[int, Outcome]] = {}

    def add(self, event: Event) -> None:
        """Count on an event that is to be written."""
        if isinstance(event, LoggedDecision):
            self._decisions[event.id] = event
        elif isinstance(event, Outcome):
            self._outcomes.setdefault(event.id, {})[event.place] = event

    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision of that id."""
        return self._decisions.get(id) or self._under.decision(id)

    def outcomes(self, id: str) -> dict[int, Outcome]:
        """Return what became of a decision, by place in its ranking."""
        own = self._outcomes.get(id, {})
        return own if id in self._decisions else {**self._under.outcomes(id), **own}


Plan = Callable[[Pending], tuple[list[Event], Any]]
"""Says which events to write, and what to answer; raises if the call makes no sense."""


class LiveState:
    """A policy in the state that its journal leads to.

    Parameters
    ----------
    journal
        Where events are written, and where the state comes from.
    policy
        What begins a journal that has not begun; of one that has, what is expected there.
    clock
        Returns the time.
    snapshot_every
        Number of events after which the state is kept in a durable journal.
    may_have_grown
        Whether the journal's policy may have another number of features than the one given.
    """

    def __init__(
        self,
        journal: Journal,
        policy: Policy[Any] | None,
        clock: Callable[[], float],
        snapshot_every: int | None,
        *,
        may_have_grown: bool = False,
    ) -> None:
        self.journal = journal
        self.lock = threading.RLock()
        """Around everything that reads or changes the policy."""
        self.policy: Policy[Any]
        """The state; only folding changes it."""
        self.version = 0
        """Number of the last event that was folded."""
        self.changed = 0
        """Number of the last event that may have changed the policy."""
        self._clock, self._snapshot_every = clock, snapshot_every
        self._kind = None if policy is None else type(policy)
        self._stale = False
        self._new_lives: list[tuple[int, Name]] = []
        self.settings = SettingsChanged(0.0)
        """How decisions are made, beside the policy."""
        self._commits: GroupCommit[Plan] = GroupCommit(self._write)
        self._process = os.getpid()
        if policy is None:
            if journal.header() is None:
                raise JournalError("the journal is empty, expected a policy to begin it with")
            self._load()
        else:
            state = packed(policy)
            header = journal.begin(state, digest_of(state))
            self._load()
            _check_same(self.policy, policy, header.origin, may_have_grown)

    def _load(self) -> None:
        """Take the state from the journal."""
        with self.lock:
            self._stale = True  # until all is there
            policy, version, kept = replayed(self.journal, kind=self._kind)
            lasting = self.journal.lasting()
            self.policy, self.version, self._kept = policy, version, kept
            self.changed = version  # or earlier
            self._new_lives, self.settings = [], SettingsChanged(0.0)
            for seq, event in lasting:
                if seq <= version:  # what came since is noted when it is folded
                    self._note(seq, event)
            self._stale = False

    def _note(self, seq: int, event: Event) -> None:
        """Keep what is not in the policy: which arms are others than before, and the settings."""
        if isinstance(event, ArmRestored) and not event.with_past:
            self._new_lives.append((seq, event.arm))
        elif isinstance(event, SettingsChanged):
            self.settings = event

    def current(self) -> tuple[Policy[Any], int]:
        """Return the policy and its version; to be called, and used, with the lock held."""
        if self._stale:  # folding was interrupted
            self._load()
        return self.policy, self.version

    def refresh(self) -> None:
        """Fold what others have written."""
        self._check_process()
        with self._commits.lock:
            _, version = self.current()
            header = self._header()
            tail = list(self.journal.read(after=version, upto=header.last, decisions=False))
            if self._header().first > version:  # some of it has been removed since
                self._load()
                return
            for seq, event in tail:
                self._fold([event], seq)
            with self.lock:
                self.version = max(self.version, header.last)

    def _header(self) -> Header:
        header = self.journal.header()
        assert header is not None  # it has begun
        return header

    # -- writing -----------------------------------------------------------------------------

    def submit(self, plan: Plan) -> Any:
        """Write what a plan says, together with what others write now; return its answer."""
        self._check_process()
        return self._commits.submit(plan)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise JournalError(
                "this bandit was opened by another process, before a fork: open one in each process"
            )

    def _write(self, batch: list[Request[Plan]]) -> None:
        """Write what queued, fold it, and settle every request; one thread at a time."""
        with self.lock:
            self.current()
        planned: list[tuple[Request[Plan], list[Event], Any, RolinError | None]] = []

        def attempt() -> tuple[list[Event], int]:
            planned[:] = self._planned(batch)
            events = [event for _, events, _, _ in planned for event in events]
            reached("planned")
            if not events:
                return [], self.version
            return events, self.journal.append(events, after=self.version)

        events, last = self._until_not_behind(attempt)
        refused = self._fold(events, last)
        reached("folded")
        place = 0
        for request, own, answer, error in planned:
            refusals = [refused[i] for i in range(place, place + len(own)) if i in refused]
            request.settle(answer, refusals[0] if refusals else error)
            place += len(own)
        self._keep_up()

    def _planned(
        self, batch: Iterable[Request[Plan]]
    ) -> list[tuple[Request[Plan], list[Event], Any, RolinError | None]]:
        pending = Pending(self.journal)
        planned: list[tuple[Request[Plan], list[Event], Any, RolinError | None]] = []
        for request in batch:
            try:
                events, answer = request.work(Pending(pending))  # dropped if it comes to nothing
            except RolinError as error:
                planned.append((request, [], None, error))
            else:
                planned.append((request, events, answer, None))
                for event in events:
                    pending.add(event)
        return planned

    def _until_not_behind(self, attempt: Callable[[], Answer]) -> Answer:
        """Try to write, after reading what others wrote before us, until nobody was faster."""
        while True:
            try:
                return attempt()
            except Behind:
                self.refresh()

    def change(self, check: Callable[[], Event]) -> None:
        """Write a change that depends on the state as it is: alone, nothing else being written."""

        def attempt() -> tuple[Event, int]:
            event = check()
            fold(copy.deepcopy(self.policy), event)  # what cannot be folded is not written
            return event, self.journal.append([event], after=self.version)

        with self._commits.lock:
            self.refresh()
            event, last = self._until_not_behind(attempt)
            self._fold([event], last)
            self._keep_up()

    def _fold(self, events: Sequence[Event], last: int) -> dict[int, RolinError]:
        """Fold events that have been written; return those that taught nothing, and why."""
        refused: dict[int, RolinError] = {}
        first = last - len(events) + 1
        with self.lock:
            was_stale, self._stale = self._stale, True  # an interruption leaves it half folded
            for i, event in enumerate(events):
                if first + i <= self.version:  # it was loaded meanwhile
                    continue
                try:
                    fold(self.policy, event)
                except RolinError as error:
                    refused[i] = JournalError(f"recorded, but not learned from: {error}")
                self._note(first + i, event)
                if not isinstance(event, LoggedDecision):
                    self.changed = first + i
            self.version, self._stale = last, was_stale
        return refused

    def _keep_up(self) -> None:
        """Learn scales and keep the state when it is time; what fails here is due again next time."""
        with suppress(JournalError, Behind):
            model = adaptive_of(self.policy)
            if model is not None and model.is_due:
                reached("scales due")
                event = self.estimated_scales()
                self._fold([event], self.journal.append([event], after=self.version))
            every = self._snapshot_every
            if self.journal.durable and every and self.version - self._kept >= every:
                self.snapshot()

    def estimated_scales(self) -> ScalesLearned:
        """Return what the evidence says of the scales, as an event."""
        model = adaptive_of(self.policy)
        assert model is not None  # the caller has looked
        return ScalesLearned(self._clock(), model.estimate_scales())

    # -- keeping and removing ----------------------------------------------------------------

    def snapshot(self) -> int:
        """Keep the state in the journal; return its version."""
        self._check_process()
        with self._commits.lock:  # while which nothing is folded
            with self.lock:
                policy, version = self.current()
            self.journal.save(version, packed(policy))
            self._kept = version
            return version

    def remove(self, what: Removal) -> int:
        """Remove decisions from the journal, keep the state, and return how many there were."""

        def attempt() -> tuple[int, int]:
            return self.journal.remove(what, after=self.version, state=packed(self.policy))

        with self._commits.lock:
            self.refresh()
            removed, last = self._until_not_behind(attempt)
            with self.lock:
                self.version = self._kept = last
            return removed

    def life_of(self, decision: LoggedDecision, arm: Name) -> Name:
        """Return the arm as it was then: one that has since begun a new life is another."""
        if decision.version is None:
            return arm
        since = sum(seq > decision.version and name == arm for seq, name in self._new_lives)
        if not since:
            return arm
        names = self.policy.names_with_past
        lives = [name.life for name in names if isinstance(name, PastArm) and name.name == arm]
        return PastArm(arm, max(lives) - since + 1)


def _check_same(ours: Policy[Any], given: Policy[Any], origin: str, may_have_grown: bool) -> None:
    """Refuse a journal of another policy, and a policy that knows what the journal does not."""
    if type(ours) is not type(given):
        raise JournalError(
            f"the journal is that of a {type(ours).__name__}, and was given a {type(given).__name__}"
        )
    theirs = given.settings
    for name, value in ours.settings.items():
        if name == "n_features" and may_have_grown:
            continue
        if name != "seed" and theirs[name] != value:
            raise JournalError(
                f"the journal is that of a policy with {name}={value!r}, and was given one with "
                f"{name}={theirs[name]!r}: leave the policy out to go on, or take another file"
            )
    if (given.arms or given.removed_arms) and digest_of(packed(given)) != origin:
        raise JournalError(
            "the policy has learned something that is not in the journal; give a new one, or none, "
            "to go on from the journal"
        )
