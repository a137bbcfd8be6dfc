"""Figure 1: robust linear bandits drawn from their prior, and what the other figures share with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import rolin
from rolin.environments.synthetic import Contexts, Synthetic
from rolin.model.draws import Sampling
from rolin.paper import claims
from rolin.paper.claims import Check, Claim, Results
from rolin.paper.experiment import Experiment
from rolin.simulation.comparison import mean_of, rounded
from rolin.simulation.runner import MakePolicy

__all__ = [
    "AGENT_STDS",
    "H_LIN_UCB",
    "LIN_TS",
    "MISSPECIFIED",
    "N_ARMS",
    "N_FEATURES",
    "PANELS",
    "ROLIN_TS",
    "ROUNDS",
    "RUNS",
    "SAFE_FALCON",
    "SECTION",
    "WELL",
    "baselines",
    "environments",
    "rolin_ts",
    "synthetic",
    "thompson",
    "trends",
]

N_ARMS, N_FEATURES, ROUNDS, RUNS = 50, 10, 3000, 100
TRUE_STDS = (0.0, 0.25, 0.5)
AGENT_STDS = (0.25, 0.5, 1.0)
LIN_TS, H_LIN_UCB, SAFE_FALCON = "LinTS", "hLinUCB", "Safe-FALCON"
SECTION = "Section 6.1"


def rolin_ts(arm_std: float) -> str:
    """Return the name of RoLinTS with this s₀."""
    return f"RoLinTS, s₀ = {arm_std:g}"


def panel(arm_std: float) -> str:
    """Return the title of a panel."""
    return f"σ₀ = {arm_std:g}"


ROLIN_TS = [rolin_ts(s) for s in AGENT_STDS]
PANELS = [panel(s) for s in TRUE_STDS]
MISSPECIFIED = [panel(s) for s in TRUE_STDS if s > 0]
WELL, MOST = panel(0.0), panel(0.5)


def environments(contexts: Contexts) -> dict[str, Synthetic]:
    """Return the three problems."""
    return {
        panel(std): Synthetic(n_arms=N_ARMS, n_features=N_FEATURES, arm_std=std, contexts=contexts)
        for std in TRUE_STDS
    }


def baselines(n_arms: int = N_ARMS, n_features: int = N_FEATURES) -> dict[str, MakePolicy]:
    """Return the baselines that the paper compares with, besides LinTS.

    The paper gives neither hLinUCB's exploration, ridge and start, nor Safe-FALCON's confidence and
    first epoch: these are the defaults of hLinUCB's authors, and 0.05 and 2.
    """
    return {
        H_LIN_UCB: partial(rolin.HLinUCB, n_features=n_features, n_hidden=n_arms, initial="zero"),
        SAFE_FALCON: partial(rolin.SafeFALCON, n_features=n_features, n_arms=n_arms),
    }


def thompson(sampling: Sampling) -> dict[str, MakePolicy]:
    """Return RoLinTS with its three s₀, and LinTS."""
    ours: dict[str, MakePolicy] = {
        rolin_ts(s): partial(rolin.RoLinTS, n_features=N_FEATURES, arm_std=s, sampling=sampling)
        for s in AGENT_STDS
    }
    return {**ours, LIN_TS: partial(rolin.LinTS, n_features=N_FEATURES, sampling=sampling)}


# -- what the paper says of Figure 1, and of anything that has "similar trends" ----------------


def trends(ours: list[str], linear: str, source: str) -> tuple[Claim, ...]:
    """Return the claims on a figure like Figure 1, with our policies and their linear rival."""

    def each(
        check: Callable[..., Check], panels: list[str], *args: object
    ) -> Callable[[Results], list[Check]]:
        return lambda results: [check(results[p], p, name, *args) for p in panels for name in ours]

    return (
        Claim(
            "linear bandit, sublinear regret", source,
            f"σ₀ = 0 is a contextual linear bandit, and {linear} has a sublinear regret.",
            lambda results: [claims.sublinear(results[WELL], WELL, linear)],
        ),
        Claim(
            "not better where there is nothing to gain", source,
            f"At σ₀ = 0, the robust policy is not expected to outperform {linear}.",
            each(claims.not_lower, [WELL], linear),
        ),
        Claim(
            "sublinear without misspecification", source,
            "At σ₀ = 0, all variants of the robust policy have a sublinear regret in n.",
            each(claims.sublinear, [WELL]),
        ),
        Claim(
            "more doubt costs more", source,
            "At σ₀ = 0, a higher regret corresponds to higher values of s₀.",
            lambda results: [
                claims.lower(results[WELL], WELL, small, large)
                for small, large in pairwise(ours)
            ],
        ),
        Claim(
            "a slightly wrong linear bandit fails", source,
            f"At σ₀ = 0.25 the model is only slightly misspecified, yet {linear} fails and has a "
            "linear regret.",
            lambda results: [claims.linear(results[p], p, linear) for p in MISSPECIFIED[:1]],
        ),
        Claim(
            "robust to its own s₀", source,
            "At σ₀ = 0.25, all variants have a sublinear regret, even with s₀ ∈ {0.5, 1}.",
            each(claims.sublinear, MISSPECIFIED[:1]),
        ),
        Claim(
            "the gap grows with σ₀", source,
            f"The gap in the regret of {linear} and the robust policy increases with σ₀.",
            lambda results: [
                check for name in ours for check in growing_gaps(results, linear, name)
            ],
        ),
        Claim(
            "at least twice lower", source,
            f"At σ₀ = 0.5, the robust policy has at least twice lower regret than {linear}, for all "
            "values of s₀.",
            lambda results: [claims.at_least(results[MOST], MOST, linear, name, 2.0) for name in ours],
        ),
        Claim(
            "hLinUCB wins where the model is right", source,
            f"At σ₀ = 0, hLinUCB outperforms both {linear} and the robust policy.",
            lambda results: [
                claims.lower(results[WELL], WELL, H_LIN_UCB, name) for name in [linear, *ours]
            ],
        ),
        Claim(
            "hLinUCB is like the linear bandit where it is wrong", source,
            f"At σ₀ > 0, hLinUCB performs similarly to {linear}.",
            lambda results: [
                claims.similar(results[p], p, H_LIN_UCB, linear) for p in MISSPECIFIED
            ],
        ),
        Claim(
            "hLinUCB loses where the model is wrong", source,
            "At σ₀ > 0, the robust policy outperforms hLinUCB.",
            each(claims.lower, MISSPECIFIED, H_LIN_UCB),
        ),
        Claim(
            "Safe-FALCON is not competitive", source,
            "Safe-FALCON is too conservative to be competitive.",
            lambda results: [
                check for p in PANELS for check in claims.worst(results[p], p, SAFE_FALCON)
            ],
        ),
        Claim(
            "Safe-FALCON is an order of magnitude worse", source,
            "In all experiments, Safe-FALCON's regret at n = 3000 is an order of magnitude higher than "
            "that of the robust policy.",
            lambda results: [
                claims.at_least(results[p], p, SAFE_FALCON, name, 10.0)
                for p in PANELS
                for name in ours
            ],
        ),
    )  # fmt: skip


def growing_gaps(results: Results, linear: str, ours: str) -> list[Check]:
    """Check that the linear policy's excess regret grows from panel to panel.

    Run i of every panel has the same coefficients, contexts and noise, so the rise is paired too.
    """
    gaps = [results[p].regret[linear][:, -1] - results[p].regret[ours][:, -1] for p in PANELS]
    checks = []
    for (before, less), (after, more) in pairwise(zip(PANELS, gaps, strict=True)):
        rise = mean_of(more - less)
        checks.append(
            Check(
                f"{linear} minus {ours}, {before} to {after}",
                claims.above(rise, 0.0),
                f"gaps {mean_of(less)} and {mean_of(more)}, rise {rise} "
                f"({rounded(rise.low)} to {rounded(rise.high)})",
            )
        )
    return checks


# -- the experiments -------------------------------------------------------------------------


def synthetic(
    *, rounds: int | None = None, contexts: Contexts = "fresh", sampling: Sampling = "marginal"
) -> Experiment:
    """Figure 1: RoLinTS beside LinTS, hLinUCB and Safe-FALCON in three synthetic problems."""
    rounds = ROUNDS if rounds is None else rounds
    return Experiment(
        name="synthetic",
        title="Regret in three synthetic problems",
        source="Figure 1, Section 6.1",
        environments=environments(contexts),
        policies={**thompson(sampling), **baselines()},
        rounds=rounds,
        runs=RUNS,
        claims=trends(ROLIN_TS, LIN_TS, SECTION),
        settings={"contexts": contexts, "sampling": sampling},
    )
