"""The floor of the machine: the arithmetic that any implementation needs, timed in the same run.

Each function returns a task. BLAS is called through NumPy and writes to an existing array. Nothing here
checks arguments, looks up names or chooses an arm.
"""

from __future__ import annotations

from functools import partial

import numba
import numpy as np
from timing import Task, loop


def product(n_arms: int, n_features: int) -> Task:
    """One `X @ theta`, (K, d) by (d,)."""
    rng = np.random.default_rng(0)
    x, theta = rng.uniform(-1, 1, (n_arms, n_features)), rng.uniform(-1, 1, n_features)
    return loop(partial(x.dot, theta, np.empty(n_arms)))


def two_products(n_arms: int, n_features: int) -> Task:
    """Two `X @ theta` of different X: contexts, and the arms' mean contexts."""
    rng = np.random.default_rng(0)
    x, means = rng.uniform(-1, 1, (2, n_arms, n_features))
    theta, out = rng.uniform(-1, 1, n_features), np.empty(n_arms)

    def both() -> None:
        x.dot(theta, out)
        means.dot(theta, out)

    return loop(both)


def square_product(n_arms: int, n_features: int) -> Task:
    """One `X @ A`, (K, d) by (d, d)."""
    rng = np.random.default_rng(0)
    x, a = rng.uniform(-1, 1, (n_arms, n_features)), rng.uniform(-1, 1, (n_features, n_features))
    return loop(partial(x.dot, a, np.empty((n_arms, n_features))))


def normal_draws(n_arms: int, bits: type[np.random.BitGenerator] = np.random.PCG64) -> Task:
    """K standard normal numbers, by default from the default generator of NumPy."""
    generator = np.random.Generator(bits(0))
    return loop(partial(generator.standard_normal, out=np.empty(n_arms)))


def matrix_vector(n_features: int) -> Task:
    """One d × d matrix-vector product."""
    return product(n_features, n_features)


@numba.njit
def _nothing(x, r, h, row, a, b, c, e, f, g):  # type: ignore[no-untyped-def]  # numba infers
    return True


def empty_call(n_features: int) -> Task:
    """Call compiled code that does nothing, with the arguments of one observation."""
    vector, matrix = np.zeros(n_features), np.zeros((n_features, n_features))
    cube, numbers = np.zeros((3, n_features, n_features)), np.zeros(6)
    arms, tails = np.zeros((8, n_features + 2)), np.zeros((8, n_features + 1))
    return loop(partial(_nothing, vector, 0.5, 1.0, 3, arms, tails, vector, matrix, cube, numbers))


def tasks(n_arms: int, n_features: int) -> dict[str, Task]:
    """Return the tasks of one size, by name."""
    return {
        "one X @ theta": product(n_arms, n_features),
        "two X @ theta": two_products(n_arms, n_features),
        "one X @ A": square_product(n_arms, n_features),
        "K normal draws": normal_draws(n_arms),
        "one d × d matrix-vector product": matrix_vector(n_features),
        "an empty compiled call": empty_call(n_features),
    }
