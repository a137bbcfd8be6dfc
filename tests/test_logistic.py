"""Yes/no rewards: sites, posteriors against Newton's and scikit-learn's, calibration."""

from __future__ import annotations

import copy
import functools
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import rolin
from rolin.errors import ApproximationWarning, InputError
from rolin.model.logistic import LogisticPosterior
from support.policies import fixed


def clicks(
    rng: np.random.Generator, n: int, rate: float, k: int = 20, d: int = 5, std: float = 0.7
) -> tuple[Any, ...]:
    """Arms, contexts and outcomes of a robust logistic model, and its level."""
    level = np.log(rate / (1 - rate))
    arms, x = rng.integers(k, size=n), rng.uniform(-1, 1, (n, d))
    logit = level + x @ (std * rng.normal(size=d)) + (std * rng.normal(size=k))[arms]
    return arms, x, (rng.random(n) < expit(logit)).astype(float), level


@pytest.mark.parametrize("level", [-2.0, 30.0, -800.0])
@pytest.mark.parametrize("std", [0.1, 1.7, 20.0])
@pytest.mark.parametrize(
    ("outcome", "weight"), [(1, 1.0), (0, 1.0), (1, 2.5), (0, 0.3), (1, 1000.0)]
)
def test_a_site_matches_moments(outcome: int, weight: float, std: float, level: float) -> None:
    """Prior times site has the mean and variance of prior times likelihood, by another quadrature."""
    scales = rolin.Scales(arm_std=std, intercept_std=1e-9, intercept_mean=level)
    posterior = LogisticPosterior(scales, 0)
    site = posterior.site("a", [], outcome, weight)
    precision = std**-2.0 + site.weight
    # many points, in logarithms: around what was known, and where the outcome may lead
    most = level + (weight if outcome else -weight) * std**2
    eta = np.concatenate(
        [np.linspace(-12, 12, 200_001) * std + at for at in (level, most)]
        + [np.linspace(-60, 60, 200_001)]
    )
    eta = np.unique(eta)
    log = weight * -np.logaddexp(0, -eta if outcome else eta) - 0.5 * ((eta - level) / std) ** 2
    density = np.exp(log - log.max())
    z = np.trapezoid(density, eta)
    mean = np.trapezoid(density * eta, eta) / z
    variance = np.trapezoid(density * (eta - mean) ** 2, eta) / z
    shift = (mean - level) / std
    assert site.weight * (site.reward - level) / precision / std == pytest.approx(shift, abs=2e-5)
    assert 1 / precision == pytest.approx(variance, rel=2e-5)
    posterior.observe("a", [], outcome, weight)
    predicted = posterior.predict(np.empty((1, 0)), ["a"])
    assert (predicted.logit_mean[0] - level) / std == pytest.approx(shift, abs=3e-5)
    assert predicted.logit_std[0] ** 2 == pytest.approx(variance, rel=3e-5)


def test_features_need_not_be_scaled(seed: int) -> None:
    """Ages from 20 to 60 under the default prior: predictions are those of Newton's method, ± 0.03."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 60, 2000)[:, None]
    y = (rng.random(2000) < expit(1 - 0.03 * age[:, 0])).astype(float)
    policy = rolin.LogisticRoLinTS(n_features=1, seed=0)
    policy.update_many([0] * 2000, age, y)
    mode, _ = newton(np.zeros(2000, dtype=int), age, y, policy.scales)
    grid = np.array([[20.0], [40.0], [60.0]])
    for x in grid:
        expected = expit(x @ mode[:1] + mode[1] + mode[2])
        assert policy.predict(x[None], [0]).mean[0] == pytest.approx(float(expected), abs=0.03)


def test_a_prediction_can_be_copied_and_pickled() -> None:
    """With its logits; and a level of one is refused."""
    found = LogisticPosterior(rolin.Scales(), 0).predict(np.empty((1, 0)))
    for again in (copy.copy(found), pickle.loads(pickle.dumps(found))):
        assert again.interval(0.8) == found.interval(0.8)
    with pytest.raises(InputError, match=r"level=1\.0"):
        found.interval(1.0)


def test_predictions_are_of_probabilities(rng: np.random.Generator) -> None:
    """Mean, standard deviation and interval of σ(η), against 10⁶ draws."""
    posterior = LogisticPosterior(rolin.Scales(arm_std=1.0, intercept_std=1.5), 1)
    arms, x, y, _ = clicks(rng, 100, 0.2, k=3, d=1)
    posterior.observe_many(arms, x, y)
    found = posterior.predict([[0.5], [-1.0]], [0, 1])
    low, high = found.interval(0.8)
    for i in range(2):
        p = expit(found.logit_mean[i] + found.logit_std[i] * rng.normal(size=10**6))
        assert found.mean[i] == pytest.approx(p.mean(), abs=5 * p.std() / 1000)
        assert found.std[i] == pytest.approx(p.std(), rel=0.01)
        np.testing.assert_allclose([low[i], high[i]], np.quantile(p, [0.1, 0.9]), rtol=0.02)


def newton(arms: Any, x: Any, y: Any, scales: rolin.Scales) -> tuple[Any, Any]:
    """Mode of (θ, level, v) and its inverse curvature: a converged Laplace fit of the whole batch."""
    k = arms.max() + 1
    z = np.column_stack([x, np.ones(len(x)), np.eye(k)[arms]])
    mean, std = scales.prior(x.shape[1])
    mean = np.concatenate([mean, np.zeros(k)])
    precision = np.concatenate([std, np.full(k, scales.arm_std)]) ** -2.0
    b = mean.copy()

    def loss(b: Any) -> float:
        eta = z @ b
        return float(np.logaddexp(0, eta).sum() - y @ eta + 0.5 * precision @ (b - mean) ** 2)

    for _ in range(100):
        p = expit(z @ b)
        curvature = (z * (p * (1 - p))[:, None]).T @ z + np.diag(precision)
        step = np.linalg.solve(curvature, z.T @ (y - p) - precision * (b - mean))
        size = 1.0
        while loss(b + size * step) > loss(b) + 1e-9:
            size /= 2
        b = b + size * step
        if np.abs(step).max() < 1e-10:
            break
    return b, np.linalg.inv(curvature)


@pytest.mark.parametrize(("rate", "inside"), [(0.02, 0.95), (0.12, 0.98), (0.5, 1.0)])
def test_the_posterior_is_near_a_converged_one(rate: float, inside: float, seed: int) -> None:
    """Three batches of 3000 outcomes: one pass against Newton's method on all of them.

    Of coefficients, level and arm effects, the widths are within 0.95 and 1.05 on average, the given
    share of them within 0.9 and 1.1, all within 0.85 and 1.2; all means are within one posterior standard
    deviation. (Over seeds 0 to 19, all but a few were within 0.9 and 1.1.)
    """
    widths, means = [], []
    for i in range(3):
        rng = np.random.default_rng([seed, i])
        arms, x, y, level = clicks(rng, 3000, rate)
        scales = rolin.Scales(arm_std=0.7, coef_std=0.7, intercept_std=1.0, intercept_mean=level)
        posterior = LogisticPosterior(scales, 5)
        posterior.observe_many(arms, x, y)
        mode, covariance = newton(arms, x, y, scales)
        std = np.sqrt(np.diag(covariance))
        c, v = posterior.coefficients, posterior.arm_effects(range(20))
        widths += (np.concatenate([c.std, v.std]) / std).tolist()
        means += ((np.concatenate([c.mean, v.mean]) - mode) / std).tolist()
    assert 0.95 < np.exp(np.mean(np.log(widths))) < 1.05
    assert np.mean([0.9 < width < 1.1 for width in widths]) >= inside
    assert min(widths) > 0.85
    assert max(widths) < 1.2
    assert max(map(abs, means)) < 1.0


def test_without_arm_effects_it_is_ridge_logistic_regression(seed: int) -> None:
    """Against scikit-learn with the same prior: coefficients within 0.3 posterior std, 10 000 outcomes."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(10_000, 6))
    y = (rng.random(10_000) < expit(x @ rng.normal(size=6) * 0.8)).astype(float)
    posterior = LogisticPosterior(rolin.Scales(arm_std=0.0, coef_std=0.8), 6)
    posterior.observe_many(["all"] * 10_000, x, y)
    fit = LogisticRegression(C=0.8**2, fit_intercept=False, tol=1e-8).fit(x, y)
    found = posterior.coefficients
    assert (np.abs(found.mean - fit.coef_[0]) < 0.3 * found.std).all()


@pytest.mark.parametrize("rate", [0.02, 0.12, 0.5])
def test_predictions_are_calibrated(rate: float, seed: int) -> None:
    """20 000 new outcomes come as often as 3000 old ones predict, in each fifth of the predictions.

    Within 5 standard errors of chance, and the model's own 95 % or so: a click rate that rests on n
    clicks is known to 2/√n.
    """
    rng = np.random.default_rng(seed)
    arms, x, y, level = clicks(rng, 23_000, rate)
    posterior = LogisticPosterior(
        rolin.Scales(arm_std=0.7, coef_std=0.7, intercept_std=1.0, intercept_mean=level), 5
    )
    posterior.observe_many(arms[:3000], x[:3000], y[:3000])
    p = np.empty(20_000)
    for i in range(0, 20_000):
        p[i] = posterior.predict(x[3000 + i : 3001 + i], arms[3000 + i : 3001 + i].tolist()).mean[0]
    seen = y[3000:]
    for part in np.array_split(np.argsort(p), 5):
        rate = p[part].mean()
        chance = 5 * (rate * (1 - rate) / len(part)) ** 0.5
        known = 2 * rate / (600 * rate) ** 0.5  # of 3000, a fifth
        assert abs(seen[part].mean() - rate) < chance + known


def test_the_same_outcomes_give_the_same_state(rng: np.random.Generator) -> None:
    """In the same order, bit for bit, one by one or in batches; in another order, nearly."""
    arms, x, y, _ = clicks(rng, 300, 0.2)
    for make in (rolin.LogisticRoLinTS, functools.partial(fixed, rolin.LogisticRoLinTS)):
        one, many, other = (make(n_features=5, seed=0) for _ in range(3))
        for i in range(300):
            one.update(int(arms[i]), x[i], y[i])
        many.update_many(arms[:123].tolist(), x[:123], y[:123])
        many.update_many(arms[123:].tolist(), x[123:], y[123:])
        for name, array in one.posterior.arrays().items():
            np.testing.assert_array_equal(array, many.posterior.arrays()[name], err_msg=name)
    # With known scales: if they are learned, they also depend on the order.
    other.update_many(arms[::-1].tolist(), x[::-1], y[::-1])
    mean, std = one.posterior.coefficients.mean, one.posterior.coefficients.std
    assert (np.abs(other.posterior.coefficients.mean - mean) < 0.5 * std).all()


def test_merging_says_that_it_is_an_approximation(rng: np.random.Generator) -> None:
    """It warns, and the result is near what one learner would have been."""
    arms, x, y, _ = clicks(rng, 1000, 0.3)
    known: dict[str, Any] = {"coef_std": 1.0, "arm_std": 0.5, "intercept_std": 2.0}
    a, b, one = (rolin.LogisticRoLinTS(n_features=5, seed=0, **known) for _ in range(3))
    a.update_many(arms[:500].tolist(), x[:500], y[:500])
    b.update_many(arms[500:].tolist(), x[500:], y[500:])
    one.update_many(arms.tolist(), x, y)
    with pytest.warns(ApproximationWarning, match="is an approximation"):
        both = rolin.merge(a, b)
    found, expected = both.posterior.coefficients, one.posterior.coefficients
    assert (np.abs(found.mean - expected.mean) < expected.std).all()
    np.testing.assert_allclose(found.std, expected.std, rtol=0.1)


def test_other_rewards_are_refused() -> None:
    """Only 0 and 1 are yes and no, in whatever type; the message says which and where."""
    policy = rolin.LogisticRoLinTS(n_features=1, seed=0)
    for yes in (1, 1.0, True, np.True_, np.float32(1)):
        policy.update("a", [0.5], yes)
    with pytest.raises(InputError, match=r"reward=0\.5, expected 0 or 1$"):
        policy.update("a", [0.5], 0.5)
    with pytest.raises(InputError, match=r"rewards\[2\] is -1\.0, expected 0 or 1"):
        policy.update_many(["a"] * 3, [[0.5]] * 3, [0, 1, -1])
    assert policy.posterior.count == 5


def test_noise_is_not_an_option() -> None:
    """A logit has no noise to give or to learn."""
    with pytest.raises(rolin.RolinError, match="no option 'noise_std'"):
        rolin.LogisticRoLinTS(n_features=1, noise_std="learn")  # type: ignore[call-arg]
    with pytest.raises(rolin.RolinError, match="expected 1: there is no noise on the logit scale"):
        LogisticPosterior(rolin.Scales(noise_std=2.0), 1)


def test_arm_std_is_learned_from_clicks(seed: int) -> None:
    """From 20 000 outcomes of 60 arms, within a third; of arms that do not differ, next to nothing."""
    for true in (0.0, 0.6):
        rng = np.random.default_rng([seed, int(10 * true)])
        arms, x = rng.integers(60, size=20_000), rng.uniform(-1, 1, (20_000, 3))
        logit = -1.5 + x @ [1.0, -1.0, 0.5] + true * rng.normal(size=60)[arms]
        policy = rolin.LogisticRoLinTS(n_features=3, arm_std="learn", coef_std="learn", seed=0)
        policy.update_many(arms.tolist(), x, (rng.random(20_000) < expit(logit)) * 1.0)
        assert abs(policy.scales.arm_std - true) < 0.2
        assert policy.scales.noise_std == 1.0


def test_an_outcome_that_was_certain_teaches_nothing() -> None:
    """No logit is too large: what cannot be computed is refused, what is certain changes little."""
    policy = rolin.LogisticRoLinTS(n_features=1, coef_std=1.0, coef_mean=50.0, seed=0)
    policy.update("a", [10.0], 1)
    before = policy.posterior.coefficients.mean
    policy.update("a", [10.0], 1)
    # the level is 3e-26, a rounding error of the coefficient 50
    np.testing.assert_allclose(policy.posterior.coefficients.mean, before, rtol=1e-9, atol=1e-15)
    with pytest.raises(rolin.RolinError):
        policy.update("a", [1e200], 1)
