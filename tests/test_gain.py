"""What arm effects are worth: against dense linear algebra, against the truth of simulated worlds, and in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin import Moments, Posterior, Scales
from rolin.errors import ArmError, NotFiniteError, ShapeError
from rolin.model import diagnose
from rolin.model.gain import CandidateSets, Gain, LikelyPosterior, estimate_gain
from rolin.model.slopes import SlopePosterior


def world(
    rng: np.random.Generator, n: int = 400, k: int = 20, arm_std: float = 0.5
) -> tuple[Any, Any, Any, Any, Any]:
    """Coefficients, arm effects, and a log of random choices: arms, contexts, rewards."""
    theta, v = rng.normal(size=3), arm_std * rng.normal(size=k)
    arms, x = rng.integers(k, size=n), rng.normal(size=(n, 3))
    return theta, v, arms, x, x @ theta + v[arms] + rng.normal(size=n)


def dense(
    scales: Scales, arms: Any, x: Any, r: Any, h: Any, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of coefficients, intercept and k arm effects, by the textbook formula."""
    d = x.shape[1]
    mean, std = scales.prior(d)
    z = np.column_stack([x, np.ones((len(x), len(mean) - d)), np.eye(k)[arms]])
    prior = np.diag(np.concatenate([std**-2, np.full(k, scales.arm_std**-2)]))
    precision = prior + (z * h[:, None]).T @ z / scales.noise_std**2
    right = prior @ np.concatenate([mean, np.zeros(k)]) + z.T @ (h * r) / scales.noise_std**2
    return np.linalg.solve(precision, right), np.linalg.inv(precision)


def test_the_gain_is_that_of_the_dense_posterior(rng: np.random.Generator) -> None:
    """Mean and variance of the difference of two choices, with weights, offsets and a new arm; a mixture of two scales."""
    k, d, n = 5, 2, 40
    arms, x, h = rng.integers(k - 1, size=n), rng.normal(size=(n, d)), rng.uniform(0.5, 2, size=n)
    r = x @ [0.5, -1.0] + rng.normal(size=k)[arms] + rng.normal(size=n)
    moments = Moments.of(arms, x, r, h)
    both = [
        Scales(noise_std=0.8, arm_std=a, coef_std=0.7, coef_mean=0.2, intercept_std=2.0)
        for a in (0.3, 1.4)
    ]
    weights = [0.3, 0.7]
    pages = rng.normal(size=(7, k, d))
    alone = Posterior.of(Scales(noise_std=0.9, arm_std=0.0, intercept_std=2.0), moments)
    likely = [
        LikelyPosterior(Posterior.of(s, moments), w) for s, w in zip(both, weights, strict=True)
    ]
    found = estimate_gain(likely, alone, CandidateSets(moments, pages, None), binary=False)

    parts = [dense(s, arms, x, r, h, k) for s in both]
    theta, _ = dense(Scales(noise_std=0.9, arm_std=1e-9, intercept_std=2.0), arms, x, r, h, k)
    middle = sum(w * mean for w, (mean, _) in zip(weights, parts, strict=True))
    difference = np.zeros(d + 1 + k)
    differ = 0
    for page in pages:
        rows = np.column_stack([page, np.ones(k), np.eye(k)])
        first, second = np.argmax(rows @ middle), np.argmax(page @ theta[:d])
        difference += (rows[first] - rows[second]) / len(pages)
        differ += first != second
    means = np.array([difference @ mean for mean, _ in parts])
    seconds = [difference @ c @ difference + m**2 for m, (_, c) in zip(means, parts, strict=True)]
    value = weights @ means
    std = np.sqrt(weights @ np.array(seconds) - value**2)
    assert differ > 0
    expected = (value, value - 1.959964 * std, value + 1.959964 * std)
    assert found[:3] == pytest.approx(expected, rel=1e-6)
    assert found[3:] == (7, k, differ / 7, False)


@pytest.mark.parametrize("binary", [False, True])
def test_the_gain_includes_slopes(rng: np.random.Generator, binary: bool) -> None:
    """Against the dense posterior of coefficients, effects and slopes; of binary rewards, against 200 000 draws of it.

    The ends of 1000 draws have a standard error of at most 0.1 standard deviations of the gain; 5 of them are allowed.
    """
    k, d, n, scales = 4, 2, 60, Scales(noise_std=0.8, arm_std=0.4, slope_std=0.9, intercept_std=2.0)
    arms, x = rng.integers(k, size=n), rng.normal(2.0, 1.0, (n, d))
    r = x @ [0.5, -1.0] + (x * rng.normal(size=(k, d))[arms]).sum(axis=1) + rng.normal(size=n)
    slopes = Moments.of(arms, x, r, slopes=range(d))
    alone = Posterior.of(replace(scales, arm_std=0.0, slope_std=0.0), Moments.of(arms, x, r))
    likely = [LikelyPosterior(SlopePosterior.of(scales, slopes), 1.0)]
    pages = rng.normal(2.0, 1.0, (7, k, d))
    found = estimate_gain(likely, alone, CandidateSets(slopes, pages, None), binary=binary)

    def rows(x: np.ndarray, arms: np.ndarray) -> np.ndarray:
        one = np.eye(k)[arms]
        own = (one[:, :, None] * np.column_stack([np.ones(len(x)), x])[:, None]).reshape(len(x), -1)
        return np.column_stack([x, np.ones(len(x)), own])

    prior = np.diag(np.concatenate([[1, 1, 2.0**-2], np.tile([0.4**-2, *2 * [0.9**-2]], k)]))
    z = rows(x, arms)
    covariance = np.linalg.inv(prior + z.T @ z / 0.8**2)
    mean = covariance @ z.T @ r / 0.8**2
    theta = np.linalg.solve(
        np.eye(2 + 1) * [1, 1, 0.25] + z[:, :3].T @ z[:, :3] / 0.8**2, z[:, :3].T @ r / 0.8**2
    )
    first, second = [], []
    for page in pages:
        every = rows(page, np.arange(k))
        first.append(every[np.argmax(every @ mean)])
        second.append(every[np.argmax(page @ theta[:d])])
    one, other = np.array(first), np.array(second)
    if binary:
        draws = rng.multivariate_normal(mean, covariance, 200_000).T
        gains = (1 / (1 + np.exp(-one @ draws)) - 1 / (1 + np.exp(-other @ draws))).mean(axis=0)
        value, std = gains.mean(), gains.std()
        assert found.value == pytest.approx(value, abs=5 * std / 1000**0.5)
        ends = np.quantile(gains, [0.025, 0.975])
        np.testing.assert_allclose([found.low, found.high], ends, atol=0.5 * std)
    else:
        difference = (one - other).mean(axis=0)
        value, std = difference @ mean, (difference @ covariance @ difference) ** 0.5
        assert found.low == pytest.approx(value - 1.959964 * std, rel=1e-6)
        assert found.value == pytest.approx(value, rel=1e-9)
    assert found.with_slopes
    assert str(found).startswith("Choosing with arm effects and slopes instead of the features")


def test_the_gain_of_a_diagnosis_is_that_of_its_model(rng: np.random.Generator) -> None:
    """Arms differ in slopes only, and features are far from 0: slopes are not taken for arm effects."""
    arms, x = rng.integers(12, size=1500), rng.normal(2.0, 1.0, (1500, 2))
    slopes = 0.5 * rng.normal(size=(12, 2))
    r = x @ [1.0, -1.0] + (x * slopes[arms]).sum(axis=1) + rng.normal(size=1500)
    found = diagnose(Moments.of(arms, x, r, slopes=range(2)))
    assert found.slopes is not None
    assert (found.answer, found.slopes.answer) == ("no", "yes")
    assert "with arm effects and slopes instead" in str(found)


@given(st.integers(0, 2**32 - 1))
def test_the_expected_gain_is_never_negative_and_has_no_order(random: int) -> None:
    """The rule chooses by the posterior that judges it. The order of decisions and candidates does not matter."""
    rng = np.random.default_rng(random)
    _, _, arms, x, r = world(rng, n=60, k=6)
    moments, pages = Moments.of(arms, x, r), rng.normal(size=(8, 6, 3))
    found = diagnose(moments, contexts=pages).gain
    if found is None:  # too few rewards
        return
    assert found.value >= -1e-12
    assert found.low <= found.value <= found.high
    order, decisions = rng.permutation(6), rng.permutation(8)
    again = diagnose(moments, contexts=pages[decisions][:, order], arms=order.tolist()).gain
    assert again is not None
    assert again[:3] == pytest.approx(found[:3], rel=1e-9, abs=1e-12)
    assert again[3:] == found[3:]


def true_gain(pages: Any, theta: Any, v: Any, first: Posterior, second: Posterior) -> float:
    """The true mean difference of the choices of two posteriors."""
    names = list(range(len(v)))
    gains = []
    for page in pages:
        mean = page @ theta + v
        a, b = (np.argmax(p.predict(page, names).mean) for p in (first, second))
        gains.append(mean[a] - mean[b])
    return float(np.mean(gains))


def test_intervals_hold_the_true_gain(seed: int) -> None:
    """In 95 % of 200 worlds (± 5 s.e. of 1.5 %), and the mean error is 0 (± 5 s.e.); scales are estimated.

    The truth is that of a rule with the best arm_std, which hardly differs from that of the mixture.
    """
    held, errors = [], []
    for i in range(200):
        rng = np.random.default_rng([seed, i])
        theta, v, arms, x, r = world(rng)
        moments, pages = Moments.of(arms, x, r), rng.normal(size=(40, 20, 3))
        found = diagnose(moments, contexts=pages).gain
        assert found is not None
        prior = Scales(intercept_std=20.0)
        robust = rolin.model.estimate_scales(moments, method="reml", prior=prior).scales
        linear = rolin.model.estimate_scales(
            moments, method="reml", prior=Scales(intercept_std=20.0, arm_std=0.0),
            learn=("noise_std", "coef_std"),
        ).scales  # fmt: skip
        truth = true_gain(
            pages, theta, v, Posterior.of(robust, moments), Posterior.of(linear, moments)
        )
        held.append(found.low <= truth <= found.high)
        errors.append(found.value - truth)
    assert np.mean(held) > 0.95 - 5 * 0.0154
    assert abs(np.mean(errors)) < 5 * np.std(errors) / 200**0.5


def test_ties_are_broken_at_random(rng: np.random.Generator) -> None:
    """Without features, the features alone choose any arm: the gain is the best effect minus the mean one."""
    arms = rng.integers(8, size=400)
    r = rng.normal(size=8)[arms] + rng.normal(size=400)
    found = diagnose(Moments.of(arms, np.empty((400, 0)), r))
    assert found.gain is not None
    effects = np.array([arm.value for arm in found.arms])
    assert found.gain.value == pytest.approx(effects.max() - effects.mean(), rel=1e-3)
    assert found.gain[3:] == (0, 8, 1.0, False)


def test_the_gain_of_clicks_is_one_of_probabilities(rng: np.random.Generator) -> None:
    """Against draws of the posterior: the mean of 1000 and of 20 000 draws agree (5 s.e. of the difference)."""
    policy = rolin.LogisticRoLinTS(
        n_features=1, arm_std=1.0, intercept_std=1.0, coef_std=1.0, seed=0
    )
    arms, x = rng.integers(3, size=300), rng.normal(size=(300, 1))
    logit = 0.5 * x[:, 0] + np.array([1.0, 0.0, -1.0])[arms]
    policy.update_many(arms.tolist(), x, (rng.random(300) < 1 / (1 + np.exp(-logit))) * 1.0)
    posterior, page = policy.posterior, np.array([[0.1], [0.0], [0.2]])
    alone = Posterior.of(Scales(arm_std=0.0, intercept_std=1.0), policy.moments)
    sets = CandidateSets(policy.moments, [page], [[0, 1, 2]])
    gaussian = Posterior.of(policy.scales, policy.moments)
    found = estimate_gain([LikelyPosterior(gaussian, 1.0)], alone, sets, binary=True)
    draws = gaussian.draw(page, [0, 1, 2], generator=rng, size=20_000, sampling="joint")
    first = int(np.argmax(posterior.predict(page, [0, 1, 2]).logit_mean))  # type: ignore[attr-defined]
    second = int(np.argmax(alone.predict(page, [0, 1, 2]).mean))
    p = 1 / (1 + np.exp(-draws))
    gains = p[:, first] - p[:, second]
    assert found.value == pytest.approx(
        gains.mean(), abs=5 * gains.std() * (1 / 1000 + 1 / 20_000) ** 0.5
    )
    # An end is an extreme quantile, whose standard error is 0.085 of a standard deviation with 1000 draws.
    low, high = np.quantile(gains, [0.025, 0.975])
    assert found[1:3] == pytest.approx((low, high), abs=5 * 0.085 * gains.std())
    report = policy.diagnose(contexts=[page], arms=[[0, 1, 2]])
    assert report.gain is not None
    assert -1.0 < report.gain.low <= report.gain.value <= report.gain.high < 1.0


def test_a_policy_does_not_count_on_removed_arms(rng: np.random.Generator) -> None:
    """Neither on past lives of restored ones; a log may offer new arms."""
    _, _, arms, x, r = world(rng, k=6)
    policy = rolin.RoLinTS(n_features=3, coef_std=1.0, arm_std=0.5, noise_std=1.0, seed=0)
    policy.update_many(arms.tolist(), x, r)
    everything = policy.diagnose().gain
    policy.remove_arm(0)
    policy.remove_arm(1)
    policy.restore_arm(1, with_past=False)
    fewer = policy.diagnose().gain
    assert everything is not None
    assert fewer is not None
    assert (everything.arms, fewer.arms) == (6, 4)
    offered = policy.diagnose(contexts=[x[:3], x[:2]], arms=[[2, 3, "new"], [0, 5]]).gain
    assert offered is not None
    assert (offered.decisions, offered.arms) == (2, 5)
    only = policy.diagnose(arms=[2, 3]).gain
    assert only is not None
    assert (only.decisions, only.arms) == (0, 2)
    with pytest.raises(ArmError, match="arm 'new' has no rewards"):
        policy.diagnose(arms=["new"])
    with pytest.raises(ShapeError, match="arms has 1 lists of names, expected 2"):
        policy.diagnose(contexts=[x[:3], x[:2]], arms=[[2, 3, 4]])
    with pytest.raises(ShapeError, match="expected \\(K, 3\\)"):
        policy.diagnose(contexts=[x[:3, :2]])
    with pytest.raises(ArmError, match="decision 0: no arms were given"):
        policy.diagnose(contexts=[x[:0]])
    with pytest.raises(ShapeError, match="contexts has no decisions"):
        policy.diagnose(contexts=[])
    with pytest.raises(NotFiniteError, match=r"decision 1: contexts\[0, 0\] is .*inf"):
        policy.diagnose(contexts=[x[:2], x[:2] * np.inf])


def test_the_gain_in_words() -> None:
    """A sentence says how much, among which arms, and how often the choice differs."""
    assert str(Gain(0.021, 0.012, 0.03, 0, 90, 1.0)) == (
        "Choosing with arm effects instead of the features alone would earn about 0.021 (0.012 to 0.03) more per "
        "decision, among these 90 arms with their average features."
    )
    assert "in these 500 decisions. The choice would differ in 30 % of them." in str(
        Gain(0.02, 0.01, 0.03, 500, 90, 0.3)
    )
    assert "the choice would be the same" in str(Gain(0.0, 0.0, 0.0, 0, 3, 0.0))
