"""The bodies of requests and answers.

Unknown members are refused, so that a misspelt one does not go unnoticed.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from rolin.journal.events import Mode

__all__ = [
    "NAME_PATTERN",
    "ActivationBatch",
    "Arm",
    "ArmList",
    "BanditChange",
    "BanditConfig",
    "BanditInfo",
    "BanditList",
    "BatchAnswer",
    "CatalogueInfo",
    "DecisionAnswer",
    "DecisionBatch",
    "DecisionRequest",
    "Erasure",
    "ErasureAnswer",
    "NewBandit",
    "PolicyChoice",
    "RawDecisions",
    "RawRewards",
    "RewardBatch",
    "RewardChange",
    "RewardItem",
    "RewardRequest",
    "RewardRules",
    "Settings",
    "SnapshotAnswer",
]

Text = Annotated[str, Meta(min_length=1, max_length=512)]
Seconds = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Features = dict[str, Any] | list[float] | None
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z"
"""The names that bandits can have; they are also the names of their folders."""
Name = Annotated[str, Meta(pattern=NAME_PATTERN, description="Letters, digits, - and _")]


class Arm(Struct, forbid_unknown_fields=True):
    """An arm that can be chosen."""

    id: Text
    features: Features = None
    """Fields by name; a vector, if the bandit takes vectors; or nothing."""


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """The question which of some arms should be shown."""

    arms: list[Text | Arm] | None = None
    """The arms that can be chosen; by default those that are registered with the bandit, or else 100 candidates that are
    found in its catalogue."""
    candidates: Annotated[list[Text], Meta(min_length=1)] | Annotated[int, Meta(ge=1)] | None = None
    """Instead of arms: names of arms in the catalogue of the bandit; or how many to find there, by their scores."""
    situation: Features = None
    """Fields that all arms share; for a bandit that takes vectors, one vector for all arms."""
    id: Text | None = None
    """Your own id of the decision; by default a new one. A repeated request with the same id gets the same answer."""
    person: Text | None = None
    """Whom it is for: stays in or out of the control group, and can be erased."""
    exclude: list[Text] = []
    """Arms that must not be chosen."""
    top_k: Annotated[int, Meta(ge=1)] = 1
    """Number of arms to rank."""
    active: bool = True
    """`false` for a decision that may never be shown: activate it when it is."""
    baseline: Text | None = None
    """The arm to show while the baseline decides; by default the first."""


class DecisionAnswer(Struct):
    """A decision that is recorded."""

    id: str
    """Report the reward under this id."""
    arm: str
    """The arm to show."""
    ranking: list[str]
    """The best arms, the chosen one first."""
    probabilities: dict[str, float] | None
    """The probability with which each arm was chosen; `null` if they are not recorded."""
    version: int | None
    """The version of the model that decided."""
    mode: Mode
    """Who decided: the policy ("online") or the baseline."""
    control: bool
    """Whether it belongs to the control group."""
    outside_share: bool = False
    """Whether the baseline decided because the person is outside the share of the policy."""
    recorded: bool = True
    """`false` for a fallback, because the journal could not be written, and from a read-only service: then a reward will
    be unknown."""


class DecisionBatch(Struct, forbid_unknown_fields=True):
    """Several decisions; each of them succeeds or fails on its own."""

    decisions: list[DecisionRequest]


class RawDecisions(Struct, forbid_unknown_fields=True):
    """A `DecisionBatch` whose items are not decoded yet, so that a wrong one does not fail the others."""

    decisions: list[msgspec.Raw]


class BatchAnswer(Struct):
    """The answers to a batch, in its order: the status and the answer of a single request, or its error."""

    results: list[dict[str, Any]]


class RewardRequest(Struct, forbid_unknown_fields=True):
    """The reward of a decision."""

    value: float
    """Higher is better."""
    arm: Text | None = None
    """One arm of the ranking; by default the first."""
    weight: Annotated[float, Meta(gt=0)] = 1.0
    """How much it counts."""
    id: Text | None = None
    """Your own id of the reward, if the rewards of a decision add up."""


class RewardItem(RewardRequest, forbid_unknown_fields=True, kw_only=True):
    """The reward of one decision in a batch."""

    decision: Text
    """Id of the decision."""


class RewardBatch(Struct, forbid_unknown_fields=True):
    """Several rewards; each of them succeeds or fails on its own."""

    rewards: list[RewardItem]


class RawRewards(Struct, forbid_unknown_fields=True):
    """A `RewardBatch` whose items are not decoded yet."""

    rewards: list[msgspec.Raw]


class ActivationBatch(Struct, forbid_unknown_fields=True):
    """Several decisions to activate."""

    decisions: list[Text]


class RewardRules(Struct, forbid_unknown_fields=True):
    """What becomes of rewards."""

    rule: Literal["first", "sum"] = "first"
    """`first`: the first reward of an arm counts. `sum`: rewards add up until the window ends."""
    window: Annotated[float, Meta(gt=0)] | None = 86400.0
    """Seconds after which no reward is expected; `null` to wait for ever."""
    default: float | None = None
    """The reward of a decision that got none in its window; `null` to learn nothing from it."""


class RewardChange(Struct, forbid_unknown_fields=True):
    """What becomes of rewards from now on; members that are not given stay as they are."""

    rule: Literal["first", "sum"] | UnsetType = UNSET
    """As in `RewardRules`."""
    window: Annotated[float, Meta(gt=0)] | UnsetType | None = UNSET
    """As in `RewardRules`."""
    default: float | UnsetType | None = UNSET
    """As in `RewardRules`."""

    def applied_to(self, rules: RewardRules) -> RewardRules:
        """Return the rules after the change."""
        return msgspec.structs.replace(rules, **_given(self))


def _given(struct: Struct) -> dict[str, Any]:
    """Return the members that were given, by name."""
    members = msgspec.structs.asdict(struct)
    return {name: value for name, value in members.items() if value is not UNSET}


class BanditConfig(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a bandit is made of. It cannot be changed later, except for rewards and retention."""

    policy: str = "RoLinTS"
    """Name of a policy of rolin."""
    options: dict[str, Any] = {}
    """Options of the policy."""
    features: dict[str, Any] = msgspec.field(default_factory=lambda: {"kind": "hashed"})
    """`{"kind": "hashed"}`: any fields; `{"kind": "vectors", "n_features": 10}`; or a feature map: `{"kind": "map",
    "situation": …, "arm": …}`."""
    rewards: RewardRules = msgspec.field(default_factory=RewardRules)
    retention: Seconds | None = None
    """Seconds after which decisions are erased, with their rewards; what was learned stays. `null` to keep them."""


class Settings(Struct, forbid_unknown_fields=True):
    """Settings of a bandit; those that are not given stay as they are."""

    mode: Mode | UnsetType = UNSET
    """`online`; `apprentice`: the baseline is shown, and the policy learns; `stopped`: the baseline, nothing learned."""
    floor: Annotated[float, Meta(ge=0, le=0.5)] | UnsetType = UNSET
    """Least probability of every arm; with n arms at most 1/n."""
    control_share: Share | UnsetType = UNSET
    """Share of people for whom arms are drawn at random."""
    share: Share | UnsetType = UNSET
    """Share of people for whom the policy decides; the baseline decides for the rest."""
    propensities: bool | UnsetType = UNSET
    """Whether probabilities are recorded."""
    exploration: Annotated[float, Meta(ge=0)] | Literal["auto"] | UnsetType = UNSET
    """Factor on the standard deviations of Thompson sampling, or `"auto"`."""

    def given(self) -> dict[str, Any]:
        """Return the settings that were given, by name."""
        return _given(self)


class NewBandit(Struct, forbid_unknown_fields=True, kw_only=True):
    """A bandit to create; what is not given has the default of `BanditConfig`."""

    name: Name
    policy: str | UnsetType = UNSET
    """As in `BanditConfig`."""
    options: dict[str, Any] | UnsetType = UNSET
    """As in `BanditConfig`."""
    features: dict[str, Any] | UnsetType = UNSET
    """As in `BanditConfig`."""
    rewards: RewardChange = msgspec.field(default_factory=RewardChange)
    retention: Seconds | UnsetType | None = UNSET
    """As in `BanditConfig`."""
    settings: Settings = msgspec.field(default_factory=Settings)
    state: bytes | None = None
    """A state file, such as `rolin fit` writes, in Base64: the bandit starts with what it has learned."""

    def parts(self) -> dict[str, Any]:
        """Return what the bandit is to be made of, as far as it was given."""
        given = _given(self)
        return {name: given[name] for name in ("policy", "options", "features") if name in given}


class BanditChange(Struct, forbid_unknown_fields=True):
    """What to change; the rest stays as it is."""

    settings: Settings = msgspec.field(default_factory=Settings)
    rewards: RewardChange = msgspec.field(default_factory=RewardChange)
    retention: Seconds | UnsetType | None = UNSET
    """As in `BanditConfig`."""


class BanditInfo(Struct):
    """A bandit as it is now."""

    name: str
    config: BanditConfig
    settings: Settings
    version: int
    """Number of events so far."""
    n_features: int
    """Number of features of a vector."""
    n_arms: int
    """Number of arms that have rewards."""
    shadow: str | None = None
    """Name of the policy that learns as a shadow."""


class BanditList(Struct):
    """The names of all bandits."""

    bandits: list[str]


class ArmList(Struct, forbid_unknown_fields=True):
    """Arms that requests need not repeat."""

    arms: list[Text | Arm]


class CatalogueInfo(Struct):
    """The catalogue of a bandit."""

    n_arms: int
    """Number of arms."""
    size: int
    """Bytes of the file."""
    sha256: str
    """SHA-256 of the file, in hexadecimal digits."""


class Erasure(Struct, forbid_unknown_fields=True):
    """Which decisions to erase: exactly one of the three."""

    ids: list[Text] | None = None
    person: Text | None = None
    older_than: Annotated[float, Meta(ge=0)] | None = None
    """Age in seconds."""


class ErasureAnswer(Struct):
    """What was erased."""

    decisions: int
    log_wiped: bool = True
    """`false` if another process, such as one that replicates the journal, keeps its write-ahead log from being emptied:
    then the log may hold bytes of the decisions for some time."""


class SnapshotAnswer(Struct):
    """A stored snapshot."""

    version: int


class PolicyChoice(Struct, forbid_unknown_fields=True):
    """Another policy: one to evaluate on the journal, or one to learn as a shadow."""

    policy: str = "RoLinTS"
    options: dict[str, Any] = {}
