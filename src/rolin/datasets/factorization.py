"""Matrix factorization by alternating least squares: vectors of users and items from ratings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import count_of, flag_of, number_of
from rolin._support.compile import compiled
from rolin.datasets.ratings import Codes, Ratings
from rolin.errors import DataError, ParameterError

__all__ = ["Factors", "factorize"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Factors:
    """The result of a factorization: the rating of item j by user i is about mean + u_i'v_j."""

    users: Floats
    """(U, rank): one vector per user, zero for users without ratings."""
    items: Floats
    """(I, rank): one vector per item, zero for items without ratings."""
    mean: float
    """The mean that was subtracted from every rating; 0 if none was."""

    def __repr__(self) -> str:
        return f"Factors(users {self.users.shape}, items {self.items.shape}, mean={self.mean:.4g})"

    def predict(self, users: Codes, items: Codes) -> Floats:
        """Return the estimated ratings of pairs of users and items.

        Parameters
        ----------
        users
            (n,): codes of the users.
        items
            (n,): codes of the items.
        """
        predicted: Floats = np.einsum("nr,nr->n", self.users[users], self.items[items])
        predicted += self.mean
        return predicted

    def residual(self, ratings: Ratings) -> float:
        """Return the root mean square difference of these ratings from their predictions.

        Parameters
        ----------
        ratings
            The ratings, with the same codes of users and items.
        """
        if not len(ratings):
            raise DataError("there are no ratings to compare with, expected at least one")
        difference = ratings.values - self.predict(ratings.users, ratings.items)
        return math.sqrt(float(np.mean(difference**2)))


def factorize(
    ratings: Ratings,
    *,
    rank: int = 10,
    ridge: float = 0.08,
    weighted: bool = True,
    center: bool = True,
    sweeps: int = 30,
    seed: int = 0,
) -> Factors:
    """Fit vectors of users and items to ratings by alternating ridge regressions.

    Alternates between solving for all users and solving for all items, which minimizes

        Σ (r_ij - mean - u_i'v_j)² + ridge (Σ_i n_i ‖u_i‖² + Σ_j m_j ‖v_j‖²)

    where user i has n_i ratings and item j has m_j; unless `weighted`, n_i = m_j = 1 in the
    second sum.

    Parameters
    ----------
    ratings
        At least one rating.
    rank
        Length of the vectors.
    ridge
        Strength of the penalty, a positive number.
    weighted
        Whether the penalty grows with the number of ratings, as in Zhou et al. (2008).
    center
        Whether to subtract the mean of the ratings first.
    sweeps
        Number of times that users and items are solved for.
    seed
        Seed of the random vectors that the items start from. On one machine, equal seeds give
        identical results for any number of threads.

    Notes
    -----
    The objective never increases, but it is not convex: another seed may find another minimum.

    Weights are the default because they predict slightly better. On MovieLens 1M with rank 10,
    fitted to a random half, the root mean square residual of the other half is 0.882 to 0.883
    (two splits, both ways), and 0.873 to 0.875 with `center=False`. Without weights it is 0.884
    to 0.885, with a ridge of 8 to 10. Both ridges were chosen by these residuals. Going from 30
    to 120 sweeps changes them by less than 0.001.

    References
    ----------
    Zhou, Wilkinson, Schreiber & Pan, *Large-scale Parallel Collaborative Filtering for the
    Netflix Prize*, AAIM 2008.

    Examples
    --------
    >>> ratings = Ratings.from_ids([1, 1, 2, 2], [10, 20, 10, 20], [1.0, 2.0, 2.0, 4.0])
    >>> factors = factorize(ratings, rank=1, ridge=1e-6, center=False)
    >>> bool(factors.residual(ratings) < 1e-5)
    True
    """
    rank = count_of("rank", rank, least=1)
    sweeps = count_of("sweeps", sweeps, least=1)
    count_of("seed", seed)
    ridge = number_of("ridge", ridge, ParameterError)
    if not 0.0 < ridge < math.inf:
        raise ParameterError(f"ridge={ridge!r}, expected a positive number")
    if not len(ratings):
        raise DataError("there are no ratings to factorize, expected at least one")
    weighted = flag_of("weighted", weighted)
    mean = float(ratings.values.mean()) if flag_of("center", center) else 0.0
    by_user = _Side(ratings.users, ratings.items, ratings.values - mean, ratings.n_users)
    by_item = _Side(ratings.items, ratings.users, ratings.values - mean, ratings.n_items)
    users = np.zeros((ratings.n_users, rank))
    # Scaled so that the product of two such vectors is about 1, the size of a rating.
    items = np.random.default_rng(seed).standard_normal((ratings.n_items, rank)) / rank**0.25
    for _ in range(sweeps):
        if not (
            by_user.solve(items, ridge, weighted, users)
            and by_item.solve(users, ridge, weighted, items)
        ):
            raise ParameterError(
                f"ridge={ridge!r} is too small for these ratings, expected a larger number"
            )
    return Factors(users, items, mean)


class _Side:
    """The ratings, sorted by the users or the items whose vectors are solved for."""

    def __init__(self, own: Codes, other: Codes, values: Floats, size: int) -> None:
        order = np.argsort(own, kind="stable")
        self.starts = np.zeros(size + 1, dtype=np.int64)
        np.cumsum(np.bincount(own, minlength=size), out=self.starts[1:])
        self.other = other[order]
        self.values = values[order]

    def solve(self, fixed: Floats, ridge: float, weighted: bool, out: Floats) -> bool:
        """Write the best vectors, given those of the other side; return whether a solution exists."""
        return _solve_rows(self.starts, self.other, self.values, fixed, ridge, weighted, out)


@compiled(reorder=False)
def _solve_rows(
    starts: Codes,
    other: Codes,
    values: Floats,
    fixed: Floats,  # (·, rank)
    ridge: float,
    weighted: bool,
    out: Floats,  # (·, rank)
) -> bool:
    """Solve (Σ v v' + ridge n I) u = Σ v r for every row, by a Cholesky factorization.

    This does not use LAPACK, which may split sums among threads and round differently.
    """
    rank = fixed.shape[1]
    a = np.empty((rank, rank))  # its lower triangle
    for row in range(out.shape[0]):
        u = out[row]
        u[:] = 0.0
        count = starts[row + 1] - starts[row]
        if count == 0:
            continue
        a[:] = 0.0
        for n in range(starts[row], starts[row + 1]):
            v = fixed[other[n]]
            for i in range(rank):
                u[i] += values[n] * v[i]
                for j in range(i + 1):
                    a[i, j] += v[i] * v[j]
        shrink = ridge * count if weighted else ridge
        for i in range(rank):
            a[i, i] += shrink
        if not _solve(a, u):
            return False
    return True


@compiled(reorder=False)
def _solve(a: Floats, b: Floats) -> bool:
    """Overwrite b by the solution of a x = b, and a by its factor; False if a is not positive definite."""
    size = b.shape[0]
    for j in range(size):
        for k in range(j):
            a[j, j] -= a[j, k] * a[j, k]
        if not 0.0 < a[j, j] < math.inf:
            return False
        a[j, j] = math.sqrt(a[j, j])
        for i in range(j + 1, size):
            for k in range(j):
                a[i, j] -= a[i, k] * a[j, k]
            a[i, j] /= a[j, j]
    for i in range(size):
        for k in range(i):
            b[i] -= a[i, k] * b[k]
        b[i] /= a[i, i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            b[i] -= a[k, i] * b[k]
        b[i] /= a[i, i]
    return True
