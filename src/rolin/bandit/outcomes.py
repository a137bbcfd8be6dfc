"""The events of rewards, activations and expiry.

What is learned is an `Outcome`, at most one per arm of a decision, with the value to learn. So folding never looks back,
and learns every sum exactly once. A reward that cannot be learned from yet is held:

- It came before its decision was activated. The activation writes the outcome.
- It has an id of its own, so others may be added to it. The sum is final when the arm expires, which writes the outcome.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rolin.bandit.modes import learns
from rolin.bandit.pending import Pending, Plan
from rolin.bandit.requests import Activate, Expire, RecordRewards, Reward
from rolin.bandit.validation import reward_of
from rolin.errors import DecisionConflict, JournalError, RewardConflict, UnknownDecision
from rolin.journal.events import Activated, Event, Following, HeldReward, LoggedDecision, Outcome
from rolin.journal.validation import conflict_message, rank_of, unknown_message

__all__ = ["activate", "expire", "record_rewards"]


class _Known:
    """What the journal says about a decision."""

    __slots__ = ("active", "decision", "held", "outcomes")

    def __init__(self, decision: LoggedDecision, following: Sequence[Following]) -> None:
        self.decision, self.active = decision, decision.active
        self.outcomes: dict[int, Outcome] = {}
        self.held: list[HeldReward] = []
        for event in following:
            if isinstance(event, Outcome):
                self.outcomes[event.rank] = event
            elif isinstance(event, HeldReward):
                self.held.append(event)
            else:
                self.active = True

    def parts(self, rank: int) -> list[HeldReward]:
        """Return the rewards of an arm that add up, in order."""
        return [part for part in self.held if part.rank == rank and part.reward_id is not None]

    def early(self, rank: int) -> HeldReward | None:
        """Return the whole reward of an arm that came before the activation."""
        found = [early for early in self.held if early.rank == rank and early.reward_id is None]
        return found[0] if found else None


def _known(pending: Pending, id: str) -> _Known:
    decision = pending.decision(id)
    if decision is None:
        raise UnknownDecision(unknown_message(id))
    return _Known(decision, pending.following(id))


def record_rewards(request: RecordRewards, pending: Pending) -> Plan:
    """Return the events of rewards; repeated ones have none."""
    events: list[Event] = []
    for reward in request.rewards:
        known = _known(pending, reward.id)
        rank = rank_of(known.decision, reward.arm)
        make = _whole if reward.reward_id is None else _part
        event = make(pending, known, rank, reward, request.time)
        if event is not None:
            events.append(event)
            pending.add(event)
    return Plan(events)


def _whole(
    pending: Pending, known: _Known, rank: int, reward: Reward, time: float
) -> Outcome | HeldReward | None:
    """Return the event of the only reward of an arm."""
    id, value, weight = reward.id, reward.value, reward.weight
    if known.held and (parts := known.parts(rank)):
        raise RewardConflict(
            f"decision {id!r} has the reward {parts[0].reward_id!r}, which others are added to, but now has one "
            "without reward_id: pass reward_id=…"
        )
    before = known.outcomes.get(rank) or known.early(rank)
    if before is None:
        if known.active:
            return _outcome(pending, known.decision, rank, time, value, weight)
        return HeldReward(id, time, rank, value, weight)
    expired = isinstance(before, Outcome) and before.expired
    if expired or (before.value, before.weight) != (value, weight):
        raise RewardConflict(conflict_message(before, value, weight))
    return None


def _part(
    pending: Pending, known: _Known, rank: int, reward: Reward, time: float
) -> HeldReward | None:
    """Return the event of one of the rewards of an arm that add up."""
    id, value, reward_id = reward.id, reward.value, reward.reward_id
    parts = known.parts(rank)
    for part in parts:
        if part.reward_id == reward_id:
            if part.value != value:
                raise RewardConflict(
                    f"reward {reward_id!r} of decision {id!r} is {part.value}, but now {value} was reported; the "
                    "first one counts"
                )
            return None
    outcome = known.outcomes.get(rank)
    if outcome is not None and parts:
        raise RewardConflict(
            f"the rewards of decision {id!r} ended with a sum of {outcome.value}, but now has the reward {reward_id!r}"
            if outcome.value is not None
            else f"decision {id!r} has expired with nothing, but now has the reward {reward_id!r}"
        )
    if whole := outcome or known.early(rank):
        raise RewardConflict(
            conflict_message(whole, value, 1.0)
            if isinstance(whole, Outcome) and whole.expired
            else f"decision {id!r} has a reward of {whole.value} without reward_id, to which nothing can be added"
        )
    total = math.fsum([*(part.value for part in parts), value])
    reward_of(f"the sum of the rewards of decision {id!r}", total, pending.state.policy)
    return HeldReward(id, time, rank, value, 1.0, reward_id)


def activate(request: Activate, pending: Pending) -> Plan:
    """Return the events of an activation: itself, and the outcomes of the rewards that came before it."""
    known = _known(pending, request.id)
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
            _outcome(pending, known.decision, held.rank, held.time, held.value, held.weight)
            for held in early
        ),
    ])  # fmt: skip


def expire(request: Expire, pending: Pending) -> Plan:
    """Return the outcomes of arms that have waited long enough."""
    events: list[Event] = []
    waiting = pending.waiting(request.before, request.limit, request.after)
    pending.fetch(id for _, id, _ in waiting)
    for _, id, rank in waiting:
        decision = pending.decision(id)
        if decision is None:  # another process has just erased it
            continue
        if not 0 <= rank < len(decision.chosen) or not decision.time < request.before:
            raise JournalError(
                f"the journal is damaged: the list of open rewards disagrees with decision {id!r}; run "
                "`rolin journal check`"
            )
        known = _Known(decision, pending.following(id))
        if rank not in known.outcomes:
            events.append(_last_outcome(pending, known, rank, request))
    return Plan(events, (waiting[-1] if waiting else None, len(events)))


def _last_outcome(pending: Pending, known: _Known, rank: int, request: Expire) -> Outcome:
    """Return the outcome of an arm that has waited long enough: its sum, the default reward, or nothing."""
    decision, time = known.decision, request.time
    if not known.active:  # nobody has seen it
        return _outcome(pending, decision, rank, time, None, expired=True)
    if parts := known.parts(rank):
        # The exactly rounded sum, so the order of the parts does not matter.
        total = math.fsum(part.value for part in parts)
        return _outcome(pending, decision, rank, time, total)
    return _outcome(pending, decision, rank, time, request.value, expired=True)


def _outcome(
    pending: Pending,
    decision: LoggedDecision,
    rank: int,
    time: float,
    value: float | None,
    weight: float = 1.0,
    *,
    expired: bool = False,
) -> Outcome:
    state, index = pending.state, decision.chosen[rank]
    arm, x = state.arm_at(decision, decision.offered[index]), decision.context_of(index)
    learned = learns(state.settings)
    return Outcome(decision.id, time, rank, arm, x, value, weight, expired, learned)
