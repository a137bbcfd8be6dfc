"""From events to a state: the state is a snapshot plus the events after it."""

from __future__ import annotations

import copy
import hashlib
import warnings
from contextlib import suppress
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
    ShadowStarted,
    ShadowStopped,
)
from rolin.journal.sqlite import SQLiteJournal
from rolin.model import state_file
from rolin.model.scale_schedule import LearnsScales
from rolin.policies import Policy, find

__all__ = [
    "LoadedPolicy",
    "adaptive_of",
    "check_can_fold",
    "digest_of",
    "fold",
    "fold_shadow",
    "load_policy",
    "load_with_snapshot",
    "pack_states",
    "split_state",
    "state_bytes",
]


_SHADOW = "shadow"  # the array of a snapshot that holds the state of the shadow


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
        case ScalesLearned(shadow=False):
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


def fold_shadow(shadow: Policy[Any] | None, event: Event) -> Policy[Any] | None:
    """Return the shadow after an event; it is the same object, unless the event starts or stops one.

    An event that it rejects changes nothing, such as one that removes an arm which it does not know.
    """
    match event:
        case ShadowStarted():
            return _policy_of(state_file.unpack(event.state, "the shadow"))
        case ShadowStopped():
            return None
        case SettingsChanged():  # which are those of the bandit and its own policy
            return shadow
    if shadow is None or (isinstance(event, Decayed) and not hasattr(shadow, "decay")):
        return shadow
    with suppress(RolinError):
        if isinstance(event, ScalesLearned):
            event = event._replace(shadow=not event.shadow)
        fold(shadow, event)
    return shadow


def check_can_fold(policy: Policy[Any], shadow: Policy[Any] | None, event: Event) -> None:
    """Raise the error with which a policy rejects an event, before it is written; nothing changes.

    The event is folded into a copy, because a policy of the user's own may reject what none of ours does.
    """
    fold(copy.deepcopy(policy), event)
    # What else a shadow rejects does it no harm.
    if shadow is not None and isinstance(event, FeatureMapChanged):
        fold(copy.deepcopy(shadow), event)


class LoadedPolicy(NamedTuple):
    """A policy in the state that a journal leads to."""

    policy: Policy[Any]
    version: int
    """Number of the last event that was folded."""


class LoadedState(NamedTuple):
    """The policy and its shadow, in the state that a journal leads to."""

    policy: Policy[Any]
    shadow: Policy[Any] | None
    version: int
    """Number of the last event that was folded."""
    snapshot: int
    """Number of the last event of the snapshot that it started from."""


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
    state = load_with_snapshot(journal, kind=kind, upto=upto, start=start)
    return LoadedPolicy(state.policy, state.version)


def load_with_snapshot(
    journal: Journal,
    *,
    kind: type[Policy[Any]] | None = None,
    upto: int | None = None,
    start: int | None = None,
) -> LoadedState:
    """Return the state after the event `upto`, from the latest snapshot, or the latest one up to the event `start`."""
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
        policy, shadow, version, _ = found
        for seq, event in journal.read(after=version, upto=last, decisions=False):
            try:
                fold(policy, event)
            except RolinError as error:
                # It was rejected when it was recorded, too, unless it changes the number of features.
                if isinstance(event, FeatureMapChanged) or isinstance(error, ShapeError):
                    raise JournalError(
                        f"event {seq} does not fit the events before it: {error}"
                    ) from error
            shadow = fold_shadow(shadow, event)
        after = journal.header()
        if after is not None and after.first <= version:
            return LoadedState(policy, shadow, last, version)
        # Another process removed events during the read: start again from the snapshot it stored.


def _from_snapshot(
    journal: Journal, upto: int, kind: type[Policy[Any]] | None
) -> LoadedState | None:
    """Return the state of the latest snapshot up to an event; earlier ones replace those that are damaged."""
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
            own, other = split_state(state)
            shadow = None if other is None else _policy_of(other)
            return LoadedState(_policy_of(own, kind), shadow, version, version)


def state_bytes(policy: Policy[Any], shadow: Policy[Any] | None = None) -> bytes:
    """Return the state of a policy as bytes, together with that of its shadow."""
    return pack_states(policy.state(), None if shadow is None else shadow.state())


def pack_states(policy: state_file.State, shadow: state_file.State | None) -> bytes:
    """Return the states of a policy and its shadow as bytes: the latter is one more array of the former."""
    if shadow is not None:
        packed = np.frombuffer(state_file.pack(shadow), dtype=np.uint8)
        policy = policy._replace(arrays={**policy.arrays, _SHADOW: packed})
    return state_file.pack(policy)


def split_state(both: state_file.State) -> tuple[state_file.State, state_file.State | None]:
    """Return the states of a policy and its shadow, which `pack_states` has packed."""
    arrays = dict(both.arrays)
    packed = arrays.pop(_SHADOW, None)
    shadow = None if packed is None else state_file.unpack(packed.tobytes(), "the shadow")
    return both._replace(arrays=arrays), shadow


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


def adaptive_of(policy: Policy[Any]) -> LearnsScales | None:
    """Return the model of a policy if it learns its scales, and `None` otherwise."""
    model = getattr(policy, "posterior", None)
    if model is None:
        model = getattr(policy, "mixture", None)
    return model if isinstance(model, LearnsScales) else None


def digest_of(state: bytes) -> str:
    """Return a digest of a state."""
    return hashlib.blake2b(state, digest_size=16).hexdigest()
