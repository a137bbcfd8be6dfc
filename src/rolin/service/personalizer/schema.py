"""The bodies of Personalizer's requests and answers. Unknown members are ignored, as Personalizer does."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = [
    "FeatureList",
    "LearningMode",
    "ModelProperties",
    "MultiSlotRankRequest",
    "MultiSlotRankResponse",
    "MultiSlotRewardRequest",
    "PolicyContract",
    "RankRequest",
    "RankResponse",
    "RankableAction",
    "RankedAction",
    "RewardRequest",
    "ServiceConfiguration",
    "ServiceConfigurationChange",
    "SlotResponse",
]

EventId = Annotated[str, Meta(min_length=1, max_length=256)]
FeatureList = list[dict[str, Any]] | None
LearningMode = Literal["Online", "Apprentice", "LoggingOnly"]


class RankableAction(Struct):
    """An arm."""

    id: Annotated[str, Meta(min_length=1, max_length=512)]
    features: FeatureList = None


class RankRequest(Struct, rename="camel"):
    """The question which action to show."""

    actions: Annotated[list[RankableAction], Meta(min_length=1)]
    context_features: FeatureList = None
    excluded_actions: list[str] | None = None
    event_id: EventId | None = None
    defer_activation: bool | None = False


class RankedAction(Struct):
    """An action, and the probability that it is the chosen one."""

    id: str
    probability: float


class RankResponse(Struct, rename="camel"):
    """A decision."""

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str


class RewardRequest(Struct):
    """The reward of an event."""

    value: float


class SlotRequest(Struct, rename="camel"):
    """A place on a page for which an action is wanted."""

    id: Annotated[str, Meta(min_length=1, max_length=256)]
    baseline_action: str
    features: FeatureList = None
    excluded_actions: list[str] | None = None


class MultiSlotRankRequest(Struct, rename="camel"):
    """The question which action to show in each of several slots."""

    actions: Annotated[list[RankableAction], Meta(min_length=1)]
    slots: Annotated[list[SlotRequest], Meta(min_length=1, max_length=50)]
    context_features: FeatureList = None
    event_id: EventId | None = None
    defer_activation: bool | None = False


class SlotResponse(Struct, rename="camel"):
    """The action of a slot."""

    id: str
    reward_action_id: str


class MultiSlotRankResponse(Struct, rename="camel"):
    """The actions of all slots."""

    slots: list[SlotResponse]
    event_id: str


class SlotReward(Struct, rename="camel"):
    """The reward of a slot."""

    slot_id: str
    value: float


class MultiSlotRewardRequest(Struct):
    """The rewards of some slots of an event."""

    reward: Annotated[list[SlotReward], Meta(min_length=1)]


class ServiceConfiguration(Struct, rename="camel"):
    """The settings of a bandit, as Personalizer names them."""

    reward_wait_time: str
    default_reward: float
    reward_aggregation: Literal["earliest", "sum"]
    exploration_percentage: float
    model_export_frequency: str
    log_retention_days: int
    learning_mode: LearningMode
    log_mirror_enabled: bool = False
    is_auto_optimization_enabled: bool = False


class ServiceConfigurationChange(Struct, rename="camel"):
    """Settings to change; those that are not given stay as they are."""

    reward_wait_time: str | UnsetType = UNSET
    default_reward: float | UnsetType = UNSET
    reward_aggregation: str | UnsetType = UNSET
    exploration_percentage: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    model_export_frequency: str | UnsetType = UNSET
    log_retention_days: int | UnsetType = UNSET
    learning_mode: LearningMode | UnsetType | None = UNSET
    log_mirror_enabled: bool | UnsetType | None = UNSET
    is_auto_optimization_enabled: bool | UnsetType | None = UNSET


class PolicyContract(Struct):
    """The policy of a bandit: its name, and its options as JSON."""

    name: str
    arguments: str


class ModelProperties(Struct, rename="camel"):
    """When a model was made and last changed."""

    creation_time: str
    last_modified_time: str
