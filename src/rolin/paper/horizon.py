"""Figure 1 over 20 000 rounds, which shows what its curves become."""

from __future__ import annotations

from rolin.environments.synthetic import Contexts
from rolin.model.draws import Sampling
from rolin.paper import claims
from rolin.paper.claims import Check, Claim, Results
from rolin.paper.experiment import Experiment
from rolin.paper.setting import (
    LIN_TS,
    MISSPECIFIED,
    PANELS,
    ROLIN_TS,
    RUNS,
    SECTION,
    WELL,
    environments,
    thompson,
)
from rolin.paper.trends import abstract
from rolin.simulation.result import Result

__all__ = ["horizon"]

ROUNDS = 20_000


def horizon(
    *, rounds: int | None = None, contexts: Contexts = "fresh", sampling: Sampling = "marginal"
) -> Experiment:
    """Figure 1 over 20 000 rounds instead of 3000: RoLinTS and LinTS."""
    return Experiment(
        name="horizon",
        title="Regret over a longer horizon",
        source="Figure 1, with more rounds",
        environments=environments(contexts),
        policies=thompson(sampling),
        rounds=ROUNDS if rounds is None else rounds,
        runs=RUNS,
        claims=(*abstract(ROLIN_TS, LIN_TS), *CLAIMS),
        settings={"contexts": contexts, "sampling": sampling},
    )


def _crossing(result: Result, name: str) -> str:
    """Return the recorded round from which on a policy has less mean regret than LinTS."""
    less = result.regret[name].mean(axis=0) < result.regret[LIN_TS].mean(axis=0)
    if not less[-1]:
        return "the mean curves do not cross"
    since = len(less) - int(less[::-1].argmin()) if not less.all() else 0
    return f"less from round {result.recorded_rounds[since]} on"


def _crosses(results: Results) -> list[Check]:
    """Check that RoLinTS has less regret than LinTS in the end, and say since when."""
    checks = []
    for p in MISSPECIFIED:
        for name in ROLIN_TS:
            check = claims.lower(results[p], p, name, LIN_TS)
            evidence = f"{check.evidence}; {_crossing(results[p], name)}"
            checks.append(Check(check.where, check.outcome, evidence))
    return checks


CLAIMS = (
    Claim(
        "LinTS is sublinear where the model is right", SECTION,
        "σ₀ = 0 is a contextual linear bandit, and LinTS has a sublinear regret.",
        lambda results: [claims.sublinear(results[WELL], WELL, LIN_TS)],
    ),
    Claim(
        "LinTS is linear where the model is wrong", SECTION,
        "With misspecification (σ₀ = 0.25 and 0.5), LinTS fails and has a linear regret.",
        lambda results: [claims.linear(results[p], p, LIN_TS) for p in MISSPECIFIED],
    ),
    Claim(
        "RoLinTS is sublinear", SECTION,
        "All variants of RoLinTS have a sublinear regret, even with a misspecified s₀.",
        lambda results: [
            claims.sublinear(results[p], p, name) for p in PANELS for name in ROLIN_TS
        ],
    ),
    Claim(
        "the curves cross", SECTION,
        "RoLinTS is robust to misspecification: in the end it has less regret than LinTS for every s₀, "
        "also where it has more after 3000 rounds.",
        _crosses,
    ),
)  # fmt: skip
