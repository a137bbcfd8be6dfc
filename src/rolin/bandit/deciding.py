"""From questions to decisions: read the arms, and let the policy choose, unless the id is stored already."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.checks import first_not_finite
from rolin._support.repeated import is_repeated, repeated
from rolin.bandit.modes import Decides, baseline_index, learns, propose, show_baseline, who_decides
from rolin.bandit.new_ids import NewIds
from rolin.bandit.pending import Pending, Plan
from rolin.bandit.question import (
    Conditions,
    OfferedNames,
    Question,
    check_same_question,
    digest_of,
    located,
)
from rolin.bandit.requests import Decide
from rolin.bandit.rewards import join_early
from rolin.bandit.state import BanditState
from rolin.errors import ParameterError, RolinError
from rolin.features import RecordedFeatures
from rolin.features.recorded import record_candidates
from rolin.journal.events import Event, LoggedDecision
from rolin.journal.question_digest import QuestionDigest
from rolin.journal.validation import LARGEST
from rolin.policies.candidates import check_top_k

__all__ = ["Decider"]


def _are_small(numbers: NDArray[np.float64]) -> bool:
    """Return whether all numbers are finite and at most `LARGEST`."""
    flat = numbers.reshape(-1)
    # The sum of squares takes a tenth of the time, because no array is made; `flat @ flat` takes twice as long.
    return bool(flat.dot(flat) <= LARGEST**2 or not flat.size or np.abs(flat).max() <= LARGEST)


class Decider:
    """Makes decisions by the present state; it changes nothing.

    Parameters
    ----------
    state
        The state of the bandit.
    ids
        Ids for decisions whose callers give none.
    clock
        Returns the time.
    """

    def __init__(self, state: BanditState[Any], ids: NewIds, clock: Callable[[], float]) -> None:
        self._state, self._ids, self._clock = state, ids, clock
        # The last names: callers mostly ask about the same arms again.
        self._last_names = OfferedNames((), (), b"")

    def plan(self, request: Decide, pending: Pending) -> Plan:
        """Return the decisions to write, with the outcomes of early rewards; the answer is all decisions, those that are stored already included."""
        events: list[Event] = []
        answer = []
        mark = self._ids.mark()
        try:
            for i, question in enumerate(request.questions):
                try:
                    known = None if question.id is None else pending.decision(question.id)
                    if known is not None:
                        check_same_question(known, question, request.conditions)
                        answer.append(known)
                        continue
                    # Nobody can know an id that is made now, so no reward of it is early.
                    early = [] if question.id is None else pending.following(question.id)
                    id = self._ids.new() if question.id is None else question.id
                    decision = self._choose(question, request.conditions, id)
                except RolinError as error:
                    raise located(error, i, request.questions) from error
                pending.add(decision)
                events.append(decision)
                if early:
                    events += join_early(decision, early, pending)
                answer.append(decision)
        except BaseException:
            self._ids.take_back(mark)
            raise
        return Plan(events, answer)

    def preview(self, request: Decide) -> list[LoggedDecision]:
        """Return decisions that will not be written. The journal is neither read nor changed."""
        return [
            self._choose(question, request.conditions, question.id or token_hex(8))
            for question in request.questions
        ]

    def _choose(self, question: Question, conditions: Conditions, id: str) -> LoggedDecision:
        """Choose by the present state."""
        state, (top_k, excluded, active, baseline, _) = self._state, conditions
        person = question.checked_person
        with state.lock:
            policy, version = state.current()
            settings = state.settings
            contexts, arms, raw = self.vectors(*question[:3], excluded, question.text)
            candidates = policy.candidates(contexts, arms, excluded)
            x, names, _ = candidates
            if names is not self._last_names.names:
                self._last_names = OfferedNames.of(names)
            last = self._last_names
            shared = is_repeated(x)
            is_bounded = raw is not None and raw.feature_map.is_bounded
            if not (is_bounded or _are_small(x[:1] if shared else x)):
                raise first_not_finite("contexts", x)  # its reward could not be learned
            if raw is not None and raw.feature_map.has_one_context:
                policy.warn_of_shared_context(x[:1], len(names))
            if top_k > 1:
                check_top_k(top_k, candidates)
            first = baseline_index(names, baseline)  # checked even if it is not shown
            randomization, proposal = state.randomization, None
            who = who_decides(settings, randomization, person or id)
            control = who is Decides.CONTROL
            if control or who is Decides.POLICY:
                chosen, p = randomization.choose(policy, candidates, id, top_k, control=control)
            else:
                chosen, p, proposal = show_baseline(
                    settings, randomization, policy, candidates, id, top_k, first
                )
            shadow = None
            if state.shadow is not None and learns(settings):
                shadow = propose(state.shadow_randomization, state.shadow, candidates, id, top_k)
        if raw is not None:
            vectors = raw.contexts()
        else:  # a copy of the caller's array
            vectors = repeated(x[0].copy(), len(x)) if shared else x.copy()
        for array in (vectors, p):
            if array is not None:
                array.flags.writeable = False  # a record is never changed
        given = vectors if raw is None else raw
        digest = QuestionDigest(partial(digest_of, last, given, conditions, person))
        return LoggedDecision(
            id, self._clock(), last.offered, given, chosen, p, version, person, control, False,
            digest, active, settings.mode, proposal, who is Decides.OUTSIDE_SHARE, shadow,
        )  # fmt: skip

    def vectors(
        self,
        contexts: Any,
        arms: Any,
        situation: Any,
        excluded: Collection[Name] = (),
        text: str | None = None,
    ) -> tuple[Any, Any, RecordedFeatures | None]:
        """Return contexts as vectors with their arms, and the raw features if there is a map."""
        feature_map = self._state.feature_map
        if feature_map is None:
            if situation is not None:
                raise ParameterError(
                    "situation was given, but the bandit has no feature map, expected one: Bandit(policy, feature_map=…)"
                )
            if contexts is None:
                raise ParameterError(
                    "contexts is missing, expected vectors: the bandit has no feature map"
                )
            return contexts, arms, None
        raw = record_candidates(feature_map, contexts, arms, situation, excluded, text)
        return raw.contexts(), raw.arms, raw
