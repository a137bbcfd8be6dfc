"""The events of rewards: what counts, what waits for its decision, and what is ignored.

A reward is judged by its decision and by what has happened to it. If it does not count, a strict request raises, and a
lenient one records it as ignored. A lenient request also records a reward whose decision is not made yet, and the decision
judges it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from rolin._support.arms import Name, canonical
from rolin.bandit.outcomes import Known, known_decision, last_outcome, open_early, outcome_of
from rolin.bandit.pending import Pending, Plan
from rolin.bandit.requests import RecordRewards, Reward, RewardStatus, Window
from rolin.bandit.validation import reward_of
from rolin.errors import InputError, RewardConflict
from rolin.journal.events import (
    EarlyReward,
    Event,
    Following,
    HeldReward,
    IgnoredReason,
    IgnoredReward,
    LoggedDecision,
    Outcome,
)
from rolin.journal.validation import check_names, conflict_message, rank_of

__all__ = ["join_early", "record_rewards"]

_MAX_IGNORED = 100  # rewards of one decision that are recorded although they do not count


class _Judged(NamedTuple):
    """What becomes of a reward."""

    status: RewardStatus
    event: Following | None = None
    """What is recorded, if anything."""


class _DoesNotCount(NamedTuple):
    """Why a reward does not count."""

    reason: IgnoredReason
    message: str


def record_rewards(request: RecordRewards, pending: Pending) -> Plan:
    """Return the events of rewards; repeated ones have none."""
    events: list[Event] = []
    statuses: list[RewardStatus] = []
    record = _recorded if request.lenient else _counted
    for reward in request.rewards:
        if request.window is not None:
            events += _closed_first(pending, reward, request.window)
        status, event = record(pending, reward, request.time)
        statuses.append(status)
        if event is not None:
            events.append(event)
            pending.add(event)
    return Plan(events, statuses)


def _closed_first(pending: Pending, reward: Reward, window: Window) -> list[Event]:
    """Return the end of the arm of a reward, if it has waited too long; then the reward is late."""
    decision = pending.decision(reward.id)
    if decision is None or not decision.time < window.before:
        return []
    known, rank = Known(decision, pending.following(reward.id)), rank_of(decision, reward.arm)
    if rank in known.outcomes:
        return []
    outcome = last_outcome(pending, known, rank, window)
    pending.add(outcome)
    return [outcome]


def join_early(
    decision: LoggedDecision, before: Sequence[Following], pending: Pending
) -> list[Event]:
    """Return the events of the early rewards of a decision, as if they had come just after it.

    Parameters
    ----------
    decision
        The decision, which was just added to `pending`.
    before
        What had happened before it was made.
    pending
        The journal as it will be.
    """
    events: list[Event] = []
    for early in open_early(before):
        reward = Reward(early.id, early.value, early.arm, early.weight, early.reward_id)
        known = Known(decision, pending.following(decision.id))
        time = max(early.time, decision.time)
        try:
            event = _recorded_for(pending, known, reward, time).event
        except InputError:  # the arm is not in the ranking, or the sum is too large
            event = _ignored(known, reward, time, "invalid")
        if event is not None:
            events.append(event)
            pending.add(event)
    return events


def _counted(pending: Pending, reward: Reward, time: float) -> _Judged:
    """Return what becomes of a reward; raise if it does not count."""
    judged = _judged(pending, known_decision(pending, reward.id), reward, time)
    if isinstance(judged, _DoesNotCount):
        raise RewardConflict(judged.message)
    return judged


def _recorded(pending: Pending, reward: Reward, time: float) -> _Judged:
    """Return what becomes of a reward, which is recorded also if it does not count."""
    decision, following = pending.decision(reward.id), pending.following(reward.id)
    if decision is None:
        return _early(following, reward, time)
    return _recorded_for(pending, Known(decision, following), reward, time)


def _recorded_for(pending: Pending, known: Known, reward: Reward, time: float) -> _Judged:
    """Return what becomes of a reward of a known decision."""
    if known.ignored and _as_recorded(known, reward) in map(_content, known.ignored):
        return _Judged("repeated")
    judged = _judged(pending, known, reward, time)
    if not isinstance(judged, _DoesNotCount):
        return judged
    status: RewardStatus = "late" if judged.reason == "late" else "conflicting"
    if len(known.ignored) >= _MAX_IGNORED:
        return _Judged(status)
    return _Judged(status, _ignored(known, reward, time, judged.reason))


def _early(following: Sequence[Following], reward: Reward, time: float) -> _Judged:
    """Return what becomes of a reward whose decision is not made yet."""
    arm = None if reward.arm is None else canonical(reward.arm)
    if arm is not None:
        check_names([arm])
    known = [event for event in following if isinstance(event, EarlyReward)]
    number = max((event.number for event in known), default=-1) + 1
    event = EarlyReward(reward.id, time, number, arm, reward.value, reward.weight, reward.reward_id)
    if _content(event) in map(_content, known):
        return _Judged("repeated")
    return _Judged("early", event)


def _ignored(known: Known, reward: Reward, time: float, reason: IgnoredReason) -> IgnoredReward:
    return IgnoredReward(reward.id, time, len(known.ignored), *_as_recorded(known, reward), reason)


_Content = tuple[Name | None, float, float, str | None]


def _as_recorded(known: Known, reward: Reward) -> _Content:
    """Return the content of a reward as an ignored one would be recorded."""
    arm = known.decision.arm if reward.arm is None else canonical(reward.arm)
    return arm, reward.value, reward.weight, reward.reward_id


def _content(event: EarlyReward | IgnoredReward) -> _Content:
    return event.arm, event.value, event.weight, event.reward_id


def _judged(pending: Pending, known: Known, reward: Reward, time: float) -> _Judged | _DoesNotCount:
    """Return what becomes of a reward of a known decision, or why it does not count."""
    rank = rank_of(known.decision, reward.arm)
    judge = _whole if reward.reward_id is None else _part
    return judge(pending, known, rank, reward, time)


def _whole(
    pending: Pending, known: Known, rank: int, reward: Reward, time: float
) -> _Judged | _DoesNotCount:
    """Judge the only reward of an arm."""
    id, value, weight = reward.id, reward.value, reward.weight
    outcome = known.outcomes.get(rank)
    ended: IgnoredReason = "conflicting" if outcome is None else "late"
    if known.held and (parts := known.parts(rank)):
        return _DoesNotCount(
            ended,
            f"decision {id!r} has the reward {parts[0].reward_id!r}, which others are added to, but now has one "
            "without reward_id: pass reward_id=…",
        )
    before = outcome or (known.held_whole(rank) if known.held else None)
    if before is None:
        if not known.active:
            return _Judged("recorded", HeldReward(id, time, rank, value, weight))
        new = outcome_of(pending, known.decision, rank, time, value, weight)
        return _Judged("learned" if new.learned else "recorded", new)
    expired = isinstance(before, Outcome) and before.expired
    if expired or (before.value, before.weight) != (value, weight):
        reason: IgnoredReason = "late" if expired else "conflicting"
        return _DoesNotCount(reason, conflict_message(before, value, weight))
    return _Judged("repeated")


def _part(
    pending: Pending, known: Known, rank: int, reward: Reward, time: float
) -> _Judged | _DoesNotCount:
    """Judge one of the rewards of an arm that add up."""
    id, value, reward_id = reward.id, reward.value, reward.reward_id
    parts = known.parts(rank)
    for part in parts:
        if part.reward_id == reward_id:
            if part.value != value:
                return _DoesNotCount(
                    "conflicting",
                    f"reward {reward_id!r} of decision {id!r} is {part.value}, but now {value} was reported; the "
                    "first one counts",
                )
            return _Judged("repeated")
    outcome = known.outcomes.get(rank)
    if outcome is not None and parts:
        return _DoesNotCount(
            "late",
            f"the rewards of decision {id!r} ended with a sum of {outcome.value}, but now has the reward {reward_id!r}"
            if outcome.value is not None
            else f"decision {id!r} has expired with nothing, but now has the reward {reward_id!r}",
        )
    if whole := outcome or known.held_whole(rank):
        if isinstance(whole, Outcome) and whole.expired:
            return _DoesNotCount("late", conflict_message(whole, value, 1.0))
        return _DoesNotCount(
            "conflicting",
            f"decision {id!r} has a reward of {whole.value} without reward_id, to which nothing can be added",
        )
    total = math.fsum([*(part.value for part in parts), value])
    reward_of(f"the sum of the rewards of decision {id!r}", total, pending.state.policy)
    return _Judged("recorded", HeldReward(id, time, rank, value, 1.0, reward_id))
