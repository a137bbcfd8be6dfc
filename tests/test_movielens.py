"""The MovieLens environments: from ratings to rounds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rolin import errors
from rolin.datasets import Ratings, factorize
from rolin.environments import (
    Environment,
    MovieLens,
    movielens_environments,
    movielens_noise,
)

SHARES = (0.1, 0.2, 0.5)


@pytest.fixture
def ratings(rng: np.random.Generator) -> Ratings:
    """Ratings of 60 users and 40 movies; the last movie has only one rating."""
    users, movies = rng.normal(size=(60, 3)), rng.normal(size=(40, 3))
    i, j = rng.integers(60, size=2000), rng.integers(39, size=2000)
    i, j = np.append(i, 0), np.append(j, 39)
    values = 3.0 + (users[i] * movies[j]).sum(axis=1) + 0.5 * rng.normal(size=2001)
    return Ratings(i, j, values, np.arange(60), np.arange(40))


@pytest.fixture
def world(rng: np.random.Generator) -> MovieLens:
    """An environment with 2 features that are unrelated to the true vectors."""
    return MovieLens(
        users=rng.normal(size=(5, 3)),
        movies=rng.normal(size=(9, 3)),
        features=rng.normal(size=(9, 2)),
        known_users=np.array([1, 4]),
        known_movies=np.array([0, 2, 3, 5, 8]),
        n_arms=4,
        noise_std=0.7,
    )


def played(world: MovieLens, rounds: int, seed: int) -> tuple[np.ndarray, ...]:
    """All rounds of a play: contexts, means and rewards."""
    blocks = list(world.play(rounds, np.random.default_rng(seed)))
    return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))


def test_play_is_of_known_users_and_movies(world: MovieLens) -> None:
    """The arms are distinct known movies, as the policy sees them; their means are u'v."""
    assert isinstance(world, Environment)
    users, firsts = set(), set()
    for seed in range(60):
        contexts, means, rewards = played(world, 3, seed)
        assert contexts.shape == (3, 4, 2)
        assert means.shape == rewards.shape == (3, 4)
        assert (contexts == contexts[0]).all()
        assert (means == means[0]).all()
        arms = [
            int(np.flatnonzero((world.features == context).all(axis=1))[0])
            for context in contexts[0]
        ]
        assert len(set(arms)) == 4
        assert set(arms) <= {0, 2, 3, 5, 8}
        found = [
            user
            for user in range(5)
            if np.allclose(world.movies[arms] @ world.users[user], means[0], rtol=1e-12)
        ]
        users.update(found)
        firsts.add(arms[0])
    # Of 60 plays, all would miss a given user with probability 2⁻⁶⁰, a first movie with 0.8⁶⁰.
    assert users == {1, 4}
    assert firsts == {0, 2, 3, 5, 8}


def test_noise_is_one_per_round(world: MovieLens, seed: int) -> None:
    """All arms share a round's noise, which is Gaussian with the stated deviation."""
    n = 4000
    _, means, rewards = played(world, n, seed)
    noise = rewards - means
    np.testing.assert_allclose(noise, np.repeat(noise[:, :1], 4, axis=1), atol=1e-12)
    # Four standard errors: of a mean σ/√n, of a standard deviation about σ/√(2n).
    assert abs(noise[:, 0].mean()) < 4 * 0.7 / n**0.5
    assert abs(noise[:, 0].std() - 0.7) < 4 * 0.7 / (2 * n) ** 0.5


@pytest.mark.parametrize("rounds", [0, 1, 63, 64, 65, 150])
def test_prefix(world: MovieLens, rounds: int, seed: int) -> None:
    """Equal generators give equal rounds, for any number of rounds."""
    long = played(world, 200, seed)
    if rounds == 0:
        assert list(world.play(0, np.random.default_rng(seed))) == []
        return
    for short, whole in zip(played(world, rounds, seed), long, strict=True):
        assert len(short) == rounds
        np.testing.assert_array_equal(short, whole[:rounds])


def test_shares_have_one_truth(ratings: Ratings, seed: int) -> None:
    """Only the features depend on the share, and one share alone gives the same as several."""
    worlds = movielens_environments(ratings, SHARES, rank=3, n_arms=5, seed=seed)
    assert tuple(worlds) == SHARES
    first = worlds[SHARES[0]]
    for share, world in worlds.items():
        np.testing.assert_array_equal(world.users, first.users)
        np.testing.assert_array_equal(world.movies, first.movies)
        np.testing.assert_array_equal(world.known_movies, first.known_movies)
        alone = MovieLens.from_ratings(ratings, share=share, rank=3, n_arms=5, seed=seed)
        np.testing.assert_array_equal(world.features, alone.features)
        np.testing.assert_array_equal(world.users, alone.users)
    assert not np.array_equal(first.features, worlds[0.5].features)


def test_samples_are_nested(ratings: Ratings, seed: int) -> None:
    """A movie with features at a small share has them at every larger one."""
    worlds = movielens_environments(ratings, (0.01, 0.05, 1.0), rank=2, n_arms=5, seed=seed)
    seen = [set(np.flatnonzero(world.features.any(axis=1))) for world in worlds.values()]
    assert 0 < len(seen[0]) <= 10
    assert seen[0] <= seen[1] <= seen[2]


def test_known_are_those_of_the_test_half(ratings: Ratings, seed: int) -> None:
    """Only users and movies with a rating in the test half can be drawn; others have no true vector."""
    world = MovieLens.from_ratings(ratings, rank=3, n_arms=5, seed=seed)
    for known, vectors in ((world.known_users, world.users), (world.known_movies, world.movies)):
        np.testing.assert_array_equal(known, np.flatnonzero(vectors.any(axis=1)))
    # The last movie's only rating is in one half: it has a truth, or features at share 1.
    whole = MovieLens.from_ratings(ratings, share=1.0, rank=3, n_arms=5, seed=seed)
    assert (39 in world.known_movies) != bool(whole.features[39].any())


def test_truth_and_features_come_from_different_halves(ratings: Ratings, seed: int) -> None:
    """The test half gives the true vectors, the training half the features; also for the noise."""
    noise = movielens_noise(ratings, rank=3, seed=seed)
    world = MovieLens.from_ratings(ratings, share=1.0, rank=3, n_arms=5, seed=seed)
    training, test = ratings.split(0.5, np.random.default_rng([seed, 0]))
    options = {"rank": 3, "ridge": 1.0, "weighted": False, "center": False, "seed": seed}
    own = factorize(test, **options)
    np.testing.assert_array_equal(world.movies, own.items)
    assert noise.in_sample == own.residual(test)
    other = factorize(training, **options)
    np.testing.assert_array_equal(world.features, other.items)
    assert noise.held_out == other.residual(test)
    assert noise.whole == factorize(ratings, **options).residual(ratings)
    assert noise.in_sample < noise.held_out


def test_repr_is_short(world: MovieLens) -> None:
    """The repr has sizes and a digest of the arrays, which identifies the environment."""
    assert repr(world).startswith(
        "MovieLens(2 users, 5 movies, n_features=2, n_arms=4, noise_std=0.7, digest="
    )
    other = dataclasses.replace(world, features=world.features + 1)
    assert repr(other) != repr(world)
    assert repr(dataclasses.replace(world)) == repr(world)


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"users": np.zeros(3)}, errors.ShapeError, "users has shape"),
        ({"movies": np.zeros((9, 2))}, errors.ShapeError, r"movies has shape \(9, 2\)"),
        ({"features": np.zeros((8, 2))}, errors.ShapeError, r"expected \(9, d\)"),
        ({"features": np.full((9, 2), np.nan)}, errors.NotFiniteError, r"features\[0, 0\]"),
        ({"known_users": np.array([], dtype=int)}, errors.ParameterError, "0 known users"),
        ({"known_users": np.array([5])}, errors.InputError, "expected 0 to 4"),
        ({"known_users": np.array([0.5])}, errors.ShapeError, "known_users is float64"),
        ({"known_movies": np.array([0, 1, 1, 2])}, errors.InputError, "more than once"),
        ({"n_arms": 10}, errors.ParameterError, "n_arms=10"),
        ({"n_arms": 0}, errors.ParameterError, "n_arms=0"),
        ({"noise_std": 0.0}, errors.ParameterError, "noise_std"),
    ],
)
def test_fields_are_checked(
    world: MovieLens, changed: dict[str, object], error: type[Exception], words: str
) -> None:
    """Arrays that do not match are rejected."""
    fields = {name: getattr(world, name) for name in world.__dataclass_fields__}
    with pytest.raises(error, match=words):
        MovieLens(**{**fields, **changed})
