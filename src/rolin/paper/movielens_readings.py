"""Figure 2 with other settings of the factorization and of hLinUCB, which the paper does not state."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

import rolin
from rolin.datasets.ratings import read_ratings
from rolin.environments.movielens import MovieLens
from rolin.model.draws import Sampling
from rolin.paper import claims
from rolin.paper.claims import Check, Claim, Results
from rolin.paper.experiment import Experiment
from rolin.paper.movielens import NOISE_STD, ROUNDS, SECTION, digest
from rolin.paper.synthetic import (
    AGENT_STDS,
    H_LIN_UCB,
    LIN_TS,
    N_ARMS,
    ROLIN_TS,
    SAFE_FALCON,
    baselines,
    rolin_ts,
)
from rolin.simulation.play import MakePolicy

__all__ = ["movielens_readings"]

SHARE, RANK = 0.01, 10
# Settings of the factorization of the ratings; the first is the one of our Figure 2.
FITS: dict[str, dict[str, Any]] = {
    "plain ridge 1": {"ridge": 1.0},
    "ridge 1, centred": {"ridge": 1.0, "center": True},
    "ridge 10": {"ridge": 10.0},
    "ridge 0.1": {"ridge": 0.1},
    "weighted 0.08": {"ridge": 0.08, "weighted": True},
    "weighted 0.08, centred": {"ridge": 0.08, "weighted": True, "center": True},
}
# Settings of hLinUCB besides the default of its authors: initial hidden features and exploration.
_BOLD: dict[str, Any] = {"width": 1.0, "hidden_width": 1.0, "ridge": 1.0, "hidden_ridge": 1.0}
STARTS: dict[str, dict[str, Any]] = {
    "hLinUCB, zero, width 1, ridge 1": {**_BOLD, "initial": "zero"},
    "hLinUCB, uniform, width 1, ridge 1": {**_BOLD, "initial": "uniform"},
}


def movielens_readings(
    data: str | PathLike[str],
    *,
    rounds: int | None = None,
    sampling: Sampling = "marginal",
    seed: int = 0,
) -> Experiment:
    """Figure 2, first panel, with alternative factorizations and alternative settings of hLinUCB."""
    ratings = read_ratings(data)
    agent: dict[str, Any] = {"n_features": RANK, "noise_std": NOISE_STD, "sampling": sampling}
    hidden: dict[str, MakePolicy] = {
        name: partial(rolin.HLinUCB, n_features=RANK, n_hidden=N_ARMS, **options)
        for name, options in STARTS.items()
    }
    return Experiment(
        name="movielens-readings",
        title="Figure 2, 1 % of training set, with other factorizations",
        source="settings that Section 6.2 leaves open",
        environments={
            name: MovieLens.from_ratings(
                ratings, share=SHARE, rank=RANK, n_arms=N_ARMS, noise_std=NOISE_STD, seed=seed, **fit
            )
            for name, fit in FITS.items()
        },
        policies={
            **{rolin_ts(s): partial(rolin.RoLinTS, arm_std=s, **agent) for s in AGENT_STDS},
            LIN_TS: partial(rolin.LinTS, **agent),
            **baselines(N_ARMS, RANK),
            **hidden,
        },
        not_drawn=frozenset(hidden),
        rounds=ROUNDS if rounds is None else rounds,
        runs=300,
        claims=tuple(
            Claim(
                name, SECTION,
                "LinTS has linear regret, RoLinTS less for all s₀, half of it for s₀ = 1; hLinUCB lies "
                "between them; Safe-FALCON has ten times that of RoLinTS.",
                partial(_fits_the_text, name),
            )
            for name in FITS
        ),
        settings={"sampling": sampling, "seed": seed, "ratings": digest(ratings)},
        min_runs=300,
    )  # fmt: skip


def _fits_the_text(name: str, results: Results) -> list[Check]:
    """Check everything that the paper says about the panel."""
    result = results[name]
    return [
        claims.linear(result, name, LIN_TS),
        *(claims.lower(result, name, ours, LIN_TS) for ours in ROLIN_TS),
        claims.at_least(result, name, LIN_TS, ROLIN_TS[-1], 2.0),
        *(
            check
            for hidden in (H_LIN_UCB, *STARTS)
            for check in (
                claims.lower(result, name, hidden, LIN_TS),
                *(claims.lower(result, name, ours, hidden) for ours in ROLIN_TS),
            )
        ),
        *(claims.at_least(result, name, SAFE_FALCON, ours, 10.0) for ours in ROLIN_TS),
    ]
