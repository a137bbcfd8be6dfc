"""Checks of environments."""

from __future__ import annotations

import numpy as np

from rolin.environments.base import Environment, Rounds

__all__ = ["check_environment"]


def check_environment(environment: Environment) -> None:
    """Check the contract of an environment; raise `AssertionError` if it fails.

    An environment yields the requested number of rounds, in arrays of matching shapes that policies read without
    copying. The same random generator gives the same rounds, and another one gives others. The first rounds do not
    depend on the number of rounds. Its `repr` describes it.

    Parameters
    ----------
    environment
        The environment.

    Examples
    --------
    >>> import rolin
    >>> check_environment(rolin.environments.Synthetic(n_arms=3, n_features=2))
    """
    assert isinstance(environment, Environment), (
        f"{environment!r} does not implement the protocol Environment"
    )
    assert " at 0x" not in repr(environment), "define a __repr__ that describes the environment"
    k, d = environment.n_arms, environment.n_features
    whole = _joined(environment, 300, 1)
    assert whole.contexts.shape == (300, k, d)
    assert whole.means.shape == whole.rewards.shape == (300, k)
    for part in whole:
        assert np.isfinite(part).all()
    for block in environment.play(70, np.random.default_rng(1)):
        contexts = block.contexts[0]
        assert contexts.dtype == np.float64
        assert contexts.flags.carray, "a context is not contiguous and writable: it would be copied"
    again = _joined(environment, 300, 1)
    start = _joined(environment, 70, 1)
    for one, two, short in zip(whole, again, start, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one[:70], short)
    assert (_joined(environment, 300, 2).rewards != whole.rewards).any()


def _joined(environment: Environment, rounds: int, seed: int) -> Rounds:
    """Return all rounds as one block."""
    blocks = list(environment.play(rounds, np.random.default_rng(seed)))
    return Rounds(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))
