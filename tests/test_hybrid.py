"""The hybrid and the disjoint model of Li et al. (2010), and the random-effect bandit of Zhu & Kveton (2022)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin.errors import NotFiniteError, ParameterError
from rolin.paper.alternatives import ReUCB
from support.policies import fixed

D, K = 4, 6


class Algorithm2:
    """Algorithm 2 of Li et al. (2010), line by line, with matrices that are inverted anew."""

    def __init__(self, k: int, d: int) -> None:
        self.a0, self.b0 = np.eye(k), np.zeros(k)
        self.k, self.d = k, d
        self.arms: dict[Any, list[np.ndarray]] = {}

    def of(self, arm: Any) -> list[np.ndarray]:
        """A_a, B_a and b_a."""
        return self.arms.setdefault(
            arm, [np.eye(self.d), np.zeros((self.d, self.k)), np.zeros(self.d)]
        )

    def bound(self, arm: Any, z: np.ndarray, x: np.ndarray) -> tuple[float, float]:
        """Lines 11 to 13: the mean and the standard deviation s."""
        a, b_matrix, b = self.of(arm)
        inv0, inv = np.linalg.inv(self.a0), np.linalg.inv(a)
        beta = inv0 @ self.b0
        theta = inv @ (b - b_matrix @ beta)
        s = (
            z @ inv0 @ z
            - 2 * z @ inv0 @ b_matrix.T @ inv @ x
            + x @ inv @ x
            + x @ inv @ b_matrix @ inv0 @ b_matrix.T @ inv @ x
        )
        return float(z @ beta + x @ theta), float(np.sqrt(s))

    def update(self, arm: Any, z: np.ndarray, x: np.ndarray, r: float) -> None:
        """Lines 17 to 24."""
        a, b_matrix, b = self.of(arm)
        inv = np.linalg.inv(a)
        self.a0 += b_matrix.T @ inv @ b_matrix
        self.b0 += b_matrix.T @ inv @ b
        a += np.outer(x, x)
        b_matrix += np.outer(x, z)
        b += r * x
        inv = np.linalg.inv(a)
        self.a0 += np.outer(z, z) - b_matrix.T @ inv @ b_matrix
        self.b0 += r * z - b_matrix.T @ inv @ b


@pytest.mark.parametrize(
    ("shared", "own", "intercept"),
    [(None, None, True), ([0, 2], [1, 3], False), ([], None, False), ([1], [], True), ([3, 0], [2], True)],
)  # fmt: skip
def test_the_hybrid_model_is_algorithm_2(
    shared: Any, own: Any, intercept: bool, rng: np.random.Generator
) -> None:
    """Means and standard deviations equal those of the published algorithm, for every split of the features."""
    policy = rolin.HybridLinUCB(
        n_features=D, shared=shared, own=own, intercept=intercept, width=0.7, seed=1
    )
    s = list(range(D)) if shared is None else shared
    o = list(range(D)) if own is None else own

    def split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x[s], np.append(x[o], 1.0) if intercept else x[o]

    oracle = Algorithm2(len(s), len(o) + intercept)
    for _ in range(60):
        x = rng.normal(size=(K, D))
        found = np.array([oracle.bound(a, *split(x[a])) for a in range(K)])
        mean, std = policy._model.read(x, policy._model.rows_of(list(range(K))))
        np.testing.assert_allclose(mean, found[:, 0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(std, found[:, 1], rtol=1e-9)
        decision = policy.decide(x)
        assert decision.arm == np.argmax(found[:, 0] + 0.7 * found[:, 1])
        arm, reward = decision.arm, float(rng.normal())
        oracle.update(arm, *split(x[arm]), reward)
        policy.update(arm, x[arm], reward)


def test_the_disjoint_model_is_one_ridge_regression_per_arm(rng: np.random.Generator) -> None:
    """Algorithm 1: every arm on its own, with weights as repeated rewards."""
    policy = rolin.DisjointLinUCB(n_features=D, ridge=0.5, seed=1)
    arms, x = rng.integers(0, 3, 80), rng.normal(size=(80, D))
    r, h = rng.normal(size=80), rng.integers(1, 4, 80).astype(float)
    policy.update_many(arms.tolist(), x, r, h)
    asked = rng.normal(size=(4, D))  # arm 3 was never pulled
    mean, std = policy._model.read(asked, policy._model.rows_of([0, 1, 2, 3]))
    for a in range(4):
        z = np.column_stack([x, np.ones(80)])[arms == a]
        precision = 0.5 * np.eye(D + 1) + (h[arms == a, None] * z).T @ z
        point = np.append(asked[a], 1.0)
        coef = np.linalg.solve(precision, z.T @ (h * r)[arms == a])
        assert mean[a] == pytest.approx(point @ coef, rel=1e-9, abs=1e-12)
        assert std[a] == pytest.approx(np.sqrt(point @ np.linalg.solve(precision, point)), rel=1e-9)


@given(seed=st.integers(0, 1000), width=st.floats(0.0, 4.0))
def test_the_papers_model_is_a_hybrid_one(seed: int, width: float) -> None:
    """With only an intercept of its own, every arm has the mean and standard deviation of RoLinUCB."""
    rng = np.random.default_rng(seed)
    hybrid = rolin.HybridLinUCB(n_features=D, own=(), width=width, seed=1)
    robust = fixed(rolin.RoLinUCB, n_features=D, arm_std=1.0, width=width, seed=1)
    arms, x, r = rng.integers(0, K, 40).tolist(), rng.normal(size=(40, D)), rng.normal(size=40)
    for policy in (hybrid, robust):
        policy.update_many(arms, x, r)
    asked = rng.normal(size=(K + 1, D))
    mean, std = hybrid._model.read(asked, hybrid._model.rows_of(list(range(K + 1))))
    expected = robust.predict(asked)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(std, expected.std, rtol=1e-9)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (rolin.HybridLinUCB, {"own": [4]}, r"own=\[4\], expected different indices below n_features=4"),
        (rolin.HybridLinUCB, {"shared": [1, 1]}, r"shared=\[1, 1\], expected different indices"),
        (rolin.HybridLinUCB, {"own": "ab"}, "own='ab', expected a list of indices"),
        (rolin.HybridLinUCB, {"own": 3}, "own=3, expected a list of indices"),
        (rolin.HybridLinUCB, {"own": [-1]}, "own=-1, expected a whole number"),
        (rolin.HybridLinUCB, {"intercept": 1}, "intercept=1, expected True or False"),
        (rolin.DisjointLinUCB, {"width": -1.0}, "width=-1.0, expected a number of at least 0"),
        (rolin.DisjointLinUCB, {"ridge": 0.0}, "ridge=0.0, expected a positive number"),
    ],
)  # fmt: skip
def test_bad_options_are_named(kind: Any, options: dict[str, Any], message: str) -> None:
    """Every bad option is named, with what was expected."""
    with pytest.raises(ParameterError, match=message):
        kind(n_features=4, **options)


def test_numbers_that_overflow_change_nothing() -> None:
    """A context whose square is infinite is refused, and the arm stays unknown."""
    policy = rolin.HybridLinUCB(n_features=1, seed=1)
    policy.update("a", [1.0], 1.0)
    before = {name: array.copy() for name, array in policy._model.arrays().items()}
    with pytest.raises(NotFiniteError, match="too large to compute with"):
        policy.update("b", [1e200], 1.0)
    assert policy.arms == ["a"]
    for name, array in policy._model.arrays().items():
        np.testing.assert_array_equal(array, before[name])


# -- ReUCB ------------------------------------------------------------------------------------


def re_ucb(
    counts: np.ndarray, means: np.ndarray, arm_std: float, noise_std: float
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the random-effect bandit, with a flat prior on the mean of all arms.

    Zhu & Kveton, *Random Effect Bandits*, AISTATS 2022: w = σ₀²/(σ₀² + σ²/n), the mean of all arms is the average of
    the arms' means with weights (1 - w) n, and the variance is w σ²/n + (1 - w)² σ²/Σ (1 - w) n.
    """
    n = counts
    w = arm_std**2 / (arm_std**2 + noise_std**2 / n)
    weight = (1.0 - w) * n
    overall = (weight @ means) / weight.sum()
    variance = w * noise_std**2 / n + (1.0 - w) ** 2 * noise_std**2 / weight.sum()
    return w * means + (1.0 - w) * overall, np.sqrt(variance)


@given(seed=st.integers(0, 1000), scale=st.floats(0.1, 3.0))
def test_re_ucb_is_rolin_ucb_without_features(seed: int, scale: float) -> None:
    """Without features and with a wide intercept, RoLinUCB predicts as the random-effect bandit does.

    The prior of the intercept is 10⁸ times as wide as the arms differ, which changes variances by about 10⁻¹⁶.
    """
    rng = np.random.default_rng(seed)
    arms = np.concatenate([np.arange(K), rng.integers(0, K, 50)])
    rewards = 2.0 + rng.normal(size=len(arms))
    policy = fixed(
        rolin.RoLinUCB, n_features=0, intercept_std=1e8 * scale, arm_std=scale, width=1.0, seed=1
    )
    policy.update_many(arms.tolist(), np.empty((len(arms), 0)), rewards)
    counts = np.bincount(arms).astype(float)
    means = np.bincount(arms, rewards) / counts
    expected = re_ucb(counts, means, scale, 1.0)
    found = policy.predict(np.empty((K, 0)))
    np.testing.assert_allclose(found.mean, expected[0], rtol=1e-13)
    np.testing.assert_allclose(found.std, expected[1], rtol=1e-13)


def test_re_ucb_ignores_contexts(rng: np.random.Generator) -> None:
    """In the simulations it sees contexts, and decides as if there were none."""
    one, two = ReUCB(arm_std=0.5, seed=1), ReUCB(arm_std=0.5, seed=1)
    for _ in range(50):
        decision = one.decide(rng.normal(size=(K, D)))
        other = two.decide(rng.normal(size=(K, D)))
        assert decision.arm == other.arm
        reward = float(rng.normal())
        one.update(decision.arm, decision.context, reward)
        two.update(other.arm, other.context, reward)
    assert repr(one) == "ReUCB(arm_std=0.5)"
