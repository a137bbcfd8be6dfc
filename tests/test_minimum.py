"""The minimum of a smooth function in few evaluations, and what the search for scales makes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rolin
from rolin.model import likelihood
from rolin.model.evidence import Evidence
from rolin.model.likelihood import GivenCoef, Point, Search
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
