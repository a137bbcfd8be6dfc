"""A policy with a journal: decisions by id, late rewards, explanations."""

from rolin.bandit.bandit import Bandit
from rolin.bandit.explanation import Contribution, Explanation, SlopeContribution

__all__ = ["Bandit", "Contribution", "Explanation", "SlopeContribution"]
