"""Alternating least squares against hand computation, plain NumPy, and its own laws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolin import errors
from rolin.datasets import Factors, Ratings, factorize


def random_ratings(generator: np.random.Generator, n: int, n_users: int, n_items: int) -> Ratings:
    """Ratings with repeated pairs, and perhaps users and items without any."""
    return Ratings(
        generator.integers(n_users, size=n),
        generator.integers(n_items, size=n),
        generator.normal(3.0, 1.0, n),
        np.arange(n_users),
        np.arange(n_items),
    )


def objective(ratings: Ratings, factors: Factors, ridge: float, *, weighted: bool) -> float:
    """The objective, by its definition."""
    left = ratings.values - factors.predict(ratings.users, ratings.items)
    total = float(left @ left)
    for vectors, codes in ((factors.users, ratings.users), (factors.items, ratings.items)):
        counts = np.bincount(codes, minlength=len(vectors))
        weights = counts if weighted else (counts > 0).astype(float)
        total += ridge * float(weights @ (vectors**2).sum(axis=1))
    return total


def best_vectors(
    codes: np.ndarray, others: np.ndarray, y: np.ndarray, fixed: np.ndarray, size: int,
    ridge: float, *, weighted: bool,
) -> np.ndarray:  # fmt: skip
    """The oracle: one ridge regression per row, as least squares with extra rows."""
    rank = fixed.shape[1]
    result = np.zeros((size, rank))
    for row in range(size):
        own = codes == row
        if own.any():
            shrink = ridge * (own.sum() if weighted else 1)
            a = np.vstack([fixed[others[own]], np.sqrt(shrink) * np.eye(rank)])
            result[row] = np.linalg.lstsq(a, np.append(y[own], np.zeros(rank)))[0]
    return result


@pytest.mark.parametrize("weighted", [True, False])
def test_by_pencil(weighted: bool) -> None:
    """One user, two items, rank 1, ridge 1/2, one sweep from items a and b.

    With ratings 2 and 4: u = (2a + 4b) / (a² + b² + s) where s = 2/2 = 1 if weighted by the
    user's two ratings, else 1/2; then v = (2u, 4u) / (u² + 1/2), each item having one rating.
    """
    ratings = Ratings.from_ids([1, 1], [1, 2], [2.0, 4.0])
    fit = factorize(ratings, rank=1, ridge=0.5, weighted=weighted, center=False, sweeps=1, seed=3)
    a, b = np.random.default_rng(3).standard_normal((2, 1))[:, 0]
    u = (2 * a + 4 * b) / (a**2 + b**2 + (1.0 if weighted else 0.5))
    assert fit.users[0, 0] == pytest.approx(u, rel=1e-12)
    np.testing.assert_allclose(fit.items[:, 0], np.array([2 * u, 4 * u]) / (u**2 + 0.5), rtol=1e-12)
    assert fit.mean == 0.0


def test_centred_by_pencil() -> None:
    """Ratings 2 and 4 of one user have the mean 3; without vectors the residual is 1."""
    ratings = Ratings.from_ids([1, 1], [1, 2], [2.0, 4.0])
    assert factorize(ratings).mean == 3.0
    flat = Factors(np.zeros((1, 2)), np.zeros((2, 2)), 3.0)
    assert flat.residual(ratings) == 1.0
    assert flat.predict(np.array([0]), np.array([1])).tolist() == [3.0]


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("ridge", [1e-3, 0.3, 7.0])
def test_agrees_with_least_squares(
    weighted: bool, center: bool, ridge: float, rng: np.random.Generator
) -> None:
    """Three sweeps equal those of the oracle, which solves every row by lstsq."""
    ratings = random_ratings(rng, 120, 17, 11)
    fit = factorize(ratings, rank=3, ridge=ridge, weighted=weighted, center=center, sweeps=3)
    items = np.random.default_rng(0).standard_normal((11, 3)) / 3**0.25
    y = ratings.values - (ratings.values.mean() if center else 0.0)
    for _ in range(3):
        users = best_vectors(ratings.users, ratings.items, y, items, 17, ridge, weighted=weighted)
        items = best_vectors(ratings.items, ratings.users, y, users, 11, ridge, weighted=weighted)
    # 1e-7: with ridge 1e-3 and a handful of ratings a row's system has condition 1e4 or so, and
    # its solution is the input of the next.
    np.testing.assert_allclose(fit.users, users, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(fit.items, items, rtol=1e-7, atol=1e-7)


@given(
    seed=st.integers(0, 2**32), n=st.integers(1, 60), rank=st.integers(1, 4),
    ridge=st.floats(1e-3, 10.0), weighted=st.booleans(), center=st.booleans(),
)  # fmt: skip
def test_objective_never_increases(
    seed: int, n: int, rank: int, ridge: float, weighted: bool, center: bool
) -> None:
    """No sweep increases the objective."""
    ratings = random_ratings(np.random.default_rng(seed), n, 6, 5)
    values = []
    for sweeps in (1, 2, 3, 10):
        fit = factorize(
            ratings, rank=rank, ridge=ridge, weighted=weighted, center=center, sweeps=sweeps
        )
        values.append(objective(ratings, fit, ridge, weighted=weighted))
    tolerance = 1e-9 * float(ratings.values @ ratings.values)  # of rounding
    assert all(later <= earlier + tolerance for earlier, later in itertools.pairwise(values))


@pytest.mark.parametrize("weighted", [True, False])
def test_gradient_vanishes_at_the_end(weighted: bool, rng: np.random.Generator) -> None:
    """After many sweeps the derivatives of the objective, by central differences, are zero."""
    ratings = random_ratings(rng, 80, 7, 6)
    ridge = 0.5
    fit = factorize(ratings, rank=2, ridge=ridge, weighted=weighted, sweeps=5000)
    step = 1e-5
    for vectors in (fit.users, fit.items):
        for index in np.ndindex(vectors.shape):
            before = vectors[index]
            ends = []
            for moved in (before + step, before - step):
                vectors[index] = moved
                ends.append(objective(ratings, fit, ridge, weighted=weighted))
            vectors[index] = before
            # Values of about 100 are exact to 1e-14, and divided by the step to 1e-7.
            assert abs(ends[0] - ends[1]) / (2 * step) < 1e-5


def test_finds_what_is_there(rng: np.random.Generator) -> None:
    """Complete ratings of rank 2 without noise are recovered, up to the effect of the ridge."""
    truth = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 20))
    users, items = (part.ravel() for part in np.indices(truth.shape))
    ratings = Ratings.from_ids(users, items, truth.ravel())
    # Many sweeps: an unlucky start leaves long vectors, which a small ridge shortens slowly.
    fit = factorize(ratings, rank=2, ridge=1e-6, center=False, sweeps=2000)
    assert fit.residual(ratings) < 1e-3


def test_without_ratings_there_is_a_zero(rng: np.random.Generator) -> None:
    """Users and items without ratings have vectors of exactly zero."""
    ratings = random_ratings(rng, 5, 20, 20)
    fit = factorize(ratings)
    for vectors, codes in ((fit.users, ratings.users), (fit.items, ratings.items)):
        rated = np.isin(np.arange(20), codes)
        assert not vectors[~rated].any()
        assert vectors[rated].any(axis=1).all()


def test_same_seed_same_bits(rng: np.random.Generator) -> None:
    """Equal seeds give identical vectors, another seed gives others."""
    ratings = random_ratings(rng, 200, 20, 10)
    one, two, other = (factorize(ratings, seed=seed) for seed in (5, 5, 6))
    assert one.users.tobytes() == two.users.tobytes()
    assert one.items.tobytes() == two.items.tobytes()
    assert not np.array_equal(one.items, other.items)


@pytest.mark.parametrize(
    "option",
    [
        {"rank": 0}, {"rank": 2.5}, {"ridge": 0.0}, {"ridge": -1.0}, {"ridge": float("nan")},
        {"ridge": "much"}, {"sweeps": 0}, {"seed": -1}, {"ridge": float("inf")},
    ],
)  # fmt: skip
def test_options_are_checked(option: dict[str, float]) -> None:
    """Options outside their range are rejected by name."""
    ratings = Ratings.from_ids([1], [1], [3.0])
    with pytest.raises(errors.ParameterError, match=f"{next(iter(option))}="):
        factorize(ratings, **option)


def test_what_cannot_be_computed() -> None:
    """A ridge lost to rounding is rejected, and so are empty ratings."""
    ratings = Ratings.from_ids([1], [1], [3.0])
    with pytest.raises(errors.ParameterError, match="too small"):
        factorize(ratings, ridge=1e-300, center=False)
    empty = Ratings.from_ids([], [], [])
    with pytest.raises(errors.DataError, match="no ratings"):
        factorize(empty)
    with pytest.raises(errors.DataError, match="no ratings"):
        factorize(ratings).residual(empty)
