"""Cases that a reader can verify with a pencil: the arithmetic is in the docstrings."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rolin
from rolin import Moments, Posterior, Scales
from support.policies import fixed


def test_one_pull() -> None:
    """All scales 1, arm a pulled once with x = 1, r = 3.

    w = 1/(1 + 1) = 1/2. M = 1 + (1 - w) · 1 = 3/2, b = (1 - w) · 3 = 3/2, so θ̂ = 1.
    v̂ = w (3 - 1) = 1. In context 1: μ = 1 + 1 = 2, u = 1 - 1/2 = 1/2, τ² = 1/2 + (1/4)/(3/2) = 2/3.
    An unseen arm in context 1: μ = θ̂ = 1, τ² = 1 + 1/(3/2) = 5/3.
    In context 3, arm a: μ = 3 + 1 = 4, u = 5/2, τ² = 1/2 + (25/4)/(3/2) = 14/3.
    """
    posterior = Posterior(Scales(arm_std=1.0), n_features=1)
    posterior.observe("a", [1.0], 3.0)
    assert posterior.coefficients.mean == pytest.approx([1.0])
    assert posterior.coefficients.covariance == pytest.approx(np.array([[2 / 3]]))
    assert posterior.shrinkage(["a"]) == pytest.approx([0.5])
    effects = posterior.arm_effects()
    assert effects.mean == pytest.approx([1.0])
    # Var(v) = 1/2 + w² x̄² M⁻¹ = 1/2 + (1/4)(2/3) = 2/3
    assert effects.std**2 == pytest.approx([2 / 3])
    mean, std = posterior.predict([[1.0], [3.0]], ["a", "b"])
    assert mean == pytest.approx([2.0, 3.0])
    mean, std = posterior.predict([[1.0], [1.0]], ["a", "unseen"])
    assert mean == pytest.approx([2.0, 1.0])
    assert std**2 == pytest.approx([2 / 3, 5 / 3])
    mean, std = posterior.predict([[3.0]], ["a"])
    assert mean == pytest.approx([4.0])
    assert std**2 == pytest.approx([14 / 3])


def test_second_pull_of_the_same_arm() -> None:
    """All scales 1, arm a: (x, r) = (1, 3), then (2, 1).

    Before the second: w = 1/2, θ̂ = 1, M = 3/2. u = 2 - 1/2 = 3/2, y = 1 - 3/2 = -1/2,
    c = 1 + 1/2 = 3/2. M = 3/2 + (9/4)/(3/2) = 3, b = 3/2 + (3/2)(-1/2)/(3/2) = 1: θ̂ = 1/3.
    The same from the sums: x̄ = 3/2, r̄ = 2, H = 2, w = 2/3, C = 1/2, c = (−1/2)(1) + (1/2)(−1) = −1,
    M = 1 + 1/2 + 2 · (1/3) · 9/4 = 3, b = -1 + 2 · (1/3) · 3 = 1.
    """
    posterior = Posterior(Scales(arm_std=1.0), n_features=1)
    posterior.observe("a", [1.0], 3.0)
    posterior.observe("a", [2.0], 1.0)
    moments = posterior.moments
    assert (moments.scatter, moments.cross) == (pytest.approx(np.array([[0.5]])), [-1.0])
    assert moments.reward_scatter == pytest.approx(2.0)
    assert (moments.mean_context, moments.mean_reward) == (np.array([[1.5]]), [2.0])
    for built in (posterior, Posterior.of(posterior.scales, moments)):
        assert built.coefficients.mean == pytest.approx([1 / 3])
        assert built.coefficients.covariance == pytest.approx(np.array([[1 / 3]]))
        assert built.shrinkage(["a"]) == pytest.approx([2 / 3])


def test_weight_is_precision() -> None:
    """arm_std 0, noise_std 2, x = 1, r = 3, weight 4: M = 1 + 4/4 = 2, b = 4 · 3/4 = 3, θ̂ = 3/2."""
    posterior = Posterior(Scales(arm_std=0.0, noise_std=2.0), n_features=1)
    posterior.observe("a", [1.0], 3.0, weight=4.0)
    assert posterior.coefficients.mean == pytest.approx([1.5])
    assert posterior.coefficients.covariance == pytest.approx(np.array([[0.5]]))


def test_prior_mean_and_scale_per_feature() -> None:
    """coef_mean (1, 0), coef_std (2, 1), arm_std 0, noise_std 1; x = (1, 1), r = 4.

    Before: mean 1, variance 4 + 1 = 5. Gain = (4, 1)/(5 + 1). Error = 4 - 1 = 3.
    θ̂ = (1, 0) + 3 (4, 1)/6 = (3, 1/2).
    """
    posterior = Posterior(Scales(arm_std=0.0, coef_mean=(1, 0), coef_std=(2, 1)), n_features=2)
    mean, std = posterior.predict([[1.0, 1.0]])
    assert (mean, std**2) == (pytest.approx([1.0]), pytest.approx([5.0]))
    posterior.observe(0, [1.0, 1.0], 4.0)
    assert posterior.coefficients.mean == pytest.approx([3.0, 0.5])


def test_intercept_has_its_own_prior() -> None:
    """No features, intercept ~ N(2, 3²), arm_std 1, noise_std 1; arm a gives r = 13.

    Before: mean 2, variance 9 + 1 = 10. Error = 11; the variance of r is 11.
    Intercept: 2 + 9 · 11/11 = 11. Arm effect: 0 + 1 · 11/11 = 1. So arm a has mean 12,
    an unseen arm 11 with variance 1 + 9 - 81/11 = 29/11.
    """
    scales = Scales(arm_std=1.0, intercept_std=3.0, intercept_mean=2.0)
    posterior = Posterior(scales, n_features=0)
    mean, std = posterior.predict(np.empty((1, 0)), ["a"])
    assert (mean, std**2) == (pytest.approx([2.0]), pytest.approx([10.0]))
    posterior.observe("a", [], 13.0)
    assert posterior.coefficients.mean == pytest.approx([11.0])
    assert posterior.arm_effects().mean == pytest.approx([1.0])
    mean, std = posterior.predict(np.empty((2, 0)), ["a", "unseen"])
    assert mean == pytest.approx([12.0, 11.0])
    assert std[1] ** 2 == pytest.approx(29 / 11)


def test_without_features_it_is_the_random_effect_bandit() -> None:
    """arm_std 1, noise_std 2, four rewards of mean 3: w = 1/(1 + 4/4) = 1/2, μ = 3/2, τ² = 1/2."""
    posterior = Posterior(Scales(arm_std=1.0, noise_std=2.0), n_features=0)
    posterior.observe_many(["a"] * 4, np.empty((4, 0)), [1.0, 2.0, 4.0, 5.0])
    mean, std = posterior.predict(np.empty((2, 0)), ["a", "unseen"])
    assert mean == pytest.approx([1.5, 0.0])
    assert std**2 == pytest.approx([0.5, 1.0])


def test_log_evidence_of_one_reward() -> None:
    """All scales 1, x = 2, r = 3: r ~ N(0, 1 + 1 + 4), log density -½(log 2π·6 + 9/6)."""
    posterior = Posterior(Scales(arm_std=1.0), n_features=1)
    posterior.observe("a", [2.0], 3.0)
    expected = -0.5 * (math.log(2 * math.pi * 6) + 9 / 6)
    assert posterior.log_evidence == pytest.approx(expected)
    assert Posterior.of(posterior.scales, posterior.moments).log_evidence == pytest.approx(expected)


def test_moments_pool_around_the_common_mean() -> None:
    """Parts of weight 1 and 3 at x = 0 and 4: x̄ = 3, C = (1 · 3/4) · 16 = 12."""
    left = Moments.of(["a"], [[0.0]], [0.0])
    right = Moments.of(["a"], [[4.0]], [0.0], [3.0])
    both = left + right
    assert both.mean_context[0, 0] == 3.0
    assert both.scatter[0, 0] == 12.0
    assert (both - right).mean_context[0, 0] == 0.0
    assert (both - right).scatter[0, 0] == 0.0


def test_a_removed_arm_still_teaches_the_coefficients() -> None:
    """A new life of an arm is a new effect: the old one's evidence stays with the old one.

    All scales 1; (x, r) = (1, 3) for the old a, then (1, 3) for the new a: M = 1 + 1/2 + 1/2 = 2,
    b = 3/2 + 3/2 = 3, θ̂ = 3/2. With one life instead, H = 2, w = 2/3, M = 1 + 2/3, b = 2, θ̂ = 6/5.
    """
    posterior = Posterior(Scales(arm_std=1.0), n_features=1)
    posterior.observe("a", [1.0], 3.0)
    posterior.remove_arm("a")
    posterior.restore_arm("a", with_past=False)
    posterior.observe("a", [1.0], 3.0)
    assert posterior.coefficients.mean == pytest.approx([1.5])
    assert posterior.shrinkage(["a"]) == pytest.approx([0.5])
    other = Posterior(Scales(arm_std=1.0), n_features=1)
    other.observe("a", [1.0], 3.0)
    other.remove_arm("a")
    other.observe("a", [1.0], 3.0)  # a late reward teaches the removed arm
    other.restore_arm("a")
    assert other.coefficients.mean == pytest.approx([1.2])
    assert other.shrinkage(["a"]) == pytest.approx([2 / 3])


def test_ucb_by_hand() -> None:
    """All scales 1, after a: (1, 3), in context 1: a has 2 + width √(2/3), unseen 1 + width √(5/3).

    √(5/3) - √(2/3) = 0.4745, so the unseen arm wins from width 1/0.4745 = 2.107 on.
    """
    for width, expected in ((2.0, "a"), (2.2, "unseen")):
        policy = fixed(rolin.RoLinUCB, n_features=1, arm_std=1.0, width=width)
        policy.update("a", [1.0], 3.0)
        assert policy.decide({"a": [1.0], "unseen": [1.0]}).arm == expected


def test_ucb_widths() -> None:
    """√(2 log n) for a horizon n; without one, that of the round just reached."""
    assert rolin.RoLinUCB(n_features=0, horizon=100).width == pytest.approx(
        math.sqrt(2 * math.log(100))
    )
    policy = rolin.RoLinUCB(n_features=0)
    assert policy.width == pytest.approx(math.sqrt(2 * math.log(2)))
    for _ in range(98):
        policy.update("a", [], 0.0)
    assert policy.width == pytest.approx(math.sqrt(2 * math.log(100)))
