"""Theorems 1 and 2: their values, every inequality of the proof of Theorem 1 on random states, and measured regret."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import chi, norm

import rolin
from rolin import Scales, errors
from rolin.model.theory import RegretBound, bayes_regret_bound, linear_bandit_regret_bound
from rolin.paper.bounds import Setting, bounds, trivial
from rolin.paper.claims import verdict
from support.oracles import Dense, History
from support.policies import fixed


def test_by_hand() -> None:
    """N = 100, K = 3, d = 1, L = 1, all scales 1.

    σ_max² = 1 + 1 = 2. c = log(1 + 2 · 100/4)/log 3 = log 51/log 3 = 3.5789, c (d + K) = 14.3157.
    Learning: √2 √(2 · 14.3157 · 100 · log 100) = √(4 · 14.3157 · 460.517) = 162.389.
    Failure: √(2/π) √2 · 3 = 6/√π = 3.3851.
    """
    bound = bayes_regret_bound(rounds=100, n_arms=3, n_features=1, context_norm=1.0, arm_std=1.0)
    assert bound.max_std == pytest.approx(math.sqrt(2))
    assert bound.information == pytest.approx(4 * math.log(51) / math.log(3))
    assert bound.information == pytest.approx(14.3157, abs=1e-4)
    assert bound.learning == pytest.approx(162.389, abs=1e-3)
    assert bound.failure == pytest.approx(6 / math.sqrt(math.pi))
    assert bound.total == bound.learning + bound.failure


def test_limits() -> None:
    """Nothing uncertain, nothing regretted; bad sizes are refused."""
    size = {"rounds": 10, "n_arms": 2, "n_features": 0}
    assert bayes_regret_bound(**size, context_norm=0.0, arm_std=0.0).total == 0.0
    with pytest.raises(errors.ParameterError, match="rounds=0, expected a whole number"):
        bayes_regret_bound(rounds=0, n_arms=1, n_features=1, context_norm=1.0)
    with pytest.raises(errors.ParameterError, match="context_norm=-1"):
        bayes_regret_bound(rounds=1, n_arms=1, n_features=1, context_norm=-1)
    with pytest.raises(errors.ParameterError, match="expected one number: the theorem has one λ"):
        bayes_regret_bound(rounds=1, n_arms=1, n_features=1, context_norm=1.0, coef_std=(1.0,))


class Run:
    """A random play of n rounds, with the dense posterior before every round."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.d, self.k, self.n = int(rng.integers(1, 4)), int(rng.integers(2, 6)), 25
        self.scales = Scales(
            arm_std=float(rng.uniform(0, 2)),
            coef_std=float(rng.uniform(0.3, 2)),
            noise_std=float(rng.uniform(0.3, 2)),
        )
        x = rng.uniform(-1, 1, (self.n, self.k, self.d))
        arms = rng.integers(0, self.k, self.n)
        pulled = x[np.arange(self.n), arms]
        rewards = rng.normal(size=self.n)
        self.norm = float(np.linalg.norm(x, axis=2).max())
        self.variances = []  # of the pulled arm, round by round
        self.all_variances = []
        self.prior_variances = []
        for t in range(self.n):
            history = History(arms[:t], pulled[:t], rewards[:t], np.ones(t))
            dense = Dense(self.scales, history, self.k)
            covariance = dense.predict(x[t], np.arange(self.k))[1]
            self.all_variances.append(np.diag(covariance))
            self.variances.append(covariance[arms[t], arms[t]])
        empty = History(arms[:0], pulled[:0], rewards[:0], np.ones(0))
        prior = Dense(self.scales, empty, self.k)
        for t in range(self.n):
            self.prior_variances.append(np.diag(prior.predict(x[t], np.arange(self.k))[1]))
        last = Dense(self.scales, History(arms, pulled, rewards, np.ones(self.n)), self.k)
        self.log_det_ratio = (
            np.linalg.slogdet(prior.covariance)[1] - np.linalg.slogdet(last.covariance)[1]
        )
        self.bound = bayes_regret_bound(
            rounds=self.n, n_arms=self.k, n_features=self.d, context_norm=self.norm,
            coef_std=self.scales.coef_std, arm_std=self.scales.arm_std,
            noise_std=self.scales.noise_std,
        )  # fmt: skip


@pytest.mark.parametrize("case", range(30))
def test_every_inequality_of_the_proof(case: int, seed: int) -> None:
    """On random plays, in the order of Section 5.2 and Appendix B.5."""
    run = Run(np.random.default_rng([seed, case]))
    variances = np.array(run.variances)
    noise, max_variance = run.scales.noise_std**2, run.bound.max_std**2
    # τ² never exceeds its prior value, and that never exceeds σ_max² = σ₀² + L²/λ
    assert (np.array(run.all_variances) <= np.array(run.prior_variances) * (1 + 1e-9)).all()
    assert (np.array(run.prior_variances) <= max_variance * (1 + 1e-9)).all()
    # x ≤ u/log(1 + u) · log(1 + x) on [0, u]
    c1 = max_variance / math.log1p(max_variance / noise)
    logs = np.log1p(variances / noise)
    assert (variances <= c1 * logs * (1 + 1e-9)).all()
    # the logarithms telescope to a ratio of determinants (for σ₀ > 0, where it exists)
    if run.scales.arm_std > 0:
        assert logs.sum() == pytest.approx(run.log_det_ratio, rel=1e-6)
    # which trace and arithmetic-geometric mean bound
    size = run.d + run.k
    assert logs.sum() <= size * math.log1p(max_variance * run.n / (noise * size)) * (1 + 1e-9)
    # so the sum of the variances is at most σ_max² times the information
    assert variances.sum() <= max_variance * run.bound.information * (1 + 1e-9)
    # and Cauchy-Schwarz gives the learning term
    width = math.sqrt(2 * math.log(run.n))
    assert width * np.sqrt(variances).sum() <= run.bound.learning * (1 + 1e-9)


@pytest.mark.parametrize("case", range(10))
def test_the_first_step_of_the_proof(case: int, seed: int) -> None:
    """On random posteriors: E[μ* - μ̂ of the best arm] ≤ √(2 log n) E[τ of the best] + failure/n.

    By 20 000 joint draws; the left side must not exceed the right by 6 standard errors.
    """
    rng = np.random.default_rng([seed, case])
    d, k, n, draws = 3, 6, 50, 20_000
    scales = Scales(arm_std=float(rng.uniform(0, 2)), noise_std=float(rng.uniform(0.3, 2)))
    posterior = rolin.Posterior(scales, d)
    t = int(rng.integers(1, 40))
    x = rng.uniform(-1, 1, (t, d))
    posterior.observe_many(rng.integers(0, k, t).tolist(), x, rng.normal(size=t))
    contexts = rng.uniform(-1, 1, (k, d))
    mean, std = posterior.predict(contexts)
    world = posterior.draw(contexts, generator=rng, size=draws, sampling="joint")
    best = world.argmax(axis=1)
    left = world.max(axis=1) - mean[best]
    bound = bayes_regret_bound(
        rounds=n, n_arms=k, n_features=d, context_norm=math.sqrt(d),
        arm_std=scales.arm_std, noise_std=scales.noise_std,
    )  # fmt: skip
    right = math.sqrt(2 * math.log(n)) * std[best].mean() + bound.failure / n
    assert left.mean() <= right + 6 * left.std() / math.sqrt(draws)


def test_the_residual_can_be_longer_than_any_context() -> None:
    """The proof uses ‖x - w x̄‖ ≤ L, which fails when x and x̄ point apart; τ² ≤ σ_max² survives.

    After many pulls at x̄ = 1 with σ₀ large, w ≈ 1; in context -1 the residual is ≈ -2, L = 1.
    """
    posterior = rolin.Posterior(Scales(arm_std=10.0, noise_std=1.0), n_features=1)
    posterior.observe_many(["a"] * 5, np.ones((5, 1)), np.zeros(5))
    w = posterior.shrinkage(["a"])[0]
    assert abs(-1 - w * 1.0) > 1.9
    assert posterior.predict([[-1.0]], ["a"]).std[0] ** 2 <= 10.0**2 + 1.0


def test_marginal_sampling_falls_outside_the_proof() -> None:
    """The proof needs pulled and best arm to be identically distributed given the past.

    Three unseen arms without effects of their own, in contexts 1, 1 and -1 of one coefficient:
    their means are θ, θ, -θ, so the best is one of the first two with probability 1/2. Joint
    sampling pulls it with that probability. Independent draws pull each arm with probability
    1/3, so the first two with 2/3.
    """
    x = np.array([[1.0], [1.0], [-1.0]])
    n = 20_000
    for sampling, expected in (("joint", 1 / 2), ("marginal", 2 / 3)):
        policy = fixed(rolin.LinTS, n_features=1, sampling=sampling, seed=1)
        share = np.mean([policy.decide(x, key=key).arm != 2 for key in range(n)])
        assert abs(share - expected) < 6 * math.sqrt(expected * (1 - expected) / n)


@pytest.mark.parametrize("make", ["joint", "ucb"])
def test_measured_regret_is_below_the_bound(make: str, seed: int) -> None:
    """K = 10, d = 3, n = 500, 20 worlds from the prior: mean + 6 standard errors below the bound."""
    n, k, d, runs = 500, 10, 3, 20
    bound = bayes_regret_bound(rounds=n, n_arms=k, n_features=d, context_norm=math.sqrt(d))
    regrets = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        theta, v = rng.normal(size=d), 0.5 * rng.normal(size=k)
        policy = (
            fixed(rolin.RoLinTS, n_features=d, sampling="joint", seed=run)
            if make == "joint"
            else fixed(rolin.RoLinUCB, n_features=d, horizon=n, seed=run)
        )
        regret = 0.0
        for _ in range(n):
            x = rng.uniform(-1, 1, (k, d))
            means = x @ theta + v
            decision = policy.decide(x)
            arm = int(decision.arm)
            regret += means.max() - means[arm]
            policy.update(arm, decision.context, means[arm] + rng.normal())
        regrets.append(regret)
    assert np.mean(regrets) + 6 * np.std(regrets) / math.sqrt(runs) < bound.total


def test_failure_term_is_a_gaussian_tail() -> None:
    """∫_z^∞ u φ(u) du = φ(z): with z = √(2 log n) it is φ(0)/n, of which the term is 2 K n σ_max."""
    n, k = 50, 4
    bound = bayes_regret_bound(rounds=n, n_arms=k, n_features=2, context_norm=1.0)
    tail = norm.pdf(math.sqrt(2 * math.log(n)))
    assert bound.failure == pytest.approx(2 * k * n * tail * bound.max_std)


# -- Theorem 2, and what Section 5.1 says about Theorem 1 --------------------------------------


def test_theorem_2_by_hand() -> None:
    """N = 100, d = 2, σ_max = σ = 1, δ = 1/2.

    Information: 2 log(1 + 100/2)/log 2 = 11.3449. With any number of actions, learning is
    √(2 · 2 · 11.3449 · 100 · log 2) = 56.0844 and failure √(2/π) · 2^1.5 · 100/2 = 112.838. With 3 actions, learning is
    √(2 · 11.3449 · 100 · log 2) = 39.6577 and failure √(2/π) · 3 · 100/2 = 119.683.
    """
    size = {"rounds": 100, "n_features": 2, "max_std": 1.0, "failure_probability": 0.5}
    bound = linear_bandit_regret_bound(**size)
    assert bound.information == pytest.approx(11.3449, abs=1e-4)
    assert bound.learning == pytest.approx(56.0844, abs=1e-4)
    assert bound.failure == pytest.approx(112.838, abs=1e-3)
    finite = linear_bandit_regret_bound(**size, n_actions=3)
    assert finite.learning == pytest.approx(39.6577, abs=1e-4)
    assert finite.failure == pytest.approx(119.683, abs=1e-3)


@given(
    d=st.integers(1, 30), rounds=st.integers(1, 10**6), std=st.floats(1e-2, 1e2),
    noise=st.floats(1e-2, 1e2), delta=st.floats(1e-9, 1.0), k=st.none() | st.integers(1, 1000),
)  # fmt: skip
def test_theorem_2_is_as_printed(
    d: int, rounds: int, std: float, noise: float, delta: float, k: int | None
) -> None:
    """Both bounds equal the formulas of the theorem, typed from the page."""
    bound = linear_bandit_regret_bound(
        rounds=rounds, n_features=d, max_std=std, noise_std=noise, n_actions=k,
        failure_probability=delta,
    )  # fmt: skip
    logs = math.log(1 + std**2 * rounds / (noise**2 * d)) * math.log(1 / delta)
    below = math.log(1 + std**2 / noise**2)
    if k is None:
        expected = std * d * math.sqrt(2 * rounds / below * logs)
        expected += math.sqrt(2 / math.pi) * std * d**1.5 * rounds * delta
    else:
        expected = std * math.sqrt(2 * d * rounds / below * logs)
        expected += math.sqrt(2 / math.pi) * std * k * rounds * delta
    assert bound.total == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("d", [1, 2, 5, 20])
@pytest.mark.parametrize("delta", [1e-4, 0.1, 0.9])
def test_the_failure_term_of_theorem_2_bounds_a_chi_tail(d: int, delta: float) -> None:
    """E[‖z‖ 1{‖z‖ > √(2 d log(1/δ))}] ≤ √(2/π) d^1.5 δ, for z standard normal: integrated numerically."""
    limit = math.sqrt(2 * d * math.log(1 / delta))
    tail, _ = quad(lambda x: x * chi.pdf(x, d), limit, np.inf)
    assert tail <= math.sqrt(2 / math.pi) * d**1.5 * delta * (1 + 1e-9)


def test_regret_with_many_contexts_is_below_theorem_2(seed: int) -> None:
    """Contexts are drawn anew in every round, on the unit sphere; both algorithms stay below the bound.

    20 runs each; the mean plus 5 standard errors must be below, so a wrong bound of half the size would be found only
    if it were below the regret: the test shows that nothing contradicts the theorem.
    """
    d, rounds, runs = 3, 200, 20
    bound = linear_bandit_regret_bound(rounds=rounds, n_features=d, max_std=1.0).total
    width = math.sqrt(2 * d * math.log(rounds))
    for make in (
        lambda s: fixed(rolin.LinTS, n_features=d, sampling="joint", seed=s),
        lambda s: fixed(rolin.LinUCB, n_features=d, width=width, seed=s),
    ):
        regrets = []
        for run in range(runs):
            rng = np.random.default_rng([seed, run])
            theta, policy, regret = rng.normal(size=d), make(run), 0.0
            for _ in range(rounds):
                x = rng.normal(size=(100, d))
                x /= np.linalg.norm(x, axis=1, keepdims=True)
                arm = policy.decide(x).arm
                policy.update(arm, x[arm], float(x[arm] @ theta + rng.normal()))
                regret += float((x @ theta).max() - x[arm] @ theta)
            regrets.append(regret)
        assert np.mean(regrets) + 5 * np.std(regrets) / math.sqrt(runs) < bound


settings_of_theorem_1 = st.builds(
    Setting,
    rounds=st.integers(2, 10**9), n_arms=st.integers(1, 10**5), n_features=st.integers(0, 1000),
    context_norm=st.floats(0.01, 100), coef_std=st.floats(0.01, 100), arm_std=st.floats(0.01, 100),
    noise_std=st.floats(0.01, 100),
)  # fmt: skip


@given(setting=settings_of_theorem_1, factor=st.floats(1.01, 100))
def test_the_bound_grows_with_everything_that_is_uncertain(setting: Setting, factor: float) -> None:
    """Section 5.1: it is monotone in σ₀, L and 1/λ, and never worse than the trivial analysis."""
    total = setting.bound.total
    for name in ("arm_std", "context_norm", "coef_std"):
        assert setting.changed(**{name: factor * getattr(setting, name)}).bound.total > total
    assert total <= trivial(setting).total * (1 + 1e-12)


@given(setting=settings_of_theorem_1)
def test_the_bound_is_that_of_a_k_armed_bandit_if_the_coefficients_are_known(
    setting: Setting,
) -> None:
    """Section 5.1: for λ → ∞ and d/K → 0, the contexts do not matter."""
    known = setting.changed(n_features=1, n_arms=10**6, coef_std=1e-9 * setting.arm_std)
    without = known.changed(n_features=0, context_norm=0.0)
    assert known.bound.total == pytest.approx(without.bound.total, rel=1e-5)


def test_statements_about_the_bounds_can_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold as documented; with a wrong bound, those that hold now do not."""
    report = bounds(tmp_path / "right", settings=50)
    found = {claim.name: verdict(checks) for claim, checks in report.verdicts}
    partly = {
        "always an improvement",
        "the limit of a K-armed bandit",
        "the order of the bound",
        "few contexts are better",
        "any δ",
    }
    assert found == {name: "holds in part" if name in partly else "holds" for name in found}
    assert "| 0.5 | 8856 | 9106 | 4131 |" in (tmp_path / "right" / "claims.md").read_text()

    def wrong(**given: Any) -> RegretBound:
        size = given["n_features"] + given["n_arms"]
        std = math.hypot(given["arm_std"], given["coef_std"], given["context_norm"])
        return RegretBound(std, 1.0, size**2 * given["rounds"] / std, 0.0)

    monkeypatch.setattr("rolin.paper.bounds.bayes_regret_bound", wrong)
    worse = bounds(tmp_path / "wrong", settings=50)
    verdicts = {claim.name: verdict(checks) for claim, checks in worse.verdicts}
    for name in ("the bound grows with σ₀, L and 1/λ", "always an improvement", "√n", "√(d + K)"):
        assert verdicts[name] == "fails"


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"failure_probability": 2.0}, r"failure_probability=2.0, expected a number in \(0, 1\]"),
        ({"failure_probability": 0.0}, "failure_probability=0.0, expected"),
        ({"max_std": -1.0}, "max_std=-1.0, expected a number of at least 0"),
        ({"n_actions": 0}, "n_actions=0, expected"),
        ({"noise_std": 0.0}, "noise_std=0"),
    ],
)
def test_theorem_2_refuses_what_it_does_not_cover(given_: dict[str, Any], message: str) -> None:
    """Bad arguments are named."""
    size = {"rounds": 10, "n_features": 2, "max_std": 1.0}
    with pytest.raises(errors.ParameterError, match=message):
        linear_bandit_regret_bound(**{**size, **given_})
    assert linear_bandit_regret_bound(rounds=10, n_features=0, max_std=1.0).total == 0.0
