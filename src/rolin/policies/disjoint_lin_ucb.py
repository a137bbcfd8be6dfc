"""LinUCB with a separate model for every arm: the disjoint model of Li et al. (2010)."""

from __future__ import annotations

from typing import Any

from rolin.policies.hybrid_lin_ucb import HybridLinUCB
from rolin.policies.options import with_shared_options

__all__ = ["DisjointLinUCB"]


@with_shared_options
class DisjointLinUCB(HybridLinUCB):
    """LinUCB with a separate linear model for every arm. Arms learn nothing from each other.

    Parameters
    ----------
    intercept
        Whether the models have an intercept.

    References
    ----------
    Li, Chu, Langford & Schapire, *A Contextual-Bandit Approach to Personalized News Article Recommendation*,
    WWW 2010, Algorithm 1.

    Examples
    --------
    >>> policy = DisjointLinUCB(n_features=2, seed=7)
    >>> decision = policy.decide({"red": [1.0, 0.2], "blue": [1.0, 0.2]})
    >>> policy.update(decision.arm, decision.context, reward=1.0)
    """

    def __init__(
        self,
        *,
        n_features: int,
        intercept: bool = True,
        width: float = 1.0,
        ridge: float = 1.0,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            n_features=n_features,
            shared=(),
            intercept=intercept,
            width=width,
            ridge=ridge,
            seed=seed,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The options that create this policy again, without what it has learned."""
        return {
            name: value for name, value in super().settings.items() if name not in ("shared", "own")
        }
