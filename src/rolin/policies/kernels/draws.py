"""Scale and shift standard normal draws in one pass: for 50 arms, in a fifth of the time of a slice and two operations of NumPy."""

from __future__ import annotations

from rolin._support.compile import Floats, compiled

__all__ = ["scale_draws"]


@compiled(reorder=False)
def scale_draws(
    draws: Floats,  # (n,), written
    exploration: float,  # factor on all of them
    optimism: float,  # added to those of arms
    n_coef: int,  # how many belong to coefficients; they are the first
) -> None:
    """Make standard normal draws into those of a rule; see `DrawRule`."""
    for i in range(n_coef):
        draws[i] *= exploration
    for i in range(n_coef, draws.shape[0]):
        draws[i] = optimism + exploration * draws[i]
