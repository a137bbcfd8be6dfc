"""Figure 2 with other settings of the factorization and of hLinUCB, which the paper does not state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any

import rolin
from rolin.datasets.ratings import read_ratings
from rolin.environments import movielens_environments
from rolin.environments.movielens import MovieLens
from rolin.model.draws import Sampling
from rolin.paper import claims
from rolin.paper.claims import Check, Claim, Results
from rolin.paper.experiment import Experiment
from rolin.paper.movielens import NOISE_STD, ROUNDS, SECTION, SHARES, digest
from rolin.paper.setting import (
    AGENT_STDS,
    H_LIN_UCB,
    LIN_TS,
    N_ARMS,
    ROLIN_TS,
    SAFE_FALCON,
    THOMPSON,
    baselines,
    rolin_ts,
)
from rolin.simulation.result import Result

__all__ = ["movielens_readings"]

RANK = 10
# Settings of the factorization of the ratings; the first is the one of our Figure 2.
FITS: dict[str, dict[str, Any]] = {
    "ridge 1": {"ridge": 1.0},
    "ridge 1, centered": {"ridge": 1.0, "center": True},
    "ridge 6": {"ridge": 6.0},
    "ridge 10": {"ridge": 10.0},
    "ridge 0.1": {"ridge": 0.1},
    "weighted 0.08": {"ridge": 0.08, "weighted": True},
    "weighted 0.08, centered": {"ridge": 0.08, "weighted": True, "center": True},
}
# hLinUCB that learns five hidden features, besides the default of its authors, which learns none.
LEARNED = "hLinUCB, uniform, width 1"


def panel(fit: str, share: float) -> str:
    """Return the title of a panel."""
    return f"{fit}, {100 * share:g} %"


def movielens_readings(
    data: str | PathLike[str],
    *,
    rounds: int | None = None,
    sampling: Sampling = "marginal",
    seed: int = 0,
) -> Experiment:
    """Figure 2 with seven factorizations of the ratings, and with hLinUCB that learns hidden features."""
    ratings = read_ratings(data)
    agent: dict[str, Any] = {
        **THOMPSON,
        "n_features": RANK,
        "noise_std": NOISE_STD,
        "sampling": sampling,
    }
    environments: dict[str, MovieLens] = {}
    for name, fit in FITS.items():
        made = movielens_environments(
            ratings, SHARES, rank=RANK, n_arms=N_ARMS, noise_std=NOISE_STD, seed=seed, **fit
        )
        environments |= {panel(name, share): one for share, one in made.items()}
    return Experiment(
        name="movielens-readings",
        title="Figure 2 with other factorizations",
        source="settings that Section 6.2 leaves open",
        environments=environments,
        policies={
            **{rolin_ts(s): partial(rolin.RoLinTS, arm_std=s, **agent) for s in AGENT_STDS},
            LIN_TS: partial(rolin.LinTS, **agent),
            **baselines(N_ARMS, RANK),
            LEARNED: partial(
                rolin.HLinUCB, n_features=RANK, initial="uniform",
                width=1.0, hidden_width=1.0, ridge=1.0, hidden_ridge=1.0,
            ),
        },
        rounds=ROUNDS if rounds is None else rounds,
        runs=300,
        claims=CLAIMS,
        settings={"sampling": sampling, "seed": seed, "ratings": digest(ratings)},
        min_runs=300,
    )  # fmt: skip


def _each(
    check: Callable[[Result, str], list[Check]], shares: tuple[float, ...]
) -> Callable[[Results], list[Check]]:
    """Return the checks of a claim in all panels with these shares."""

    def checks(results: Results) -> list[Check]:
        return [
            made
            for name in FITS
            for share in shares
            for made in check(results[panel(name, share)], panel(name, share))
        ]

    return checks


def _hidden(name: str) -> tuple[Claim, ...]:
    """Return the claims about hLinUCB, for one of its settings."""
    return (
        Claim(
            f"{name} is better than LinTS", SECTION, "hLinUCB performs better than LinTS.",
            _each(lambda result, where: [claims.lower(result, where, name, LIN_TS)], SHARES),
        ),
        Claim(
            f"{name} is worse than RoLinTS", SECTION, "hLinUCB is worse than RoLinTS.",
            _each(
                lambda result, where: [claims.lower(result, where, ours, name) for ours in ROLIN_TS],
                SHARES,
            ),
        ),
    )  # fmt: skip


CLAIMS = (
    Claim(
        "linear regret", SECTION,
        "With 1 % of the training set, the regret of LinTS is clearly linear in n.",
        _each(lambda result, where: [claims.linear(result, where, LIN_TS)], SHARES[:1]),
    ),
    Claim(
        "significantly lower", SECTION,
        "With 1 %, the regret of RoLinTS is significantly lower, for all s₀.",
        _each(
            lambda result, where: [claims.lower(result, where, name, LIN_TS) for name in ROLIN_TS],
            SHARES[:1],
        ),
    ),
    Claim(
        "up to twice", SECTION,
        "With 1 %, it is lower up to twice, for s₀ = 1 at n = 5000.",
        _each(
            lambda result, where: [claims.at_least(result, where, LIN_TS, ROLIN_TS[-1], 2.0)],
            SHARES[:1],
        ),
    ),
    Claim(
        "the benefit persists", SECTION,
        "With 2 % and 5 %, the benefit of adapting to model misspecification persists.",
        _each(
            lambda result, where: [claims.lower(result, where, name, LIN_TS) for name in ROLIN_TS],
            SHARES[1:],
        ),
    ),
    *_hidden(H_LIN_UCB),
    *_hidden(LEARNED),
    Claim(
        "Safe-FALCON is an order of magnitude worse", SECTION,
        "Safe-FALCON's regret at n = 5000 is an order of magnitude higher than that of RoLinTS.",
        _each(
            lambda result, where: [
                claims.at_least(result, where, SAFE_FALCON, name, 10.0) for name in ROLIN_TS
            ],
            SHARES,
        ),
    ),
)  # fmt: skip
