"""Appendix D: regret when the scales are unknown, by the way in which they are learned."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import rolin
from rolin.environments.synthetic import Contexts
from rolin.model.draws import Sampling
from rolin.model.estimation import Method
from rolin.paper import claims
from rolin.paper.claims import Check, Claim, Results
from rolin.paper.experiment import Experiment
from rolin.paper.setting import (
    N_FEATURES,
    PANELS,
    ROUNDS,
    RUNS,
    THOMPSON,
    TRUE_STDS,
    environments,
    panel,
)
from rolin.simulation.comparison import ratio_over_runs
from rolin.simulation.play import MakePolicy, pull

__all__ = ["scales"]

SOURCE = "Appendix D"
# What the policies believe before they have learned the scales; the truth is noise 1, coefficients 1, and σ₀.
ARM_STD, NOISE_STD, COEF_STD = 0.75, 3.0, 10.0  # λ = 0.01
PRINTED, MOMENTS = "moments, as printed", "moments, corrected"
REML, ML, MAP = "restricted maximum likelihood", "maximum likelihood", "posterior mode"
BAYES, LOW, HIGH = "full Bayes", "full Bayes, guess ÷ 4", "full Bayes, guess × 4"
GUESS = "the guess"
METHODS: dict[str, Method] = {
    PRINTED: "moments-as-printed",
    MOMENTS: "moments",
    REML: "reml",
    ML: "ml",
    MAP: "map",
}
FIXED = "known scales"
# Paired runs to compare run times. A policy is computationally intensive if it takes this many times the time of one
# that knows the scales.
TIMED_RUNS, COSTLY = 5, 10.0


def known(arm_std: float, *, vague: bool = False) -> str:
    """Return the name of the policy that knows σ₀, and λ too or only that it is small."""
    name = f"known, σ₀ = {arm_std:g}"
    return f"{name}, λ = 0.01" if vague else name


def scales(
    *, rounds: int | None = None, contexts: Contexts = "fresh", sampling: Sampling = "marginal"
) -> Experiment:
    """Appendix D: RoLinTS with scales known, learned by five methods, and integrated out."""
    rounds = ROUNDS if rounds is None else rounds
    options: dict[str, Any] = {**THOMPSON, "n_features": N_FEATURES, "sampling": sampling}
    unknown: dict[str, Any] = {"arm_std": ("learn", ARM_STD), "noise_std": ("learn", NOISE_STD)}
    vague = options | {"coef_std": COEF_STD}
    policies: dict[str, MakePolicy] = {
        **{known(s): partial(rolin.RoLinTS, arm_std=s, **options) for s in TRUE_STDS},
        **{
            known(s, vague=True): partial(rolin.RoLinTS, arm_std=s, **vague)
            for s in TRUE_STDS
        },
        GUESS: partial(rolin.RoLinTS, **vague | {"arm_std": ARM_STD, "noise_std": NOISE_STD}),
        **{
            name: partial(rolin.RoLinTS, learn_by=method, **vague | unknown)
            for name, method in METHODS.items()
        },
        **{
            name: partial(
                rolin.BayesRoLinTS, n_features=N_FEATURES, arm_std=ARM_STD * factor,
                noise_std=NOISE_STD * factor, coef_std=COEF_STD * factor,
            )
            for name, factor in ((BAYES, 1.0), (LOW, 0.25), (HIGH, 4.0))
        },
    }  # fmt: skip
    drawn = {GUESS, PRINTED, MOMENTS, MAP, BAYES}
    return Experiment(
        name="scales",
        title="Regret when the scales are unknown",
        source=f"{SOURCE}, in the problems of Figure 1",
        environments=environments(contexts),
        policies=policies,
        not_drawn=frozenset(policies) - drawn,
        known={panel(s): known(s) for s in TRUE_STDS},
        rounds=rounds,
        runs=RUNS,
        claims=(*CLAIMS, _costs(rounds, options, unknown)),
        settings={"contexts": contexts, "sampling": sampling},
        notes=(
            f"Policies that learn start from arm_std {ARM_STD:g}, noise_std {NOISE_STD:g} and coef_std "
            f"{COEF_STD:g} (λ = 0.01). The truth is σ₀ as in the panel's title, 1 and 1. As printed, the estimate of "
            "σ² divides by n - K d, so nothing is learned in the first K d = 500 rounds.",
        ),
    )


def _against_known(name: str, results: Results) -> list[Check]:
    """Check that a policy has at most slightly more regret than the one that knows the scales."""
    return [
        claims.at_most(results[p], p, name, known(s), claims.SIMILAR)
        for p, s in zip(PANELS, TRUE_STDS, strict=True)
    ]


def _costs(rounds: int, options: dict[str, Any], unknown: dict[str, Any]) -> Claim:
    """Return the claim about the cost of integrating the scales out; its check measures times."""
    makers: dict[str, MakePolicy] = {
        FIXED: partial(rolin.RoLinTS, arm_std=0.5, **options),
        MAP: partial(rolin.RoLinTS, learn_by="map", **options | unknown),
        BAYES: partial(rolin.BayesRoLinTS, n_features=N_FEATURES, coef_std=1.0),
    }

    def check(_: Results) -> list[Check]:
        spent: dict[str, list[float]] = {name: [] for name in makers}
        environment = environments("fresh")[panel(0.5)]
        with threadpool_limits(1):
            for run in range(-1, TIMED_RUNS):  # the first run compiles everything, and is not timed
                for name, make in makers.items():
                    policy, generator = make(seed=abs(run)), np.random.default_rng(abs(run))
                    seconds = 0.0
                    for block in environment.play(rounds, generator):
                        start = time.perf_counter()
                        pull(policy, block.contexts, block.rewards)
                        seconds += time.perf_counter() - start
                    if run >= 0:
                        spent[name].append(seconds)
        bayes, mode = (
            ratio_over_runs(np.array(spent[name]), np.array(spent[FIXED])) for name in (BAYES, MAP)
        )
        text = (
            f"{bayes} times the time of known scales, computationally intensive is > {COSTLY:g}; "
            f"{MAP}: {mode} times"
        )
        return [
            Check(f"{rounds} rounds: {BAYES} over σ and σ₀", claims.above(bayes, COSTLY), text),
            Check(f"{BAYES} over σ, σ₀ and λ", None, "not measured: no policy integrates over λ"),
        ]

    return Claim(
        "full Bayes costs too much", SOURCE,
        "The fully-Bayesian method is computationally intensive in bandit algorithms (here BayesRoLinTS, which "
        "integrates over σ exactly and over eight values of σ₀/σ).",
        check,
    )  # fmt: skip


CLAIMS = (
    Claim(
        "λ = 0.01 is not bad", SOURCE,
        "It is not bad to let λ equal a tiny constant, such as λ = 0.01 (here the other scales are known).",
        lambda results: [
            claims.at_most(results[p], p, known(s, vague=True), known(s), claims.SIMILAR)
            for p, s in zip(PANELS, TRUE_STDS, strict=True)
        ],
    ),
    Claim(
        "moments as printed are useful", SOURCE,
        "The empirical Bayes method with plugged-in variance estimates is convenient and useful "
        "(with the formulas as printed).",
        partial(_against_known, PRINTED),
    ),
    Claim(
        "corrected moments are useful", SOURCE,
        "The same, with the degrees of freedom corrected.",
        partial(_against_known, MOMENTS),
    ),
    Claim(
        "likelihoods are useful", SOURCE,
        "Maximum likelihood and restricted maximum likelihood are consistent estimators too.",
        lambda results: [
            check for name in (REML, ML, MAP) for check in _against_known(name, results)
        ],
    ),
    Claim(
        "full Bayes is useful", SOURCE,
        "It is desirable to marginalize over the hyper-parameters (here over σ and σ₀, not over λ).",
        partial(_against_known, BAYES),
    ),
    Claim(
        "learning beats the guess", SOURCE,
        "When the scales are unknown, they have to be estimated.",
        lambda results: [
            claims.lower(results[p], p, name, GUESS)
            for p in PANELS
            for name in (PRINTED, MOMENTS, REML, ML, MAP, BAYES)
        ],
    ),
    Claim(
        "full Bayes depends on its prior", SOURCE,
        "The fully-Bayesian method is sensitive to the prior of the scales (guesses four times too low or too high).",
        lambda results: [
            Check(check.where, None if check.outcome is None else not check.outcome, check.evidence)
            for p in PANELS
            for name in (LOW, HIGH)
            for check in [claims.similar(results[p], p, name, BAYES)]
        ],
    ),
)  # fmt: skip
