"""log Φ, the logarithm of the normal distribution function, as a table of polynomials.

One evaluation gives log Φ(z) and its derivative φ(z)/Φ(z), in a few nanoseconds. From -11 to 8 the error of log Φ is
below 5e-14, and that of the derivative below 2e-13.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats

__all__ = ["DEGREE", "LOWEST", "PER_UNIT", "SIZE", "TABLE"]

LOWEST = -11.0
"""Where the table begins; Φ is 2e-28 there."""
_HIGHEST = 8.0
SIZE = 128
"""Number of pieces; all have the same width."""
PER_UNIT = SIZE / (_HIGHEST - LOWEST)
"""Number of pieces per unit of z."""
DEGREE = 7


def _slope(z: float) -> float:
    """Return φ(z)/Φ(z)."""
    return math.sqrt(2.0 / math.pi) * math.exp(-0.5 * z * z) / math.erfc(-z * math.sqrt(0.5))


def _value(z: float) -> float:
    """Return log Φ(z), also where Φ is nearly 1."""
    above = 0.5 * math.erfc(z * math.sqrt(0.5))
    return math.log1p(-above) if z > 0.0 else math.log(0.5 * math.erfc(-z * math.sqrt(0.5)))


def _table() -> Floats:
    """Return the coefficients of all pieces, as polynomials of t from -½ to ½, the constant first.

    The derivative is interpolated at Chebyshev nodes and integrated, so that it has no rounding errors of large values.
    """
    t = 0.5 * np.cos((2.0 * np.arange(DEGREE) + 1.0) * math.pi / (2.0 * DEGREE))
    middle = LOWEST + (np.arange(SIZE) + 0.5) / PER_UNIT
    slopes = [
        [_slope(z) / PER_UNIT for z in row] for row in (middle[:, None] + t / PER_UNIT).tolist()
    ]
    derivative = np.linalg.solve(np.vander(t, increasing=True), np.transpose(slopes))
    table = np.empty((SIZE, DEGREE + 1))
    table[:, 0] = [_value(z) for z in middle.tolist()]
    table[:, 1:] = derivative.T / np.arange(1, DEGREE + 1)
    return table.ravel()


TABLE = _table()
"""(SIZE · (DEGREE + 1),): the coefficients of one piece after the other."""
