"""A policy with a journal: decisions by id, late rewards, explanations."""

from rolin.bandit.async_bandit import AsyncBandit
from rolin.bandit.bandit import Bandit
from rolin.bandit.explanation import Contribution, Explanation, SlopeContribution
from rolin.bandit.requests import RewardStatus
from rolin.bandit.watching import BanditStats, Finished, Observer, Written

__all__ = [
    "AsyncBandit",
    "Bandit",
    "BanditStats",
    "Contribution",
    "Explanation",
    "Finished",
    "Observer",
    "RewardStatus",
    "SlopeContribution",
    "Written",
]
