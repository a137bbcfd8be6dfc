"""The calls of a bandit as values, and the events that each of them writes.

`plan` turns a request into events, given what the journal holds and what is about to be written.
`change_event` does the same for a change that depends on the whole state, such as removing an arm.
Neither of them writes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from rolin._support.arms import Name
from rolin.bandit.randomization import check_settings
from rolin.errors import ArmError, JournalError, RewardConflict, UnknownDecision
from rolin.features import BaseFeatureMap
from rolin.journal import Journal
from rolin.journal.base import Waiting
from rolin.journal.events import (
    ArmRemoved,
    ArmRestored,
    Decayed,
    Event,
    FeatureMapChanged,
    LoggedDecision,
    Outcome,
    ScalesLearned,
    SettingsChanged,
)
from rolin.journal.folding import adaptive_of
from rolin.journal.validation import conflict_message, rank_of, unknown_message
from rolin.logs.record import PastDecision
from rolin.policies import Policy

__all__ = [
    "Change",
    "ChangeFeatureMap",
    "ChangeSettings",
    "Decay",
    "Expire",
    "ImportDecisions",
    "LearnScales",
    "Pending",
    "Plan",
    "RecordDecisions",
    "RecordRewards",
    "RemoveArm",
    "Request",
    "RestoreArm",
    "Reward",
    "change_event",
    "plan",
]


class RecordDecisions(NamedTuple):
    """Record decisions that were just made; the answer is the decisions as they are stored."""

    decisions: Sequence[LoggedDecision]
    stored: Collection[int]
    """Indices of decisions that were read from the journal and need not be written."""
    given_ids: Collection[str]
    """Ids chosen by the caller: another thread or process may have stored one of them meanwhile."""


class Reward(NamedTuple):
    """The reward of one arm of a decision."""

    id: str
    value: float
    arm: Name | None
    """One arm of the ranking; by default the first."""
    weight: float


class RecordRewards(NamedTuple):
    """Record rewards, all of them or none."""

    rewards: Sequence[Reward]
    time: float


class Expire(NamedTuple):
    """Close arms that have waited too long; the answer is the last one looked at and how many were closed."""

    before: float
    """Close arms that were chosen before this time."""
    limit: int
    """Number of arms to close in one transaction."""
    after: Waiting | None
    """The last arm that was looked at before; `None` to begin with the oldest."""
    value: float | None
    """The default reward; `None` to learn nothing."""
    time: float


class ImportDecisions(NamedTuple):
    """Record past decisions with their outcomes; the answer is how many were new."""

    past: Sequence[PastDecision]


Request = RecordDecisions | RecordRewards | Expire | ImportDecisions


class Plan(NamedTuple):
    """The events that a request writes, and its answer."""

    events: list[Event]
    answer: Any = None


class Pending:
    """The journal as it will be once the events that are being written are stored.

    Parameters
    ----------
    under
        The journal, or other events that are pending.
    find
        Returns the stored decision with an id.
    version
        Number of the last event that the state knows.
    arm_at
        Returns an arm as it was at the time of a decision.
    """

    def __init__(
        self,
        under: Journal | Pending,
        find: Callable[[str], LoggedDecision | None],
        version: int,
        arm_at: Callable[[LoggedDecision, Name], Name],
    ) -> None:
        self._under, self._find = under, find
        self.version = version
        self.arm_at = arm_at
        self._decisions: dict[str, LoggedDecision] = {}
        self._outcomes: dict[str, dict[int, Outcome]] = {}

    def nested(self) -> Pending:
        """Return a layer on top, which can be dropped if a request is rejected."""
        return Pending(self, self.decision, self.version, self.arm_at)

    def add(self, event: Event) -> None:
        """Add an event that is about to be written."""
        if isinstance(event, LoggedDecision):
            self._decisions[event.id] = event
        elif isinstance(event, Outcome):
            self._outcomes.setdefault(event.id, {})[event.rank] = event

    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision with this id."""
        return self._decisions.get(id) or self._find(id)

    def outcomes(self, id: str) -> dict[int, Outcome]:
        """Return the outcomes of a decision, by rank."""
        own = self._outcomes.get(id, {})
        return own if id in self._decisions else {**self._under.outcomes(id), **own}

    def waiting(self, before: float, limit: int, after: Waiting | None) -> list[Waiting]:
        """Return the oldest arms that have no outcome in the journal."""
        return self._under.waiting(before, limit, after)


def plan(request: Request, pending: Pending) -> Plan:
    """Return the events that a request writes, or raise if it cannot be carried out."""
    match request:
        case RecordDecisions():
            return _record_decisions(request, pending)
        case RecordRewards():
            return _record_rewards(request, pending)
        case Expire():
            return _expire(request, pending)
        case ImportDecisions():
            return _import_decisions(request, pending)


def _record_decisions(request: RecordDecisions, pending: Pending) -> Plan:
    events: list[Event] = []
    answer = []
    for i, decision in enumerate(request.decisions):
        stored = decision if i in request.stored else None
        if stored is None and decision.id in request.given_ids:
            stored = pending.decision(decision.id)
        if stored is None:
            events.append(decision)
            pending.add(decision)
        answer.append(stored or decision)
    return Plan(events, answer)


def _record_rewards(request: RecordRewards, pending: Pending) -> Plan:
    events: list[Event] = []
    for reward in request.rewards:
        value, weight = reward.value, reward.weight
        decision = pending.decision(reward.id)
        if decision is None:
            raise UnknownDecision(unknown_message(reward.id))
        rank = rank_of(decision, reward.arm)
        known = pending.outcomes(reward.id).get(rank)
        if known is None:
            outcome = _outcome(pending, decision, rank, request.time, value, weight)
            events.append(outcome)
            pending.add(outcome)
        elif known.expired or (known.value, known.weight) != (value, weight):
            raise RewardConflict(conflict_message(known, value, weight))
    return Plan(events)


def _expire(request: Expire, pending: Pending) -> Plan:
    events: list[Event] = []
    waiting = pending.waiting(request.before, request.limit, request.after)
    for _, id, rank in waiting:
        decision = pending.decision(id)
        if decision is None:  # another process has just erased it
            continue
        if not 0 <= rank < len(decision.chosen) or not decision.time < request.before:
            raise JournalError(
                f"the journal is damaged: the list of open rewards disagrees with decision {id!r}; run "
                "`rolin journal check`"
            )
        if rank not in pending.outcomes(id):
            events.append(
                _outcome(pending, decision, rank, request.time, request.value, expired=True)
            )
    return Plan(events, (waiting[-1] if waiting else None, len(events)))


def _import_decisions(request: ImportDecisions, pending: Pending) -> Plan:
    events: list[Event] = []
    new = 0
    for decision, outcomes in request.past:
        stored = pending.decision(decision.id)
        if stored is not None and stored.ranking != decision.ranking:
            raise RewardConflict(
                f"decision {decision.id!r} chose {stored.arm!r} in the journal, but "
                f"{decision.arm!r} in the imported log"
            )
        if stored is None:
            here = decision._replace(version=pending.version, imported=True)
            if here.raw is not None:
                here.raw.release(here.chosen)
            pending.add(here)
            events.append(here)
            events += [
                # In another journal the arm may have been an earlier life of this one.
                outcome._replace(id=here.id, rank=rank, arm=here.ranking[rank])
                for rank, outcome in outcomes.items()
            ]
            new += 1
    return Plan(events, new)


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
    index = decision.chosen[rank]
    arm = pending.arm_at(decision, decision.offered[index])
    x = decision.context_of(index)
    return Outcome(decision.id, time, rank, arm, x, value, weight, expired)


class RemoveArm(NamedTuple):
    """Remove an arm."""

    arm: Name


class RestoreArm(NamedTuple):
    """Restore a removed arm."""

    arm: Name
    with_past: bool


class Decay(NamedTuple):
    """Multiply all evidence by a factor."""

    factor: float


class LearnScales(NamedTuple):
    """Estimate the scales from all evidence."""


class ChangeFeatureMap(NamedTuple):
    """Use another feature map from now on."""

    feature_map: BaseFeatureMap


class ChangeSettings(NamedTuple):
    """Use other settings from now on; those not given stay as they are."""

    given: Mapping[str, Any]


Change = RemoveArm | RestoreArm | Decay | LearnScales | ChangeFeatureMap | ChangeSettings


def change_event(
    change: Change, policy: Policy[Any], settings: SettingsChanged, time: float
) -> Event:
    """Return the event of a change to the present state, or raise if it cannot be made."""
    match change:
        case RemoveArm(arm):
            if arm in policy.removed_arms:
                raise ArmError(f"arm {arm!r} was removed already")
            if arm not in policy.arms:
                raise ArmError(f"arm {arm!r} was never rewarded, so there is nothing to remove")
            return ArmRemoved(time, arm)
        case RestoreArm(arm, with_past):
            if arm not in (removed := policy.removed_arms):
                raise ArmError(f"arm {arm!r} is not among the removed arms: {removed!r}")
            return ArmRestored(time, arm, with_past)
        case Decay(factor):
            return Decayed(time, factor)
        case LearnScales():
            model = adaptive_of(policy)
            assert model is not None  # checked by the caller
            return ScalesLearned(time, model.estimate_scales())
        case ChangeFeatureMap(feature_map):
            return FeatureMapChanged(time, feature_map)
        case ChangeSettings(given):
            new = settings._replace(**given, time=time)
            check_settings(new)
            return new
