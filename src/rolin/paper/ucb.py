"""Appendix C, second figure: RoLinUCB and LinUCB."""

from __future__ import annotations

from functools import partial

import rolin
from rolin.environments.synthetic import Contexts
from rolin.model.draws import Sampling
from rolin.paper import claims
from rolin.paper.claims import Claim
from rolin.paper.experiment import Experiment
from rolin.paper.setting import (
    AGENT_STDS,
    LIN_TS,
    MODEL,
    N_FEATURES,
    PANELS,
    ROLIN_TS,
    ROUNDS,
    RUNS,
    baselines,
    environments,
    rolin_ts,
    thompson,
)
from rolin.paper.trends import figure_1

__all__ = ["ucb"]

LIN_UCB = "LinUCB"
SOURCE = "Appendix C"


def rolin_ucb(arm_std: float) -> str:
    """Return the name of RoLinUCB with this value of s₀."""
    return f"RoLinUCB, s₀ = {arm_std:g}"


def ucb(
    *, rounds: int | None = None, contexts: Contexts = "fresh", sampling: Sampling = "marginal"
) -> Experiment:
    """Appendix C, second figure: RoLinUCB and LinUCB in the problems of Figure 1."""
    rounds = ROUNDS if rounds is None else rounds
    ours = [rolin_ucb(s) for s in AGENT_STDS]
    make = partial(rolin.RoLinUCB, n_features=N_FEATURES, horizon=rounds, **MODEL)
    competitive = Claim(
        "as good as Thompson sampling", SOURCE,
        "Bayesian UCB algorithms are known to be competitive with Thompson sampling.",
        lambda results: [
            claims.at_most(results[p], p, rolin_ucb(s), rolin_ts(s), claims.SIMILAR)
            for p in PANELS
            for s in AGENT_STDS
        ],
    )  # fmt: skip
    return Experiment(
        name="ucb",
        title="Regret of the UCB policies in three synthetic problems",
        source="Appendix C, second figure",
        environments=environments(contexts),
        policies={
            **{rolin_ucb(s): partial(make, arm_std=s) for s in AGENT_STDS},
            LIN_UCB: partial(rolin.LinUCB, n_features=N_FEATURES, horizon=rounds, **MODEL),
            **baselines(),
            **thompson(sampling),
        },
        not_drawn=frozenset([*ROLIN_TS, LIN_TS]),
        rounds=rounds,
        runs=RUNS,
        claims=(
            *figure_1(ours, LIN_UCB, f"{SOURCE} (“similar trends”)"),
            competitive,
        ),
        settings={"contexts": contexts, "sampling": sampling},
    )
