"""From events to a state: state == snapshot + replay(tail)."""

from __future__ import annotations

import hashlib
from os import PathLike
from typing import Any

import numpy as np

from rolin.errors import JournalError, RolinError, ShapeError, StateFileError
from rolin.journal.base import Journal
from rolin.journal.events import (
    ArmRemoved,
    ArmRestored,
    Decayed,
    Event,
    FeatureMapChanged,
    Outcome,
    ScalesLearned,
)
from rolin.journal.sqlite import SQLiteJournal
from rolin.model import state_file
from rolin.model.adaptive import Adaptive
from rolin.policies import Policy, find

__all__ = ["adaptive_of", "digest_of", "fold", "packed", "replay", "replayed", "unpacked"]


def fold(policy: Policy[Any], event: Event) -> None:
    """Change a policy's state as an event says; a decision changes nothing.

    An event that the policy refuses, such as a reward too large to compute with, changes nothing: not
    then, and not whenever it is replayed.
    """
    match event:
        case Outcome():
            if event.value is not None:
                x, d = event.context, policy.n_features
                if len(x) < d and policy.feature_map is not None:  # features that came later were 0
                    x = np.pad(x, (0, d - len(x)))
                policy.update(event.arm, x, event.value, event.weight)
        case Decayed():
            policy.decay(event.factor)  # type: ignore[attr-defined]  # checked before it was written
        case ScalesLearned():
            if model := adaptive_of(policy):
                model.settle(event.scales)
        case ArmRemoved():
            policy.remove_arm(event.arm)
        case ArmRestored():
            policy.restore_arm(event.arm, with_past=event.with_past)
        case FeatureMapChanged():
            policy.change_feature_map(event.feature_map)


def replay(
    journal: Journal | str | PathLike[str],
    *,
    kind: type[Policy[Any]] | None = None,
    upto: int | None = None,
    from_start: bool = False,
) -> tuple[Policy[Any], int]:
    """Return the policy that a journal's events lead to, and the number of the last one.

    Parameters
    ----------
    journal
        What to read: a journal, or the path of its file.
    kind
        Class of the policy, if it is not one of `rolin`.
    upto
        The last event to know of; by default all.
    from_start
        Whether to begin with the first state rather than the last one that was kept.

    Raises
    ------
    JournalError
        If the journal has not begun, or the events that are needed have been removed.
    """
    if isinstance(journal, (str, PathLike)):
        with SQLiteJournal(journal, readonly=True) as opened:
            return replay(opened, kind=kind, upto=upto, from_start=from_start)
    policy, last, _ = replayed(journal, kind=kind, upto=upto, from_start=from_start)
    return policy, last


def replayed(
    journal: Journal,
    *,
    kind: type[Policy[Any]] | None = None,
    upto: int | None = None,
    from_start: bool = False,
) -> tuple[Policy[Any], int, int]:
    """Return what `replay` does, and the number of the state that it began with."""
    while True:
        header = journal.header()
        if header is None:
            raise JournalError("the journal is empty: no policy has used it yet")
        last = header.last if upto is None else min(upto, header.last)
        if from_start and header.first:
            raise JournalError(
                f"events up to {header.first} have been removed: only states since then can be had"
            )
        kept = journal.saved(0 if from_start else last)
        if kept is None:
            raise JournalError(
                f"event {last} is before {header.first}, up to which events have been removed"
            )
        known, state = kept
        policy = unpacked(state, kind)
        for seq, event in journal.read(after=known, upto=last, decisions=False):
            try:
                fold(policy, event)
            except RolinError as error:  # refused then, too, but for what changes its size
                if isinstance(event, FeatureMapChanged) or isinstance(error, ShapeError):
                    raise JournalError(
                        f"event {seq} does not fit to those before it: {error}"
                    ) from error
        after = journal.header()
        if after is not None and after.first <= known:
            return policy, last, known
        # Somebody removed events while we read: begin again, with the state that they kept.


def packed(policy: Policy[Any]) -> bytes:
    """Return a policy's state as bytes."""
    return state_file.pack(policy.state())


def unpacked(state: bytes, kind: type[Policy[Any]] | None = None) -> Policy[Any]:
    """Return the policy of a state; it waits to be told its scales rather than learning them."""
    known = state_file.unpack(state, "the state in the journal")
    policies = {**find(), **({kind.__name__: kind} if kind else {})}
    if known.policy not in policies:
        raise StateFileError(
            f"the journal is that of a {known.policy}, which is not a policy of rolin: give one"
        )
    policy = policies[known.policy].from_state(known)
    if model := adaptive_of(policy):
        model.wait_for_scales()
    return policy


def adaptive_of(policy: Policy[Any]) -> Adaptive | None:
    """Return the model that learns its scales, of policies that have one."""
    model = getattr(policy, "posterior", None)
    return model if isinstance(model, Adaptive) else None


def digest_of(state: bytes) -> str:
    """Return what tells a state from all others."""
    return hashlib.blake2b(state, digest_size=16).hexdigest()
