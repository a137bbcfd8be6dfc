"""The minimum of a smooth function in few evaluations, and what the search for scales makes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rolin
from rolin.model import likelihood
from rolin.model.estimation import mode
from rolin.model.evidence import Evidence
from rolin.model.first_guess import guess_scales
from rolin.model.likelihood import AT_GUESS, GivenCoef, Point, Search, point_by_squares
from rolin.model.minimum import weights_at_minimum
from rolin.model.moments import Moments


@pytest.mark.parametrize("start", [-1.0, -0.3, 0.0, 0.2, 1.0])
def test_interpolation_finds_a_minimum_in_few_evaluations(start: float) -> None:
    """That of n (v + e^-v) is at v = 0, where e^v is 1. It rises by 1 at the distance sqrt(2/n)."""
    n, tried = 200.0, []

    def f(t: float) -> float:
        tried.append(t)
        v = start * math.sqrt(2.0 / n) + t
        return n * (v + math.exp(-v))

    weights = weights_at_minimum(f, math.sqrt(2.0 / n))
    assert weights is not None
    assert len(weights) == len(tried) <= 6
    at = start * math.sqrt(2.0 / n) + np.array(tried)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights @ at == pytest.approx(0.0, abs=1e-6)
    assert weights @ np.exp(at) == pytest.approx(1.0, abs=1e-6)


def test_no_minimum_is_no_error() -> None:
    """A function that goes on falling, or ends before its minimum, has none."""
    assert weights_at_minimum(lambda t: -t, 0.1) is None
    assert weights_at_minimum(lambda t: math.exp(-t), 0.1) is None
    assert weights_at_minimum(lambda t: (t - 1.0) ** 2 if t < 0.5 else math.nan, 0.1) is None


@pytest.mark.parametrize(("k", "d"), [(150, 66), (40, 66), (90, 70), (40, 80)])
@pytest.mark.parametrize("intercept_std", [None, 2.0])
def test_a_search_near_the_latest_estimate_finds_the_same(
    k: int,
    d: int,
    intercept_std: float | None,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With more and with fewer arms than features: in half the evaluations, from an estimate that was 20 % off."""
    n = 600
    arms, x = rng.integers(k, size=n), rng.normal(size=(n, d))
    r = x @ rng.normal(size=d) / d**0.5 + 0.7 * rng.normal(size=k)[arms] + rng.normal(size=n)
    evidence = Evidence(Moments.of(arms, x, r), rolin.Scales(intercept_std=intercept_std))
    search = Search(evidence, {"noise_std", "arm_std", "coef_std"}, "map")
    calls = 0
    for owner, name in ((Search, "_profile"), (GivenCoef, "best")):

        def counted(*args: object, original: object = getattr(owner, name)) -> Point:
            nonlocal calls
            calls += 1
            point = original(*args)  # type: ignore[operator]
            assert isinstance(point, Point)
            return point

        monkeypatch.setattr(owner, name, counted)
    expected = search.best()
    on_grid, calls = calls, 0
    found = search.best(Point(math.nan, 1.0, expected.arm * 1.2**2, expected.coef / 1.2**2))
    assert found == pytest.approx(expected, rel=5e-6)
    assert calls <= on_grid / 2
    monkeypatch.setattr(likelihood, "weights_at_minimum", lambda *_: None)
    assert search.best(expected) == expected


@pytest.mark.parametrize("lowest", [0.0, 0.03, 0.1, -0.02])
def test_parabolas_whose_minimum_is_a_point_that_was_tried(lowest: float) -> None:
    """The same point is not tried twice."""
    points: list[float] = []

    def parabola(t: float) -> float:
        points.append(t)
        return 100.0 * (t - lowest) ** 2

    weights = weights_at_minimum(parabola, 0.1)
    assert weights is not None
    assert weights @ np.array(points) == pytest.approx(lowest, abs=1e-6)


@pytest.mark.parametrize("intercept_std", [None, 2.0])
def test_sums_of_squares_as_large_as_expected_tell_the_scales(
    intercept_std: float | None, rng: np.random.Generator
) -> None:
    """The expectations are those of quadratic forms of the rewards: E r'B r = tr(B V), from their n × n covariance V."""
    n, k, d = 60, 9, 4
    noise, arm, coef = 2.0, 0.7, 0.3  # variances
    arms, x, h = rng.integers(k, size=n), rng.normal(size=(n, d)) + 0.5, rng.uniform(0.5, 2.0, n)
    evidence = Evidence(
        Moments.of(arms, x, rng.normal(size=n), h), rolin.Scales(intercept_std=intercept_std)
    )
    root, z = np.sqrt(h)[:, None], np.eye(k)[arms]  # rewards are scaled to equal noise
    z, x = root * z, root * x
    covariance = noise * np.eye(n) + arm * z @ z.T + coef * x @ x.T
    means = z @ np.linalg.pinv(z)  # projects on the means of the arms
    within = np.eye(n) - means
    between = means - root @ root.T / h.sum() if intercept_std else means
    along = within @ x @ x.T @ within
    evidence.square = float(np.trace(within @ covariance))
    evidence.cross = np.full(d, math.sqrt(np.trace(along @ covariance) / d))
    # Any means of the arms with the expected sum of squares, around their own mean if there is an intercept.
    weight = evidence.weight
    r = rng.normal(size=len(weight))
    r -= weight @ r / weight.sum() if intercept_std else 0.0
    evidence.r = r * math.sqrt(np.trace(between @ covariance) / (weight @ r**2))
    found = point_by_squares(evidence)
    assert found is not None
    assert found[1:] == pytest.approx((noise, arm / noise, coef / noise), rel=1e-9)


def test_sums_of_squares_that_tell_nothing_are_no_start(rng: np.random.Generator) -> None:
    """If every arm has one reward, nothing is known within arms; if arms are too much alike, arm_std would not be positive."""
    x, r = rng.normal(size=(80, 3)), rng.normal(size=80)
    assert point_by_squares(Evidence(Moments.of(np.arange(80), x, r), rolin.Scales())) is None
    alike = Evidence(Moments.of(np.arange(80) % 8, x, r), rolin.Scales())
    alike.r = np.zeros(8)
    assert point_by_squares(alike) is None


@pytest.mark.parametrize(("k", "d"), [(150, 66), (40, 80)])
@pytest.mark.parametrize("arm_std", [0.1, 0.7, 5.0])
def test_a_first_estimate_is_the_maximum_over_the_whole_range(
    k: int, d: int, arm_std: float, rng: np.random.Generator
) -> None:
    """It begins near what sums of squares tell, if the guess comes from the data."""
    n = 600
    arms, x = rng.integers(k, size=n), rng.normal(size=(n, d)) * rng.uniform(0.1, 10.0, size=d)
    r = x @ rng.normal(size=d) / d**0.5 + arm_std * rng.normal(size=k)[arms] + rng.normal(size=n)
    moments = Moments.of(arms, x, r)
    learn = {"noise_std", "arm_std", "coef_std"}
    guess = guess_scales(moments, rolin.Scales(intercept_std=1.0), learn)
    assert guess is not None
    expected = Search(Evidence(moments, guess), learn, "map", power=AT_GUESS).best()
    found = mode(moments, guess, learn, "map", guessed_from_data=True)  # type: ignore[arg-type]  # literals
    assert found.noise_std == pytest.approx(math.sqrt(expected.noise), rel=5e-6)
    assert found.arm_std == pytest.approx(math.sqrt(expected.arm * expected.noise), rel=5e-6)


def test_with_enough_data_the_start_is_near_the_truth(rng: np.random.Generator) -> None:
    """In all of 20 problems within a factor of 2 of each scale; otherwise a first estimate would search the whole range."""
    for _ in range(20):
        arms, x = rng.integers(30, size=3000), rng.normal(size=(3000, 70))
        r = 0.1 * (x @ rng.normal(size=70)) + rng.normal(size=30)[arms] + rng.normal(size=3000)
        evidence = Evidence(Moments.of(arms, x, r), rolin.Scales(intercept_std=1.0))
        start = point_by_squares(evidence.compressed())
        assert start is not None
        ratios = np.array([start.noise, start.arm, start.coef]) / [1.0, 1.0, 0.01]
        assert np.abs(np.log(ratios)).max() < 2.0 * math.log(2.0)


def test_sums_of_squares_that_overflow_are_no_start(rng: np.random.Generator) -> None:
    """Features may have a size of 1e100, whose fourth power is no number."""
    x = 1e80 * rng.normal(size=(90, 70))
    moments = Moments.of(np.arange(90) % 9, x, rng.normal(size=90))
    with np.errstate(all="ignore"):
        assert point_by_squares(Evidence(moments, rolin.Scales())) is None
