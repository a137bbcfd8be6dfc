"""Figure 1 with contexts that stay the same for a whole run."""

from __future__ import annotations

from dataclasses import replace

from rolin.model.draws import Sampling
from rolin.paper.experiment import Experiment
from rolin.paper.setting import RUNS
from rolin.paper.synthetic import synthetic

__all__ = ["fixed"]


def fixed(*, rounds: int | None = None, sampling: Sampling = "marginal") -> Experiment:
    """Figure 1 with contexts that are drawn once per run; the paper does not say when they are drawn."""
    return replace(
        synthetic(rounds=rounds, contexts="fixed", sampling=sampling),
        name="fixed",
        title="Regret in three synthetic problems with fixed contexts",
        source="Figure 1 with fixed contexts",
        runs=RUNS,
    )
