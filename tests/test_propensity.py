"""The probability that an arm is chosen: integrals, policies, and how often they do choose it."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import erfcx, log_ndtr, ndtr
from scipy.stats import chi2, nct, norm
from scipy.stats import t as student

import rolin
from rolin.policies.kernels import COARSE, average_over_pairs
from rolin.policies.kernels.normal_cdf import FARTHEST, cdf_and_hazard
from rolin.policies.naive import DensePosterior
from rolin.policies.propensity import highest_of_normals, noise_nodes
from support.oracles import random_history
from support.policies import fixed


def trained(kind: Any, rng: np.random.Generator, **options: Any) -> Any:
    """A policy that has seen 40 rewards of 6 arms."""
    policy = fixed(kind, n_features=2, seed=0, **options)
    history = random_history(rng, 40, 6, 2)
    r = (history.r > 0) * 1.0 if policy.binary else history.r
    policy.update_many(history.arms.tolist(), history.x, r)
    return policy


@pytest.mark.parametrize("kind", [rolin.RoLinTS, rolin.LinTS, rolin.LogisticRoLinTS])
@pytest.mark.parametrize("millions", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_marginal_sampling_against_millions_of_draws(
    kind: Any, millions: int, rng: np.random.Generator
) -> None:
    """Eight arms, two of them never seen: shares of 10⁶ or 10⁷ draws are within 5 standard errors of each."""
    policy = trained(kind, rng)
    x = rng.normal(size=(8, 2))
    p, error = policy.probabilities_with_error(x)
    _, table = policy.posterior.score(x, policy.posterior.candidates(x, None).rows, np.zeros(8))
    counts = np.zeros(8)
    n = millions * 10**6
    for _ in range(millions):
        draws = table[0] + table[1] * rng.standard_normal((10**6, 8))
        counts += np.bincount(draws.argmax(axis=1), minlength=8)
    # One draw of an arm that is expected less than 1/25 times is already more than 5 standard errors.
    slack = 1e-9 if millions == 10 else 1 / n
    assert (np.abs(counts / n - p) <= 5 * np.sqrt(p * (1 - p) / n) + slack).all()
    assert (error == 0.0).all()


@pytest.mark.parametrize("arm_std", [0.5, 0.0])
def test_joint_sampling_against_the_dense_model(arm_std: float, rng: np.random.Generator) -> None:
    """Draws from the dense joint covariance: within 5 standard errors of both."""
    policy = trained(rolin.RoLinTS, rng, sampling="joint", arm_std=arm_std)
    x = rng.normal(size=(8, 2))
    p, error = policy.probabilities_with_error(x)
    dense = DensePosterior.of(policy.scales, policy.moments)
    mean, z, product, unseen = dense._joint(x, policy.posterior.candidates(x, None).rows)
    covariance = product @ z.T + np.diag(unseen)
    draws = rng.multivariate_normal(mean, covariance, size=400_000, method="eigh")
    shares = np.bincount(draws.argmax(axis=1), minlength=8) / 400_000
    # 256 pairs do not see what is rarer than one in 512
    allowed = 5 * np.hypot(error, np.sqrt(p * (1 - p) / 400_000)) + 2 / 512
    assert (np.abs(shares - p) <= allowed).all()
    assert error.max() < 0.02
    np.testing.assert_array_equal(p, policy.probabilities(x))


@pytest.mark.parametrize("options", [{}, {"slope_std": 0.7}, {"arm_std": 0.0}])
def test_joint_probabilities_are_averages_over_draws_of_coefficients(
    options: dict[str, Any], rng: np.random.Generator
) -> None:
    """Both signs of every draw, arm by arm as `score_joint` draws them: to 1e-11, the errors too."""
    policy = fixed(
        rolin.RoLinTS, n_features=2, sampling="joint", exploration=0.6, seed=0, **options
    )
    history = random_history(rng, 40, 6, 2)
    policy.update_many(history.arms.tolist(), history.x, history.r)
    x, model = rng.normal(size=(8, 2)), policy.posterior
    rows = policy.candidates(x).rows
    normals = policy.generator("probabilities").standard_normal((256, model.size))
    own = 0.6 * model.own_std(rows, x)
    pairs = np.zeros((256, 8))
    for pair, z in zip(pairs, normals, strict=True):
        for sign in (0.6, -0.6):
            draws = np.concatenate([sign * z, np.zeros(8)])
            pair += 0.5 * highest_of_normals(model.score_joint(x, rows, draws).values, own)
    p, error = policy.probabilities_with_error(x)
    np.testing.assert_allclose(p, pairs.mean(axis=0), rtol=0, atol=1e-11)
    expected = np.sqrt(pairs.var(axis=0, ddof=1) / 256 + 1 / 256**2)
    np.testing.assert_allclose(error, expected, rtol=0, atol=1e-11)
    # Less precise, as for the arms of a bandit, which are drawn from what is computed
    mean, loadings, std = model.given_coefficients(x, rows)
    out = np.empty((2, 8))
    average_over_pairs(mean, normals @ loadings.T, std, 0.6, COARSE, out)
    np.testing.assert_allclose(out[0], p, rtol=0, atol=1e-5)
    assert out[0].sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("rewards", [10, 200])
def test_probabilities_of_a_key_are_right_on_average(
    rewards: int, rng: np.random.Generator
) -> None:
    """The means over 1000 keys are the shares of 20 000 joint draws, within 5 standard errors of both."""
    policy = fixed(rolin.RoLinTS, n_features=2, sampling="joint", arm_std=0.2, seed=0)
    history = random_history(rng, rewards, 6, 2)
    policy.update_many(history.arms.tolist(), history.x, history.r)
    candidates = policy.candidates(rng.normal(size=(8, 2)))
    of_keys = np.array(
        [policy.score_with_probabilities(candidates, key)[1].values for key in range(1000)]
    )
    assert np.ptp(of_keys, axis=0).max() > 0.0
    np.testing.assert_allclose(of_keys.sum(axis=1), 1.0, rtol=1e-12)
    best = [policy.score(candidates, key).values.argmax() for key in range(20_000)]
    share = np.bincount(best, minlength=8) / 20_000
    error = np.sqrt(of_keys.var(axis=0, ddof=1) / 1000 + share * (1 - share) / 20_000)
    assert (np.abs(of_keys.mean(axis=0) - share) <= 5 * error + 2 / 20_000).all()


def test_scores_and_probabilities_from_one_prediction(rng: np.random.Generator) -> None:
    """They are those that `score` and `first_probabilities` return, for every rule."""
    for kind in (
        rolin.RoLinTS, rolin.LinTS, rolin.LogisticRoLinTS, rolin.RoLinUCB, rolin.Greedy, rolin.HLinUCB,
        rolin.BayesRoLinTS, rolin.NaiveRoLinTS, rolin.Uniform,
    ):  # fmt: skip
        policy = trained(kind, rng)
        candidates = policy.candidates(rng.normal(size=(8, 2)))
        for key in (0, "a"):
            scores, found = policy.score_with_probabilities(candidates, key)
            np.testing.assert_array_equal(scores.table, policy.score(candidates, key).table)
            np.testing.assert_array_equal(found, policy.first_probabilities(candidates))


def test_a_class_that_overrides_one_of_them_is_asked_for_both() -> None:
    """A policy's own score, draws or probabilities are used."""

    class OwnProbabilities(rolin.RoLinTS):
        def first_probabilities(self, candidates: Any) -> Any:
            return rolin.policies.Probabilities(np.array([0.25, 0.75]), np.zeros(2))

    class OwnDraws(rolin.RoLinUCB):
        def draws(self, n_arms: int, key: Any) -> Any:
            return np.arange(float(n_arms))

    own = fixed(OwnProbabilities, n_features=1, seed=0)
    candidates = own.candidates(np.ones((2, 1)))
    assert own.score_with_probabilities(candidates, 0)[1].values.tolist() == [0.25, 0.75]
    with pytest.raises(rolin.errors.Unsupported):
        fixed(OwnDraws, n_features=1, seed=0).score_with_probabilities(candidates, 0)


def test_rules_that_draw_nothing_share_ties() -> None:
    """Of UCB and greedy, the best have it all; equal ones share."""
    hidden = functools.partial(rolin.HLinUCB, initial="zero")
    for kind in (rolin.RoLinUCB, rolin.LinUCB, rolin.Greedy, hidden):
        policy = fixed(kind, n_features=1, seed=0)
        policy.update("a", [1.0], 5.0)
        x = np.array([[1.0], [-1.0], [-1.0]])
        assert policy.probabilities(x, ["a", "b", "c"]).tolist() == [1.0, 0.0, 0.0]
        new = fixed(kind, n_features=1, seed=0)
        assert new.probabilities(np.ones((4, 1))).tolist() == [0.25] * 4
    assert rolin.Uniform(n_features=1).probabilities(np.ones((3, 1))).tolist() == [1 / 3] * 3


def test_asking_changes_nothing_and_bad_questions_are_refused(rng: np.random.Generator) -> None:
    """As `decide`: the same errors, and not even the number of decisions moves."""
    for kind in (rolin.RoLinTS, rolin.BayesRoLinTS, rolin.RoLinUCB, rolin.Uniform):
        policy = trained(kind, rng)
        before = policy.n_decisions
        for bad in ([[np.nan, 1.0]], [[1.0]], np.empty((0, 2))):
            with pytest.raises(rolin.RolinError):
                policy.probabilities(bad)
        policy.probabilities({"a": [1.0, 2.0], "b": [0.0, 1.0]})
        assert policy.n_decisions == before


def test_a_policy_that_does_not_know_says_so() -> None:
    """Probabilities are a capability."""

    class Mine(rolin.LinTS):
        first_probabilities = rolin.Policy.first_probabilities

    with pytest.raises(rolin.errors.Unsupported, match="Mine does not know its probabilities"):
        Mine(n_features=1).probabilities([[1.0]])


# -- one-dimensional integrals ----------------------------------------------------------------


def test_two_arms_have_a_closed_form(rng: np.random.Generator) -> None:
    """P(first) = Φ((μ₁ - μ₂)/√(τ₁² + τ₂²)), for widths up to a thousand times apart."""
    for _ in range(200):
        mean, std = rng.normal(size=2), 10.0 ** rng.uniform(-3, 0, size=2)
        p = highest_of_normals(mean, std)
        expected = norm.cdf((mean[0] - mean[1]) / np.hypot(*std))
        assert p[0] == pytest.approx(expected, abs=1e-10)


def by_quadrature(mean: Any, std: Any, i: int) -> float:
    """∫ φ_i Π Φ_j, adaptively between marks around every arm."""

    def integrand(u: float) -> float:
        z = (u - mean) / std
        rest = math.prod(0.5 * math.erfc(-z[j] / math.sqrt(2)) for j in range(len(z)) if j != i)
        return math.exp(-0.5 * z[i] ** 2) / (math.sqrt(2 * math.pi) * std[i]) * rest

    marks = np.unique(np.concatenate([mean + c * std for c in (-8, -4, -2, 0, 2, 4, 8)]))
    pieces = itertools.pairwise(marks)
    return float(sum(quad(integrand, a, b, epsabs=1e-11)[0] for a, b in pieces))


@pytest.mark.parametrize("decades", [1, 3, 6])
def test_many_arms_agree_with_adaptive_quadrature(decades: int, rng: np.random.Generator) -> None:
    """Six arms of widths up to a million times apart, each integral by another method, to 1e-9."""
    for closeness in (0.0, 1.0, 2.0):
        std = 10.0 ** rng.uniform(-decades, 0, size=6)
        mean = rng.normal(size=6) if closeness == 0.0 else 1.0 - closeness * std
        p = highest_of_normals(mean, std)
        for i in range(6):
            assert p[i] == pytest.approx(by_quadrature(mean, std, i), abs=1e-9)
        assert p.sum() == pytest.approx(1.0, abs=1e-12)


def by_many_panels(mean: Any, std: Any) -> Any:
    """∫ (φ_i/Φ_i) Π Φ_j of all arms, by SciPy's log Φ and panels of a quarter of the narrowest standard deviation."""
    low, high = (mean - 8 * std).max(), (mean + 8 * std).max()
    ends = np.linspace(low, high, math.ceil((high - low) / (0.25 * std.min())) + 1)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    total = np.zeros(len(mean))
    for a, b in itertools.pairwise(ends):
        z = ((a + b + (b - a) * nodes)[:, None] / 2 - mean) / std
        log = log_ndtr(z)
        density = np.exp(-0.5 * z**2 - log) / (math.sqrt(2 * math.pi) * std)
        total += (0.5 * (b - a) * weights * np.exp(log.sum(axis=1))) @ density
    return total


@pytest.mark.parametrize("n_arms", [3, 50, 1000])
@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
def test_up_to_a_thousand_arms_agree_with_many_panels(
    n_arms: int, spread: float, rng: np.random.Generator
) -> None:
    """Means up to far apart, widths up to ten times apart, equal arms among them: to 1e-9."""
    std = rng.uniform(0.1, 1.0, size=n_arms)
    mean = spread * rng.normal(size=n_arms)
    mean[: n_arms // 3], std[: n_arms // 3] = mean[0], std[0]
    p = highest_of_normals(mean, std)
    np.testing.assert_allclose(p, by_many_panels(mean, std), rtol=0, atol=1e-9)
    assert np.ptp(p[: n_arms // 3]) == 0.0
    assert p.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("n_arms", [1, 2, 3, 50, 1000, 20_000])
def test_equal_arms_have_equal_probabilities(n_arms: int) -> None:
    """1/K each, whatever their mean and width."""
    for mean, std in ((0.0, 1.0), (-3e5, 1e-7), (2.0, 0.0)):
        p = highest_of_normals(np.full(n_arms, mean), np.full(n_arms, std))
        np.testing.assert_allclose(p, 1.0 / n_arms, rtol=1e-12)


def test_one_arm_far_ahead_has_it_all() -> None:
    """The others have what is left, which is at most 1e-9 away from the closed form of two arms."""
    for ahead in (3.0, 6.0, 10.0, 1e3):
        p = highest_of_normals(np.array([ahead, 0.0, -1e6]), np.array([1.0, 1.0, 1.0]))
        expected = norm.sf(ahead / math.sqrt(2.0))
        np.testing.assert_allclose(p, [1.0 - expected, expected, 0.0], rtol=0, atol=1e-12)


@given(
    st.lists(
        st.tuples(st.floats(-3.0, 3.0), st.floats(-6.0, 1.0), st.booleans()),
        min_size=1,
        max_size=12,
    ),
    st.floats(-5.0, 5.0),
    st.integers(-8, 8),
)
def test_order_origin_and_unit_do_not_matter(
    arms: list[tuple[float, float, bool]], shift: float, power: int
) -> None:
    """Probabilities are between 0 and 1, sum to 1, and follow their arms; some arms are known exactly."""
    mean = np.array([a[0] for a in arms])
    std = np.array([0.0 if a[2] else 10.0 ** a[1] for a in arms])
    p = highest_of_normals(mean, std)
    assert (p >= 0.0).all()
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    # A shift moves the means by a rounding error, which is 1e-9 of the narrowest width.
    unit = 10.0**power
    moved = highest_of_normals(unit * (mean[::-1] + shift), std[::-1], unit)
    if len(set((mean + shift).tolist())) == len(set(mean.tolist())):  # no new ties
        np.testing.assert_allclose(moved[::-1], p, rtol=0, atol=1e-8)


def test_the_distribution_function_against_scipy() -> None:
    """Φ and φ/Φ, both with a relative error below 2e-13."""
    z = np.linspace(-FARTHEST, FARTHEST, 20_001)
    found = np.array([cdf_and_hazard(x) for x in z.tolist()])
    np.testing.assert_allclose(found[:, 0], ndtr(z), rtol=2e-13)
    hazard = math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2))
    np.testing.assert_allclose(found[:, 1], hazard, rtol=2e-13)
    above = np.array([1.0 - cdf_and_hazard(x)[0] for x in (12.0, 40.0, 1e300)])
    assert (above == 0.0).all()
    assert cdf_and_hazard(-1e300) == cdf_and_hazard(-FARTHEST)


def test_arms_that_are_known_exactly() -> None:
    """A standard deviation of zero is a number; equal ones share."""
    assert highest_of_normals(np.array([1.0, 1.0, 0.0]), np.zeros(3)).tolist() == [0.5, 0.5, 0.0]
    p = highest_of_normals(np.array([0.0, 0.0, -1.0]), np.array([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(p, [0.5, 0.5, 0.0], atol=1e-12)
    # Two arms at 1, and two that are higher with probabilities 1 - Φ(1) and 1 - Φ(5)
    mean, std = np.array([1.0, 0.0, 1.0, 0.0, 0.5]), np.array([0.0, 1.0, 0.0, 0.2, 0.0])
    p = highest_of_normals(mean, std)
    left = norm.cdf(1.0) * norm.cdf(5.0)
    np.testing.assert_allclose(p[[0, 2]], left / 2, rtol=0, atol=1e-12)
    assert p[4] == 0.0
    assert p[1] == pytest.approx(
        quad(lambda u: norm.pdf(u) * norm.cdf(5 * u), 1, 9, epsabs=1e-13)[0], abs=1e-11
    )
    assert p.sum() == pytest.approx(1.0, abs=1e-12)


def test_extreme_means_and_widths() -> None:
    """Nothing is too far, too narrow or too wide: probabilities are numbers that sum to one."""
    for mean, std in (
        ([1e10, 1e10, 2e10], [1e-10] * 3), ([0.0, 100.0], [1.0, 1e-300]), ([0.0, 0.0], [1e-320] * 2),
        ([0.0, 0.0], [1e300, 1e308]), ([1e300, -1e300], [1e-300, 1.0]), ([1e15, 1e15 + 1], [1.0, 1.0]),
    ):  # fmt: skip
        p = highest_of_normals(np.array(mean), np.array(std))
        assert p.sum() == pytest.approx(1.0, abs=1e-9)
    assert p[1] == pytest.approx(norm.cdf(1 / 2**0.5), abs=1e-9)


@pytest.mark.parametrize("freedom", [3.0, 9.9, 10.0, 33.0, 103.0, 3003.0])
def test_the_nodes_of_the_noise_integrate_over_it(freedom: float) -> None:
    """P(σ z < 1/3) by nodes is that by quadrature over χ², to 1e-9."""
    sigma, weight = noise_nodes(freedom)
    by_nodes = weight @ norm.cdf(1 / (3 * sigma))
    low, high = chi2.ppf([1e-14, 1 - 1e-14], freedom)
    exact = quad(
        lambda c: chi2.pdf(c, freedom) * norm.cdf((c / freedom) ** 0.5 / 3), low, high, limit=500,
        epsabs=1e-12,
    )[0]  # fmt: skip
    assert by_nodes == pytest.approx(exact, abs=1e-9)
    assert weight.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("freedom", [3.0, 5.0, 12.0, 60.0, 1000.0])
@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_the_nodes_of_the_noise_average_probabilities(
    freedom: float, spread: float, rng: np.random.Generator
) -> None:
    """Of 50 arms whose means are near to each other or far apart: as by 400 steps over log σ, to 1e-9."""
    mean, std = spread * rng.normal(size=50), rng.uniform(0.3, 1.0, 50)
    by_nodes = sum(
        w * highest_of_normals(mean, std, s) for s, w in zip(*noise_nodes(freedom), strict=True)
    )
    x = np.linspace(-8.0, 24.0, 400) / np.sqrt(2.0 * freedom)
    density = np.exp(-freedom * (x + 0.5 * np.expm1(-2.0 * x)))
    fine = sum(
        w * highest_of_normals(mean, std, s)
        for s, w in zip(np.exp(x), density / density.sum(), strict=True)
        if w > 1e-15
    )
    assert by_nodes == pytest.approx(fine, abs=1e-9)


@pytest.mark.parametrize("exploration", [0.7, "auto"])
@pytest.mark.parametrize("rewards", [0, 5, 40, 400])
def test_unknown_scales_of_two_arms_have_a_closed_form(
    rewards: int, exploration: Any, rng: np.random.Generator
) -> None:
    """Σ_g p(g) F_ν(difference/scale), with the distribution function F_ν of Student's t: to 1e-9.

    With optimism o, the difference has the mean o (τ₁ - τ₂) noise more, so t is noncentral.
    """
    policy = rolin.BayesRoLinTS(n_features=2, exploration=exploration, seed=0)
    history = random_history(rng, rewards, 6, 2)
    policy.update_many(history.arms.tolist(), history.x, history.r)
    beliefs, (factor, optimism) = policy.beliefs, policy.draw_rule()
    assert (optimism > 0.0) == (exploration == "auto")
    for _ in range(5):
        x = rng.normal(size=(2, 2))
        each = [part.predict(x) for part in policy.posteriors]
        z = [(mean[0] - mean[1]) / np.hypot(*std) for mean, std in each]
        t = np.array(z) / (factor * beliefs.noise_std)
        if optimism:
            shift = np.array([(std[0] - std[1]) / np.hypot(*std) for _, std in each])
            each_p = nct.cdf(t, beliefs.freedom, -optimism * shift / factor)
        else:
            each_p = student.cdf(t, beliefs.freedom)
        expected = beliefs.weight @ each_p
        assert policy.probabilities(x)[0] == pytest.approx(expected, abs=1e-9)


def test_stated_errors_of_joint_sampling_hold_for_rare_arms(seed: int) -> None:
    """In 40 states, the averages are within 4.5 stated errors of 40 000 draws of the coefficients, for every arm.

    Among the arms are some that none of the averaged draws has chosen: their stated error was 0.
    """
    worst, never = 0.0, 0
    for state in range(40):
        rng = np.random.default_rng([seed, state])
        policy = fixed(rolin.LinTS, n_features=3, sampling="joint", seed=state)
        policy.update_many(
            rng.integers(0, 6, 20).tolist(), rng.normal(size=(20, 3)), rng.normal(size=20)
        )
        x = rng.normal(size=(6, 3))
        p, error = policy.probabilities_with_error(x)
        mean, covariance = policy.posterior.coefficients
        best = (rng.multivariate_normal(mean, covariance, 40_000) @ x.T).argmax(axis=1)
        exact = np.bincount(best, minlength=6) / len(best)
        own = np.sqrt(exact * (1 - exact) / len(best))
        worst = max(worst, float((np.abs(p - exact) / np.hypot(error, own)).max()))
        never += int(((p == 0.0) & (exact > 0.0)).sum())
    assert never > 0
    assert worst < 4.5


@pytest.mark.parametrize("p", [1e-3, 3e-3, 1e-2, 0.2])
def test_the_stated_error_of_joint_probabilities_is_honest(p: float, seed: int) -> None:
    """200 independent estimates of a probability that is known: unbiased, and their errors cover it.

    Of arms e₁, -e₁ and tan(πp) e₂, with two coefficients from N(0, 1), the third is the best with probability p.
    """
    x, n = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, math.tan(math.pi * p)]]), 200
    found = [
        fixed(
            rolin.LinTS, n_features=2, sampling="joint", seed=1000 * seed + i
        ).probabilities_with_error(x)
        for i in range(n)
    ]
    values, errors = (np.array([getattr(f, name)[2] for f in found]) for name in found[0]._fields)
    spread = values.std(ddof=1)
    assert abs(values.mean() - p) < 5 * max(spread, math.sqrt(p / 512)) / math.sqrt(n)
    z = (values - p) / errors
    # The mean of n squares of standard normals has a standard error of √(2/n); errors may be too large for rare arms.
    assert (z**2).mean() < 1 + 4 * math.sqrt(2 / n)
    assert np.abs(z).max() < 5
    assert errors.max() < 3 * max(math.sqrt(p * (1 - p) / 256), 1 / 256)
