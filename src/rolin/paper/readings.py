"""Figure 1 with other settings of the baselines, which the paper does not state."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import rolin
from rolin.environments.synthetic import Contexts
from rolin.model.draws import Sampling
from rolin.paper import claims
from rolin.paper.claims import Check, Claim, Results
from rolin.paper.experiment import Experiment
from rolin.paper.setting import (
    LIN_TS,
    MISSPECIFIED,
    N_ARMS,
    N_FEATURES,
    PANELS,
    ROLIN_TS,
    ROUNDS,
    SECTION,
    WELL,
    environments,
    thompson,
)
from rolin.simulation.play import MakePolicy

__all__ = ["readings"]


def readings(
    *, rounds: int | None = None, contexts: Contexts = "fresh", sampling: Sampling = "marginal"
) -> Experiment:
    """Figure 1 with alternative settings of hLinUCB and Safe-FALCON, which the paper does not state."""
    rounds = ROUNDS if rounds is None else rounds
    bold = math.sqrt(2.0 * math.log(rounds))
    explorations: dict[str, dict[str, Any]] = {
        "library's exploration": {},
        "width 1, ridge 1": {"width": 1.0, "hidden_width": 1.0, "ridge": 1.0, "hidden_ridge": 1.0},
        "width √(2 log n)": {"width": bold, "hidden_width": bold, "ridge": 1.0, "hidden_ridge": 1.0},
        "adaptive width": {"width": "adaptive", "hidden_width": "adaptive"},
    }  # fmt: skip
    hidden: dict[str, MakePolicy] = {
        f"hLinUCB, {initial}, {name}": partial(
            rolin.HLinUCB, n_features=N_FEATURES, n_hidden=N_ARMS, initial=initial, **options
        )
        for initial in ("zero", "uniform", "normal", "one-hot")
        for name, options in explorations.items()
    }
    falcon: dict[str, dict[str, Any]] = {
        "δ = 0.05, τ₁ = 2": {},
        "δ = 1/n": {"failure_probability": 1.0 / rounds},
        "τ₁ = 32": {"first_epoch": 32},
        "fitted to all data": {"all_data": True},
        "rewards mapped from ±5": {"reward_range": (-5.0, 5.0)},
        "ξ/100": {"complexity": 0.01},
    }
    safe: dict[str, MakePolicy] = {
        f"Safe-FALCON, {name}": partial(
            rolin.SafeFALCON, n_features=N_FEATURES, n_arms=N_ARMS, **options
        )
        for name, options in falcon.items()
    }
    linear_or_not = [
        Claim(
            name, SECTION,
            "hLinUCB outperforms LinTS and RoLinTS at σ₀ = 0; at σ₀ > 0 it performs similarly to "
            "LinTS, and RoLinTS outperforms it.",
            partial(_fits_the_text, name),
        )
        for name in hidden
    ]  # fmt: skip
    conservative = [
        Claim(
            name, SECTION,
            "Safe-FALCON's regret is an order of magnitude higher than that of RoLinTS.",
            partial(_conservative, name),
        )
        for name in safe
    ]  # fmt: skip
    return Experiment(
        name="readings",
        title="Figure 1 under other settings of the baselines",
        source="settings that Section 6.1 leaves open",
        environments=environments(contexts),
        policies={**thompson(sampling), **hidden, **safe},
        # The figure has room for one exploration setting of each kind of initial hidden features.
        not_drawn=frozenset(
            {*thompson(sampling), *hidden, *safe}
            - {
                LIN_TS,
                ROLIN_TS[1],
                *(name for name in hidden if name.endswith("library's exploration")),
            }
        ),
        rounds=rounds,
        runs=30,
        claims=(*linear_or_not, *conservative),
        settings={"contexts": contexts, "sampling": sampling},
    )


def _fits_the_text(name: str, results: Results) -> list[Check]:
    """Check everything that the paper says about hLinUCB."""
    return [
        *(claims.lower(results[WELL], WELL, name, other) for other in [LIN_TS, *ROLIN_TS]),
        *(claims.similar(results[p], p, name, LIN_TS) for p in MISSPECIFIED),
        *(claims.lower(results[p], p, ours, name) for p in MISSPECIFIED for ours in ROLIN_TS),
    ]


def _conservative(name: str, results: Results) -> list[Check]:
    """Check that Safe-FALCON has ten times the regret of RoLinTS."""
    return [claims.at_least(results[p], p, name, ours, 10.0) for p in PANELS for ours in ROLIN_TS]
