"""From questions to decisions: read the arms, let the policy choose, and look up ids that are stored already."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from rolin._support.arms import Name
from rolin._support.checks import first_not_finite, text_of
from rolin.bandit import modes
from rolin.bandit.new_ids import NewIds
from rolin.bandit.question import (
    Conditions,
    OfferedNames,
    Question,
    check_same_question,
    digest_of,
)
from rolin.bandit.requests import RecordDecisions
from rolin.bandit.state import BanditState
from rolin.errors import ParameterError, RolinError
from rolin.features import RecordedFeatures
from rolin.features.recorded import record_candidates
from rolin.journal.events import LoggedDecision
from rolin.journal.validation import LARGEST
from rolin.policies.candidates import check_top_k

__all__ = ["Decider"]


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

    def decide(self, questions: Sequence[Question], conditions: Conditions) -> RecordDecisions:
        """Choose an arm for every question, or look up the stored decision."""
        with self._ids.taken_back_on_error():
            decisions: list[LoggedDecision] = []
            made: dict[str, LoggedDecision] = {}  # by the id that the caller gave
            stored = set()
            for i, question in enumerate(questions):
                try:
                    person = None if question.person is None else text_of("person", question.person)
                    id = self._ids.new() if question.id is None else text_of("id", question.id)
                    known = None
                    if question.id is not None:
                        known = self._state.decision(id)
                        if known is not None:
                            stored.add(i)
                        else:
                            known = made.get(id)
                    if known is None:
                        decision = self._choose(question, conditions, id, person)
                    else:
                        check_same_question(known, question, conditions, person)
                        decision = known
                except RolinError as error:
                    if len(questions) == 1:
                        raise
                    raise type(error)(f"question {i}: {error}") from error
                decisions.append(decision)
                if question.id is not None:
                    made[id] = decision
            return RecordDecisions(decisions, stored, set(made))

    def _choose(
        self, question: Question, conditions: Conditions, id: str, person: str | None
    ) -> LoggedDecision:
        """Choose by the present state."""
        state, (top_k, excluded, active, _) = self._state, conditions
        with state.lock:
            policy, version = state.current()
            settings = state.settings
            contexts, arms, raw = self.vectors(*question[:3], excluded)
            candidates = policy.candidates(contexts, arms, excluded)
            x, names, _ = candidates
            if names is not self._last_names.names:
                self._last_names = OfferedNames.of(names)
            last = self._last_names
            if x.size and not np.abs(x).max() <= LARGEST:  # so that its reward can be learned from
                raise first_not_finite("contexts", x)
            if top_k > 1:
                check_top_k(top_k, candidates)
            chosen, p, control, proposal = modes.choose(
                settings, state.randomization, policy, candidates, key=id, unit=person or id, top_k=top_k
            )  # fmt: skip
        vectors = x.copy() if raw is None else x
        for array in (vectors, p, None if proposal is None else proposal.propensities):
            if array is not None:
                array.flags.writeable = False  # a record is never changed
        given = vectors if raw is None else raw
        content = vectors if raw is None else raw.to_json()
        digest = digest_of(last, content, conditions, person)
        return LoggedDecision(
            id, self._clock(), last.offered, given, chosen, p, version, person, control, False,
            digest, active, settings.mode, proposal,
        )  # fmt: skip

    def vectors(
        self, contexts: Any, arms: Any, situation: Any, excluded: Collection[Name] = ()
    ) -> tuple[Any, Any, RecordedFeatures | None]:
        """Return contexts as vectors with their arms, and the raw features if there is a map."""
        feature_map = self._state.feature_map
        if feature_map is None:
            if situation is not None:
                raise ParameterError("situation was given, but the bandit has no feature map")
            return contexts, arms, None
        raw = record_candidates(feature_map, contexts, arms, situation, excluded)
        return raw.contexts(), raw.arms, raw
