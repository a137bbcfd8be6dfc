"""Calls a typed user makes; mypy checks this file, nothing runs it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import rolin

policy = rolin.RoLinTS(n_features=2, arm_std=0.5, coef_std=[1.0, 2.0], seed=7)
decision: rolin.Decision = policy.decide({"red": [1.0, 0.2], "blue": [0.3, 0.9]})
decision = policy.decide(np.ones((2, 2)), arms=["red", "blue"], top_k=1, exclude={"blue"})
context: NDArray[np.float64] = decision.context
policy.update(decision.arm, decision.context, 1.0)
policy.update_many(["red", 1], np.ones((2, 2)), [0.0, 1.0], weights=[1.0, 2.0])
mean, std = policy.predict(np.ones((2, 2)), arms=["red", "blue"])
total: rolin.Moments = policy.moments + rolin.Moments.of(["red"], [[1.0, 2.0]], [1.0])
posterior = rolin.Posterior.of(rolin.Scales(arm_std=0.1), total)
covariance: NDArray[np.float64] = posterior.coefficients.covariance
both: rolin.LinearPolicy = rolin.merge(policy, policy, base=policy)
bound: float = rolin.model.bayes_regret_bound(
    n_rounds=100, n_arms=5, n_features=2, context_norm=1.0
).total
falcon = rolin.SafeFALCON(n_features=2, reward_range=(0.0, 1.0))
propensities: NDArray[np.float64] = falcon.probabilities(np.ones((2, 2)))
bandit = rolin.Bandit(policy, floor=0.01, control_share=0.1)
logged: rolin.LoggedDecision = bandit.decide({"red": [1.0, 0.2]}, id="visit-1", person="ann")
bandit.reward(logged.id, 1.0)
propensity: float | None = logged.propensity
log: rolin.offline.DecisionLog = rolin.offline.read(bandit)


def later() -> rolin.Result:
    """Files and simulations, which take a while."""
    loaded: rolin.RoLinTS = rolin.load("state", rolin.RoLinTS, seed=1)
    any_kind = rolin.load("state")
    any_kind.update("red", loaded.posterior.coefficients.mean, 1.0)
    return rolin.simulate(
        {"Greedy": lambda seed: rolin.Greedy(n_features=10, seed=seed)},
        rolin.environments.Synthetic(contexts="fixed"),
        rounds=10,
        runs=2,
        n_jobs=1,
    )
