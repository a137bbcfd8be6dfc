"""The normal distribution function and its logarithmic derivative, in arithmetic that runs in vector registers.

`math.exp` and `math.erfc` are calls, one number at a time. This takes a fifth of their time. For |z| up to 11, which is where
1 - Φ is 2e-28, relative errors are below 2e-13; beyond, z counts as ±11.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, compiled

__all__ = ["FARTHEST", "cdf_and_hazard"]

FARTHEST = 11.0
"""The largest |z|."""
_CENTER = 4.0
_TO_BITS = -0.5 / math.log(2.0)
_LOG_2 = math.log(2.0)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


def _mills() -> Floats:
    """Return a polynomial of t = (z - 4)/(z + 4) for e^(z²/2) (1 - Φ(z)), which is smooth, from 0 to `FARTHEST`.

    It interpolates at Chebyshev nodes.
    """
    degree = 16
    high = (FARTHEST - _CENTER) / (FARTHEST + _CENTER)
    angles = (2.0 * np.arange(degree + 1) + 1.0) * math.pi / (2.0 * degree + 2.0)
    t = -1.0 + (high + 1.0) * 0.5 * (1.0 + np.cos(angles))
    z = (_CENTER * (1.0 + t) / (1.0 - t)).tolist()
    values = [0.5 * math.erfc(x * math.sqrt(0.5)) * math.exp(0.5 * x * x) for x in z]
    fit = np.polynomial.chebyshev.Chebyshev.fit(t, values, degree, domain=[-1.0, high])
    return np.array(fit.convert(kind=np.polynomial.Polynomial).coef, dtype=np.float64)


_M = _mills()
_E = np.array([1.0 / math.factorial(n) for n in range(12)])


@compiled(reorder=True, inline=True)
def cdf_and_hazard(z: float) -> tuple[float, float]:
    """Return Φ(z) and (log Φ)'(z) = φ(z)/Φ(z)."""
    x = min(abs(z), FARTHEST)
    # exp(-x²/2) = 2^n e^f with |f| ≤ log(2)/2; the exponent of a double is 1023 + n, above 52 bits.
    power = x * x * _TO_BITS
    n = np.int32(power - 0.5)
    f = (power - n) * _LOG_2
    e = _E[0] + f * (_E[1] + f * (_E[2] + f * (_E[3] + f * (_E[4] + f * (_E[5] + f * (_E[6] + f * (
        _E[7] + f * (_E[8] + f * (_E[9] + f * (_E[10] + f * _E[11]))))))))))  # fmt: skip
    e *= np.int64((np.int64(n) + 1023) << 52).view(np.float64)
    t = (x - _CENTER) / (x + _CENTER)
    m = _M[0] + t * (_M[1] + t * (_M[2] + t * (_M[3] + t * (_M[4] + t * (_M[5] + t * (_M[6] + t * (
        _M[7] + t * (_M[8] + t * (_M[9] + t * (_M[10] + t * (_M[11] + t * (_M[12] + t * (_M[13] + t * (
        _M[14] + t * (_M[15] + t * _M[16])))))))))))))))  # fmt: skip
    above = e * m
    cdf = 1.0 - above if z > 0.0 else above
    return cdf, _DENSITY * e / cdf
