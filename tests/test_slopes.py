"""Arms with slopes of their own: the posterior against the dense Gaussian, and the laws that tie its forms together."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rolin import Posterior, Scales
from rolin.errors import MergeError, ParameterError, ShapeError
from rolin.model.slopes import SlopePosterior
from support.oracles import Dense, History, random_history

# The dense oracle loses as many digits as the covariance of its rewards has in its condition number, about
# n (coef_std |x|/noise_std)²; with these scales it is below 1e8.
positive = st.floats(0.2, 5.0)
spread = st.one_of(st.just(0.0), positive)


@st.composite
def scales(draw: st.DrawFn, d: int) -> Scales:
    """Any scales with slopes: for some features or all, with one scale or one each, zeros included."""
    slopes = draw(st.none() | st.sets(st.integers(0, d - 1), min_size=1).map(tuple))
    n = d if slopes is None else len(slopes)
    each = st.lists(spread, min_size=n, max_size=n).filter(any).map(tuple)
    intercept_std = draw(st.one_of(st.none(), positive))
    return Scales(
        noise_std=draw(positive),
        arm_std=draw(spread),
        coef_std=tuple(draw(positive) for _ in range(d)) if draw(st.booleans()) else draw(positive),
        coef_mean=tuple(draw(st.floats(-3, 3)) for _ in range(d)),
        intercept_std=intercept_std,
        intercept_mean=0.0 if intercept_std is None else draw(st.floats(-3, 3)),
        slope_std=draw(positive | each),
        slopes=slopes,
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[Scales, History, int]:
    """Scales, a history of at most 30 observations, and a number of arms of which some are unseen."""
    d, n_arms = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return draw(scales(d)), random_history(rng, draw(st.integers(0, 30)), n_arms, d), n_arms


def fed(scales: Scales, history: History) -> SlopePosterior:
    """A posterior that saw the history one by one."""
    posterior = SlopePosterior(scales, history.x.shape[1])
    for i in range(len(history.r)):
        posterior.observe(int(history.arms[i]), history.x[i], history.r[i], history.h[i])
    return posterior


def same(a: Any, b: Any, rtol: float = 1e-7) -> None:
    """Assert that arrays agree, relative to the largest number."""
    size = float(np.max(np.abs(b), initial=0.0))
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(size, 1e-3))


def agree(a: Posterior, b: Posterior, rtol: float = 1e-8) -> None:
    """Assert that two posteriors say the same."""
    x = np.random.default_rng(3).normal(size=(7, a.n_features))
    for one, other in zip(a.predict(x, range(7)), b.predict(x, range(7)), strict=True):
        same(one, other, rtol)
    same(a.coefficients.mean, b.coefficients.mean, rtol)
    same(a.coefficients.covariance, b.coefficients.covariance, rtol)
    assert a.log_evidence == pytest.approx(b.log_evidence, rel=rtol, abs=1e-6)


def own_indices(dense: Dense, arm: int) -> NDArray[np.int64]:
    """Where the dense model has the own coefficients of an arm."""
    q = 1 + len(dense.slopes)
    return dense.size + arm * q + np.arange(q)


@given(problems())
def test_posterior_is_the_conditional_gaussian(problem: tuple[Scales, History, int]) -> None:
    """Predictions, all coefficients, arm effects and evidence are those of the dense (D + K q) model."""
    scales, history, n_arms = problem
    d, dense, posterior = history.x.shape[1], Dense(*problem), fed(scales, history)
    arms = np.arange(n_arms)
    x = np.random.default_rng(1).normal(size=(n_arms, d))
    mean, covariance = dense.predict(x, arms)
    got = posterior.predict(x, arms)
    same(got.mean, mean)
    same(got.std**2, np.diag(covariance))
    size = dense.size
    same(posterior.coefficients.mean, dense.mean[:size])
    same(posterior.coefficients.covariance, dense.covariance[:size, :size])
    assert posterior.log_evidence == pytest.approx(dense.log_evidence, rel=1e-7, abs=1e-6)
    effects, slopes = posterior.arm_effects(arms), posterior.slopes(arms)
    each = posterior.arm_coefficients(arms)
    assert slopes.features == tuple(dense.slopes)
    for i in arms:
        own = own_indices(dense, i)
        same(effects.mean[i], dense.mean[own[0]])
        same(effects.std[i] ** 2, dense.covariance[own[0], own[0]])
        same(slopes.mean[i], dense.mean[own[1:]])
        same(slopes.std[i] ** 2, np.diag(dense.covariance)[own[1:]])
        # The arm's coefficients: the shared ones, plus its slopes, plus its effect at the intercept.
        add = np.zeros((size, len(dense.mean)))
        add[:, :size] = np.eye(size)
        add[dense.slopes, own[1:]] = 1.0
        if size > d:
            add[d, own[0]] = 1.0
        same(each.mean[i], add @ dense.mean)
        same(each.std[i] ** 2, np.diag(add @ dense.covariance @ add.T))


@given(problems())
def test_a_joint_draw_has_the_joint_covariance(problem: tuple[Scales, History, int]) -> None:
    """A joint draw is mean + A z for normal z; A A' is the covariance of the arms in the dense model.

    A has one column per normal number, found by drawing with one number at a time.
    """
    _, history, n_arms = problem
    dense, posterior = Dense(*problem), fed(problem[0], history)
    x = np.random.default_rng(1).normal(size=(n_arms, history.x.shape[1]))
    mean, covariance = dense.predict(x, np.arange(n_arms))
    candidates = posterior.candidates(x, list(range(n_arms)))
    unit = np.eye(posterior.size + n_arms)

    def drawn(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return posterior.score_joint(candidates.contexts, candidates.rows, z).values

    center = drawn(0.0 * unit[0])
    root = np.array([drawn(z) - center for z in unit])
    same(center, mean)
    same(root.T @ root, covariance, 1e-6)
    same(np.abs(np.diag(root[posterior.size :])), posterior.own_std(candidates.rows, x))


@given(problems(), st.data())
def test_all_forms_agree(problem: tuple[Scales, History, int], data: st.DataObject) -> None:
    """One by one, many at once, and rebuilt from moments for these and for other scales: the same posterior."""
    scales, history, _ = problem
    d, one = history.x.shape[1], fed(problem[0], history)
    many = SlopePosterior(scales, d)
    many.observe_many(history.arms.tolist(), history.x, history.r, history.h)
    assert [a.tobytes() for a in one.arrays().values()] == [
        a.tobytes() for a in many.arrays().values()
    ]
    agree(SlopePosterior.of(scales, one.moments), one)
    other = dataclasses.replace(
        scales,
        noise_std=data.draw(positive),
        arm_std=data.draw(spread),
        slope_std=data.draw(positive),
    )
    agree(SlopePosterior.of(other, one.moments), fed(other, history))


@given(problems(), st.floats(0.05, 1.0))
def test_decay_weighs_all_rewards_less(problem: tuple[Scales, History, int], factor: float) -> None:
    """Decay by a factor is as if every reward had had this factor on its weight, except for the evidence."""
    scales, history, n_arms = problem
    posterior = fed(scales, history)
    posterior.decay(factor)
    lighter = fed(scales, dataclasses.replace(history, h=history.h * factor))
    x = np.random.default_rng(1).normal(size=(n_arms, history.x.shape[1]))
    for one, other in zip(
        posterior.predict(x, range(n_arms)), lighter.predict(x, range(n_arms)), strict=True
    ):
        same(one, other)


@given(problems(), st.integers(1, 3))
def test_features_that_come_later_were_zero_before(
    problem: tuple[Scales, History, int], more: int
) -> None:
    """Appended features have slopes if all features have; the posterior is that of contexts with zeros there."""
    scales, history, n_arms = problem
    d = history.x.shape[1]
    scales = dataclasses.replace(scales, coef_std=1.5, coef_mean=0.5)
    if scales.slopes is None:
        scales = dataclasses.replace(scales, slope_std=0.7)
    grown = fed(scales, history)
    grown.extend(d + more)
    wide = dataclasses.replace(history, x=np.pad(history.x, ((0, 0), (0, more))))
    agree(grown, fed(scales, wide))
    late = random_history(np.random.default_rng(5), 10, n_arms, d + more)
    both = History(
        *(
            np.concatenate(pair)
            for pair in zip(vars(wide).values(), vars(late).values(), strict=True)
        )
    )
    grown.observe_many(late.arms.tolist(), late.x, late.r, late.h)
    agree(grown, fed(scales, both))
    agree(SlopePosterior.of(grown.scales, grown.moments), grown)


def test_slopes_without_spread_are_the_model_of_the_paper() -> None:
    """With slopes of scale 1e-9 everything is as without slopes; an arm's V is arm_std²(1 - w)."""
    history = random_history(np.random.default_rng(0), 40, 4, 3)
    plain_scales = Scales(noise_std=0.7, arm_std=1.3, coef_std=0.8, intercept_std=2.0)
    plain, d = Posterior(plain_scales, 3), 3
    slopes = SlopePosterior(dataclasses.replace(plain_scales, slope_std=1e-9), d)
    for posterior in (plain, slopes):
        posterior.observe_many(history.arms.tolist(), history.x, history.r, history.h)
    agree(slopes, plain)
    np.testing.assert_allclose(slopes.shrinkage(), plain.shrinkage(), rtol=1e-9)
    effects, expected = slopes.arm_effects(), plain.arm_effects()
    np.testing.assert_allclose(effects.mean, expected.mean, rtol=1e-8)
    np.testing.assert_allclose(effects.std, expected.std, rtol=1e-8)


def test_by_hand() -> None:
    """One arm, one feature with slope_std 2, one reward r = 6 at x = 1; noise 1, arm_std 1, coef_std 1, no intercept.

    r = θ + v + b + ε has variance 1 + 1 + 4 + 1 = 7. So θ̂ = 6/7, v̂ = 6/7, b̂ = 24/7, and the posterior mean at x = 1
    is 36/7; its variance is 6 - 36/7 = 6/7. At x = 2, the covariance with r is 2·1 + 1 + 2·4 = 11: the mean is 66/7, the
    variance 4 + 1 + 16 - 121/7 = 26/7. A new arm at x = 2 has covariance 2: mean 12/7, variance 21 - 4/7 = 143/7.
    """
    posterior = SlopePosterior(Scales(arm_std=1.0, slope_std=2.0), 1)
    posterior.observe("a", [1.0], 6.0)
    near, far = posterior.predict([[1.0]], ["a"]), posterior.predict([[2.0], [2.0]], ["a", "new"])
    mean, std = (np.append(one, two) for one, two in zip(near, far, strict=True))
    np.testing.assert_allclose(mean, [36 / 7, 66 / 7, 12 / 7], rtol=1e-14)
    np.testing.assert_allclose(std**2, [6 / 7, 26 / 7, 143 / 7], rtol=1e-14)
    assert posterior.coefficients.mean.item() == pytest.approx(6 / 7)
    assert posterior.arm_effects().mean.item() == pytest.approx(6 / 7)
    assert posterior.slopes().mean.item() == pytest.approx(24 / 7)
    assert posterior.log_evidence == pytest.approx(-0.5 * (np.log(2 * np.pi * 7) + 36 / 7))


@pytest.mark.parametrize("n", [2_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_long_runs_stay_exact(n: int, seed: int) -> None:
    """After n updates with features near 10, the running posterior is that of normal equations in long double."""
    rng, d, k = np.random.default_rng(seed), 3, 3
    scales = Scales(noise_std=0.5, arm_std=0.8, coef_std=1.5, intercept_std=2.0, slope_std=0.6)
    x = np.round(rng.normal(size=(n, d)) * 64) / 64 + 10.0
    arms, r = rng.integers(k, size=n), np.round(rng.normal(size=n) * 256) / 256
    posterior = SlopePosterior(scales, d)
    posterior.observe_many(arms.tolist(), x, r)
    points = rng.normal(size=(k, d)) + 10.0
    z = Dense(scales, History(arms[:1], x[:1], r[:1], np.ones(1)), k).z
    rows = z(x, arms, k).astype(np.longdouble)
    prior = np.concatenate([scales.prior(d)[1], np.tile(scales.own_stds(d), k)])
    precision = np.diag(prior.astype(np.longdouble) ** -2) + rows.T @ rows / long_noise(scales)
    at = z(points, np.arange(k), k).astype(np.longdouble)
    solved = solve_long(precision, np.column_stack([rows.T @ r / long_noise(scales), at.T]))
    mean, std = posterior.predict(points, range(k))
    np.testing.assert_allclose(mean, (at @ solved[:, 0]).astype(float), rtol=1e-9, atol=1e-9)
    variance = (at * solved[:, 1:].T).sum(axis=1)
    np.testing.assert_allclose(std**2, variance.astype(float), rtol=1e-7)
    agree(SlopePosterior.of(scales, posterior.moments), posterior, 1e-7)


def long_noise(scales: Scales) -> Any:
    """The noise variance in long double."""
    return np.longdouble(scales.noise_std) ** 2


def solve_long(matrix: Any, right: Any) -> Any:
    """Solve positive definite equations in long double, by Gaussian elimination."""
    a, b = matrix.copy(), right.copy()
    for j in range(len(a)):
        for i in range(j + 1, len(a)):
            factor = a[i, j] / a[j, j]
            a[i, j:] -= factor * a[j, j:]
            b[i] -= factor * b[j]
    for j in range(len(a) - 1, -1, -1):
        b[j] = (b[j] - a[j, j + 1 :] @ b[j + 1 :]) / a[j, j]
    return b


def test_slopes_keep_their_scales_in_any_order() -> None:
    """Indices may be given in any order; each scale stays with its feature."""
    one = Scales(slopes=(2, 0), slope_std=(0.2, 0.9))
    assert one == Scales(slopes=(0, 2), slope_std=(0.9, 0.2))
    assert one.own_stds(3).tolist() == [0.5, 0.9, 0.2]


def test_slopes_of_zero_are_no_slopes() -> None:
    """A list of zeros is one zero, so that files and models agree on what there is."""
    assert Scales(slope_std=(0.0, 0.0)) == Scales()
    assert not Scales(slope_std=(0.0,), slopes=(1,)).has_slopes


def test_only_slopes_are_written_down_if_there_are_any() -> None:
    """Files and representations of scales without slopes are as before there were slopes."""
    assert "slope" not in repr(Scales()) + str(Scales().to_dict())
    assert eval(repr(Scales(slope_std=0.3, slopes=(1,)))) == Scales(slope_std=0.3, slopes=(1,))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"slope_std": -1.0}, ParameterError, "slope_std"),
        ({"slope_std": [0.1, 0.2]}, ShapeError, "slope_std has 2 numbers, expected one or 3"),
        ({"slope_std": 1.0, "slopes": [3]}, ParameterError, "slopes has the index 3"),
        ({"slope_std": 1.0, "slopes": [-1]}, ParameterError, "expected a list of different"),
        ({"slope_std": 1.0, "slopes": [0, 0]}, ParameterError, "expected a list of different"),
        ({"slope_std": 1.0, "slopes": "ab"}, ParameterError, "expected a list of different"),
        ({"slope_std": 1.0, "slopes": 2}, ParameterError, "expected a list of different"),
        (
            {"slope_std": 1.0, "slopes": [True, False]},
            ParameterError,
            "expected a list of different",
        ),
        ({"slope_std": [1.0, 2.0], "slopes": {2, 0}}, ParameterError, "in the same order"),
        ({"slope_std": True}, ParameterError, "slope_std=True, expected a number"),
        (
            {"slope_std": [0.5, True, 1.0]},
            ParameterError,
            r"slope_std\[1\]=True, expected a number",
        ),
    ],
)
def test_bad_scales_are_rejected(options: Any, error: type[Exception], message: str) -> None:
    """The message says what was given and what was expected."""
    with pytest.raises(error, match=message):
        SlopePosterior(Scales(**options), 3)


@pytest.mark.parametrize("intercept_std", [None, 2.0])
def test_arms_have_coefficients_without_slopes_too(intercept_std: float | None) -> None:
    """Every posterior says which coefficients its arms have; without slopes, their intercepts differ by their effects."""
    rng = np.random.default_rng(0)
    scales = Scales(arm_std=0.7, coef_std=1.3, intercept_std=intercept_std)
    without, some = Posterior(scales, 2), SlopePosterior(dataclasses.replace(scales, slopes=()), 2)
    for t in range(30):
        x, reward = rng.normal(size=2), float(rng.normal())
        for posterior in (without, some):
            posterior.observe(t % 3, x, reward)
    slopes = without.slopes()
    assert (slopes.arms, slopes.features) == ((0, 1, 2), ())
    assert slopes.mean.shape == slopes.std.shape == (3, 0)
    for arms in (None, [2, 9]):  # 9 is unseen
        found, expected = without.arm_coefficients(arms), some.arm_coefficients(arms)
        assert (found.arms, found.features) == (expected.arms, expected.features)
        same(found.mean, expected.mean)
        same(found.std, expected.std)
    shared, effects = without.coefficients, without.arm_effects()
    found = without.arm_coefficients()
    same(found.mean[:, :2], np.tile(shared.mean[:2], (3, 1)))
    same(found.std[:, :2], np.tile(shared.std[:2], (3, 1)))
    if intercept_std is not None:
        same(found.mean[:, 2], shared.mean[2] + effects.mean)
        # The mean reward of an arm in the context 0 is its intercept.
        same(found.std[:, 2], without.predict(np.zeros((3, 2)), range(3)).std)


def test_moments_must_have_the_scatter_of_these_slopes() -> None:
    """Evidence that was collected for other features cannot be used."""
    other = SlopePosterior(Scales(slope_std=1.0, slopes=(1,)), 2)
    other.observe("a", [1.0, 2.0], 3.0)
    with pytest.raises(MergeError, match=r"collect them with slopes=\[0, 1\]"):
        SlopePosterior.of(Scales(slope_std=1.0), other.moments)
