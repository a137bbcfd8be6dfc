"""A read-only view of a posterior, for code outside this package that needs its arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import ArmIndex
from rolin.model.kernels.layout import ARM_VARIANCE, CONTEXT, COUNT, WEIGHT

__all__ = ["PosteriorView"]

Floats = NDArray[np.float64]


class PosteriorView(NamedTuple):
    """The arrays of a posterior and the row of every arm. Do not write to them.

    The arrays are the posterior's own, not copies. They may be replaced whenever the posterior changes: when it
    learns from a reward, is filled or restored, gets more features, or removes or restores an arm. So take a
    view when you need it, and take a new one for the next decision. Taking one costs less than 1 µs.
    """

    arm_index: ArmIndex
    """The row of every arm in `arms`. Another object when all names have been replaced at once; otherwise
    `arm_index.changes` counts how often an existing row has been given another name."""
    arms: Floats
    """(rows, 2 + d): weight H, mean reward r̄ and mean context x̄ of every arm, as
    `rolin.model.kernels` describes; row 0 is the prior row."""
    coef: Floats
    """(D,): θ̂; an intercept is the last."""
    factor: Floats
    """(D, D): lower-triangular T with T'T = M⁻¹, the covariance of the coefficients."""
    numbers: Floats
    """(10,): σ², s₀² and the running sums, as `rolin.model.kernels` describes."""
    renewals: int
    """How often all of the posterior has changed at once. Between two renewals, weights only grow."""
    slope_variance: Floats | None = None
    """(D,): prior variance of the arms' own slopes, 0 for coefficients without slopes; `None` if no arm has slopes.
    With slopes, a row of `arms` does not hold all that is known about its arm: ask `score` or `score_joint` of the
    posterior. Row 0 does, together with this: an arm that was never seen has the own variance s₀² + Σ_j slope_variance_j x_j²."""

    @property
    def has_slopes(self) -> bool:
        """Whether the arms have slopes of their own."""
        return self.slope_variance is not None

    @property
    def size(self) -> int:
        """Number D of coefficients, the intercept included."""
        return len(self.coef)

    @property
    def n_rewards(self) -> float:
        """Number of rewards, after decay."""
        return float(self.numbers[COUNT])

    @property
    def arm_variance(self) -> float:
        """Prior variance s₀² of the arm effects."""
        return float(self.numbers[ARM_VARIANCE])

    def weights(self, n_rows: int) -> Floats:
        """Return H of the first `n_rows` arms, in the order of `arm_index.names`."""
        weights: Floats = self.arms[1 : 1 + n_rows, WEIGHT]
        return weights

    def mean_contexts(self, n_rows: int) -> Floats:
        """Return (n_rows, d): x̄ of the first `n_rows` arms, in the order of `arm_index.names`."""
        contexts: Floats = self.arms[1 : 1 + n_rows, CONTEXT:]
        return contexts
