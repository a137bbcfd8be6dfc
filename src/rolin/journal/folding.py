"""From events to a state: the state is a snapshot plus the events after it."""

from __future__ import annotations

import copy
import hashlib
import warnings
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from rolin._support.checks import flag_of
from rolin.errors import JournalError, RolinError, ShapeError, StateFileError
from rolin.journal.base import DamagedSnapshot, Journal
from rolin.journal.events import (
    ArmRemoved,
    ArmRestored,
    Decayed,
    Event,
    FeatureMapChanged,
    Outcome,
    ScalesLearned,
    SettingsChanged,
)
from rolin.journal.sqlite import SQLiteJournal
from rolin.model import state_file
from rolin.model.adaptive import Adaptive
from rolin.policies import Policy, find

__all__ = [
    "LoadedPolicy",
    "adaptive_of",
    "check_can_fold",
    "digest_of",
    "fold",
    "load_policy",
    "load_with_snapshot",
    "state_bytes",
]


def fold(policy: Policy[Any], event: Event) -> None:
    """Apply an event to a policy; a decision, its activation and a reward that is not an outcome change nothing.

    An event that the policy rejects, such as a reward that is too large, changes nothing. It is rejected
    again whenever the journal is read.
    """
    match event:
        case Outcome():
            if event.value is not None and event.learned:
                x, d = event.context, policy.n_features
                if len(x) < d and policy.feature_map is not None:  # features added later were 0
                    x = np.pad(x, (0, d - len(x)))
                elif not x.flags.writeable:
                    x = x.copy()  # the kernels need a writable array
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
        case SettingsChanged():
            if event.exploration is not None:
                policy.exploration = event.exploration  # type: ignore[attr-defined]  # checked before it was written


def check_can_fold(policy: Policy[Any], event: Event) -> None:
    """Raise the error with which a policy rejects an event, before it is written; the policy does not change.

    The event is folded into a copy, because a policy of the user's own may reject what none of ours does.
    """
    fold(copy.deepcopy(policy), event)


class LoadedPolicy(NamedTuple):
    """A policy in the state that a journal leads to."""

    policy: Policy[Any]
    version: int
    """Number of the last event that was folded."""


def load_policy(
    journal: Journal | str | PathLike[str],
    *,
    kind: type[Policy[Any]] | None = None,
    upto: int | None = None,
    from_start: bool = False,
) -> LoadedPolicy:
    """Return the policy that the events of a journal lead to, and the number of the last event.

    Parameters
    ----------
    journal
        A journal, or the path of its file.
    kind
        Class of the policy, if it is not defined in `rolin`.
    upto
        Number of the last event to fold; by default all.
    from_start
        Start from the first state instead of the latest snapshot.

    Raises
    ------
    JournalError
        If the journal has not begun, or if events that are needed have been removed.
    """
    if isinstance(journal, (str, PathLike)):
        with SQLiteJournal(journal, readonly=True) as opened:
            return load_policy(opened, kind=kind, upto=upto, from_start=from_start)
    start = 0 if flag_of("from_start", from_start) else None
    return load_with_snapshot(journal, kind=kind, upto=upto, start=start)[0]


def load_with_snapshot(
    journal: Journal,
    *,
    kind: type[Policy[Any]] | None = None,
    upto: int | None = None,
    start: int | None = None,
) -> tuple[LoadedPolicy, int]:
    """Return what `load_policy` returns, and the version of the snapshot that it started from.

    That is the latest one, or the latest one up to the event `start`.
    """
    while True:
        header = journal.header()
        if header is None:
            raise JournalError("the journal is empty: no policy has used it yet")
        last = header.last if upto is None else min(upto, header.last)
        if start is not None and start < header.first:
            raise JournalError(
                f"events up to {header.first} have been removed: earlier states cannot be rebuilt"
            )
        found = _from_snapshot(journal, last if start is None else min(start, last), kind)
        if found is None or found.version < header.first:
            if journal.header() == header:
                raise JournalError(
                    f"the state after event {last} cannot be rebuilt: events up to {header.first} have "
                    "been removed"
                )
            continue  # another process has removed events meanwhile
        policy, version = found
        for seq, event in journal.read(after=version, upto=last, decisions=False):
            try:
                fold(policy, event)
            except RolinError as error:
                # It was rejected when it was recorded, too, unless it changes the number of features.
                if isinstance(event, FeatureMapChanged) or isinstance(error, ShapeError):
                    raise JournalError(
                        f"event {seq} does not fit the events before it: {error}"
                    ) from error
        after = journal.header()
        if after is not None and after.first <= version:
            return LoadedPolicy(policy, last), version
        # Another process removed events during the read: start again from the snapshot it stored.


def _from_snapshot(
    journal: Journal, upto: int, kind: type[Policy[Any]] | None
) -> LoadedPolicy | None:
    """Return the policy of the latest snapshot up to an event; earlier ones replace those that are damaged."""
    while True:
        version: Any = None
        try:
            snapshot = journal.latest_snapshot(upto)
            if snapshot is None:
                return None
            version = snapshot.version
            state = state_file.unpack(snapshot.state, f"snapshot {version} of the journal")
        except (DamagedSnapshot, StateFileError) as error:
            version = getattr(error, "version", version)
            if not isinstance(version, int) or version <= 0:
                raise JournalError(f"no snapshot can be read: {error}") from error
            warnings.warn(f"{error}; an earlier one is used, which takes longer", stacklevel=2)
            upto = version - 1
        else:
            return LoadedPolicy(_policy_of(state, kind), version)


def state_bytes(policy: Policy[Any]) -> bytes:
    """Return the state of a policy as bytes."""
    return state_file.pack(policy.state())


def _policy_of(known: state_file.State, kind: type[Policy[Any]] | None = None) -> Policy[Any]:
    """Return the policy of a state; it takes its scales from events instead of estimating them."""
    policies = {**find(), **({kind.__name__: kind} if kind else {})}
    if known.policy not in policies:
        raise StateFileError(
            f"the journal belongs to a {known.policy}, which is not a policy of rolin: pass a policy "
            "of this class"
        )
    policy = policies[known.policy].from_state(known)
    if model := adaptive_of(policy):
        model.wait_for_scales()
    return policy


def adaptive_of(policy: Policy[Any]) -> Adaptive | None:
    """Return the model of a policy if it learns its scales, and `None` otherwise."""
    model = getattr(policy, "posterior", None)
    return model if isinstance(model, Adaptive) else None


def digest_of(state: bytes) -> str:
    """Return a digest of a state."""
    return hashlib.blake2b(state, digest_size=16).hexdigest()
