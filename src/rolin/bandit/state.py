"""The state of a bandit: the policy, the settings and the feature map that its journal leads to.

Only the methods of `BanditState` change it: `fold` with events that this process has written, `catch_up`
with those of other processes, `note_snapshot` and `note_removal` with what else was stored. An interruption
between writing and folding loses nothing: the state is loaded from the journal again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from rolin._support.arms import Name, PastArm
from rolin._support.process import forget_locks_after_fork
from rolin.bandit.randomization import Randomization
from rolin.bandit.recent import RecentDecisions
from rolin.errors import JournalError, NotLearned, RolinError
from rolin.features import BaseFeatureMap
from rolin.journal import Journal
from rolin.journal.base import Found
from rolin.journal.events import (
    Activated,
    ArmRestored,
    EarlyReward,
    Event,
    FeatureMapChanged,
    Following,
    HeldReward,
    IgnoredReward,
    LoggedDecision,
    Outcome,
    ScalesLearned,
    SettingsChanged,
    ShadowStarted,
)
from rolin.journal.folding import digest_of, fold, fold_shadow, load_with_snapshot, state_bytes
from rolin.model.scales import Scales
from rolin.policies import Policy

__all__ = ["BanditState", "Current"]

P = TypeVar("P", bound=Policy[Any])
_NOTHING_LEARNED = (Activated, EarlyReward, HeldReward, IgnoredReward)


class Current(NamedTuple, Generic[P]):
    """The policy and its version at one moment."""

    policy: P
    version: int
    """Number of the last event that was folded."""


class BanditState(Generic[P]):
    """The state that a journal leads to.

    Parameters
    ----------
    journal
        The journal; the policy begins it if it is empty.
    policy
        The policy that begins an empty journal. For a journal that has begun, the policy that is expected in it,
        or `None`.
    feature_map
        The feature map that the caller gave, or `None`.
    """

    def __init__(
        self, journal: Journal, policy: P | None, feature_map: BaseFeatureMap | None
    ) -> None:
        self.journal = journal
        self.new_locks()
        self.version = 0
        """Number of the last event that was folded."""
        self.snapshot_version = 0
        """Number of the last event of the latest snapshot."""
        self.snapshot_time: float | None = None
        """When this process stored its last snapshot."""
        self.reward_time: float | None = None
        """Time of the last reward that was folded since the journal was opened."""
        self.scales_time: float | None = None
        """Time of the last scales that were folded since the journal was opened."""
        self.policy: P
        """The policy; only folding changes it."""
        self.shadow: Policy[Any] | None = None
        """The shadow; only folding changes it."""
        self._kind = None if policy is None else type(policy)
        self._given_map = feature_map
        self._changed = 0  # number of the last event that may have changed the policy
        self._stale = False
        self._recent = RecentDecisions()
        self._new_lives: list[tuple[int, Name]] = []
        self.settings = SettingsChanged(0.0)
        """Floor, control share, mode, share, and whether propensities are recorded."""
        if policy is None:
            if journal.header() is None:
                raise JournalError("the journal is empty, expected a policy to begin it with")
            self._load()
        else:
            state = state_bytes(policy)
            header = journal.begin(state, digest_of(state))
            self._load()
            _check_same(self.policy, policy, header.origin, may_have_grown=feature_map is not None)
        forget_locks_after_fork(self)

    def new_locks(self) -> None:
        """Make a new lock."""
        self.lock = threading.RLock()
        """Held by everything that reads or changes the policy."""

    def _load(self) -> None:
        """Load the state from the journal."""
        with self.lock:
            self._stale = True  # until it is complete
            loaded = load_with_snapshot(self.journal, kind=self._kind)
            permanent = self.journal.permanent_events()
            self.policy, self.shadow, self.version, self.snapshot_version = loaded  # type: ignore[assignment]  # `_check_same` compares
            self._changed = self.version  # or earlier
            self._recent.clear()  # some of them may have been removed
            self._new_lives = []
            self._apply_settings(SettingsChanged(0.0))
            for seq, event in permanent:
                if seq <= self.version:  # later events are noted when they are folded
                    self._note(seq, event)
            self._stale = False

    def _note(self, seq: int, event: Event) -> None:
        """Remember what is not part of the policy: arms that started anew, the settings, and the seed of a shadow."""
        if isinstance(event, ArmRestored) and not event.with_past:
            self._new_lives.append((seq, event.arm))
        elif isinstance(event, SettingsChanged):
            self._apply_settings(event)
        elif isinstance(event, ShadowStarted):
            self._apply_settings(self.settings)

    def _apply_settings(self, settings: SettingsChanged) -> None:
        self.settings = settings
        self.randomization = Randomization(self.policy.seed, settings)
        """Mixes the floor and the control group into the policy's choices."""
        if self.shadow is not None:
            self.shadow_randomization = Randomization(self.shadow.seed, settings)
            """The same for the shadow."""

    def current(self) -> Current[P]:
        """Return the policy and its version; call it, and use the policy, with the lock held."""
        self.repair()
        return Current(self.policy, self.version)

    def repair(self) -> None:
        """Load the state again if folding was interrupted."""
        if self._stale:
            self._load()

    @property
    def feature_map(self) -> BaseFeatureMap | None:
        """The feature map; `None` if contexts are vectors."""
        known = self.policy.feature_map
        # A transformer is not stored in the journal: use the one that was given.
        return self._given_map if self._given_map == known else known

    def recent(self, id: str) -> Found | None:
        """Return a decision that this process has written lately, and what has happened to it since.

        It may have been removed, if other processes have written since the present version.
        """
        recent = self._recent.get(id)
        return None if recent is None else recent.found

    def decision(self, id: str) -> LoggedDecision | None:
        """Return the decision with this id: a recent one from memory, any other from the journal."""
        return self.recent_decision(id) or self.journal.decision(id)

    def with_contexts(self, decision: LoggedDecision) -> LoggedDecision:
        """Return a decision of the journal, with its encoded contexts if it is a recent one."""
        return self.recent_decision(decision.id) or decision

    def recent_decision(self, id: str) -> LoggedDecision | None:
        """Return a decision that this process has written lately, unless it may have been removed."""
        recent = self._recent.get(id)
        if recent is not None:
            header = self.journal.header()
            # Removing decisions takes a number, so nothing was removed since this one was written.
            if header is not None and header.first < recent.seq:
                return recent.found.decision
        return None

    def fold(self, events: Sequence[Event], last: int) -> dict[int, RolinError]:
        """Fold events that this process has written; return errors of those that taught nothing, by index."""
        with self.lock:
            rejected = self._fold(events, last)
            for event in events:
                if isinstance(event, FeatureMapChanged):
                    self._given_map = event.feature_map
        return rejected

    def note_snapshot(self, version: int, time: float) -> None:
        """Note that a snapshot of the state after event `version` was stored."""
        with self.lock:
            self.snapshot_version = max(self.snapshot_version, version)
            self.snapshot_time = time

    def note_removal(self, last: int, time: float) -> None:
        """Note that decisions were removed, which took the number `last` and stored a snapshot."""
        with self.lock:
            self.version = self.snapshot_version = last
            self.snapshot_time = time
            self._recent.clear()

    def _fold(self, events: Sequence[Event], last: int) -> dict[int, RolinError]:
        """Fold events that have been written; return errors of those that taught nothing, by index."""
        rejected: dict[int, RolinError] = {}
        first = last - len(events) + 1
        with self.lock:
            was_stale, self._stale = self._stale, True  # an interruption leaves it half folded
            for i, event in enumerate(events):
                seq = first + i
                if seq <= self.version:  # already loaded from the journal
                    continue
                if isinstance(event, LoggedDecision):  # nothing is learned from it
                    self._recent.add(seq, event)
                    continue
                try:
                    fold(self.policy, event)
                except RolinError as error:
                    rejected[i] = NotLearned(f"recorded, but not learned from: {error}")
                if isinstance(event, Outcome):
                    self._changed = seq
                    if self.shadow is not None:
                        fold_shadow(self.shadow, event)
                    if event.learned and event.value is not None and i not in rejected:
                        self.reward_time = event.time
                elif not isinstance(event, _NOTHING_LEARNED):
                    self._changed = seq
                    if self.shadow is not None or isinstance(event, ShadowStarted):
                        self.shadow = fold_shadow(self.shadow, event)
                    if isinstance(event, ScalesLearned):
                        self.scales_time = event.time
                    self._note(seq, event)
                if isinstance(event, Following):
                    self._recent.follow(event)
            self.version, self._stale = last, was_stale
        return rejected

    def catch_up(self) -> None:
        """Fold the events that other processes have written; nothing may be written meanwhile."""
        _, version = self.current()
        header = self.journal.header()
        assert header is not None  # it has begun
        if header.last == version:
            return
        if header.last < version:  # the database was set back to an earlier time
            self._load()
            return
        tail = list(self.journal.read(after=version, upto=header.last, decisions=False))
        latest = self.journal.header()
        if latest is None or latest.first > version:  # some of these events have been removed
            self._load()
            return
        for seq, event in tail:
            self._fold([event], seq)
        with self.lock:
            self.version = max(self.version, header.last)

    def same_since(self, version: int) -> bool:
        """Return whether the policy has not changed since an event."""
        return version >= self._changed

    def arm_at(self, decision: LoggedDecision, arm: Name) -> Name:
        """Return the arm as it was at a decision: after a restart without its past it is another arm."""
        if decision.version is None or not self._new_lives:
            return arm
        since = sum(seq > decision.version and name == arm for seq, name in self._new_lives)
        if not since:
            return arm
        names = self.policy.names_with_past
        lives = [name.life for name in names if isinstance(name, PastArm) and name.name == arm]
        return PastArm(arm, max(lives) - since + 1)


def _check_same(
    ours: Policy[Any], given: Policy[Any], origin: str, *, may_have_grown: bool
) -> None:
    """Reject a policy of another class or with other settings, or one that has learned elsewhere."""
    if type(ours) is not type(given):
        raise JournalError(
            f"the journal belongs to a {type(ours).__name__}, but a {type(given).__name__} was given"
        )
    known, expected = ours.settings, given.settings
    for name in {**known, **expected}:
        if name == "n_features" and may_have_grown:
            continue
        # A policy without slopes has no settings of them.
        here, there = (each.get(name, getattr(Scales, name, None)) for each in (known, expected))
        if name not in ("seed", "exploration") and here != there:
            raise JournalError(
                f"the journal belongs to a policy with {name}={here!r}, but one with {name}={there!r} was given: omit "
                "the policy to continue, or use another file"
            )
    if (given.arms or given.removed_arms) and digest_of(state_bytes(given)) != origin:
        raise JournalError(
            "the policy has learned something that is not in the journal: pass a new policy, or none, "
            "to continue from the journal"
        )
