"""The movie problems of the paper's Section 6.2: features are estimated from few ratings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import as_floats, count_of, first_not_finite
from rolin.datasets.factorization import factorize
from rolin.datasets.ratings import Ratings
from rolin.environments.base import Rounds, check_scales, split_rounds
from rolin.errors import InputError, ParameterError, ShapeError

__all__ = ["MovieLens", "Noise", "movielens_environments", "movielens_noise"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# Separate random streams, so that no draw depends on the size of another.
_HALVES, _SAMPLE = 0, 1


@dataclass(frozen=True, kw_only=True, eq=False)
class MovieLens:
    """One user and `n_arms` movies, drawn once per problem, with estimated features.

    The mean rating of movie j by user i is u_i'v_j, but the policy only sees an estimate of v_j.
    Mean ratings are therefore not linear in the features: every movie has an effect of its own.

    Parameters
    ----------
    users
        (U, r): the vectors u_i of the users.
    movies
        (I, r): the vectors v_j of the movies.
    features
        (I, d): the estimates of v_j that the policy sees, in any coordinates.
    known_users, known_movies
        Users and movies that may be drawn, as indices of rows.
    n_arms
        Number K of movies in a problem.
    noise_std
        Standard deviation of a rating around its mean. The paper estimates it from the data; see
        `movielens_noise`.
    """

    users: Floats
    movies: Floats
    features: Floats
    known_users: Codes
    known_movies: Codes
    n_arms: int = 50
    noise_std: float = 0.759

    def __post_init__(self) -> None:
        """Check that the arrays match."""
        for name in ("users", "movies", "features"):
            array = as_floats(name, getattr(self, name))
            if array.ndim != 2:
                raise ShapeError(f"{name} has shape {array.shape}, expected two dimensions")
            if not np.isfinite(array).all():
                raise first_not_finite(name, array)
            object.__setattr__(self, name, array)
        if self.movies.shape[1] != self.users.shape[1]:
            raise ShapeError(
                f"movies has shape {self.movies.shape}, expected (I, {self.users.shape[1]}) as "
                f"users has shape {self.users.shape}"
            )
        if len(self.features) != len(self.movies):
            raise ShapeError(
                f"features has shape {self.features.shape}, expected ({len(self.movies)}, d)"
            )
        check_scales(noise_std=self.noise_std)
        count_of("n_arms", self.n_arms, least=1)
        for name, size in (("known_users", len(self.users)), ("known_movies", len(self.movies))):
            object.__setattr__(self, name, _rows_of(name, getattr(self, name), size))
        if not len(self.known_users) or self.n_arms > len(self.known_movies):
            raise ParameterError(
                f"n_arms={self.n_arms} with {len(self.known_users)} known users and "
                f"{len(self.known_movies)} known movies, expected at least one user and n_arms movies"
            )

    @classmethod
    def from_ratings(
        cls,
        ratings: Ratings,
        *,
        share: float = 0.01,
        rank: int = 10,
        ridge: float = 1.0,
        weighted: bool = False,
        center: bool = False,
        n_arms: int = 50,
        noise_std: float = 0.759,
        seed: int = 0,
    ) -> MovieLens:
        """Return the environment for one share; `movielens_environments` returns those for several.

        Parameters
        ----------
        ratings
            The ratings, such as those of MovieLens 1M.
        share
            Share of the training half from which the features are estimated.
        rank, ridge, weighted, center
            As for `factorize`.
        n_arms
            Number K of movies in a problem.
        noise_std
            Standard deviation of a rating around its mean.
        seed
            Seed of the halves, the sample and the factorizations.
        """
        return movielens_environments(
            ratings,
            [share],
            rank=rank,
            ridge=ridge,
            weighted=weighted,
            center=center,
            n_arms=n_arms,
            noise_std=noise_std,
            seed=seed,
        )[share]

    @property
    def n_features(self) -> int:
        """Number d of features of a movie."""
        return int(self.features.shape[1])

    def __repr__(self) -> str:
        digest = hashlib.blake2b(digest_size=8)
        for array in (self.users, self.movies, self.features, self.known_users, self.known_movies):
            digest.update(array.tobytes())
        return (
            f"MovieLens({len(self.known_users)} users, {len(self.known_movies)} movies, "
            f"n_features={self.n_features}, n_arms={self.n_arms}, noise_std={self.noise_std}, "
            f"digest={digest.hexdigest()})"
        )

    def play(self, rounds: int, generator: np.random.Generator) -> Iterator[Rounds]:
        """Draw a user and movies, and yield rounds with them in blocks."""
        user = generator.choice(self.known_users)
        arms = generator.choice(self.known_movies, self.n_arms, replace=False)
        contexts = means = np.empty(0)
        for n in split_rounds(rounds):
            if not len(contexts):  # the first block is the largest: reuse it for the others
                contexts = np.repeat(self.features[arms][None], n, axis=0)
                means = np.repeat((self.movies[arms] @ self.users[user])[None], n, axis=0)
            noise = self.noise_std * generator.standard_normal(n)
            # One noise per round for all arms, so that all policies have the same luck.
            yield Rounds(contexts[:n], means[:n], means[:n] + noise[:, None])


class Noise(NamedTuple):
    """Root mean square difference of ratings from their estimates, computed in three ways."""

    whole: float
    """Of all ratings, with estimates fitted to all of them."""
    in_sample: float
    """Of the test half, with estimates fitted to it: the noise around the true means."""
    held_out: float
    """Of the test half, with estimates fitted to the training half."""


def movielens_environments(
    ratings: Ratings,
    shares: Iterable[float],
    *,
    rank: int = 10,
    ridge: float = 1.0,
    weighted: bool = False,
    center: bool = False,
    n_arms: int = 50,
    noise_std: float = 0.759,
    seed: int = 0,
) -> dict[float, MovieLens]:
    """Return the environments of the paper, by share of the training half.

    The ratings are split into two halves at random. The factors of the test half are the true
    vectors. The factors of a share of the training half are the features. Users and movies
    without a rating in the test half have no true vector and are not drawn.

    Parameters
    ----------
    ratings
        The ratings, as `read_ratings` returns them.
    shares
        Shares of the training half. A larger share contains the ratings of a smaller one. The
        true vectors are the same for all shares.
    rank, ridge, weighted, center
        As for `factorize`. In the paper, u'v itself is the mean rating, so by default no mean is
        subtracted. The paper does not state the rank, the ridge or the weights. Of about eighty
        settings, these are simple ones with which `movielens_noise` gives the paper's 0.759 on
        MovieLens 1M, as `whole`; other settings come equally close.
    n_arms, noise_std
        As for `MovieLens`.
    seed
        Seed of the halves, the samples and the factorizations.
    """
    training, test = _halves(ratings, seed)
    fit = partial(factorize, rank=rank, ridge=ridge, weighted=weighted, center=center, seed=seed)
    truth = fit(test)
    made = {}
    for share in shares:
        # Equal generators for all shares, so that larger samples contain smaller ones.
        sample = training.sample(share, np.random.default_rng([seed, _SAMPLE]))
        made[share] = MovieLens(
            users=truth.users,
            movies=truth.items,
            features=fit(sample).items,
            known_users=np.unique(test.users),
            known_movies=np.unique(test.items),
            n_arms=n_arms,
            noise_std=noise_std,
        )
    return made


def movielens_noise(
    ratings: Ratings,
    *,
    rank: int = 10,
    ridge: float = 1.0,
    weighted: bool = False,
    center: bool = False,
    seed: int = 0,
) -> Noise:
    """Estimate the noise of ratings, with the same halves as `movielens_environments`.

    On MovieLens 1M, the defaults give 0.759, 0.713 and 0.929. The first is that of the paper.

    Parameters
    ----------
    ratings
        The ratings, as `read_ratings` returns them.
    rank, ridge, weighted, center
        As for `factorize`.
    seed
        Seed of the halves and the factorizations.
    """
    training, test = _halves(ratings, seed)
    fit = partial(factorize, rank=rank, ridge=ridge, weighted=weighted, center=center, seed=seed)
    return Noise(
        whole=fit(ratings).residual(ratings),
        in_sample=fit(test).residual(test),
        held_out=fit(training).residual(test),
    )


def _halves(ratings: Ratings, seed: int) -> tuple[Ratings, Ratings]:
    """Return the training and the test half."""
    count_of("seed", seed)
    return ratings.split(0.5, np.random.default_rng([seed, _HALVES]))


def _rows_of(name: str, value: object, size: int) -> Codes:
    """Return distinct indices of rows of an array with `size` rows."""
    rows = np.asarray(value)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ShapeError(
            f"{name} is {rows.dtype} of shape {rows.shape}, expected (n,) indices of rows"
        )
    if len(rows) and not 0 <= rows.min() <= rows.max() < size:
        raise InputError(f"{name} holds {rows.min()} to {rows.max()}, expected 0 to {size - 1}")
    if len(np.unique(rows)) != len(rows):
        raise InputError(f"{name} holds an index more than once, expected distinct indices")
    return rows.astype(np.int64)
