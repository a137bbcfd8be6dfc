"""The prior of a learned slope_std: its mode is at the guess if there are few arms and the guess comes from the data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from rolin.model import Scales
from rolin.model.estimation import mode
from rolin.model.first_guess import guess_scales
from rolin.model.slopes import SlopePosterior


# The power a of the density t^a/(1 + t²), docs/explanation/maths.md, "Evidence". With the smallest one, a policy that
# guesses its scales could stay with one of two arms: one arm alone does not show that there are slopes.
@pytest.mark.parametrize(
    ("guessed_from_data", "k", "power"),
    [(False, 6, 0.25), (True, 3, 1.0), (True, 8, 0.5), (True, 20, 0.25)],
)
@pytest.mark.parametrize("truth", [0.0, 0.7])
def test_the_learned_slopes_maximize_likelihood_times_prior(
    truth: float, guessed_from_data: bool, k: int, power: float, seed: int
) -> None:
    """The estimate is that of a dense model, to the tolerance of a running policy: 1 % of a standard deviation.

    The arms have equal shares of the rewards, so the power is 4/K, between ¼ and 1.
    """
    rng = np.random.default_rng(seed)
    n, d, guess = 120, 2, 0.4
    x, arms = rng.uniform(-1.0, 1.0, (n, d)), np.arange(n) % k
    own = truth * rng.standard_normal((k, d))
    r = x @ rng.standard_normal(d) + (own[arms] * x).sum(axis=1) + rng.standard_normal(n)
    scales = Scales(coef_std=1.0, arm_std=0.5, noise_std=1.0, slope_std=guess)
    same = arms[:, None] == arms

    def deviance(log_slope: float) -> float:
        slope = math.exp(log_slope)
        t = slope / guess
        covariance = np.eye(n) + x @ x.T + same * (0.25 + slope**2 * (x @ x.T))
        likelihood = multivariate_normal(np.zeros(n), covariance).logpdf(r)
        return float(-2.0 * (likelihood + power * math.log(t) - math.log1p(t**2)))

    best = minimize_scalar(deviance, bounds=(-6.0, 3.0), method="bounded")
    posterior = SlopePosterior(scales, d)
    posterior.observe_many(arms.tolist(), x, r)
    found = mode(
        posterior.moments, scales, {"slope_std"}, "map", guessed_from_data=guessed_from_data
    )
    assert isinstance(found.slope_std, float)
    assert math.log(found.slope_std) == pytest.approx(best.x, abs=0.01)


def test_slopes_are_guessed_as_large_as_coefficients(rng: np.random.Generator) -> None:
    """One arm alone does not tell its slopes from shared coefficients, so the guess must not favor the latter."""
    posterior = SlopePosterior(Scales(slope_std=1.0, slopes=(0, 2)), 3)
    posterior.observe_many([0] * 20, rng.normal(size=(20, 3)), rng.normal(size=20))
    found = guess_scales(posterior.moments, posterior.scales, {"coef_std", "slope_std"})
    assert found is not None
    assert isinstance(found.coef_std, tuple)
    assert found.slope_std == (found.coef_std[0], found.coef_std[2])
