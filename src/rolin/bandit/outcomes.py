"""What is known about a decision, and the events of activations and expiry.

What is learned is an `Outcome`, at most one per arm of a decision, with the value to learn. So folding never looks back,
and learns every sum exactly once. A reward that cannot be learned from yet is held:

- It came before its decision was activated. The activation writes the outcome.
- It has an id of its own, so others may be added to it. The sum is final when the arm expires, which writes the outcome.

Expiry also closes early rewards whose decision was not made in time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rolin.bandit.modes import learns
from rolin.bandit.pending import Pending, Plan
from rolin.bandit.requests import Activate, Expire, Window
from rolin.errors import DecisionConflict, JournalError, UnknownDecision
from rolin.journal.events import (
    Activated,
    EarlyReward,
    Event,
    Following,
    HeldReward,
    IgnoredReward,
    LoggedDecision,
    Outcome,
)
from rolin.journal.validation import unknown_message

__all__ = [
    "Known",
    "activate",
    "expire",
    "known_decision",
    "last_outcome",
    "open_early",
    "outcome_of",
]


class Known:
    """What the journal says about a decision.

    Parameters
    ----------
    decision
        The decision.
    following
        What has happened to it since.
    """

    __slots__ = ("active", "decision", "held", "ignored", "outcomes")

    def __init__(self, decision: LoggedDecision, following: Sequence[Following]) -> None:
        self.decision, self.active = decision, decision.active
        self.outcomes: dict[int, Outcome] = {}
        self.held: list[HeldReward] = []
        self.ignored: list[IgnoredReward] = []
        for event in following:
            if isinstance(event, Outcome):
                self.outcomes[event.rank] = event
            elif isinstance(event, HeldReward):
                self.held.append(event)
            elif isinstance(event, IgnoredReward):
                self.ignored.append(event)
            elif isinstance(event, Activated):
                self.active = True

    def parts(self, rank: int) -> list[HeldReward]:
        """Return the rewards of an arm that add up, in order."""
        return [part for part in self.held if part.rank == rank and part.reward_id is not None]

    def held_whole(self, rank: int) -> HeldReward | None:
        """Return the only reward of an arm, if it came before the activation."""
        found = [held for held in self.held if held.rank == rank and held.reward_id is None]
        return found[0] if found else None


def known_decision(pending: Pending, id: str) -> Known:
    """Return what is known about a decision; raise if there is none."""
    decision = pending.decision(id)
    if decision is None:
        raise UnknownDecision(unknown_message(id))
    return Known(decision, pending.following(id))


def open_early(following: Sequence[Following]) -> list[EarlyReward]:
    """Return the early rewards that wait for their decision."""
    early = {event.number: event for event in following if isinstance(event, EarlyReward)}
    closed = {event.number for event in following if isinstance(event, IgnoredReward)}
    return [event for number, event in early.items() if number not in closed]


def activate(request: Activate, pending: Pending) -> Plan:
    """Return the events of an activation: itself, and the outcomes of the rewards that came before it."""
    known = known_decision(pending, request.id)
    if known.active:
        return Plan([])
    if known.outcomes:
        raise DecisionConflict(
            f"decision {request.id!r} has expired before it was activated: decide again, under a new id"
        )
    early = [held for held in known.held if held.reward_id is None]
    return Plan([
        Activated(request.id, request.time),
        *(
            outcome_of(pending, known.decision, held.rank, held.time, held.value, held.weight)
            for held in early
        ),
    ])  # fmt: skip


def expire(request: Expire, pending: Pending) -> Plan:
    """Return the outcomes of arms that have waited long enough, and the end of early rewards that have."""
    events: list[Event] = []
    closed_arms, window = 0, request.window
    waiting = pending.waiting(window.before, request.limit, request.after)
    pending.fetch(id for _, id, _ in waiting)
    for _, id, rank in waiting:
        decision = pending.decision(id)
        if rank < 0:
            if decision is None:  # otherwise it was just made, and has joined them
                events += _closed_early(pending, id, rank)
            continue
        if decision is None:  # another process has just erased it
            continue
        if not 0 <= rank < len(decision.chosen) or not decision.time < window.before:
            raise JournalError(
                f"the journal is damaged: the list of open rewards disagrees with decision {id!r}; run "
                "`rolin journal check`"
            )
        known = Known(decision, pending.following(id))
        if rank not in known.outcomes:
            events.append(last_outcome(pending, known, rank, window))
            closed_arms += 1
    return Plan(events, (waiting[-1] if waiting else None, closed_arms))


def _closed_early(pending: Pending, id: str, rank: int) -> list[IgnoredReward]:
    """Return the end of an early reward whose decision was not made in time."""
    return [
        IgnoredReward(id, early.time, early.number, early.arm, early.value, early.weight, early.reward_id, "unknown")
        for early in open_early(pending.following(id))
        if early.waiting_rank == rank
    ]  # fmt: skip


def last_outcome(pending: Pending, known: Known, rank: int, window: Window) -> Outcome:
    """Return the outcome of an arm that has waited long enough: its sum, the default reward, or nothing."""
    decision, time = known.decision, window.time
    if not known.active:  # nobody has seen it
        return outcome_of(pending, decision, rank, time, None, expired=True)
    if parts := known.parts(rank):
        # The exactly rounded sum, so the order of the parts does not matter.
        total = math.fsum(part.value for part in parts)
        return outcome_of(pending, decision, rank, time, total)
    return outcome_of(pending, decision, rank, time, window.default, expired=True)


def outcome_of(
    pending: Pending,
    decision: LoggedDecision,
    rank: int,
    time: float,
    value: float | None,
    weight: float = 1.0,
    *,
    expired: bool = False,
) -> Outcome:
    """Return the outcome of one arm of a decision, in the present mode."""
    state, index = pending.state, decision.chosen[rank]
    arm, x = state.arm_at(decision, decision.offered[index]), decision.context_of(index)
    learned = learns(state.settings)
    return Outcome(decision.id, time, rank, arm, x, value, weight, expired, learned)
