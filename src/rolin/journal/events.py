"""What a journal records: every event, in order.

The state of a bandit is the result of folding these events, and of nothing else. They hold the
values that were learned from, so folding reads no clock, no file and no random number.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.html import html_table
from rolin.features import BaseFeatureMap, RecordedFeatures
from rolin.journal.question_digest import QuestionDigest
from rolin.model.scales import Scales
from rolin.policies.decision import SHOWN, shown_ranking
from rolin.policies.exploration import Exploration

__all__ = [
    "IGNORED_REASONS",
    "MODES",
    "Activated",
    "ArmRemoved",
    "ArmRestored",
    "Decayed",
    "DecisionEvent",
    "EarlyReward",
    "Event",
    "FeatureMapChanged",
    "Following",
    "HeldReward",
    "IgnoredReason",
    "IgnoredReward",
    "LoggedDecision",
    "Mode",
    "Outcome",
    "PermanentEvent",
    "Proposal",
    "Rejected",
    "ScalesLearned",
    "SettingsChanged",
    "ShadowStarted",
    "ShadowStopped",
]

Floats = NDArray[np.float64]

Mode = Literal["online", "apprentice", "stopped"]
"""Who chooses, and whether rewards are learned: see the glossary."""
MODES: tuple[Mode, ...] = ("online", "apprentice", "stopped")

IgnoredReason = Literal["late", "conflicting", "invalid", "unknown"]
"""Why a reward does not count. It came after the end, or contradicts an earlier one. It came early, and its arm is not in
the ranking, or the sum is too large. Or it came early, and its decision was not made in time."""
IGNORED_REASONS: tuple[IgnoredReason, ...] = ("late", "conflicting", "invalid", "unknown")


class Proposal(NamedTuple):
    """What a policy would have chosen: the bandit's own while the baseline was shown, or a shadow."""

    chosen: tuple[int, ...]
    """Indices, among the offered arms, of its ranking: its choice first."""
    propensities: Floats | None
    """(K,): probability of each arm to be its choice; `None` if unknown."""


class LoggedDecision(NamedTuple):
    """A decision with its whole question: which arms were offered, and how likely each was."""

    id: str
    """Rewards are joined by this id."""
    time: float
    """When it was made, in seconds since 1970."""
    offered: tuple[Name, ...]
    """The K arms that could have been chosen."""
    given: Floats | RecordedFeatures
    """Their (K, d) contexts, or their raw features."""
    chosen: tuple[int, ...]
    """Indices, among the offered arms, of the ranking: the chosen arm first."""
    propensities: Floats | None
    """(K,): probability of each arm to be chosen first; `None` if unknown."""
    version: int | None
    """Number of the last event that the model knew; `None` outside a journal."""
    person: str | None = None
    """The person the decision was made for."""
    control: bool = False
    """Whether it belongs to the control group, where arms are drawn uniformly."""
    imported: bool = False
    """Whether it was made elsewhere and imported later."""
    digest: QuestionDigest | None = None
    """Digest of the question, by which a repeated id is compared; `None` if it is unknown."""
    active: bool = True
    """Whether it was in use at once; if not, an `Activated` event says when it was."""
    mode: Mode = "online"
    """The mode of the bandit when it was made."""
    proposal: Proposal | None = None
    """What the policy would have chosen, if the baseline was shown and the bandit was not stopped."""
    outside_share: bool = False
    """Whether the baseline was shown because the person was outside the share of the policy."""
    shadow: Proposal | None = None
    """What the shadow would have chosen; `None` if there was none, or if it could not choose."""

    @property
    def is_baseline(self) -> bool:
        """Whether the baseline was shown: outside the share, or because of the mode."""
        return self.outside_share or self.mode != "online"

    @property
    def offered_contexts(self) -> Floats:
        """(K, d): the contexts of the offered arms."""
        return self.given.contexts() if isinstance(self.given, RecordedFeatures) else self.given

    def context_of(self, index: int) -> Floats:
        """Return the (d,) context of an offered arm, by its index."""
        if isinstance(self.given, RecordedFeatures):
            return self.given.context(index)
        row: Floats = self.given[index]
        return row

    @property
    def raw(self) -> RecordedFeatures | None:
        """The raw features of the situation and the arms; `None` if contexts were given."""
        return self.given if isinstance(self.given, RecordedFeatures) else None

    @property
    def arm(self) -> Name:
        """The chosen arm."""
        return self.offered[self.chosen[0]]

    @property
    def context(self) -> Floats:
        """(d,): the context of the chosen arm."""
        return self.context_of(self.chosen[0])

    @property
    def ranking(self) -> tuple[Name, ...]:
        """The `top_k` best arms, the chosen one first."""
        return tuple(self.offered[index] for index in self.chosen)

    @property
    def contexts(self) -> Floats:
        """(top_k, d): the contexts of the ranking."""
        if isinstance(self.given, RecordedFeatures):
            return self.given.contexts_of(self.chosen)
        return self.given[list(self.chosen)]

    @property
    def propensity(self) -> float | None:
        """Probability with which the chosen arm was chosen; `None` if unknown."""
        return None if self.propensities is None else float(self.propensities[self.chosen[0]])

    def __repr__(self) -> str:
        """Return one line."""
        p = self.propensity
        return (
            f"<LoggedDecision {self.id!r}: arm {shown_ranking(self.ranking)} of {len(self.offered)} "
            f"offered, propensity {'unknown' if p is None else f'{p:.3g}'}>"
        )

    def _repr_html_(self) -> str:
        """Return the offered arms as an HTML table, for notebooks: the ranking first, then by propensity."""
        p = np.zeros(len(self.offered)) if self.propensities is None else self.propensities
        ranks = {index: str(rank) for rank, index in enumerate(self.chosen)}
        others = [index for index in np.argsort(-p, kind="stable").tolist() if index not in ranks]
        rows = [
            (
                repr(self.offered[index]),
                ranks.get(index, ""),
                "unknown" if self.propensities is None else f"{p[index]:.3g}",
            )
            for index in (*self.chosen, *others)
        ]
        hidden = len(rows) - SHOWN
        return html_table(
            f"Decision {self.id!r}",
            ("arm", "rank", "propensity"),
            rows[:SHOWN],
            [f"… {hidden} more arms"] if hidden > 0 else [],
        )


class Outcome(NamedTuple):
    """The result of one arm of a decision: its reward, or that none came in time."""

    id: str
    """Id of the decision."""
    time: float
    """When it arrived, in seconds since 1970."""
    rank: int
    """Position of the arm in the ranking; 0 is the chosen arm."""
    arm: Name
    context: Floats
    value: float | None
    """The reward; `None` if none came and nothing is learned."""
    weight: float = 1.0
    """How much the reward counts."""
    expired: bool = False
    """Whether no reward came in time; `value` is then the default reward."""
    learned: bool = True
    """Whether the policy learns from it; not in the mode "stopped"."""


class Activated(NamedTuple):
    """A decision that was made with `active=False` is now in use."""

    id: str
    """Id of the decision."""
    time: float


class HeldReward(NamedTuple):
    """A reward that nothing was learned from yet.

    It came before its decision was activated, or it is one part of a sum. What is learned later is an `Outcome`.
    """

    id: str
    """Id of the decision."""
    time: float
    """When it arrived, in seconds since 1970."""
    rank: int
    """Position of the arm in the ranking; 0 is the chosen arm."""
    value: float
    weight: float = 1.0
    """How much the reward counts; 1 for a part of a sum."""
    reward_id: str | None = None
    """The caller's own id of the reward; `None` if it is not a part of a sum."""


class EarlyReward(NamedTuple):
    """A reward whose decision is not made yet.

    If the decision is made later, the reward counts as if it had come just after it.
    """

    id: str
    """Id of the decision that it waits for."""
    time: float
    """When it arrived, in seconds since 1970."""
    number: int
    """0, 1, …, by which the early rewards of an id are told apart."""
    arm: Name | None
    """One arm of the ranking; `None` for the first."""
    value: float
    weight: float = 1.0
    """How much the reward counts."""
    reward_id: str | None = None
    """The caller's own id of the reward; `None` if it is not a part of a sum."""

    @property
    def waiting_rank(self) -> int:
        """Stands for the rank in the list of what waits; below 0, because its rank is unknown."""
        return -1 - self.number


class IgnoredReward(NamedTuple):
    """A reward that does not count; nothing is learned from it."""

    id: str
    """Id of the decision that it was meant for."""
    time: float
    """When it arrived, in seconds since 1970."""
    number: int
    """0, 1, … for each decision; if the decision is unknown, the number of the early reward."""
    arm: Name | None
    """The arm that it was meant for; `None` for the first of a ranking that is unknown."""
    value: float
    weight: float
    reward_id: str | None
    """The caller's own id of the reward; `None` if it is not a part of a sum."""
    reason: IgnoredReason


class Decayed(NamedTuple):
    """All evidence was multiplied by a factor."""

    time: float
    factor: float


class ScalesLearned(NamedTuple):
    """Scales were estimated; readers use these values and do not estimate again."""

    time: float
    scales: Scales | None
    """`None` if the evidence was not sufficient or not usable."""
    shadow: bool = False
    """Whether they are those of the shadow."""


class ArmRemoved(NamedTuple):
    """An arm was removed and can no longer be offered."""

    time: float
    arm: Name


class ArmRestored(NamedTuple):
    """A removed arm can be offered again."""

    time: float
    arm: Name
    with_past: bool
    """Whether it continues with what was learned, or starts as a new arm."""


class SettingsChanged(NamedTuple):
    """The bandit's own settings from now on."""

    time: float
    floor: float = 0.0
    """Least probability of every arm."""
    control_share: float = 0.0
    """Share of the control group."""
    propensities: bool = True
    """Whether propensities are recorded."""
    exploration: Exploration | None = None
    """Factor on the posterior's standard deviations, or `"auto"`; `None` if it is still what the policy began with."""
    mode: Mode = "online"
    """Who chooses, and whether rewards are learned."""
    share: float = 1.0
    """Share of people for whom the policy decides, in the mode "online"."""


class FeatureMapChanged(NamedTuple):
    """The feature map from now on; new features are appended to the known ones."""

    time: float
    feature_map: BaseFeatureMap


class ShadowStarted(NamedTuple):
    """A second policy learns from now on; it never decides, but its choices are recorded."""

    time: float
    state: bytes
    """The state that it starts from."""


class ShadowStopped(NamedTuple):
    """There is no shadow from now on."""

    time: float


class Rejected(NamedTuple):
    """An event before this one taught nothing, because the policy rejected it."""

    time: float
    event: int
    """Number of the event."""
    reason: str


PermanentEvent = ArmRestored | SettingsChanged | FeatureMapChanged
"""Events that are never removed: they concern no person, and reading the rest needs them."""
Following = Outcome | Activated | EarlyReward | HeldReward | IgnoredReward
"""What happens to a decision after it was made, and rewards that come before.

Outcomes, by far the most frequent, are found first: `isinstance` takes 30 ns for the first class and 190 for the last one.
"""
DecisionEvent = LoggedDecision | Following
"""Events that belong to a decision and are removed together with it."""
ShadowEvent = ShadowStarted | ShadowStopped
Event = (
    DecisionEvent | Decayed | ScalesLearned | ArmRemoved | Rejected | ShadowEvent | PermanentEvent
)
