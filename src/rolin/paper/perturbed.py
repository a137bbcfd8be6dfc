"""Appendix C, first figure: RoLinTS with wrong values of λ and σ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import rolin
from rolin.environments.synthetic import Contexts
from rolin.model.draws import Sampling
from rolin.paper import claims
from rolin.paper.claims import Claim
from rolin.paper.experiment import Experiment
from rolin.paper.setting import (
    AGENT_STDS,
    LIN_TS,
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

__all__ = ["Perturbed", "perturbed"]

SOURCE = "Appendix C"


def unperturbed(arm_std: float) -> str:
    """Return the name of RoLinTS with this value of s₀ and the λ and σ of the environment."""
    return f"RoLinTS, s₀ = {arm_std:g}, true λ and σ"


@dataclass(frozen=True)
class Perturbed:
    """Makes a RoLinTS whose λ and σ are wrong by factors of up to three. The factors depend on the seed."""

    arm_std: float
    sampling: Sampling

    def __call__(self, *, seed: int) -> rolin.RoLinTS:
        """Multiply or divide λ and σ, each by its own u ~ U[1, 3]. A seed gives every s₀ the same pair."""
        # A separate stream: the policy uses the same seed as the key of Philox.
        generator = np.random.default_rng([seed, 3])
        u = generator.uniform(1.0, 3.0, size=2)
        precision, noise = np.where(generator.random(2) < 0.5, u, 1.0 / u)
        return rolin.RoLinTS(
            n_features=N_FEATURES,
            arm_std=self.arm_std,
            coef_std=float(precision**-0.5),  # λ = coef_std⁻²; the true λ is 1
            noise_std=float(noise),
            intercept_std=None,
            sampling=self.sampling,
            exploration=1.0,
            seed=seed,
        )


def perturbed(
    *, rounds: int | None = None, contexts: Contexts = "fresh", sampling: Sampling = "marginal"
) -> Experiment:
    """Appendix C, first figure: RoLinTS with λ and σ wrong by factors of up to three."""
    rounds = ROUNDS if rounds is None else rounds
    right = thompson(sampling)
    slight = Claim(
        "slightly more regret", SOURCE,
        "With λ and σ wrong by up to three fold, the regret of RoLinTS increases slightly.",
        lambda results: [
            check
            for p in PANELS
            for s in AGENT_STDS
            for check in (
                claims.lower(results[p], p, unperturbed(s), rolin_ts(s)),
                claims.at_most(results[p], p, rolin_ts(s), unperturbed(s), claims.SIMILAR),
            )
        ],
    )  # fmt: skip
    return Experiment(
        name="perturbed",
        title="Regret when λ and σ are wrong by up to three fold",
        source="Appendix C, first figure",
        environments=environments(contexts),
        policies={
            **{rolin_ts(s): Perturbed(s, sampling) for s in AGENT_STDS},
            LIN_TS: right[LIN_TS],
            **baselines(),
            **{unperturbed(s): right[rolin_ts(s)] for s in AGENT_STDS},
        },
        not_drawn=frozenset(unperturbed(s) for s in AGENT_STDS),
        rounds=rounds,
        runs=RUNS,
        claims=(slight, *figure_1(ROLIN_TS, LIN_TS, f"{SOURCE} (“all trends are similar”)")),
        settings={"contexts": contexts, "sampling": sampling},
    )
