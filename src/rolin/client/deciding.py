"""Decisions and rewards, one or many at a time.

Every request here can be repeated. A decision has an id before it is sent, and the service answers a known id with the
stored decision. The same reward again counts once: it is the first of its decision, or has an id of its own. A decision
is activated once.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any

from rolin.client.requests import Answer, Request, encoded, path_of, refusal, value_of
from rolin.client.retrying import Flow, Limits, ask
from rolin.client.running import call
from rolin.client.values import (
    Arms,
    Decision,
    Features,
    Question,
    Reward,
    RewardStatus,
    id_of,
    is_unrecorded,
)
from rolin.errors import ServiceError, ServiceUnavailable

__all__ = ["DecidingCalls"]

_log = logging.getLogger("rolin.client")


class DecidingCalls:
    """The calls of a bandit that decide, activate and reward.

    Parameters
    ----------
    name
        Name of the bandit.
    limits
        How long calls may take, and how often they are sent again.
    """

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        """Name of the bandit."""
        self._limits = limits
        self._path("decisions")  # which rejects what is no name

    def _path(self, *parts: str) -> str:
        return path_of("bandits", self.name, *parts)

    # -- decisions -----------------------------------------------------------------------------

    @call
    def decide(
        self,
        arms: Arms | None = None,
        *,
        situation: Features = None,
        id: str | None = None,
        person: str | None = None,
        exclude: Collection[str] = (),
        top_k: int = 1,
        active: bool = True,
        baseline: str | None = None,
        fallback: str | Sequence[str] | None = None,
    ) -> Flow[Decision]:
        """Choose an arm.

        With a `fallback`, the decision counts only if its answer came in time: it is asked for as inactive and activated
        by a second request. So a decision that the service has recorded, but whose answer came too late to be shown, is
        never learned from.

        Parameters
        ----------
        arms
            The arms that can be chosen: features by arm, or names of arms. By default those that are registered.
        situation
            Features that all arms share.
        id
            Your own id of the decision; by default a new one. The same question with the same id gets the same answer.
        person
            Whom it is for: stays in or out of the control group, and can be erased.
        exclude
            Arms that must not be chosen.
        top_k
            Number of arms to rank.
        active
            `False` if it is not known yet whether it will be shown: call `activate` when it is.
        baseline
            The arm to show while the baseline decides; by default the first.
        fallback
            The arm to show if the service does not answer in time, or a ranking of arms. The decision is then not
            recorded, and its reward is not sent. By default an error is raised.
        """
        question = Question(arms, situation, id, person, exclude, top_k, active, baseline, fallback)
        request = Request("POST", self._path("decisions"), encoded(question.body()))
        until = self._limits.until(request)
        try:
            answer = yield from ask(request, self._limits, until)
        except ServiceUnavailable as error:
            return _fallen_back(question, error)
        made = Decision.from_answer(value_of(request, answer))
        if question.confirmed and made.recorded:
            try:
                yield from ask(self._activation(made.id), self._limits, until)
            except ServiceError as error:
                _warn_of_lost([made.id], error)
        return made

    @call
    def decide_batch(self, questions: Sequence[Question]) -> Flow[list[Decision | ServiceError]]:
        """Make several decisions with one request; return a decision or an error for each question, in order.

        If the service does not answer, questions with a fallback get it. If no question has one, the error is raised.

        Parameters
        ----------
        questions
            The questions.
        """
        body = {"decisions": [question.body() for question in questions]}
        request = Request("POST", self._path("decisions", "batch"), encoded(body))
        until = self._limits.until(request)
        found: list[Decision | ServiceError] = []
        try:
            answer = yield from ask(request, self._limits, until)
        except ServiceUnavailable as error:
            if all(question.fallback is None for question in questions):
                raise
            return [_fallen_back(q, error) if q.fallback is not None else error for q in questions]
        for question, item in zip(questions, _results(request, answer), strict=True):
            if isinstance(item, ServiceUnavailable) and question.fallback is not None:
                found.append(_fallen_back(question, item))
            else:
                found.append(item if isinstance(item, ServiceError) else Decision.from_answer(item))
        ids = [
            made.id
            for question, made in zip(questions, found, strict=True)
            if question.confirmed and isinstance(made, Decision) and made.recorded
        ]
        if ids:
            yield from self._activate_all(ids, until)
        return found

    def _activate_all(self, ids: list[str], until: float) -> Flow[None]:
        request = Request("POST", self._path("activations"), encoded({"decisions": ids}))
        try:
            answer = yield from ask(request, self._limits, until)
            results = _results(request, answer)
        except ServiceError as error:
            _warn_of_lost(ids, error)
            return
        for id, item in zip(ids, results, strict=True):
            if isinstance(item, ServiceError):
                _warn_of_lost([id], item)

    @call
    def decision(self, id: str) -> Flow[Decision]:
        """Return a stored decision.

        Parameters
        ----------
        id
            Its id.
        """
        request = Request("GET", self._path("decisions", id))
        answer = yield from ask(request, self._limits)
        return Decision.from_answer(value_of(request, answer))

    # -- activations ---------------------------------------------------------------------------

    def _activation(self, id: str) -> Request:
        return Request("POST", self._path("decisions", id, "activate"))

    @call
    def activate(self, decision: Decision | str) -> Flow[bool]:
        """Say that a decision made with `active=False` is in use.

        Parameters
        ----------
        decision
            The decision, or its id.

        Returns
        -------
        bool
            `False` if it is a fallback, which the service does not know.
        """
        id = id_of(decision)
        if is_unrecorded(id):
            return False
        yield from ask(self._activation(id), self._limits)
        return True

    @call
    def activate_batch(
        self, decisions: Sequence[Decision | str]
    ) -> Flow[list[bool | ServiceError]]:
        """Activate several decisions with one request; return what `activate` returns, or an error, for each.

        Parameters
        ----------
        decisions
            The decisions, or their ids.
        """
        ids = [id_of(decision) for decision in decisions]
        sent = [id for id in ids if not is_unrecorded(id)]
        request = Request("POST", self._path("activations"), encoded({"decisions": sent}))
        results: list[Any] = []
        if sent:
            results = _results(request, (yield from ask(request, self._limits)))
        found = iter(results)
        return [False if is_unrecorded(id) else _true_or_error(next(found)) for id in ids]

    # -- rewards -------------------------------------------------------------------------------

    @call
    def reward(
        self,
        decision: Decision | str,
        value: float,
        *,
        arm: str | None = None,
        weight: float = 1.0,
        id: str | None = None,
    ) -> Flow[RewardStatus]:
        """Report the reward of a decision.

        Parameters
        ----------
        decision
            The decision, or its id. The reward of a fallback is not sent.
        value
            The reward; higher is better.
        arm
            The arm that earned it, if several were ranked; by default the first.
        weight
            How much it counts.
        id
            Your own id of the reward, if the rewards of a decision add up. The same id counts once.

        Returns
        -------
        RewardStatus
            `"recorded"`, `"early"` if there is no such decision yet, or `"unrecorded"` if it is a fallback.
        """
        decided = id_of(decision)
        if is_unrecorded(decided):
            return "unrecorded"
        body = Reward(decided, value, arm, weight, id).body()
        request = Request("POST", self._path("decisions", decided, "reward"), encoded(body))
        answer = yield from ask(request, self._limits)
        return "early" if answer.status == 202 else "recorded"

    @call
    def reward_batch(self, rewards: Sequence[Reward]) -> Flow[list[RewardStatus | ServiceError]]:
        """Report several rewards with one request; return what `reward` returns, or an error, for each.

        Parameters
        ----------
        rewards
            The rewards.
        """
        ids = [id_of(reward.decision) for reward in rewards]
        items = [
            {"decision": id, **reward.body()}
            for id, reward in zip(ids, rewards, strict=True)
            if not is_unrecorded(id)
        ]
        request = Request("POST", self._path("rewards"), encoded({"rewards": items}))
        results: list[Any] = []
        if items:
            results = _results(request, (yield from ask(request, self._limits)))
        found = iter(results)
        return ["unrecorded" if is_unrecorded(id) else _status_or_error(next(found)) for id in ids]


def _fallen_back(question: Question, error: ServiceUnavailable) -> Decision:
    """Return the fallback of a question; raise the error if there is none."""
    if question.fallback is None:
        raise error
    made = question.fall_back()
    _log.warning("decision %s falls back to %r: %s", question.id, made.arm, error)
    return made


def _warn_of_lost(ids: Sequence[str], error: ServiceError) -> None:
    _log.warning(
        "decisions %s could not be activated, so nothing is learned from them until you call activate: %s",
        ", ".join(ids),
        error,
    )


def _results(request: Request, answer: Answer) -> list[Any]:
    """Return the results of a batch: the answer to each item, or its error."""
    return [
        refusal(f"{request}: item {k}", Answer(item["status"], {}, encoded(item)))
        if "error" in item
        else item
        for k, item in enumerate(value_of(request, answer)["results"])
    ]


def _true_or_error(item: Any) -> bool | ServiceError:
    return item if isinstance(item, ServiceError) else True


def _status_or_error(item: Any) -> RewardStatus | ServiceError:
    if isinstance(item, ServiceError):
        return item
    return "early" if item["status"] == 202 else "recorded"
