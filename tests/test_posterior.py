"""The posterior against the dense Gaussian, and the laws that tie its forms together."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin import Moments, Posterior, Scales
from rolin.errors import ApproximationWarning
from rolin.model import posterior as posterior_module
from rolin.policies.naive import DensePosterior
from support.oracles import Dense, History, random_history
from support.policies import fixed

positive = st.floats(0.05, 20.0)


@st.composite
def scales(draw: st.DrawFn, d: int) -> Scales:
    """Any scales, arm effects of exactly zero and intercepts included."""
    intercept_std = draw(st.one_of(st.none(), positive))
    return Scales(
        noise_std=draw(positive),
        arm_std=draw(st.one_of(st.just(0.0), positive)),
        coef_std=tuple(draw(positive) for _ in range(d)) if draw(st.booleans()) else draw(positive),
        coef_mean=tuple(draw(st.floats(-3, 3)) for _ in range(d)),
        intercept_std=intercept_std,
        intercept_mean=0.0 if intercept_std is None else draw(st.floats(-3, 3)),
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[Scales, History, int]:
    """Scales, a history of at most 30 observations, and a number of arms of which some are unseen."""
    d = draw(st.integers(0, 5))
    n_arms = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return draw(scales(d)), random_history(rng, draw(st.integers(0, 30)), n_arms, d), n_arms


def fed(scales: Scales, history: History, cls: type[Posterior] = Posterior) -> Posterior:
    """A posterior that saw the history one by one."""
    posterior = cls(scales, history.x.shape[1])
    for i in range(len(history.r)):
        posterior.observe(int(history.arms[i]), history.x[i], history.r[i], history.h[i])
    return posterior


def agree(a: Posterior, b: Posterior, rtol: float = 1e-9) -> None:
    """Assert that two posteriors say the same."""
    x = np.random.default_rng(3).normal(size=(7, a.n_features))
    for one, other in zip(a.predict(x, range(7)), b.predict(x, range(7)), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(a.coefficients.mean, b.coefficients.mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(
        a.coefficients.covariance, b.coefficients.covariance, rtol=rtol, atol=rtol
    )
    assert a.log_evidence == pytest.approx(b.log_evidence, rel=rtol, abs=rtol)


@given(problems())
def test_posterior_is_the_conditional_gaussian(problem: tuple[Scales, History, int]) -> None:
    """Predictions, coefficients, arm effects and evidence are those of the dense model."""
    scales, history, n_arms = problem
    dense = Dense(scales, history, n_arms)
    posterior = fed(scales, history)
    arms = np.arange(n_arms)
    x = np.random.default_rng(1).normal(size=(n_arms, history.x.shape[1]))
    mean, covariance = dense.predict(x, arms)
    got = posterior.predict(x, arms)
    np.testing.assert_allclose(got.mean, mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(got.std**2, np.diag(covariance), rtol=1e-7, atol=1e-7)
    size = dense.size
    coefficients = posterior.coefficients
    np.testing.assert_allclose(coefficients.mean, dense.mean[:size], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(
        coefficients.covariance, dense.covariance[:size, :size], rtol=1e-7, atol=1e-7
    )
    naive = fed(scales, history, DensePosterior).arm_effects(arms)
    effects = posterior.arm_effects(arms)
    np.testing.assert_allclose(naive.mean, effects.mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(naive.covariance(), effects.covariance(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(effects.mean, dense.mean[size:], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(
        effects.covariance(), dense.covariance[size:, size:], rtol=1e-7, atol=1e-7
    )
    np.testing.assert_allclose(effects.std, np.sqrt(np.diag(effects.covariance())), rtol=1e-12)
    assert posterior.log_evidence == pytest.approx(dense.log_evidence, rel=1e-7, abs=1e-7)


@given(problems())
def test_one_is_many_is_merged_is_rebuilt(problem: tuple[Scales, History, int]) -> None:
    """Observing one by one, at once, in parts added up, or rebuilding: the same posterior."""
    scales, history, _ = problem
    d = history.x.shape[1]
    one = fed(scales, history)
    many = Posterior(scales, d)
    many.observe_many(history.arms.tolist(), history.x, history.r, history.h)
    agree(one, many, rtol=1e-12)
    agree(one, Posterior.of(scales, one.moments))
    total = Moments.zero(d)
    for part in np.array_split(np.arange(len(history.r)), 3):
        total = total + Moments.of(
            history.arms[part].tolist(), history.x[part], history.r[part], history.h[part]
        )
    agree(one, Posterior.of(scales, total))


@given(problems(), st.data())
def test_rebuilding_for_other_scales(
    problem: tuple[Scales, History, int], data: st.DataObject
) -> None:
    """The moments hold no prior: they rebuild the posterior of any other scales."""
    first, history, _ = problem
    second = data.draw(scales(history.x.shape[1]))
    agree(Posterior.of(second, fed(first, history).moments), fed(second, history))


@given(problems(), st.randoms(use_true_random=False))
def test_order_is_no_matter(problem: tuple[Scales, History, int], random: object) -> None:
    """Observations are exchangeable, and so are the names of the arms."""
    scales, history, _ = problem
    order = np.random.default_rng(random.getrandbits(32)).permutation(len(history.r))
    shuffled = History(history.arms[order], history.x[order], history.r[order], history.h[order])
    agree(fed(scales, history), fed(scales, shuffled))
    renamed = History(9 - history.arms, history.x, history.r, history.h)
    x = np.random.default_rng(3).normal(size=(7, history.x.shape[1]))
    for a, b in zip(
        fed(scales, history).predict(x, range(7)),
        fed(scales, renamed).predict(x, [9 - k for k in range(7)]),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("block", range(20))
def test_efficient_is_naive(block: int, seed: int) -> None:
    """The fast posterior is the naive one to 1e-9, on 20 × 150 random histories."""
    for case in range(150):
        rng = np.random.default_rng([seed, block, case])
        d, n_arms, n = rng.integers(0, 6), rng.integers(1, 8), rng.integers(0, 40)
        scales = Scales(
            noise_std=10 ** rng.uniform(-1, 1),
            arm_std=rng.choice([0.0, 10 ** rng.uniform(-1, 1)]),
            coef_std=tuple(10 ** rng.uniform(-1, 1, d)),
            coef_mean=tuple(rng.normal(size=d)),
            **(
                {}
                if rng.random() < 0.5
                else {"intercept_std": 10 ** rng.uniform(-1, 1), "intercept_mean": rng.normal()}
            ),
        )
        x = rng.uniform(-1, 1, (n, d))
        history = History(rng.integers(0, n_arms, n), x, rng.normal(size=n), rng.uniform(0.5, 2, n))
        agree(fed(scales, history), fed(scales, history, DensePosterior))


def test_naive_and_efficient_play_the_same_game(rng: np.random.Generator) -> None:
    """With the same seed, the two implementations pull the same arms for 300 rounds."""
    fast = fixed(rolin.RoLinTS, n_features=4, seed=3)
    naive = fixed(rolin.NaiveRoLinTS, n_features=4, seed=3)
    for _ in range(300):
        x = rng.uniform(-1, 1, (20, 4))
        decision = fast.decide(x)
        assert naive.decide(x).arm == decision.arm
        reward = rng.normal()
        fast.update(decision.arm, decision.context, reward)
        naive.update(decision.arm, decision.context, reward)


@given(problems())
def test_vanishing_arm_effects_give_the_linear_bandit(problem: tuple[Scales, History, int]) -> None:
    """arm_std → 0 is LinTS, whose posterior does not know the arms apart."""
    scales, history, _ = problem
    tiny = fed(dataclasses.replace(scales, arm_std=1e-9), history)
    zero = fed(dataclasses.replace(scales, arm_std=0.0), history)
    agree(tiny, zero, rtol=1e-6)
    merged = History(np.zeros_like(history.arms), history.x, history.r, history.h)
    x = np.random.default_rng(3).normal(size=(2, zero.n_features))
    one_arm = fed(zero.scales, merged).predict(x, [0, 1])
    np.testing.assert_allclose(one_arm.mean, zero.predict(x, [0, 1]).mean, rtol=1e-9, atol=1e-9)


def test_the_linear_limit_is_ridge_regression(rng: np.random.Generator) -> None:
    """With arm_std = 0, θ̂ = (λσ² I + X'X)⁻¹ X'r; the paper prints λI, an error."""
    x, r = rng.normal(size=(50, 4)), rng.normal(size=50)
    posterior = Posterior(Scales(arm_std=0.0, coef_std=0.7, noise_std=1.9), 4)
    posterior.observe_many(range(50), x, r)
    ridge = np.linalg.solve(1.9**2 / 0.7**2 * np.eye(4) + x.T @ x, x.T @ r)
    np.testing.assert_allclose(posterior.coefficients.mean, ridge, rtol=1e-10)


def test_means_of_arms_do_not_determine_the_coefficients(rng: np.random.Generator) -> None:
    """The precision of θ is that of the arms' means (Appendix A) plus the scatter within arms over σ².

    So the means are sufficient only if the contexts of an arm never change. Given θ, the variance of a mean reward is
    σ₀² (1 - w); τ² adds that of θ.
    """
    scales = Scales(noise_std=1.3, arm_std=0.6, coef_std=0.7)
    arms = np.repeat(np.arange(5), [1, 2, 3, 10, 40])
    for x in (rng.normal(size=(56, 3)), rng.normal(size=(5, 3))[arms]):
        posterior = Posterior(scales, 3)
        posterior.observe_many(arms.tolist(), x, rng.normal(size=56))
        by_means, scatter = np.eye(3) / 0.7**2, np.zeros((3, 3))
        for arm in range(5):
            own = x[arms == arm]
            mean, n = own.mean(axis=0), len(own)
            by_means += np.outer(mean, mean) / (0.6**2 + 1.3**2 / n)
            scatter += (own - mean).T @ (own - mean)
        precision = np.linalg.inv(posterior.coefficients.covariance)
        np.testing.assert_allclose(precision, by_means + scatter / 1.3**2, rtol=1e-9, atol=1e-9)
        new, own, w = rng.normal(size=3), x[arms == 3].mean(axis=0), 10 / (10 + 1.3**2 / 0.6**2)
        residual = new - w * own
        variance = 0.6**2 * (1 - w) + residual @ np.linalg.solve(precision, residual)
        assert posterior.predict([new], [3]).std[0] ** 2 == pytest.approx(variance, rel=1e-9)
    assert np.abs(scatter).max() < 1e-20  # of the second kind of contexts, which never change


def test_many_pulls_correct_the_mean_of_the_arm(rng: np.random.Generator) -> None:
    """As n_i → ∞, μ̂ → r̄ + (x - x̄)'θ̂ (Section 4.2): the difference falls like 1/n_i."""
    x, r, new = rng.normal(size=(30_000, 2)), rng.normal(size=30_000) + 2.0, [0.5, -1.0]
    differences = []
    for n in (300, 30_000):
        posterior = Posterior(Scales(noise_std=1.0, arm_std=0.5), 2)
        posterior.observe_many(["a"] * n, x[:n], r[:n])
        limit = r[:n].mean() + (new - x[:n].mean(axis=0)) @ posterior.coefficients.mean
        differences.append(abs(posterior.predict([new], ["a"]).mean[0] - limit))
    assert differences[0] > 1e-3
    assert differences[1] < differences[0] / 30


def test_predictions_are_efficient_after_few_pulls(seed: int) -> None:
    """Arms with one pull are predicted better with the shared model than without, and than by it alone.

    200 worlds of the model with σ₀ = 0.5, in which twenty other arms have ten pulls: mean squared errors of μ̂, of the
    arm's own ridge regression, and of x'θ̂, paired; differences of 5 standard errors. Without a pull, μ̂ is x'θ̂.
    """
    errors = []
    for run in range(200):
        rng = np.random.default_rng([seed, run])
        theta, v = rng.normal(size=3), 0.5 * rng.normal(size=40)
        arms = np.concatenate([np.repeat(np.arange(20), 10), np.arange(20, 40)])
        x, new = rng.uniform(-1, 1, (220, 3)), rng.uniform(-1, 1, (41, 3))
        r = x @ theta + v[arms] + rng.normal(size=220)
        posterior = Posterior(Scales(), 3)
        posterior.observe_many(arms.tolist(), x, r)
        mean = posterior.predict(new, range(41)).mean
        shared = new @ posterior.coefficients.mean
        assert mean[40] == pytest.approx(shared[40], rel=1e-9)
        few = np.arange(20, 40)
        alone = [new[a] @ x[180 + a] * r[180 + a] / (1.0 + x[180 + a] @ x[180 + a]) for a in few]
        truth = new[few] @ theta + v[few]
        errors.append([np.mean((g - truth) ** 2) for g in (mean[few], shared[few], alone)])
    ours, others = np.array(errors)[:, :1], np.array(errors)[:, 1:]
    gain = others - ours
    assert (gain.mean(axis=0) > 5 * gain.std(axis=0) / 200**0.5).all()


@pytest.mark.parametrize("intercept_std", [None, 2.0])
@pytest.mark.parametrize(("n_arms", "d"), [(1, 0), (3, 1), (40, 7), (130, 33), (64, 4), (65, 4)])
def test_fused_and_blas_paths_agree(
    n_arms: int, d: int, intercept_std: float | None, rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The fused loop and the BLAS product predict the same, and so does plain NumPy."""
    scales = Scales(arm_std=0.8, intercept_std=intercept_std)
    history = random_history(rng, 60, max(n_arms // 2, 1), d)
    posterior = fed(scales, history)
    x = rng.normal(size=(n_arms, d))
    results = []
    for limit in (-1, 10**9):
        monkeypatch.setattr(posterior_module, "_FUSED", limit)
        monkeypatch.setattr(posterior_module, "_FUSED_SIZE", limit)
        results.append(posterior.predict(x))
    np.testing.assert_allclose(results[0].mean, results[1].mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(results[0].std, results[1].std, rtol=1e-12)
    mean, covariance = Dense(scales, history, n_arms).predict(x, np.arange(n_arms))
    np.testing.assert_allclose(results[0].mean, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(results[0].std, np.sqrt(np.diag(covariance)), rtol=1e-8)


def test_singular_scatter_with_a_weak_prior() -> None:
    """A scatter that rounding leaves indefinite is handled with a warning, not a crash."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(2000, 1))
    x = np.hstack([base, base * (1 / 3), base * 1e-7, np.ones((2000, 1))]) * 1e4
    scales = Scales(coef_std=1e7, arm_std=0.5)
    posterior = Posterior(scales, 4)
    posterior.observe_many(rng.integers(0, 3, 2000).tolist(), x, rng.normal(size=2000))
    with pytest.warns(ApproximationWarning, match="nearly collinear"):
        rebuilt = Posterior.of(scales, posterior.moments)
    mean, std = rebuilt.predict(x[:3])
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


@pytest.mark.parametrize("coef_std", [1e-3, 1e-5, 1e-7])
def test_evidence_of_a_strong_prior(coef_std: float, rng: np.random.Generator) -> None:
    """Rebuilt and running evidence agree also where prior mean and scale are far apart."""
    scales = Scales(coef_std=coef_std, coef_mean=1.0)
    history = History(
        rng.integers(0, 3, 50), rng.normal(size=(50, 2)), rng.normal(size=50), np.ones(50)
    )
    posterior = fed(scales, history)
    rebuilt = Posterior.of(scales, posterior.moments)
    assert rebuilt.log_evidence == pytest.approx(posterior.log_evidence, rel=1e-11)


@given(problem=problems())
def test_the_view_shows_the_posterior(problem: tuple[Scales, History, int]) -> None:
    """Rows, moments and covariance of a view are those of the posterior; later updates need a new view."""
    scales, history, n_arms = problem
    posterior = fed(scales, history)
    view, moments, k = posterior.view(), posterior.moments, len(posterior.names)
    assert view.size == posterior.size
    assert view.n_rewards == posterior.count
    assert view.arm_index.names == posterior.names
    np.testing.assert_array_equal(view.weights(k), moments.weight)
    np.testing.assert_array_equal(view.mean_contexts(k), moments.mean_context)
    np.testing.assert_array_equal(view.coef, posterior.coefficients.mean)
    covariance = posterior.coefficients.covariance
    np.testing.assert_allclose(view.factor.T @ view.factor, covariance, rtol=1e-12)
    x = np.random.default_rng(1).normal(size=(4, posterior.size))
    variance = (posterior.loadings(x) ** 2).sum(axis=1)
    np.testing.assert_allclose(
        variance, np.einsum("ij,jk,ik->i", x, covariance, x), rtol=1e-9, atol=1e-12
    )
    names = [*range(n_arms), 0, "never seen"]
    rows = [1 + posterior.names.index(name) if name in posterior.names else 0 for name in names]
    assert posterior.rows_of(names).tolist() == rows
    posterior.decay(0.5)
    assert posterior.view().renewals == view.renewals + 1


@pytest.mark.parametrize("apart", [0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1.0])
@pytest.mark.parametrize("ratio", [1.0, 1e2, 1e4, 1e6, 1e8, 1e10])
def test_a_rebuilt_posterior_is_right_or_warns(
    ratio: float, apart: float, rng: np.random.Generator
) -> None:
    """For nearly collinear features and a wide prior, rounding errors of the scatter exceed what is known."""
    x = rng.normal(size=(200, 3))
    x[:, 2] = x[:, 0] + apart * x[:, 2]
    running = Posterior(Scales(coef_std=ratio), 3)
    for i, context in enumerate(x):
        running.observe(i % 5, context, float(context.sum() + rng.normal()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rebuilt = Posterior.of(running.scales, running.moments)
    exact, found = (p.coefficients.covariance for p in (running, rebuilt))
    error = np.abs(found - exact).max() / np.abs(exact).max()
    assert error < 0.02 or any(w.category is ApproximationWarning for w in caught)
    if ratio <= 100.0 or apart == 1.0:
        assert not caught
        assert error < 1e-5
