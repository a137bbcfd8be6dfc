"""Decisions and rewards, one or many at a time.

Every request here can be repeated. A decision has an id before it is sent, and the service answers a known id with the
stored decision. The same reward again counts once: it is the first of its decision, or has an id of its own. A decision
is activated once.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from rolin.client.answers import check_done, decision_of, results_of, value_of
from rolin.client.requests import Request, encoded, path_of
from rolin.client.retrying import Flow, Limits, ask
from rolin.client.running import call
from rolin.client.values import (
    Arms,
    Candidates,
    Decision,
    Features,
    Question,
    Reward,
    RewardStatus,
    id_of,
    is_unrecorded,
)
from rolin.errors import ServiceError, ServiceUnavailable, UnexpectedAnswer

__all__ = ["DecidingCalls"]

_log = logging.getLogger("rolin.client")
_NO_DECISION = (ServiceUnavailable, UnexpectedAnswer)


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
        candidates: Candidates | None = None,
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
        candidates
            Instead of `arms`: names of arms in the catalogue of the bandit, or how many of them the service shall find.
        """
        question = Question(
            arms, situation, id, person, exclude, top_k, active, baseline, fallback, candidates
        )
        request = Request("POST", self._path("decisions"), encoded(question.body()))
        until = self._limits.until(request)
        try:
            answer = yield from ask(request, self._limits, until)
            made = _answered(request, value_of(request, answer), question)
        except _NO_DECISION as error:
            return _fallen_back(question, error)
        if question.confirmed and made.recorded:
            try:
                yield from self._activate(made.id, until)
            except ServiceError as error:
                return _lost(made, error)
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
        try:
            answer = yield from ask(request, self._limits, until)
            results = results_of(request, answer, len(questions))
        except _NO_DECISION as error:
            if all(question.fallback is None for question in questions):
                raise
            results = [error] * len(questions)
        found = [
            _decided(f"{request}: item {k}", item, question)
            for k, (question, item) in enumerate(zip(questions, results, strict=True))
        ]
        ids = [
            made.id
            for question, made in zip(questions, found, strict=True)
            if question.confirmed and isinstance(made, Decision) and made.recorded
        ]
        errors = yield from self._activate_all(ids, until)
        return [
            _lost(made, errors[made.id])
            if isinstance(made, Decision) and made.id in errors
            else made
            for made in found
        ]

    def _activate_all(self, ids: list[str], until: float) -> Flow[dict[str, ServiceError]]:
        """Activate decisions; return the errors of those that could not be activated."""
        if not ids:
            return {}
        request = Request("POST", self._path("activations"), encoded({"decisions": ids}))
        try:
            answer = yield from ask(request, self._limits, until)
            results = results_of(request, answer, len(ids))
        except ServiceError as error:
            results = [error] * len(ids)
        pairs = zip(ids, results, strict=True)
        return {id: item for id, item in pairs if isinstance(item, ServiceError)}

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
        return decision_of(request, value_of(request, answer), id)

    # -- activations ---------------------------------------------------------------------------

    def _activate(self, id: str, until: float | None = None) -> Flow[None]:
        request = Request("POST", self._path("decisions", id, "activate"))
        check_done(request, (yield from ask(request, self._limits, until)))

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
        yield from self._activate(id)
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
            answer = yield from ask(request, self._limits)
            results = results_of(request, answer, len(sent))
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
            The decision, or its id. The reward of a fallback is not sent. A decision whose activation was lost is
            activated first.
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
        until = self._limits.until(request)
        if isinstance(decision, Decision) and decision.activation_lost:
            yield from self._activate(decided, until)
        answer = yield from ask(request, self._limits, until)
        check_done(request, answer)
        return "early" if answer.status == 202 else "recorded"

    @call
    def reward_batch(self, rewards: Sequence[Reward]) -> Flow[list[RewardStatus | ServiceError]]:
        """Report several rewards with one request; return what `reward` returns, or an error, for each.

        Decisions whose activation was lost are activated first. If that fails, the error is returned, although the
        reward is sent: it counts when the decision is activated.

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
        until = self._limits.until(request)
        decisions = (each.decision for each in rewards)
        lost = [d.id for d in decisions if isinstance(d, Decision) and d.activation_lost]
        errors = yield from self._activate_all(list(dict.fromkeys(lost)), until)
        results: list[Any] = []
        if items:
            answer = yield from ask(request, self._limits, until)
            results = results_of(request, answer, len(items))
        found = iter(results)
        return [
            "unrecorded" if is_unrecorded(id) else _status_or_error(next(found), errors.get(id))
            for id in ids
        ]


def _answered(what: object, value: Any, question: Question) -> Decision:
    """Return the decision of an answer to a question."""
    assert question.id is not None
    return decision_of(what, value, question.id, offered=question.offered, active=question.active)


def _decided(what: str, item: Any, question: Question) -> Decision | ServiceError:
    """Return the decision of an item of a batch, its fallback, or the error."""
    try:
        if isinstance(item, ServiceError):
            raise item
        return _answered(what, item, question)
    except _NO_DECISION as error:
        return error if question.fallback is None else _fallen_back(question, error)
    except ServiceError as error:
        return error


def _fallen_back(question: Question, error: ServiceError) -> Decision:
    """Return the fallback of a question; raise the error if there is none."""
    if question.fallback is None:
        raise error
    made = question.fall_back()
    _log.warning("decision %s falls back to %r: %s", question.id, made.arm, error)
    return made


def _lost(made: Decision, error: ServiceError) -> Decision:
    """Return a decision that could not be activated."""
    _log.warning(
        "decision %s could not be activated, so nothing is learned from it until you call activate or reward with it: %s",
        made.id,
        error,
    )
    return replace(made, active=False, activation_lost=True)


def _true_or_error(item: Any) -> bool | ServiceError:
    return item if isinstance(item, ServiceError) else True


def _status_or_error(item: Any, error: ServiceError | None) -> RewardStatus | ServiceError:
    if error is not None or isinstance(item, ServiceError):
        return error or item
    return "early" if item["status"] == 202 else "recorded"
