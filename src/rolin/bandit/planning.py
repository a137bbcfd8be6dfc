"""From requests to the events that they write.

`plan` turns a request into events, given what the journal holds and what is about to be written.
`change_event` does the same for a change that depends on the whole state, such as removing an arm.
Neither of them writes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rolin.bandit import outcomes, rewards
from rolin.bandit.deciding import Decider
from rolin.bandit.modes import learns
from rolin.bandit.pending import Pending, Plan
from rolin.bandit.randomization import check_settings
from rolin.bandit.requests import (
    Activate,
    Change,
    ChangeFeatureMap,
    ChangeSettings,
    Decay,
    Decide,
    Expire,
    ImportDecisions,
    LearnScales,
    RecordRewards,
    RemoveArm,
    Request,
    RestoreArm,
    StartShadow,
    StopShadow,
)
from rolin.bandit.validation import checked_shadow
from rolin.errors import ArmError, InputError, RewardConflict
from rolin.journal.events import (
    ArmRemoved,
    ArmRestored,
    Decayed,
    Event,
    FeatureMapChanged,
    ScalesLearned,
    SettingsChanged,
    ShadowStarted,
    ShadowStopped,
)
from rolin.journal.folding import adaptive_of, state_bytes
from rolin.policies import Policy

__all__ = ["change_event", "ids_of", "plan"]


def ids_of(request: Request) -> Sequence[str]:
    """Return the ids of the decisions that planning a request looks up, as far as they are known and few."""
    match request:
        case Decide():
            return [question.id for question in request.questions if question.id is not None]
        case RecordRewards():
            return [reward.id for reward in request.rewards]
        case Activate():
            return [request.id]
        case _:
            return ()


def plan(request: Request, pending: Pending, decider: Decider) -> Plan:
    """Return the events that a request writes, or raise if it cannot be carried out."""
    match request:
        case Decide():
            return decider.plan(request, pending)
        case RecordRewards():
            return rewards.record_rewards(request, pending)
        case Activate():
            return outcomes.activate(request, pending)
        case Expire():
            return outcomes.expire(request, pending)
        case ImportDecisions():
            return _import_decisions(request, pending)


def _import_decisions(request: ImportDecisions, pending: Pending) -> Plan:
    _check_learns(pending.state.settings, "import_log")
    events: list[Event] = []
    new = 0
    for decision, past_outcomes in request.past:
        stored = pending.decision(decision.id)
        if stored is not None and stored.ranking != decision.ranking:
            raise RewardConflict(
                f"decision {decision.id!r} chose {stored.arm!r} in the journal, but "
                f"{decision.arm!r} in the imported log"
            )
        if stored is None:
            here = decision._replace(
                version=pending.state.version, imported=True, digest=None, active=True
            )
            if here.raw is not None:
                here.raw.release(here.chosen)
            early = pending.following(here.id)
            own: list[Event] = [here]
            own += [
                # In another journal the arm may have been an earlier life of this one.
                outcome._replace(id=here.id, rank=rank, arm=here.ranking[rank], learned=True)
                for rank, outcome in past_outcomes.items()
            ]
            for event in own:
                pending.add(event)
            events += [*own, *rewards.join_early(here, early, pending)]
            new += 1
    return Plan(events, new)


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
            _check_learns(settings, "learn_scales")
            model = adaptive_of(policy)
            assert model is not None  # checked by the caller
            return ScalesLearned(time, model.estimate_scales(roughly=model.is_due))
        case ChangeFeatureMap(feature_map):
            return FeatureMapChanged(time, feature_map)
        case ChangeSettings(given):
            new = settings._replace(**given, time=time)
            check_settings(new)
            return new
        case StartShadow(given):
            return ShadowStarted(time, state_bytes(checked_shadow(given, policy)))
        case StopShadow():
            return ShadowStopped(time)


def _check_learns(settings: SettingsChanged, call: str) -> None:
    """Reject a call that would teach the policy something, if the bandit is stopped."""
    if not learns(settings):
        raise InputError(
            f'{call} would change the policy, but the bandit is stopped: change_settings(mode="online") first'
        )
