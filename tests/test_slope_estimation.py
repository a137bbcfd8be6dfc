"""The learned scale of slopes: against dense likelihoods, statsmodels, and simulations."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import rolin
from rolin.model.estimation import estimate_scales, mode
from rolin.model.likelihood import AT_GUESS
from rolin.model.slope_likelihood import SlopeEvidence, SlopeSearch
from rolin.model.slopes import SlopePosterior
from support.slopes import dense_log_likelihood, slope_data, slope_moments

SCALES = ("noise_std", "arm_std", "slope_std")


# -- the likelihood -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given_scales",
    [
        {},
        {"slope_std": (0.2, 0.0, 2.0), "coef_std": (0.5, 1.0, 4.0), "coef_mean": 0.5},
        {"slope_std": (0.2, 3.0), "slopes": (0, 2), "coef_mean": (1.0, -1.0, 0.0)},
        {"slopes": (1,), "arm_std": 0.0},
        {"slope_std": 0.0},
        {"slope_std": 0.0, "arm_std": 0.0},
        {"slope_std": 30.0, "arm_std": 1e-3, "noise_std": 0.1},
    ],
)
@pytest.mark.parametrize("intercept", [False, True])
def test_the_likelihood_at_given_scales_is_the_dense_one(
    given_scales: dict[str, Any], intercept: bool, rng: np.random.Generator
) -> None:
    """Weights included; also with arms of one reward, and with arms whose features never vary.

    An intercept has a flat prior in both.
    """
    scales = rolin.Scales(**{"noise_std": 1.2, "arm_std": 0.4, "slope_std": 0.6, **given_scales})
    arms, x, r, h = slope_data(rng, weighted=True)
    x[arms == 3] = x[arms == 3][:1]  # never varies
    arms[:2] = 20, 21  # one reward each
    moments = slope_moments(arms, x, r, h, scales.slopes)
    if intercept:
        scales = dataclasses.replace(scales, intercept_std=1.0)
    expected = dense_log_likelihood(scales, arms, x, r, h)
    found = SlopeSearch(SlopeEvidence(moments, scales), set(), "ml").best()
    assert -0.5 * found.deviance == pytest.approx(expected, rel=1e-9)


@given(
    st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 8), st.integers(1, 4),
    st.floats(-6.0, 4.0), st.floats(-6.0, 4.0),
)  # fmt: skip
def test_any_data_and_scales_have_the_dense_likelihood(
    random: int, n: int, k: int, d: int, log_arm: float, log_slope: float
) -> None:
    """Whatever the ratio of the scales: from a rounding error of the noise to far above it."""
    rng = np.random.default_rng(random)
    slopes = tuple(sorted(rng.choice(d, size=rng.integers(1, d + 1), replace=False).tolist()))
    arms, x, r, h = slope_data(rng, n, k, d, weighted=True)
    scales = rolin.Scales(arm_std=math.exp(log_arm), slope_std=math.exp(log_slope), slopes=slopes)
    moments = slope_moments(arms, x, r, h, slopes)
    found = SlopeSearch(SlopeEvidence(moments, scales), set(), "ml").best()
    expected = dense_log_likelihood(scales, arms, x, r, h)
    assert -0.5 * found.deviance == pytest.approx(expected, rel=1e-8, abs=1e-8)


# -- its maximum --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["reml", "ml"])
def test_the_maximum_agrees_with_statsmodels(method: Any, seed: int) -> None:
    """Noise, arm and slope scales of 8 data sets with one feature are MixedLM's to 1e-4.

    MixedLM's maximum likelihood is over the coefficients too, while ours integrates them. With the coefficients that it
    found, and no uncertainty about them, both have the same maximum.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

    for i in range(8):
        rng = np.random.default_rng([seed, i])
        k = int(rng.integers(15, 30))
        arms, x, r, _ = slope_data(rng, 20 * k, k, 1, arm_std=1.5, slope_std=1.0)
        wide = np.column_stack([x, np.ones(len(x))])
        model = MixedLM(r, wide, groups=arms, exog_re=np.column_stack([np.ones(len(x)), x]))
        diagonal = MixedLMParams.from_components(fe_params=np.ones(2), cov_re=np.eye(2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = model.fit(reml=method == "reml", free=diagonal, gtol=1e-9)
        prior = rolin.Scales(intercept_std=1.0)
        if method == "ml":
            level = float(fit.fe_params[1])
            prior = rolin.Scales(coef_mean=float(fit.fe_params[0]), coef_std=1e-9)
            r = r - level
        moments = slope_moments(arms, x, r)
        found = estimate_scales(moments, method=method, prior=prior, learn=SCALES)
        assert found.slope_std is not None
        ours = [found.noise_std.value, found.arm_std.value, found.slope_std.value]
        theirs = [fit.scale**0.5, *np.sqrt(np.diag(fit.cov_re))]
        assert ours == pytest.approx(theirs, rel=1e-4), i


@pytest.mark.parametrize("slope_std", [0.3, (0.3, 0.9, 0.1)])
def test_the_maximum_with_several_features_is_the_dense_one(
    slope_std: Any, rng: np.random.Generator
) -> None:
    """All four scales maximize the dense likelihood; those of the slopes keep their ratios."""
    arms, x, r, h = slope_data(rng, 150, 15, 3, slope_std=1.0, weighted=True)
    moments = slope_moments(arms, x, r, h)
    found = estimate_scales(moments, method="ml", prior=rolin.Scales(slope_std=slope_std))
    assert found.slope_std is not None

    def deviance(t: Any) -> float:
        noise, arm, coef, slope = np.exp(t).tolist()
        size = slope_std if isinstance(slope_std, float) else np.array(slope_std)
        unit = np.exp(np.log(slope_std).mean())
        scales = rolin.Scales(
            noise_std=noise, arm_std=arm, coef_std=coef, slope_std=size * slope / unit
        )
        return -dense_log_likelihood(scales, arms, x, r, h)

    best = minimize(
        deviance, np.log([1.5, 0.7, 1.0, 1.0]), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10, "maxiter": 2000}
    )  # fmt: skip
    values = [found.intervals[name].value for name in ("noise_std", "arm_std", "coef_std", "slope_std")]  # fmt: skip
    # A scale may be 0, which no logarithm reaches; the search for coef_std ends at 3e-5 noise_std, which costs 3e-8.
    assert values == pytest.approx(np.exp(best.x).tolist(), rel=1e-4, abs=1e-4)
    assert found.log_likelihood == pytest.approx(-best.fun, abs=1e-6)
    ratios = np.array(found.scales.slope_std) / slope_std
    assert ratios == pytest.approx(np.broadcast_to(ratios.flat[0], ratios.shape))


@pytest.mark.parametrize(
    "learn",
    [
        ("noise_std", "arm_std", "coef_std", "slope_std"),
        ("noise_std", "slope_std"),
        ("arm_std", "slope_std"),
        ("noise_std", "arm_std"),
        ("noise_std",),
        ("slope_std",),
        ("coef_std",),
    ],
)
def test_the_maximum_is_one(learn: Any, rng: np.random.Generator) -> None:
    """Whatever is learned, no neighbor has a higher likelihood, and the others stay as given."""
    arms, x, r, h = slope_data(rng, 300, 20, 2, weighted=True)
    moments = slope_moments(arms, x, r, h)
    prior = rolin.Scales(noise_std=1.3, arm_std=0.5, coef_std=1.3, slope_std=0.4)
    found = estimate_scales(moments, method="ml", prior=prior, learn=learn)
    best = dense_log_likelihood(found.scales, arms, x, r, h)
    assert found.log_likelihood == pytest.approx(best, rel=1e-10)
    for name in ("noise_std", "arm_std", "coef_std", "slope_std"):
        value = getattr(found.scales, name)
        if name not in learn:
            assert value == getattr(prior, name)
            continue
        for factor in (0.97, 1.03):
            other = dataclasses.replace(found.scales, **{name: factor * value})
            assert dense_log_likelihood(other, arms, x, r, h) < best


@pytest.mark.parametrize("learn", [{"slope_std"}, set(), {"noise_std", "slope_std"}])
def test_the_search_of_a_running_policy_is_close(learn: set[Any], seed: int) -> None:
    """In 20 data sets of all sizes, its density is at most 0.03 below the mode, as a logarithm."""
    for i in range(20):
        rng = np.random.default_rng([seed, i])
        k, d, n = (int(rng.integers(*ends)) for ends in ((2, 60), (1, 8), (10, 1500)))
        arm_std, slope_std = (float(rng.choice([0.0, 0.1, 1.0, 5.0])) for _ in range(2))
        data = slope_data(rng, n, k, d, arm_std=arm_std, slope_std=slope_std)
        evidence = SlopeEvidence(slope_moments(*data), rolin.Scales(slope_std=0.3))
        search = SlopeSearch(evidence, {"arm_std", "coef_std", *learn}, "map", power=AT_GUESS)
        best, rough = search.best(), search.roughly_best()
        assert -1e-6 <= 0.5 * (rough.deviance - best.deviance) < 0.03, (k, d, n)


# -- intervals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [60, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("slope_std", [0.5, pytest.param(0.0, marks=pytest.mark.slow)])
def test_intervals_hold_the_truth(slope_std: float, n: int, seed: int) -> None:
    """Of n data sets, 95 % intervals hold slope_std and arm_std in 95 %, within 5 standard errors.

    If the truth is 0, the interval ends there in all cases but those of one tail: 97.5 %.
    """
    hits = np.zeros(2)
    for i in range(n):
        rng = np.random.default_rng([seed, i])
        data = slope_data(rng, 300, 15, 2, slope_std=slope_std)
        found = estimate_scales(
            slope_moments(*data), method="reml", prior=rolin.Scales(intercept_std=1.0), learn=SCALES
        )
        assert found.slope_std is not None
        hits += [
            found.slope_std.low <= slope_std <= found.slope_std.high,
            found.arm_std.low <= 0.7 <= found.arm_std.high,
        ]
    shares = np.array([0.95 if slope_std else 0.975, 0.95])
    assert (np.abs(hits / n - shares) < 5.0 * np.sqrt(shares * (1.0 - shares) / n)).all()


# -- too little, or strange, data ---------------------------------------------------------------


@pytest.mark.parametrize("method", ["map", "reml", "ml"])
@pytest.mark.parametrize(
    "case",
    ["never changing", "one pull each", "one arm", "the same reward", "a perfect fit", "collinear",
     "constant feature", "more features than rewards"],
)  # fmt: skip
def test_strange_data_give_finite_scales(method: Any, case: str, rng: np.random.Generator) -> None:
    """Whatever is asked of strange data, scales are finite, and a posterior can be built from them."""
    arms, x, r, h = slope_data(rng, 40, 8, 3, weighted=True)
    if case == "never changing":
        x = rng.normal(size=(8, 3))[arms]
    elif case == "one pull each":
        arms = np.arange(40)
    elif case == "one arm":
        arms = np.zeros(40, dtype=int)
    elif case == "the same reward":
        r = np.ones(40)
    elif case == "a perfect fit":
        r = x @ [1.0, 2.0, 3.0]
    elif case == "collinear":
        x[:, 2] = x[:, 1]
    elif case == "constant feature":
        x[:, 1] = 7.0
    elif case == "more features than rewards":
        x = rng.normal(size=(40, 45))
    moments = slope_moments(arms, x, r, h)
    for intercept_std in (None, 3.0):
        prior = rolin.Scales(intercept_std=intercept_std, slope_std=0.3)
        found = estimate_scales(moments, method=method, prior=prior)
        assert found.slope_std is not None
        for low, high in ((i.low, i.high) for i in found.intervals.values()):
            assert 0.0 <= low <= high
        quick = mode(moments, prior, {"noise_std", "arm_std", "coef_std", "slope_std"}, method)
        for scales in (found.scales, quick):
            posterior = SlopePosterior(scales, x.shape[1])
            posterior.observe_many(arms, x, r, h)
            assert np.isfinite(posterior.predict(x[:8], np.arange(8)).std).all()


def test_moments_do_not_estimate_slopes(rng: np.random.Generator) -> None:
    """Appendix D of the paper knows no slopes, which is said."""
    moments = slope_moments(*slope_data(rng))
    with pytest.raises(rolin.errors.ParameterError, match="does not estimate slope_std"):
        estimate_scales(moments, method="moments")


# -- a running policy ---------------------------------------------------------------------------


def choices(seed: int, *, factor: float = 1.0, shift: float = 0.0, features: Any = 1.0) -> Any:
    """The arms that a policy with slopes chooses in 300 rounds, with rewards or features in other units."""
    rng = np.random.default_rng(seed)
    n_arms, d = 8, 3
    theta, own, effects = rng.normal(size=d), rng.normal(size=(8, 3)), 0.5 * rng.normal(size=8)
    policy, chosen = rolin.RoLinTS(n_features=d, slope_std="learn", seed=seed), []
    for _ in range(300):
        x = rng.uniform(-1, 1, (n_arms, d))
        means, noise = x @ theta + effects + (x * own).sum(axis=1), 0.5 * rng.normal(size=n_arms)
        decision = policy.decide(x * features)
        chosen.append(decision.arm)
        reward = factor * (means[decision.arm] + noise[decision.arm]) + shift
        policy.update(decision.arm, decision.context, float(reward))
    return np.array(chosen)


@pytest.mark.parametrize(
    "units",
    [{"factor": 1e3}, {"factor": 1e-3}, {"shift": 1e3}, {"features": 1e3}, {"features": 1e-3}],
)
def test_units_do_not_matter(units: Any, seed: int) -> None:
    """Rewards or features in other units, or a constant added to all rewards, leave 99 % of the decisions as they were."""
    usual, other = choices(seed), choices(seed, **units)
    assert np.mean(other == usual) >= 0.99


def test_slopes_that_are_not_there_become_small(seed: int) -> None:
    """With a true slope_std of 0, the learned one is below a tenth of the coefficients'; with one of 1, it is near it."""
    for slope_std in (0.0, 1.0):
        rng = np.random.default_rng(seed)
        data = slope_data(rng, 3000, 20, 3, slope_std=slope_std, noise_std=1.0)
        policy = rolin.RoLinTS(n_features=3, slope_std="learn", seed=0)
        policy.update_many(*data)
        found = np.array(policy.scales.slope_std)
        if slope_std:  # 60 slopes: five standard errors of 1/√120
            assert (np.abs(found - 1.0) < 5 / 120**0.5).all()
        else:
            assert (found < 0.1).all()


@pytest.mark.parametrize(
    "case",
    ["equal rewards", "one arm", "constant features", "no features", "one feature never varies",
     "outliers", "outliers in features", "huge level", "clicks"],
)  # fmt: skip
@pytest.mark.parametrize("half_life", [None, 20.0])
def test_nothing_makes_an_update_fail(
    case: str, half_life: float | None, rng: np.random.Generator
) -> None:
    """Whatever the rewards and features are: no exception, no warning, and scales and predictions are finite."""
    k, d, n = 5, 0 if case == "no features" else 3, 200
    arms, x = rng.integers(1 if case == "one arm" else k, size=n), rng.normal(size=(n, d))
    r = rng.normal(size=n)
    if case == "equal rewards":
        r[:] = 3.0
    elif case == "constant features":
        x[:] = 2.0
    elif case == "one feature never varies":
        x[:, 1] = 5.0
    elif case == "outliers":
        r[::37] = 1e12
    elif case == "outliers in features":
        x[::37] *= 1e9
    elif case == "huge level":
        r += 1e9
    elif case == "clicks":
        r = (r > 2.0).astype(float)
    policy = rolin.RoLinTS(n_features=d, slope_std="learn", half_life=half_life, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for arm, context, reward in zip(arms.tolist(), x, r.tolist(), strict=True):
            decision = policy.decide(rng.normal(size=(k, d)))
            assert 0 <= decision.arm < k
            policy.update(arm, context, reward)
    scales = policy.scales
    assert np.isfinite([scales.noise_std, scales.arm_std, *np.atleast_1d(scales.slope_std)]).all()
    prediction = policy.predict(rng.normal(size=(k, d)))
    assert np.isfinite(prediction.mean).all()
    assert np.isfinite(prediction.std).all()
    assert bool(policy.scale_history) == (case != "equal rewards")


def test_slopes_that_the_moments_do_not_have_are_named() -> None:
    """A scale of slopes cannot be used or learned without the scatter of each arm."""
    rng = np.random.default_rng(0)
    plain = rolin.Moments.of(np.arange(40) % 4, rng.normal(size=(40, 2)), rng.normal(size=40))
    with pytest.raises(rolin.errors.ParameterError, match="the moments have no slopes"):
        estimate_scales(plain, prior=rolin.Scales(slope_std=0.5))
    assert estimate_scales(plain, learn=["noise_std", "slope_std"]).not_learned == ("slope_std",)
    assert "slope_std" not in estimate_scales(plain).not_learned
    one = rolin.Moments.of(
        np.arange(40) % 4, rng.normal(size=(40, 2)), rng.normal(size=40), slopes=(0,)
    )
    with pytest.raises(
        rolin.errors.ParameterError, match=r"prior has slopes for the features \[1\]"
    ):
        estimate_scales(one, prior=rolin.Scales(slope_std=(0.2,), slopes=(1,)))
