"""Calls a typed user makes; mypy checks this file, nothing runs it."""

from __future__ import annotations

from typing import Any, TypeVar

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
    rounds=100, n_arms=5, n_features=2, context_norm=1.0
).total
falcon = rolin.SafeFALCON(n_features=2, reward_range=(0.0, 1.0))
propensities: NDArray[np.float64] = falcon.probabilities(np.ones((2, 2)))
bandit = rolin.Bandit(policy, floor=0.01, control_share=0.1)
logged: rolin.LoggedDecision = bandit.decide({"red": [1.0, 0.2]}, id="visit-1", person="ann")
bandit.reward(logged.id, 1.0)
propensity: float | None = logged.propensity
log: rolin.offline.DecisionLog = rolin.offline.read(bandit)

joint = rolin.LinTS(n_features=2, sampling="joint", noise_std="learn", half_life=50.0)
AnyPolicy = TypeVar("AnyPolicy", bound=rolin.Policy[Any])


def same(policy: AnyPolicy) -> AnyPolicy:
    """Generic code keeps the class of a policy."""
    return policy


scales: rolin.Scales = same(policy).scales
rule: str = same(joint).rule


def later() -> rolin.Result:
    """Files and simulations, which take a while."""
    loaded: rolin.RoLinTS = rolin.load("state", rolin.RoLinTS, seed=1)
    any_kind = rolin.load("state")
    started: rolin.RoLinTS = rolin.RoLinTS.from_fit("fit", seed=1)
    started.update("red", loaded.posterior.coefficients.mean, 1.0)
    any_kind.update("red", loaded.posterior.coefficients.mean, 1.0)
    return rolin.simulate(
        {"Greedy": lambda seed: rolin.Greedy(n_features=10, seed=seed)},
        rolin.environments.Synthetic(contexts="fixed"),
        rounds=10,
        runs=2,
        n_jobs=1,
    )


def rejected() -> None:
    """Options that a type checker rejects; never called."""
    rolin.LinTS(n_features=2, arm_std=0.5)  # type: ignore[call-arg]  # it has no arm effects
    rolin.RoLinTS(n_features=2, arm_sdt=0.5)  # type: ignore[call-arg]  # a typo
    rolin.RoLinUCB(n_features=2, half_life="long")  # type: ignore[arg-type]  # not a number
    rolin.RoLinTS(2)  # type: ignore[call-arg]  # options are passed by name


def of_a_bandit() -> None:
    """A bandit keeps the class of its policy; one from a journal can be annotated."""
    typed = rolin.Bandit(rolin.RoLinTS(n_features=2))
    mean: NDArray[np.float64] = typed.policy.posterior.coefficients.mean
    opened: rolin.Bandit[rolin.RoLinTS] = rolin.Bandit(journal="journal.db")
    assert len(mean) == len(opened.policy.posterior.coefficients.mean)
