"""Rare clicks: sites that are computed again, against exact posteriors and likelihoods by quadrature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logsumexp

import rolin
from rolin.model.kernels.logistic import site_of
from rolin.model.logistic import AdaptiveLogistic, LogisticPosterior


def outcomes(n: int, clicks: int, order: str, rng: np.random.Generator) -> Any:
    """Return n outcomes with this many clicks: at the beginning, at the end, or anywhere."""
    y = np.zeros(n)
    y[{"first": slice(clicks), "last": slice(n - clicks, n)}.get(order, slice(clicks))] = 1.0
    return rng.permutation(y) if order == "any" else y


def exact(
    views: Any, clicks: Any, arm_std: float, intercept_std: float
) -> tuple[Any, Any, Any, float]:
    """Return mean and width of every arm's logit, its mean rate, and the log evidence.

    Given the level, the arms are independent, so that a sum over the level and one over each arm's logit are exact.
    """
    level = np.linspace(-14.0, 4.0, 721)
    log = -0.5 * (level / intercept_std) ** 2
    steps = np.linspace(-9.0, 9.0, 361)
    moments = []
    for n, k in zip(views, clicks, strict=True):
        eta = level[:, None] + arm_std * steps
        each = k * eta - n * np.logaddexp(0.0, eta) - 0.5 * steps**2
        total = logsumexp(each, axis=1)
        share = np.exp(each - total[:, None])
        moments.append([(share * f).sum(axis=1) for f in (eta, eta**2, expit(eta))])
        log = log + total
    evidence = float(logsumexp(log))
    weight = np.exp(log - evidence)
    mean, square, rate = np.einsum("kml,l->mk", np.array(moments), weight)
    return mean, np.sqrt(square - mean**2), rate, evidence


@pytest.mark.parametrize("order", ["any", "first", "last"])
@pytest.mark.parametrize("clicks", [20, 200])
@pytest.mark.parametrize(
    "rate",
    [
        1e-4,
        pytest.param(1e-3, marks=pytest.mark.slow),
        0.01,
        pytest.param(0.1, marks=pytest.mark.slow),
        0.5,
    ],
)
def test_one_arm_is_near_the_exact_posterior(
    rate: float, clicks: int, order: str, rng: np.random.Generator
) -> None:
    """The mean rate is within 3 %, and the width within 10 %, for any rate and in any order.

    One by one, and never computed again, the outcomes of the first case led to four times the rate.
    """
    n = min(round(clicks / rate), 300_000)
    clicks = round(n * rate)
    posterior = LogisticPosterior(rolin.Scales(arm_std=0.5, intercept_std=4.0), 0)
    posterior.observe_many([0] * n, np.empty((n, 0)), outcomes(n, clicks, order, rng))
    found = posterior.predict(np.empty((1, 0)), [0])
    _, width, mean, _ = exact([n], [clicks], 0.5, 4.0)
    assert found.mean[0] == pytest.approx(mean[0], rel=0.03)
    assert found.logit_std[0] == pytest.approx(width[0], rel=0.1)


@pytest.mark.parametrize("clicks", [20, 200])
@pytest.mark.parametrize("rate", [1e-3, 0.01, 0.1, 0.5])
def test_ten_arms_are_near_the_exact_posterior(rate: float, clicks: int, seed: int) -> None:
    """Of ten arms that share a level, each mean rate and each width is within 10 %."""
    rng = np.random.default_rng([seed, clicks])
    n = round(clicks / rate)
    arms = rng.integers(10, size=n)
    effects = 0.7 * rng.normal(size=10)
    y = (rng.random(n) < expit(np.log(rate / (1 - rate)) + effects[arms])).astype(float)
    posterior = LogisticPosterior(rolin.Scales(arm_std=0.7, intercept_std=4.0), 0)
    posterior.observe_many(arms.tolist(), np.empty((n, 0)), y)
    found = posterior.predict(np.empty((10, 0)), range(10))
    views, yes = np.bincount(arms, minlength=10), np.bincount(arms, y, minlength=10)
    _, width, mean, _ = exact(views, yes, 0.7, 4.0)
    np.testing.assert_allclose(found.mean, mean, rtol=0.1)
    np.testing.assert_allclose(found.logit_std, width, rtol=0.1)


@pytest.mark.parametrize("rate", [1e-3, 0.01, 0.1, 0.5])
def test_features_are_near_the_exact_posterior(rate: float, seed: int) -> None:
    """With ten arms and two features, about 60 clicks: rates and widths against weighted draws.

    The draws come from Newton's approximation with heavier tails, weighted by the exact posterior. The mean of all rates is
    within 10 %, the widths are within 10 % on average and 20 % each.
    """
    rng = np.random.default_rng([seed, 7])
    n = round(60 / rate)
    grid = np.array([[a, b] for a in (-1.0, 0.0, 1.0) for b in (0.0, 1.0)])
    arms, cell = rng.integers(10, size=n), rng.integers(6, size=n)
    truth = np.log(rate / (1 - rate)) + grid @ (0.5 * rng.normal(size=2))
    logit = truth[cell] + (0.5 * rng.normal(size=10))[arms]
    y = (rng.random(n) < expit(logit)).astype(float)
    scales = rolin.Scales(coef_std=0.5, arm_std=0.5, intercept_std=4.0)
    posterior = LogisticPosterior(scales, 2)
    posterior.observe_many(arms.tolist(), grid[cell], y)

    which = arms * 6 + cell
    views, yes = np.bincount(which, minlength=60), np.bincount(which, y, minlength=60)
    z = np.column_stack([np.tile(grid, (10, 1)), np.ones(60), np.repeat(np.eye(10), 6, axis=0)])
    precision = np.array([0.5, 0.5, 4.0] + [0.5] * 10) ** -2.0
    mode = np.zeros(13)
    mode[2] = np.log(y.mean() / (1 - y.mean()))
    for _ in range(50):
        p = expit(z @ mode)
        curvature = (z * (views * p * (1 - p))[:, None]).T @ z + np.diag(precision)
        mode += np.linalg.solve(curvature, z.T @ (yes - views * p) - precision * mode)
    root = np.linalg.cholesky(np.linalg.inv(curvature))
    freedom = 8
    normal = rng.normal(size=(100_000, 13))
    t = normal * np.sqrt(freedom / rng.chisquare(freedom, size=(100_000, 1)))
    draws = mode + t @ root.T
    eta = draws @ z.T
    log = eta @ yes - np.logaddexp(0.0, eta) @ views - 0.5 * draws**2 @ precision
    log += 0.5 * (freedom + 13) * np.log1p((t**2).sum(axis=1) / freedom)
    share = np.exp(log - logsumexp(log))
    assert 1.0 / (share**2).sum() > 5000  # enough draws: 1.4 standard errors are 2 % of a width
    mean, width = share @ eta, np.sqrt(share @ eta**2 - (share @ eta) ** 2)
    found = [posterior.predict(np.tile(x, (10, 1)), range(10)) for x in grid]
    rates = np.array([f.mean for f in found]).T.ravel()
    widths = np.array([f.logit_std for f in found]).T.ravel() / width
    means = np.array([f.logit_mean for f in found]).T.ravel()
    assert rates.mean() == pytest.approx((share @ expit(eta)).mean(), rel=0.1)
    assert np.exp(np.log(widths).mean()) == pytest.approx(1.0, abs=0.1)
    assert 0.8 < widths.min() <= widths.max() < 1.2
    assert np.abs((means - mean) / width).max() < 0.6


@pytest.mark.parametrize(("yes", "no"), [(3.0, 200.0), (0.0, 1e5), (20.0, 2e5), (0.25, 0.5)])
@pytest.mark.parametrize(("level", "std"), [(-3.0, 0.4), (0.0, 4.0), (-9.0, 1.5)])
def test_a_site_of_many_outcomes_matches_moments(
    yes: float, no: float, level: float, std: float
) -> None:
    """Prior times site has the mean and the variance of prior times likelihood, by another quadrature."""
    r, h = site_of(level, std**2, yes, no)
    eta = np.linspace(level - 30 * std, level + 30 * std, 800_001)
    log = yes * eta - (yes + no) * np.logaddexp(0.0, eta) - 0.5 * ((eta - level) / std) ** 2
    weight = np.exp(log - logsumexp(log))
    mean = weight @ eta
    width = np.sqrt(weight @ (eta - mean) ** 2)
    precision = std**-2.0 + h
    assert precision**-0.5 == pytest.approx(width, rel=1e-5)
    assert (level / std**2 + h * r) / precision == pytest.approx(mean, abs=1e-5 * width)


def test_learned_arm_std_maximizes_the_exact_likelihood(seed: int) -> None:
    """Estimated until it no longer changes, arm_std is that of the exact likelihood within 5 %."""
    rng = np.random.default_rng([seed, 3])
    arms = rng.integers(40, size=4000)
    y = (rng.random(4000) < expit(-2.0 + (0.8 * rng.normal(size=40))[arms])).astype(float)
    scales = rolin.Scales(arm_std=0.4, intercept_std=4.0)
    posterior = AdaptiveLogistic(scales, 0, learn={"arm_std"}, method="ml")
    posterior.observe_many(arms.tolist(), np.empty((4000, 0)), y)
    for _ in range(20):
        posterior.learn_scales()
    views, yes = np.bincount(arms, minlength=40), np.bincount(arms, y, minlength=40)
    grid = posterior.scales.arm_std * np.array([0.95, 1.0, 1.05])
    low, best, high = (exact(views, yes, s, 1e3)[-1] for s in grid)
    assert best > max(low, high)


def test_scales_do_not_run_away(seed: int) -> None:
    """Arms with one outcome each say nothing about arm_std; it stays within a factor of its guess."""
    rng = np.random.default_rng(seed)
    policy = rolin.LogisticRoLinTS(n_features=5, seed=0)
    x = rng.uniform(-1, 1, (200, 5))
    policy.update_many(range(200), x, (rng.random(200) < expit(6 * x[:, 0])).astype(float))
    assert policy.scales.arm_std < 4.0


def test_a_saved_state_goes_on_to_the_bit(tmp_path: Any, rng: np.random.Generator) -> None:
    """Also across the times at which sites are computed again."""
    arms, x = rng.integers(5, size=400).tolist(), rng.normal(size=(400, 3))
    y = (rng.random(400) < 0.1).astype(float)
    choices: list[dict[str, Any]] = [{}, {"coef_std": 1.0, "arm_std": 0.5}, {"half_life": 50.0}]
    for options in choices:
        whole = rolin.LogisticRoLinTS(n_features=3, seed=0, **options)
        whole.update_many(arms[:157], x[:157], y[:157])
        whole.save(tmp_path / "state.rolin")
        loaded: Any = rolin.load(tmp_path / "state.rolin")
        for policy in (whole, loaded):
            policy.update_many(arms[157:], x[157:], y[157:])
        for name, array in whole.posterior.arrays().items():
            np.testing.assert_array_equal(array, loaded.posterior.arrays()[name], err_msg=name)


def test_a_state_without_counts_goes_on_as_before(rng: np.random.Generator) -> None:
    """States of earlier versions, and moments, have no outcomes to compute sites from: sites stay as they are."""
    x, y = rng.normal(size=(50, 2)), (rng.random(50) < 0.3).astype(float)
    policy = rolin.LogisticRoLinTS(n_features=2, coef_std=1.0, arm_std=0.5, seed=0)
    policy.update_many([0] * 50, x, y)
    state = policy.state()
    kept = {k: v for k, v in state.arrays.items() if k not in ("outcomes", "schedule", "reference")}
    old = rolin.LogisticRoLinTS.from_state(state._replace(arrays=kept))
    assert isinstance(old.posterior, LogisticPosterior)
    site = old.posterior.site(0, x[0], 1)
    before = old.moments.weight[0]
    old.update(0, x[0], 1)
    assert old.moments.weight[0] == pytest.approx(before + site.weight, rel=1e-12)
    old.update_many([0] * 50, x, y)
    assert set(old.posterior.arrays()) == set(kept)


def test_forgetting_does_not_compute_sites_after_every_outcome() -> None:
    """With a half-life, sites are computed again when a quarter of what is remembered is new."""
    policy = rolin.LogisticRoLinTS(n_features=0, coef_std=1.0, arm_std=0.5, half_life=40.0, seed=0)
    policy.update_many(["a"] * 400, np.empty((400, 0)), np.arange(400) % 2.0)
    before, renewals = policy.posterior.arrays()["schedule"].copy(), 0
    for i in range(40):
        policy.update("a", [], float(i % 2))
        now = policy.posterior.arrays()["schedule"]
        renewals += bool((now[2:4] != before[2:4]).any())
        before = now.copy()
    assert 1 <= renewals <= 6
    # the weights 1 + f + f² + … of all outcomes, where f halves in 40
    assert before[4] == pytest.approx(1 / (1 - 2 ** (-1 / 40)), rel=0.02)


def test_features_may_be_appended(rng: np.random.Generator) -> None:
    """New features start from the prior, and sites are computed again with them."""
    posterior = LogisticPosterior(rolin.Scales(arm_std=0.5, intercept_std=2.0), 1)
    posterior.observe_many([0] * 20, rng.normal(size=(20, 1)), np.arange(20) % 2.0)
    before = posterior.predict([[0.3]], [0])
    posterior.extend(3)
    assert posterior.predict([[0.3, 0.0, 0.0]], [0]).mean == before.mean
    posterior.observe_many([0] * 20, rng.normal(size=(20, 3)), np.arange(20) % 2.0)
    assert posterior.arrays()["reference"].shape == (2, 3)
