"""Figure 2: recommend movies whose features are estimated from few ratings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from os import PathLike
from typing import Any

import rolin
from rolin.datasets.ratings import Ratings, read_ratings
from rolin.environments import movielens_environments, movielens_noise
from rolin.environments.movielens import MovieLens
from rolin.model.draws import Sampling
from rolin.paper import claims
from rolin.paper.claims import Check, Claim, Results
from rolin.paper.experiment import Experiment
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
from rolin.simulation.comparison import compare

__all__ = [
    "NOISE_STD",
    "PANELS",
    "ROUNDS",
    "SECTION",
    "SHARES",
    "digest",
    "movielens",
    "without_features",
]

SHARES = (0.01, 0.02, 0.05)
ROUNDS, RUNS, NOISE_STD = 5000, 500, 0.759
SECTION = "Section 6.2"
PANELS = [f"{100 * share:g} % of training set" for share in SHARES]


def movielens(
    data: str | PathLike[str],
    *,
    rounds: int | None = None,
    sampling: Sampling = "marginal",
    rank: int = 10,
    ridge: float = 1.0,
    center: bool = False,
    weighted: bool = False,
    seed: int = 0,
) -> Experiment:
    """Figure 2: recommend movies whose features are estimated from few ratings (MovieLens)."""
    rounds = ROUNDS if rounds is None else rounds
    ratings = read_ratings(data)
    # "centre" is the key in the settings of earlier runs.
    options = {"rank": rank, "ridge": ridge, "centre": center, "weighted": weighted, "seed": seed}
    made = movielens_environments(
        ratings, SHARES, n_arms=N_ARMS, noise_std=NOISE_STD,
        rank=rank, ridge=ridge, center=center, weighted=weighted, seed=seed,
    )  # fmt: skip
    noise = movielens_noise(
        ratings, rank=rank, ridge=ridge, center=center, weighted=weighted, seed=seed
    )
    note = (
        f"Noise of a rating, estimated: {noise.whole:.3f} from the residuals of a factorization of all "
        f"ratings, {noise.in_sample:.3f} from those of the test half fitted to itself, {noise.held_out:.3f} "
        "from those of the test half predicted from the training half. The noise in the paper and in the "
        f"simulation is {NOISE_STD}. (The paper does not describe its estimate. We chose the default ridge, "
        "from about eighty settings, so that the first number agrees with the paper; the agreement is "
        "therefore no evidence.)"
    )
    agent: dict[str, Any] = {
        **THOMPSON,
        "n_features": rank,
        "noise_std": NOISE_STD,
        "sampling": sampling,
    }
    return Experiment(
        name="movielens",
        title="Regret when movie features are estimated from few ratings",
        source="Figure 2, Section 6.2",
        environments=dict(zip(PANELS, made.values(), strict=True)),
        policies={
            **{rolin_ts(s): partial(rolin.RoLinTS, arm_std=s, **agent) for s in AGENT_STDS},
            LIN_TS: partial(rolin.LinTS, **agent),
            **baselines(N_ARMS, rank),
        },
        rounds=rounds,
        runs=RUNS,
        claims=CLAIMS,
        settings={**options, "sampling": sampling, "ratings": digest(ratings)},
        notes=(note, without_features(made.values())),
        min_runs=300,
    )


def digest(ratings: Ratings) -> str:
    """Return the number of ratings and a hash of them, which tells data sets apart."""
    digest_of = hashlib.blake2b(digest_size=8)
    for array in (ratings.users, ratings.items, ratings.values):
        digest_of.update(array.tobytes())
    return f"{len(ratings)} ratings, {digest_of.hexdigest()}"


def without_features(environments: Iterable[MovieLens]) -> str:
    """Say how many of the movies have no features, because they have no rating in the sample."""
    shares = [
        f"{1.0 - environment.features[environment.known_movies].any(axis=1).mean():.0%}"
        for environment in environments
    ]
    return (
        f"Movies without a rating in the sample have no features: all their numbers are zero. With "
        f"{', '.join(PANELS)}, these are {', '.join(shares)} of the movies."
    )


def _improves(results: Results, name: str) -> list[Check]:
    """Check that more ratings give less regret; all panels have the same users, movies and noise."""
    checks = []
    for few, many in pairwise(PANELS):
        difference = compare(
            results[many].regret[name][:, -1], results[few].regret[name][:, -1]
        ).difference
        outcome = claims.above(difference, 0.0)
        checks.append(
            Check(
                f"{name}: {many} against {few}",
                None if outcome is None else not outcome,
                f"regrets {results[many].final(name)} and {results[few].final(name)}, difference "
                f"{difference}",
            )
        )
    return checks


CLAIMS = (
    Claim(
        "linear regret", SECTION,
        "With 1 % of the training set, the regret of LinTS is clearly linear in n.",
        lambda results: [claims.linear(results[PANELS[0]], PANELS[0], LIN_TS)],
    ),
    Claim(
        "significantly lower", SECTION,
        "With 1 %, the regret of RoLinTS is significantly lower, for all s₀.",
        lambda results: [
            claims.lower(results[PANELS[0]], PANELS[0], name, LIN_TS) for name in ROLIN_TS
        ],
    ),
    Claim(
        "up to twice", SECTION,
        "With 1 %, it is lower up to twice, for s₀ = 1 at n = 5000.",
        lambda results: [
            claims.at_least(results[PANELS[0]], PANELS[0], LIN_TS, ROLIN_TS[-1], 2.0),
            *(
                claims.lower(results[PANELS[0]], PANELS[0], ROLIN_TS[-1], other)
                for other in ROLIN_TS[:-1]
            ),
        ],
    ),
    Claim(
        "better features, less regret", SECTION,
        "As the features become more precise, all methods improve.",
        lambda results: [
            check
            for name in [*ROLIN_TS, LIN_TS, H_LIN_UCB, SAFE_FALCON]
            for check in _improves(results, name)
        ],
    ),
    Claim(
        "the benefit persists", SECTION,
        "With 2 % and 5 %, the benefit of adapting to model misspecification persists.",
        lambda results: [
            claims.lower(results[p], p, name, LIN_TS) for p in PANELS[1:] for name in ROLIN_TS
        ],
    ),
    Claim(
        "hLinUCB is better than LinTS", SECTION,
        "hLinUCB performs better than LinTS.",
        lambda results: [claims.lower(results[p], p, H_LIN_UCB, LIN_TS) for p in PANELS],
    ),
    Claim(
        "hLinUCB is worse than RoLinTS", SECTION,
        "hLinUCB is worse than RoLinTS.",
        lambda results: [
            claims.lower(results[p], p, name, H_LIN_UCB) for p in PANELS for name in ROLIN_TS
        ],
    ),
    Claim(
        "Safe-FALCON is not competitive", SECTION,
        "Safe-FALCON is too conservative to be competitive.",
        lambda results: [
            check for p in PANELS for check in claims.worst(results[p], p, SAFE_FALCON)
        ],
    ),
    Claim(
        "Safe-FALCON is an order of magnitude worse", SECTION,
        "Safe-FALCON's regret at n = 5000 is an order of magnitude higher than that of RoLinTS.",
        lambda results: [
            claims.at_least(results[p], p, SAFE_FALCON, name, 10.0)
            for p in PANELS
            for name in ROLIN_TS
        ],
    ),
)  # fmt: skip
