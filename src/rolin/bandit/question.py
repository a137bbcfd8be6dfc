"""What `decide` was asked, and the digest by which a repeated id is compared with the stored decision."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.checks import text_of
from rolin.errors import DecisionConflict, RolinError
from rolin.features import RecordedFeatures
from rolin.features.recorded import text_of_candidates
from rolin.journal.events import LoggedDecision
from rolin.journal.validation import check_names
from rolin.policies import Uniform

__all__ = [
    "Conditions",
    "OfferedNames",
    "Question",
    "check_same_question",
    "digest_of",
    "located",
    "with_checked_ids",
]

Floats = NDArray[np.float64]
_DOUBLES = np.dtype("<f8")
_SIZE = 16  # bytes of a digest
_BLOCK = 8192  # numbers that are hashed at a time
_dumps = json.JSONEncoder(separators=(",", ":")).encode


class Question(NamedTuple):
    """One set of candidates, as the caller gave it."""

    contexts: Any
    arms: Any
    situation: Any
    id: Any
    person: Any
    text: str | None = None
    """The JSON that the raw features were parsed from by `json.loads`: `{"situation": …, "arms": […]}`, with the arms in
    their order. It is recorded and compared as it is, if no arm is excluded; that saves the time to write it again."""

    @property
    def checked_person(self) -> str | None:
        """The person as a valid text."""
        return None if self.person is None else text_of("person", self.person)


def located(error: RolinError, i: int, questions: Sequence[Question]) -> RolinError:
    """Return the error of a question, with its index if there are several."""
    return error if len(questions) == 1 else type(error)(f"question {i}: {error}")


def with_checked_ids(questions: Sequence[Question]) -> list[Question]:
    """Return questions with valid ids."""
    checked = list(questions)
    for i, question in enumerate(questions):
        if question.id is not None:
            try:
                id = text_of("id", question.id)
            except RolinError as error:
                raise located(error, i, questions) from error
            if id is not question.id:  # it was a subclass of str
                checked[i] = question._replace(id=id)
    return checked


class Conditions(NamedTuple):
    """What else a decision depends on; it is the same for all questions of one call."""

    top_k: int = 1
    excluded: Collection[Name] = ()
    active: bool = True
    baseline: Name | None = None
    """The arm to show if the policy does not decide; `None` for the first one."""
    text: bytes = b"[1,[],true]\0"
    """All of it, as JSON, and the character 0."""

    @classmethod
    def of(
        cls, top_k: int, excluded: Collection[Name], active: bool, baseline: Name | None = None
    ) -> Conditions:
        """Return the conditions with their text."""
        if top_k == 1 and not excluded and active and baseline is None:
            return _USUAL
        # A journal holds only texts and integers, so other names exclude nothing.
        names = [name for name in excluded if type(name) in (str, int)]
        names.sort(key=lambda name: (type(name) is str, name))
        # Without a baseline the text is as it was before there were any: journals hold its digest.
        members = [top_k, names, active, *([] if baseline is None else [baseline])]
        return cls(top_k, excluded, active, baseline, _dumps(members).encode() + b"\0")


_USUAL = Conditions()


class OfferedNames(NamedTuple):
    """A list of names as the policy holds it, and what is derived from it."""

    names: Sequence[Name]
    offered: tuple[Name, ...]
    digest: bytes
    """Digest of the names."""

    @classmethod
    def of(cls, names: Sequence[Name]) -> OfferedNames:
        """Return the names; reject those that a journal cannot hold."""
        check_names(names)
        return cls(names, tuple(names), _hash(_text_of(names).encode()))


def _text_of(names: Sequence[Name]) -> str:
    """Return a text that no other list of names has; JSON takes six times as long as joining texts."""
    if {str}.issuperset(map(type, names)):
        text = "\0".join(names)
        if text.count("\0") == len(names) - 1:
            return f"\0{text}"  # JSON does not begin so
    return _dumps([*names])


def digest_of(
    names: OfferedNames,
    given: Floats | RecordedFeatures | str,
    conditions: Conditions,
    person: str | None,
) -> bytes:
    """Return the digest of a question: 16 bytes, which must never change, because journals hold them.

    Parameters
    ----------
    names
        The names of the arms that could be chosen.
    given
        Their (K, d) contexts, or their raw features, or these as JSON.
    conditions
        What else the decision depends on.
    person
        The person whom it is for.
    """
    # A text has no character 0, so nobody else has the same bytes; the digest of the names has a fixed size.
    who = b"\0" if person is None else person.encode() + b"\0"
    if isinstance(given, RecordedFeatures):
        given = given.to_json()
    if isinstance(given, str):
        return _hash(names.digest + b"raw\0" + conditions.text + who + given.encode())
    head = names.digest + b"vectors\0" + conditions.text + who
    if given.size <= _BLOCK:
        return _hash(head + _bytes_of(given))
    # Block by block, because copies of a large array take longer than the digest.
    hasher = hashlib.blake2b(head, digest_size=_SIZE)
    numbers = given.reshape(-1)
    for start in range(0, len(numbers), _BLOCK):
        hasher.update(_bytes_of(numbers[start : start + _BLOCK]))
    return hasher.digest()


def _bytes_of(numbers: Floats) -> bytes:
    """Return numbers as bytes; adding 0 makes 0 of -0, which is the same number."""
    return (numbers + 0.0).astype(_DOUBLES, copy=False).tobytes()


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_SIZE).digest()


def check_same_question(stored: LoggedDecision, question: Question, conditions: Conditions) -> None:
    """Reject a question that is not the one of the stored decision, if that is known.

    The question is read as it would have been then: whatever arms and fields have been removed or added since.
    """
    person = question.checked_person
    if stored.digest is None:
        return
    contexts, arms, situation, _, _, text = question
    given: Floats | str
    if isinstance(stored.given, RecordedFeatures):
        names, given = text_of_candidates(
            stored.given.feature_map, contexts, arms, situation, conditions.excluded, text
        )
    elif situation is not None:
        raise _conflict(stored)
    else:
        # A policy that knows no arms reads those that have been removed, too.
        reader = Uniform(n_features=stored.given.shape[1], seed=0)
        given, found, _ = reader.candidates(contexts, arms, conditions.excluded)
        names = list(found)
    if bytes(stored.digest) != digest_of(OfferedNames.of(names), given, conditions, person):
        raise _conflict(stored)


def _conflict(stored: LoggedDecision) -> DecisionConflict:
    """Return the error of a question that differs from that of the stored decision."""
    return DecisionConflict(
        f"decision {stored.id!r} was asked another question: other arms, features, exclude, top_k, person, baseline or active; "
        "repeat the same question to get its answer, or use a new id",
        argument="id",
    )
