"""Every kernel against a plain NumPy oracle, on arrays made by hand.

The whole file also runs with the kernels interpreted: see the last test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from rolin._support.compile import NOT_FINITE, TIED
from rolin.model import kernels
from rolin.model.kernels import layout

Array = NDArray[np.float64]


class Packed(NamedTuple):
    """A state in the kernels' layout, with arbitrary content."""

    arms: Array
    tails: NDArray[np.float32]
    coef: Array
    factor: Array
    scatter: Array
    numbers: Array


def packed(rng: np.random.Generator, rows: int, d: int, intercept: bool) -> Packed:
    """A state that some history could have left."""
    size = d + intercept
    arms = np.zeros((rows, kernels.CONTEXT + d))
    arms[1:, kernels.WEIGHT] = rng.uniform(0.5, 9, rows - 1)
    arms[1:, kernels.REWARD :] = rng.normal(size=(rows - 1, 1 + d))
    numbers = np.zeros(layout.N_NUMBERS)
    numbers[[layout.AGEING, layout.WEIGHT_OF_NEW]] = 1.0
    numbers[[kernels.NOISE_VARIANCE, kernels.ARM_VARIANCE]] = rng.uniform(0.2, 3, 2)
    return Packed(
        arms,
        np.zeros((rows, 1 + d), dtype=np.float32),
        rng.normal(size=size),
        np.tril(0.3 * rng.normal(size=(size, size)), -1) + np.diag(rng.uniform(0.5, 1.5, size)),
        np.zeros((3, 1 + d, 1 + d)),
        numbers,
    )


def oracle(state: Packed, x: Array, rows: NDArray[np.int64]) -> tuple[Array, Array, Array, Array]:
    """u, own variance, mean and variance of each arm, by the formulas of the paper."""
    noise = state.numbers[kernels.NOISE_VARIANCE]
    arm_variance = state.numbers[kernels.ARM_VARIANCE]
    h = state.arms[rows, kernels.WEIGHT]
    w = np.array([0.0 if n == 0 else arm_variance / (arm_variance + noise / n) for n in h])
    xbar = state.arms[rows, kernels.CONTEXT :]
    if len(state.coef) > x.shape[1]:
        x, xbar = (np.column_stack([a, np.ones(len(a))]) for a in (x, xbar))
    u = x - w[:, None] * xbar
    own = arm_variance * (1 - w)
    mean = w * state.arms[rows, kernels.REWARD] + u @ state.coef
    covariance = state.factor.T @ state.factor
    return u, own, mean, own + np.einsum("ki,ij,kj->k", u, covariance, u)


SHAPES = pytest.mark.parametrize(
    ("k", "d", "intercept"),
    [(1, 0, False), (3, 0, True), (5, 1, False), (9, 4, True), (70, 6, False), (130, 9, True)],
)


@SHAPES
def test_predictions(k: int, d: int, intercept: bool, rng: np.random.Generator) -> None:
    """The fused loop, and the two loops around BLAS, are eq. (implement-mu) and (implement-tau)."""
    state = packed(rng, 1 + k, d, intercept)
    rows = rng.integers(0, k + 1, k)
    x, draws = rng.normal(size=(k, d)), rng.normal(size=k)
    u, _, mean, variance = oracle(state, x, rows)
    scores = mean + draws * np.sqrt(variance)
    out = np.empty((3, k))
    best = kernels.predict_fused(
        x, rows, draws, state.arms, state.coef, state.factor, state.numbers, out
    )
    np.testing.assert_allclose(out, [mean, np.sqrt(variance), scores], rtol=1e-10, atol=1e-12)
    assert best == scores.argmax() or best == TIED
    own, again = np.empty((k, d + intercept)), np.empty((3, k))
    kernels.residuals(x, rows, state.arms, state.coef, state.numbers, own, again)
    np.testing.assert_allclose(own, u, rtol=1e-12, atol=1e-12)
    assert kernels.spread(own @ state.factor.T, draws, again) == best
    np.testing.assert_allclose(again, out, rtol=1e-12, atol=1e-12)


@SHAPES
def test_joint_scores(k: int, d: int, intercept: bool, rng: np.random.Generator) -> None:
    """A joint draw is u'θ + w r̄ + √(s₀²(1 - w)) z with θ = θ̂ + T'z."""
    state = packed(rng, 1 + k, d, intercept)
    rows = rng.integers(0, k + 1, k)
    size = d + intercept
    x, draws = rng.normal(size=(k, d)), rng.normal(size=size + k)
    u, own, mean, _ = oracle(state, x, rows)
    theta = state.coef + state.factor.T @ draws[:size]
    expected = mean + u @ (theta - state.coef) + np.sqrt(own) * draws[size:]
    out = np.empty((1, k))
    best = kernels.score_joint(
        x, rows, draws, state.arms, state.coef, state.factor, state.numbers, out
    )
    np.testing.assert_allclose(out[0], expected, rtol=1e-10, atol=1e-12)
    assert best == expected.argmax()


@SHAPES
def test_observing(k: int, d: int, intercept: bool, rng: np.random.Generator) -> None:
    """One observation: M gains u u'/c, b gains u y/c, the moments gain their definition."""
    state = packed(rng, 1 + k, d, intercept)
    before = Packed(*(a.copy() for a in state))
    x, reward, weight, row = rng.normal(size=d), 1.7, 0.6, k
    u, own, mean, variance = (a[0] for a in oracle(before, x[None], np.array([row])))
    assert kernels.observe(x, reward, weight, row, *state)
    c = before.numbers[kernels.NOISE_VARIANCE] / weight + own
    precision = (
        np.linalg.inv(before.factor.T @ before.factor) if d + intercept else np.zeros((0, 0))
    )
    y = reward - (mean - u @ before.coef)
    after = precision + np.outer(u, u) / c
    np.testing.assert_allclose(
        after @ (state.factor.T @ state.factor), np.eye(len(u)), atol=1e-10, rtol=1e-10
    )
    np.testing.assert_allclose(
        after @ state.coef, precision @ before.coef + u * y / c, rtol=1e-9, atol=1e-9
    )
    gained = state.numbers - before.numbers
    total = variance - own + c
    log_density = -0.5 * (
        np.log(2 * np.pi) + gained[kernels.LOG_DETERMINANTS] + gained[kernels.QUADRATIC]
    )
    assert log_density == pytest.approx(norm.logpdf(reward, mean, total**0.5))
    assert gained[kernels.COUNT] == 1
    assert gained[kernels.SUM_LOG_WEIGHT] == pytest.approx(np.log(weight))
    h, old = before.arms[row, kernels.WEIGHT], before.arms[row, kernels.REWARD :]
    new = np.append(reward, x)
    assert state.arms[row, kernels.WEIGHT] == pytest.approx(h + weight)
    np.testing.assert_allclose(
        state.arms[row, kernels.REWARD :], (h * old + weight * new) / (h + weight), rtol=1e-12
    )
    between = h * weight / (h + weight) * np.outer(new - old, new - old)
    np.testing.assert_allclose(state.scatter.sum(axis=0), np.tril(between), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(state.arms[:row], before.arms[:row])


def test_the_scatter_is_carried_over(rng: np.random.Generator) -> None:
    """After 1000 observations the three parts of the scatter still add up, most in the first."""
    state = packed(rng, 2, 2, False)
    state.arms[:] = 0.0
    x, r = rng.normal(size=(1000, 2)) + 5, rng.normal(size=1000)
    assert kernels.observe_many(x, r, np.ones(1000), np.ones(1000, np.int64), *state) == 1000
    z = np.column_stack([r, x])
    expected = np.tril((z - z.mean(axis=0)).T @ (z - z.mean(axis=0)))
    np.testing.assert_allclose(state.scatter.sum(axis=0), expected, rtol=1e-12)
    assert np.abs(state.scatter[0]).sum() > 2 * np.abs(state.scatter[2]).sum()
    assert state.numbers[layout.LATEST] == 1000 % 256


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of the interpreted run
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["first", "last"])
def test_what_is_not_finite_is_found(value: float, where: str, rng: np.random.Generator) -> None:
    """No kernel lets NaN or infinity through, and a refused observation changes nothing."""
    state = packed(rng, 8, 5, True)
    state.coef[:] = 0.0  # a zero coefficient must not hide an infinite feature
    x = rng.normal(size=(7, 5))
    x[(0, 0) if where == "first" else (6, 4)] = value
    rows, out = np.arange(1, 8), np.empty((3, 7))
    common = (state.arms, state.coef, state.factor, state.numbers)
    assert kernels.predict_fused(x, rows, np.zeros(7), *common, out) == NOT_FINITE
    u = np.empty((7, 6))
    kernels.residuals(x, rows, state.arms, state.coef, state.numbers, u, out)
    assert kernels.spread(u @ state.factor.T, np.zeros(7), out) == NOT_FINITE
    assert kernels.score_joint(x, rows, np.zeros(13), *common, out[:1]) == NOT_FINITE
    before = Packed(*(a.copy() for a in state))
    bad = x[0] if where == "first" else x[6]
    good = rng.normal(size=5)
    for context, reward, weight in ((bad, 1.0, 1.0), (good, value, 1.0), (good, 1.0, abs(value))):
        assert not kernels.observe(context, reward, weight, 3, *state)
    for a, b in zip(state, before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_near_ties_are_ties() -> None:
    """Scores that differ by rounding only are tied, whatever their size; others are not."""
    for scale in (1e-9, 1.0, 1e9):
        scores = np.array([0.1, 0.7, 0.7 * (1 - 2e-16)]) * scale
        assert kernels.best_of(scores) == TIED
        scores[2] = 0.7 * scale * (1 - 1e-10)
        assert kernels.best_of(scores) == 1
    assert kernels.best_of(np.array([0.0, -0.0])) == TIED
    assert kernels.best_of(np.array([-3.0])) == 0
    each = kernels.best_of_each(np.array([1.0, 2.0, 5.0, 5.0, 9.0, np.nan]), np.array([2, 4, 5, 6]))
    assert each.tolist() == [1, TIED, 0, NOT_FINITE]


def test_the_kernels_also_pass_interpreted() -> None:
    """With NUMBA_DISABLE_JIT=1 the same tests pass, so coverage and debuggers can be used."""
    if numba.config.DISABLE_JIT:
        return  # this is the interpreted run
    here = Path(__file__).parent
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:randomly", "-x",
         here / "test_kernels.py", here / "test_mathematics.py"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=False,
        cwd=here.parent,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
