"""Figure 1 with the other models that the paper discusses."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rolin
from rolin.environments.synthetic import Contexts
from rolin.model.draws import Sampling
from rolin.paper import claims
from rolin.paper.claims import Claim
from rolin.paper.experiment import Experiment
from rolin.paper.setting import (
    LIN_TS,
    MISSPECIFIED,
    MODEL,
    N_FEATURES,
    PANELS,
    ROLIN_TS,
    ROUNDS,
    RUNS,
    SECTION,
    WELL,
    environments,
    thompson,
)
from rolin.paper.trends import hidden_trends
from rolin.simulation.play import MakePolicy

__all__ = ["ReUCB", "alternatives"]

SEPARATE, HYBRID, RE_UCB = "disjoint LinUCB", "hybrid LinUCB", "ReUCB"
ROLIN_UCB, LIN_UCB = "RoLinUCB, s₀ = 0.5, width 1", "LinUCB, width 1"
# Exploration of hLinUCB with one hidden feature: the default of its authors, and the one of the other policies here.
ONE_HIDDEN: dict[str, dict[str, Any]] = {
    "hLinUCB, one hidden feature": {},
    "hLinUCB, one hidden feature, width 1": {
        "width": 1.0, "hidden_width": 1.0, "ridge": 1.0, "hidden_ridge": 1.0,
    },
}  # fmt: skip


class ReUCB:
    """The random-effect bandit of Zhu & Kveton (2022), which has no contexts: it ignores those it is given.

    It is RoLinUCB without features and with an unknown mean of all arms.

    Parameters
    ----------
    arm_std
        Standard deviation of the arms' mean rewards.
    seed
        A non-negative integer, which only breaks ties.
    """

    def __init__(self, *, arm_std: float, seed: int) -> None:
        self._arm_std = arm_std
        self._policy = rolin.RoLinUCB(
            n_features=0,
            coef_std=1.0,
            intercept_std=1000.0,
            arm_std=arm_std,
            noise_std=1.0,
            width=1.0,
            seed=seed,
        )

    def __repr__(self) -> str:
        return f"ReUCB(arm_std={self._arm_std})"

    def decide(self, contexts: NDArray[np.float64]) -> rolin.Decision:
        """Choose an arm."""
        return self._policy.decide(contexts[:, :0])

    def update(self, arm: int, context: NDArray[np.float64], reward: float) -> None:
        """Learn from a reward."""
        self._policy.update(arm, context, reward)


def alternatives(
    *, rounds: int | None = None, contexts: Contexts = "fresh", sampling: Sampling = "marginal"
) -> Experiment:
    """Figure 1 with a model per arm, a hybrid model, a bandit without context, and hLinUCB with one hidden feature."""
    options: dict[str, Any] = {"n_features": N_FEATURES}
    others: dict[str, MakePolicy] = {
        ROLIN_UCB: partial(rolin.RoLinUCB, arm_std=0.5, width=1.0, **MODEL, **options),
        LIN_UCB: partial(rolin.LinUCB, width=1.0, **MODEL, **options),
        **{
            name: partial(rolin.HLinUCB, n_hidden=1, **exploration, **options)
            for name, exploration in ONE_HIDDEN.items()
        },
        HYBRID: partial(rolin.HybridLinUCB, **options),
        SEPARATE: partial(rolin.DisjointLinUCB, **options),
        # Without contexts, the arms differ by their means only: σ₀.
        RE_UCB: partial(ReUCB, arm_std=0.5),
    }
    return Experiment(
        name="alternatives",
        title="Regret of the other models that the paper discusses",
        source="Sections 1, 2 and 3.1",
        environments=environments(contexts),
        policies={**thompson(sampling), **others},
        not_drawn=frozenset({ROLIN_TS[0], ROLIN_TS[2], LIN_UCB, next(iter(ONE_HIDDEN))}),
        rounds=ROUNDS if rounds is None else rounds,
        runs=RUNS,
        claims=(
            *CLAIMS,
            *(
                claim
                for name in ONE_HIDDEN
                for claim in hidden_trends(name, ROLIN_TS, LIN_TS, SECTION, name.removeprefix("hLinUCB"))
            ),
        ),
        settings={"contexts": contexts, "sampling": sampling},
    )  # fmt: skip


CLAIMS = (
    Claim(
        "a model per arm is not efficient", "Introduction",
        "A separate parameter per arm is not very statistically efficient, because the parameters are not shared.",
        lambda results: [
            claims.lower(results[p], p, name, SEPARATE)
            for p in PANELS
            for name in [*ROLIN_TS, ROLIN_UCB]
        ],
    ),
    Claim(
        "one shared parameter is efficient", "Introduction",
        "A single parameter that all arms share can be statistically efficient (here at σ₀ = 0).",
        lambda results: [
            claims.lower(results[WELL], WELL, name, SEPARATE) for name in (LIN_TS, LIN_UCB)
        ],
    ),
    Claim(
        "one shared parameter fails if the model is wrong", "Introduction, Conclusions",
        "It is likely to fail due to model misspecification, with linear regret.",
        lambda results: [
            claims.linear(results[p], p, name) for p in MISSPECIFIED for name in (LIN_TS, LIN_UCB)
        ],
    ),
    Claim(
        "contexts beat a multi-armed bandit", "Introduction",
        "The contextual approach can be more statistically efficient than a multi-armed bandit solution.",
        lambda results: [
            claims.lower(results[p], p, name, RE_UCB) for p in PANELS for name in (LIN_TS, ROLIN_UCB)
        ],
    ),
    Claim(
        "a bandit without context is linear", "Section 2",
        "A non-contextual algorithm would have a linear regret in this setting (said of Ghosh et al. 2017; here ReUCB).",
        lambda results: [claims.linear(results[p], p, RE_UCB) for p in PANELS],
    ),
    Claim(
        "fewer parameters are more efficient", "Section 3.1",
        "Arm-specific variables reduce the number of parameters compared to modeling arms separately or with a hybrid "
        "model, and therefore increase statistical efficiency.",
        lambda results: [
            claims.lower(results[p], p, ROLIN_UCB, other) for p in PANELS for other in (HYBRID, SEPARATE)
        ],
    ),
)  # fmt: skip
