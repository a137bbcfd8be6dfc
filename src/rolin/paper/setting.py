"""What the synthetic experiments share: problems, policies, and their names."""

from __future__ import annotations

from functools import partial
from typing import Any

import rolin
from rolin.environments.synthetic import Contexts, Synthetic
from rolin.model.draws import Sampling
from rolin.simulation.play import MakePolicy

__all__ = [
    "ABSTRACT",
    "AGENT_STDS",
    "H_LIN_UCB",
    "LIN_TS",
    "MISSPECIFIED",
    "MODEL",
    "MOST",
    "N_ARMS",
    "N_FEATURES",
    "PANELS",
    "ROLIN_TS",
    "ROUNDS",
    "RUNS",
    "SAFE_FALCON",
    "SECTION",
    "THOMPSON",
    "TRUE_STDS",
    "WELL",
    "baselines",
    "environments",
    "panel",
    "rolin_ts",
    "thompson",
]

N_ARMS, N_FEATURES, ROUNDS, RUNS = 50, 10, 3000, 100
TRUE_STDS = (0.0, 0.25, 0.5)
AGENT_STDS = (0.25, 0.5, 1.0)
LIN_TS, H_LIN_UCB, SAFE_FALCON = "LinTS", "hLinUCB", "Safe-FALCON"
SECTION = "Section 6.1"
ABSTRACT = "Abstract, Introduction"
# What the paper's agents know beside s₀: λ = 1 and σ = 1. They have no intercept.
MODEL: dict[str, Any] = {"coef_std": 1.0, "noise_std": 1.0, "intercept_std": None}
THOMPSON: dict[str, Any] = {**MODEL, "exploration": 1.0}


def rolin_ts(arm_std: float) -> str:
    """Return the name of RoLinTS with this value of s₀."""
    return f"RoLinTS, s₀ = {arm_std:g}"


def panel(arm_std: float) -> str:
    """Return the title of the panel with this value of σ₀."""
    return f"σ₀ = {arm_std:g}"


ROLIN_TS = [rolin_ts(s) for s in AGENT_STDS]
PANELS = [panel(s) for s in TRUE_STDS]
MISSPECIFIED = [panel(s) for s in TRUE_STDS if s > 0]
WELL, MOST = panel(0.0), panel(0.5)


def environments(contexts: Contexts) -> dict[str, Synthetic]:
    """Return the three environments, by the title of their panel."""
    return {
        panel(std): Synthetic(n_arms=N_ARMS, n_features=N_FEATURES, arm_std=std, contexts=contexts)
        for std in TRUE_STDS
    }


def baselines(n_arms: int = N_ARMS, n_features: int = N_FEATURES) -> dict[str, MakePolicy]:
    """Return the baselines of the paper, except LinTS.

    The paper does not state the exploration, ridge and initial hidden features of hLinUCB: these are the
    defaults of its authors. Nor does it state the confidence and first epoch of Safe-FALCON: these are
    0.05 and 2.
    """
    return {
        H_LIN_UCB: partial(rolin.HLinUCB, n_features=n_features, n_hidden=n_arms, initial="zero"),
        SAFE_FALCON: partial(rolin.SafeFALCON, n_features=n_features, n_arms=n_arms),
    }


def thompson(sampling: Sampling) -> dict[str, MakePolicy]:
    """Return RoLinTS with three values of s₀, and LinTS."""
    options: dict[str, Any] = {**THOMPSON, "n_features": N_FEATURES, "sampling": sampling}
    return {
        **{rolin_ts(s): partial(rolin.RoLinTS, arm_std=s, **options) for s in AGENT_STDS},
        LIN_TS: partial(rolin.LinTS, **options),
    }
