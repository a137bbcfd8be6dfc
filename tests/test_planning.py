"""How much exploration pays: problems drawn from the posterior, and what is concluded from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rolin
from rolin.errors import InputError, ParameterError, Unsupported
from rolin.simulation.planning import draw_problem
from support.policies import fixed


def played(rng: np.random.Generator, n: int = 60, **options: Any) -> rolin.RoLinTS:
    """Return a policy that has learned from n rewards of six arms."""
    policy = rolin.RoLinTS(
        n_features=3, coef_std=0.7, arm_std=0.8, noise_std=1.3, seed=0, **options
    )
    for i in range(n):
        policy.update(i % 6, rng.normal(size=3), float(rng.normal()))
    return policy


@pytest.mark.parametrize("intercept_std", [2.0, pytest.param(None, marks=pytest.mark.slow)])
def test_problems_are_joint_draws_of_the_posterior(
    intercept_std: float | None, rng: np.random.Generator
) -> None:
    """Means and covariances of 20 000 problems are those of the model, also of an arm never seen.

    The oracle is the dense model. Means are within 5 standard errors, covariances within 5 times 1/√n of the variances.
    """
    policy, n = played(rng, intercept_std=intercept_std), 20_000
    arms, x = [0, 3, 5, "new"], rng.normal(size=(4, 3))
    drawn = np.array([draw_problem(policy.posterior, arms, rng).means(x, arms) for _ in range(n)])
    naive = rolin.NaiveRoLinTS(
        n_features=3, coef_std=0.7, arm_std=0.8, noise_std=1.3, seed=0, intercept_std=intercept_std
    )
    naive.posterior.fill(policy.moments)
    exact = naive.posterior.draw(x, arms, generator=rng, size=n, sampling="joint")
    mean, std = naive.predict(x, arms)
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - mean), 5 * std / n**0.5)
    allowed = 5 * np.outer(std, std) * (2 / n) ** 0.5
    np.testing.assert_array_less(np.abs(np.cov(drawn.T) - np.cov(exact.T)), 2**0.5 * allowed)


@pytest.mark.parametrize("intercept_std", [pytest.param(None, marks=pytest.mark.slow), 2.0])
def test_problems_of_arms_with_slopes_are_joint_draws_too(
    intercept_std: float | None, rng: np.random.Generator
) -> None:
    """As above, with two contexts of the same arm, whose means share its slopes, and with an arm never seen.

    The oracle conditions a Gaussian process on all rewards: the covariance of two mean rewards is coef_std² x'y +
    intercept_std², plus arm_std² + slope_std² x_S'y_S for the same arm.
    """
    scales = {"coef_std": 0.7, "arm_std": 0.8, "noise_std": 1.3, "intercept_std": intercept_std}
    policy, n = rolin.RoLinTS(n_features=3, slope_std=0.6, slopes=[0, 2], seed=0, **scales), 20_000
    seen, contexts, rewards = np.arange(30) % 4, rng.normal(size=(30, 3)), rng.normal(size=30)
    policy.update_many(seen, contexts, rewards)
    arms, x = [0, 0, 3, 99], rng.normal(size=(4, 3))

    def covariance(a: Any, names_a: Any, b: Any, names_b: Any) -> Any:
        own = 0.8**2 + 0.6**2 * a[:, [0, 2]] @ b[:, [0, 2]].T
        shared = 0.7**2 * a @ b.T + (intercept_std or 0.0) ** 2
        return shared + (np.equal.outer(names_a, names_b) * own)

    across = covariance(x, arms, contexts, seen)
    solved = np.linalg.solve(
        covariance(contexts, seen, contexts, seen) + 1.3**2 * np.eye(30), across.T
    )
    mean, exact = solved.T @ rewards, covariance(x, arms, x, arms) - across @ solved
    std = np.sqrt(np.diag(exact))
    drawn = np.array(
        [draw_problem(policy.posterior, [0, 3, 99], rng).means(x, arms) for _ in range(n)]
    )
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - mean), 5 * std / n**0.5)
    # The standard error of a covariance is at most √(2/n) times both standard deviations.
    allowed = 5 * np.outer(std, std) * (2 / n) ** 0.5
    np.testing.assert_array_less(np.abs(np.cov(drawn.T) - exact), allowed)
    also = policy.posterior.draw(x[1:], arms[1:], generator=rng, size=n, sampling="joint")
    np.testing.assert_array_less(np.abs(np.cov(also.T) - exact[1:, 1:]), allowed[1:, 1:])
    plan = rolin.plan_exploration(policy, 10, rng.normal(size=(5, 4, 3)), runs=3)
    assert np.isfinite(plan.rewards).all()


def test_few_rounds_are_not_for_exploring(rng: np.random.Generator) -> None:
    """With 40 unknown arms, 20 rounds pay for less exploration than Thompson sampling; its policy does not change."""
    policy = rolin.RoLinTS(
        n_features=2, coef_std=1.0, arm_std=1.0, noise_std=1.0, intercept_std=None, seed=3
    )
    contexts = rng.normal(size=(50, 40, 2))
    before = policy.posterior.count, policy.n_decisions, policy.exploration
    plan = rolin.plan_exploration(policy, 20, contexts, runs=30, progress=False)
    assert (policy.posterior.count, policy.n_decisions, policy.exploration) == before
    assert plan.best != 1.0
    assert plan.factors == (0.0, 0.1, 0.25, 0.5, 1.0, "auto")
    assert plan.rewards.shape == (30, 6)
    thompson = plan.factors.index(1.0)
    assert plan.mean[thompson] - plan.mean.max() < -4 * plan.std_error[thompson]
    again = rolin.plan_exploration(policy, 20, contexts, runs=30)
    np.testing.assert_array_equal(again.rewards, plan.rewards)


def test_never_trying_what_might_be_better_costs(rng: np.random.Generator) -> None:
    """One known arm just above the mean of 20 unknown ones: over 2000 rounds, choosing by the mean gets stuck."""
    policy = rolin.RoLinTS(
        n_features=0, coef_std=1.0, arm_std=1.0, noise_std=1.0, intercept_std=None, seed=3
    )
    policy.update_many(["known"] * 200, np.empty((200, 0)), np.full(200, 0.3))
    arms = ["known", *range(20)]
    plan = rolin.plan_exploration(policy, 2000, [np.empty((21, 0))], arms=arms, runs=10)
    assert plan.best in (0.5, 1.0, "auto")
    assert plan.mean[0] == pytest.approx(0.3, abs=0.2)
    assert (plan.mean[-2:] > 1.0).all()


def test_other_forms_of_candidates_and_clicks(rng: np.random.Generator) -> None:
    """Mappings of changing arms; a logistic policy earns rates between 0 and 1; progress is reported."""
    policy = rolin.LogisticRoLinTS(n_features=1, seed=0)
    pages = [
        {name: rng.normal(size=1) for name in rng.choice(list("abcdef"), 3, replace=False)}
        for _ in range(9)
    ]
    done: list[int] = []
    plan = rolin.plan_exploration(
        policy, 30, pages, factors=["auto", 1, 0.5, 1.0], runs=3, progress=done.append
    )
    assert plan.factors == (0.5, 1.0, "auto")
    assert done == [1, 1, 1]
    assert ((plan.rewards > 0.0) & (plan.rewards < 1.0)).all()
    frame = plan.to_frame()
    assert frame.index.tolist() == [0.5, 1.0, "auto"]
    assert frame.difference.max() == 0.0
    assert "<ExplorationPlan: best exploration" in repr(plan)
    assert "Expected reward per round" in plan._repr_html_()
    assert plan.plot().axes[0].get_xlabel() == "exploration"
    for factors in (["auto"], [0.5]):
        alone = rolin.plan_exploration(policy, 5, pages, factors=factors, runs=2)
        assert alone.best == factors[0]
        assert alone.plot().axes[0].get_title(loc="left") == f"best: {factors[0]}"


def test_what_cannot_be_planned_is_refused(rng: np.random.Generator) -> None:
    """Policies without draws or posterior, and empty or wrong arguments."""
    contexts = rng.normal(size=(5, 3, 3))
    for policy in (
        rolin.RoLinUCB(n_features=3),
        rolin.HLinUCB(n_features=3),
        rolin.BayesRoLinTS(n_features=3),
    ):
        with pytest.raises(Unsupported, match="expected a policy such as RoLinTS"):
            rolin.plan_exploration(policy, 10, contexts)  # type: ignore[arg-type]  # what is tested
    for slope_std, least in ((0.0, 10), ("learn", 4)):
        new = rolin.RoLinTS(n_features=3, slope_std=slope_std)
        for t in range(least - 1):
            new.update(t % 3, contexts[0, t % 3], float(t))
        message = f"{least - 1} rewards, expected at least {least} that are not all equal"
        with pytest.raises(Unsupported, match=message):
            rolin.plan_exploration(new, 10, contexts)
        new.update(0, contexts[1, 0], 1.5)
        assert rolin.plan_exploration(new, 2, contexts, runs=2).rounds == 2
    policy = fixed(rolin.RoLinTS, n_features=3)
    for options, message in (
        ({"rounds": 0}, "rounds"),
        ({"runs": 1}, "runs"),
        ({"factors": []}, "factors is empty"),
        ({"factors": [-1]}, "exploration=-1"),
        ({"contexts": []}, "contexts is empty"),
        ({"contexts": contexts[..., :2]}, "expected"),
    ):
        given: Any = {"rounds": 10, "contexts": contexts} | options
        with pytest.raises((ParameterError, InputError), match=message):
            rolin.plan_exploration(policy, **given)
