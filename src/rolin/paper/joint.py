"""Figure 1 with joint sampling, the only kind that the proof of Theorem 1 covers."""

from __future__ import annotations

import math

from rolin.environments.synthetic import Contexts
from rolin.model.theory import bayes_regret_bound
from rolin.paper import claims
from rolin.paper.claims import Check, Claim, Results
from rolin.paper.experiment import Experiment
from rolin.paper.setting import (
    LIN_TS,
    N_ARMS,
    N_FEATURES,
    PANELS,
    ROLIN_TS,
    ROUNDS,
    SECTION,
    TRUE_STDS,
    environments,
    rolin_ts,
    thompson,
)
from rolin.paper.trends import abstract, trends
from rolin.simulation.comparison import mean_over_runs

__all__ = ["joint"]

OURS = "not in the paper"


def named(policy: str) -> str:
    """Return the name of a policy with joint sampling."""
    return f"{policy}, joint"


def joint(*, rounds: int | None = None, contexts: Contexts = "fresh") -> Experiment:
    """Figure 1 with joint sampling, beside Algorithm 1, which draws the arms independently."""
    rounds = ROUNDS if rounds is None else rounds
    joint_policies = {named(name): make for name, make in thompson("joint").items()}
    marginal = thompson("marginal")
    ours = [named(name) for name in ROLIN_TS]
    return Experiment(
        name="joint",
        title="Regret with joint and with independent draws",
        source="Figure 1 with joint sampling",
        environments=environments(contexts),
        policies={**joint_policies, **marginal},
        not_drawn=frozenset({ROLIN_TS[0], ROLIN_TS[2]}),
        rounds=rounds,
        runs=300,
        claims=(
            *abstract(ours, named(LIN_TS)),
            *trends(ours, named(LIN_TS), SECTION),
            Claim(
                "similar to independent draws", OURS,
                "Joint sampling has a regret similar to that of the independent draws of Algorithm 1.",
                lambda results: [
                    claims.similar(results[p], p, named(name), name) for p in PANELS for name in marginal
                ],
            ),
            Claim(
                "below the bound of Theorem 1", "Theorem 1",
                "The Bayes regret of RoLinTS with the true scales is at most the bound.",
                _bounded,
            ),
        ),
        settings={"contexts": contexts},
    )  # fmt: skip


def _bounded(results: Results) -> list[Check]:
    """Check the regrets of policies that know σ₀ against the bound."""
    checks = []
    for p, arm_std in zip(PANELS, TRUE_STDS, strict=True):
        result = results[p]
        bound = bayes_regret_bound(
            rounds=result.rounds,
            n_arms=N_ARMS,
            n_features=N_FEATURES,
            context_norm=math.sqrt(N_FEATURES),  # of contexts in [-1, 1]^d
            arm_std=arm_std,
        ).total
        name = named(rolin_ts(arm_std) if arm_std else LIN_TS)
        regret = mean_over_runs(result.regret[name][:, -1])
        above = claims.above(regret, bound)
        checks.append(
            Check(
                f"{p}: {name}",
                None if above is None else not above,
                f"regret {regret}, bound {bound:.0f}",
            )
        )
    return checks
