"""What Personalizer's questions mean here, and how our decisions look there. No HTTP here."""

from __future__ import annotations

from collections.abc import Sequence

from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from rolin.logs.dsjson import plain_features
from rolin.service.errors import Refusal
from rolin.service.personalizer.schema import (
    MultiSlotRankRequest,
    RankableAction,
    RankedAction,
    RankRequest,
    RankResponse,
    SlotRequest,
)
from rolin.service.schema import Arm, DecisionAnswer, DecisionRequest

__all__ = ["check_slots", "decision_request", "rank_response", "slot_id", "slot_request"]


def decision_request(rank: RankRequest) -> DecisionRequest:
    """Return what a rank request asks for."""
    return DecisionRequest(
        arms=_arms(rank.actions),
        situation=plain_features(rank.context_features),
        id=rank.event_id,
        exclude=_known(rank.excluded_actions, rank.actions),
        active=not rank.defer_activation,
    )


def _arms(actions: list[RankableAction]) -> list[str | Arm]:
    return [Arm(action.id, plain_features(action.features) or None) for action in actions]


def _known(excluded: list[str] | None, actions: list[RankableAction]) -> list[str]:
    """Return the excluded actions that are offered at all: applications exclude from one list for all pages."""
    offered = {action.id for action in actions} if excluded else set()
    return [id for id in excluded or () if id in offered]


def rank_response(rank: RankRequest, answer: DecisionAnswer) -> RankResponse:
    """Return a decision as Personalizer answers it: excluded actions keep their place, with probability 0."""
    p = answer.probabilities
    if p is None and answer.recorded:
        raise Refusal(
            422,
            "the bandit does not record probabilities, which this answer needs, expected one with the setting "
            "propensities and a policy that knows them",
        )
    p = p or {answer.arm: 1.0}  # a fallback shows the baseline for certain
    excluded = set(rank.excluded_actions or ())
    free = [action.id for action in rank.actions if action.id not in excluded]
    free.sort(key=lambda id: (id != answer.arm, -p.get(id, 0.0)))
    order = iter(free)
    ranking = [
        RankedAction(id, p.get(id, 0.0))
        for id in (action.id if action.id in excluded else next(order) for action in rank.actions)
    ]
    return RankResponse(ranking, answer.id, answer.arm)


def slot_id(event_id: str, number: int) -> str:
    """Return the id of the decision of a slot."""
    return f"{event_id}/slot/{number}"


def check_slots(rank: MultiSlotRankRequest) -> None:
    """Reject slots that cannot all get an action, before the first one is decided."""
    offered = {action.id for action in rank.actions}
    if len(offered) < len(rank.actions):
        raise Refusal(400, "two actions have the same id", field="actions")
    for name, values in (
        ("id", [slot.id for slot in rank.slots]),
        ("baselineAction", [slot.baseline_action for slot in rank.slots]),
    ):
        if len(set(values)) < len(values):
            raise Refusal(400, f"two slots have the same {name}", field="slots")
    for number, slot in enumerate(rank.slots):
        # As these are different for all slots, there is always a way to fill them.
        if slot.baseline_action not in offered - set(slot.excluded_actions or ()):
            raise Refusal(
                400,
                f"it is {slot.baseline_action!r}, expected the id of an action that is not excluded",
                field=f"slots[{number}].baselineAction",
            )


def slot_request(
    rank: MultiSlotRankRequest, number: int, event_id: str, shown: Sequence[str]
) -> DecisionRequest:
    """Return what is asked for one slot, when the actions of the slots before it are known.

    Parameters
    ----------
    rank
        The whole request.
    number
        Which slot.
    event_id
        Id of the event.
    shown
        Actions that are shown in earlier slots.
    """
    slot = rank.slots[number]
    free = [action.id for action in rank.actions if action.id not in shown]
    allowed = set(free).difference(slot.excluded_actions or ())
    later = rank.slots[number + 1 :]
    if any(each.excluded_actions for each in later):
        allowed = {id for id in allowed if _can_be_filled(later, [f for f in free if f != id])}
    return DecisionRequest(
        arms=_arms(rank.actions),
        situation={
            **plain_features(rank.context_features),
            "slot": {**plain_features(slot.features), "id": slot.id},
        },
        id=slot_id(event_id, number),
        exclude=[action.id for action in rank.actions if action.id not in allowed],
        active=False,
        baseline=slot.baseline_action if slot.baseline_action in allowed else None,
    )


def _can_be_filled(slots: Sequence[SlotRequest], actions: Sequence[str]) -> bool:
    """Return whether every slot can get an action of its own that it does not exclude."""
    allowed = [[id not in (slot.excluded_actions or ()) for id in actions] for slot in slots]
    matched = maximum_bipartite_matching(csr_array(allowed), perm_type="column")
    return bool((matched >= 0).all())
