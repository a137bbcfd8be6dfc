"""Figure 2 without the movies that have no features, and with an intercept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
from rolin.paper.movielens import NOISE_STD, PANELS, ROUNDS, SHARES, digest, without_features
from rolin.paper.setting import AGENT_STDS, LIN_TS, N_ARMS, ROLIN_TS, THOMPSON, rolin_ts
from rolin.simulation.comparison import format_interval, ratio_over_runs

__all__ = ["movielens_zeros"]

RANK = 10
# Prior of the intercept: wide, for ratings from 1 to 5.
INTERCEPT_STD = 5.0
OURS = "not in the paper"
RATED = [f"{100 * share:g} %, movies with features" for share in SHARES]


def with_intercept(policy: str) -> str:
    """Return the name of a policy with an intercept."""
    return f"{policy}, intercept"


def movielens_zeros(
    data: str | PathLike[str],
    *,
    rounds: int | None = None,
    sampling: Sampling = "marginal",
    seed: int = 0,
) -> Experiment:
    """Figure 2, with all movies and with those that have features, without and with an intercept."""
    ratings = read_ratings(data)
    made = movielens_environments(
        ratings, SHARES, rank=RANK, n_arms=N_ARMS, noise_std=NOISE_STD, seed=seed
    )
    environments: dict[str, MovieLens] = dict(zip(PANELS, made.values(), strict=True))
    for title, environment in zip(RATED, made.values(), strict=True):
        known = environment.known_movies
        has_features = environment.features[known].any(axis=1)
        environments[title] = replace(environment, known_movies=known[has_features])
    agent: dict[str, Any] = {
        **THOMPSON,
        "n_features": RANK,
        "noise_std": NOISE_STD,
        "sampling": sampling,
    }
    plain: dict[str, Callable[..., Any]] = {
        **{rolin_ts(s): partial(rolin.RoLinTS, arm_std=s, **agent) for s in AGENT_STDS},
        LIN_TS: partial(rolin.LinTS, **agent),
    }
    return Experiment(
        name="movielens-zeros",
        title="Figure 2 without movies that have no features, and with an intercept",
        source="Section 6.2, with all movies or only those with features",
        environments=environments,
        policies={
            **plain,
            **{
                with_intercept(name): partial(make, intercept_std=INTERCEPT_STD)
                for name, make in plain.items()
            },
        },
        not_drawn=frozenset({ROLIN_TS[0], with_intercept(ROLIN_TS[0])}),
        rounds=ROUNDS if rounds is None else rounds,
        runs=300,
        claims=CLAIMS,
        settings={"sampling": sampling, "seed": seed, "ratings": digest(ratings)},
        notes=(without_features(made.values()),),
        min_runs=300,
    )


def _half(results: Results, panel: str, rated: str) -> Check:
    """Check that LinTS has at most half of its regret if all movies have features (other movies, so not paired)."""
    ratio = ratio_over_runs(
        results[rated].regret[LIN_TS][:, -1], results[panel].regret[LIN_TS][:, -1]
    )
    above = claims.above(ratio, 0.5)
    return Check(
        f"{panel}: {LIN_TS}",
        None if above is None else not above,
        f"with features only {ratio} ({format_interval(ratio)}) times the regret, claimed ≤ 0.5",
    )


CLAIMS = (
    Claim(
        "linear with all movies", "Section 6.2",
        "The regret of LinTS is linear in n because the features are poor estimates.",
        lambda results: [claims.linear(results[p], p, LIN_TS) for p in PANELS],
    ),
    Claim(
        "linear with features only", OURS,
        "The regret of LinTS is also linear if every movie has features.",
        lambda results: [claims.linear(results[p], p, LIN_TS) for p in RATED],
    ),
    Claim(
        "linear with an intercept", OURS,
        "The regret of LinTS is also linear with an intercept.",
        lambda results: [
            claims.linear(results[p], p, with_intercept(LIN_TS)) for p in [*PANELS, *RATED]
        ],
    ),
    Claim(
        "movies without features cost most", OURS,
        "At least half of the regret of LinTS is due to movies without features.",
        lambda results: [
            _half(results, panel, rated) for panel, rated in zip(PANELS, RATED, strict=True)
        ],
    ),
    Claim(
        "an intercept helps LinTS", OURS,
        "LinTS has less regret with an intercept than without.",
        lambda results: [
            claims.lower(results[p], p, with_intercept(LIN_TS), LIN_TS) for p in [*PANELS, *RATED]
        ],
    ),
    Claim(
        "arm effects help with features only", "Section 6.2",
        "The benefit of adapting to model misspecification persists if every movie has features.",
        lambda results: [
            claims.lower(results[p], p, name, LIN_TS) for p in RATED for name in ROLIN_TS
        ],
    ),
    Claim(
        "arm effects help with an intercept", "Section 6.2",
        "The benefit of adapting to model misspecification persists if all policies have an intercept.",
        lambda results: [
            claims.lower(results[p], p, with_intercept(name), with_intercept(LIN_TS))
            for p in [*PANELS, *RATED]
            for name in ROLIN_TS
        ],
    ),
)  # fmt: skip
