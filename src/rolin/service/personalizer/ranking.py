"""What Personalizer's questions mean here, and how our decisions look there. No HTTP here."""

from __future__ import annotations

from rolin.logs.dsjson import plain_features
from rolin.service.errors import Refusal
from rolin.service.personalizer.schema import (
    MultiSlotRankRequest,
    RankableAction,
    RankedAction,
    RankRequest,
    RankResponse,
)
from rolin.service.schema import Arm, DecisionAnswer, DecisionRequest

__all__ = ["decision_request", "rank_response", "slot_id", "slot_request"]


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
    p = answer.probabilities or {answer.arm: 1.0}  # a fallback shows the baseline for certain
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


def slot_request(
    rank: MultiSlotRankRequest, number: int, event_id: str, shown: set[str]
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
    offered = [action.id for action in rank.actions]
    if slot.baseline_action not in offered:
        raise Refusal(
            400,
            f"it is {slot.baseline_action!r}, expected the id of an action",
            field=f"slots[{number}].baselineAction",
        )
    exclude = [id for id in offered if id in shown or id in (slot.excluded_actions or ())]
    return DecisionRequest(
        arms=_arms(rank.actions),
        situation={
            **plain_features(rank.context_features),
            "slot": {**plain_features(slot.features), "id": slot.id},
        },
        id=slot_id(event_id, number),
        exclude=exclude,
        active=not rank.defer_activation,
        baseline=None if slot.baseline_action in exclude else slot.baseline_action,
    )
