"""Figure 1: synthetic problems drawn from the prior."""

from __future__ import annotations

from rolin.environments.synthetic import Contexts
from rolin.model.draws import Sampling
from rolin.paper.experiment import Experiment
from rolin.paper.setting import (
    LIN_TS,
    ROLIN_TS,
    ROUNDS,
    SECTION,
    baselines,
    environments,
    thompson,
)
from rolin.paper.trends import abstract, figure_1

__all__ = ["synthetic"]

# The paper has 100 runs, which leave one of its sentences undecided.
RUNS = 300


def synthetic(
    *, rounds: int | None = None, contexts: Contexts = "fresh", sampling: Sampling = "marginal"
) -> Experiment:
    """Figure 1: RoLinTS, LinTS, hLinUCB and Safe-FALCON in three synthetic problems."""
    rounds = ROUNDS if rounds is None else rounds
    return Experiment(
        name="synthetic",
        title="Regret in three synthetic problems",
        source="Figure 1, Section 6.1",
        environments=environments(contexts),
        policies={**thompson(sampling), **baselines()},
        rounds=rounds,
        runs=RUNS,
        claims=(
            *abstract(ROLIN_TS, LIN_TS),
            *figure_1(ROLIN_TS, LIN_TS, SECTION),
        ),
        settings={"contexts": contexts, "sampling": sampling},
    )
