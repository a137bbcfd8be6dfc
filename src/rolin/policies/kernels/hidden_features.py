"""The update of hLinUCB: one step of each of its two ridge regressions."""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, compiled

__all__ = ["observe_hidden"]


@compiled(reorder=True)
def _dot(a: Floats, b: Floats) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled(reorder=True)
def _product(matrix: Floats, vector: Floats, out: Floats) -> None:
    """Write the product of a symmetric matrix and a vector."""
    for i in range(len(vector)):
        out[i] = _dot(matrix[i], vector)


@compiled(reorder=True)
def observe_hidden(
    z: Floats,
    r: float,
    h: float,
    coef: Floats,
    inverse: Floats,
    hidden: Floats,
    hidden_inverse: Floats,
) -> bool:
    """Learn from one reward. If a number overflows, change nothing and return False.

    With z = (x, v), first A += h zz', b += h z r, θ = A⁻¹b, and with that θ the arm's own
    C += h θ_h θ_h', e += h θ_h (r - x'θ_x), v = C⁻¹e. Both use the Sherman-Morrison formula,
    (A + h zz')⁻¹ = A⁻¹ - h A⁻¹z (A⁻¹z)'/(1 + h z'A⁻¹z).
    """
    size, n_hidden = len(z), len(hidden)
    d = size - n_hidden
    product, own = np.empty(size), np.empty(n_hidden)
    _product(inverse, z, product)
    spread = h * _dot(z, product)
    gain = h / (1.0 + spread)
    step = gain * (r - _dot(z, coef))
    theta = coef + step * product
    _product(hidden_inverse, theta[d:], own)
    own_spread = h * _dot(theta[d:], own)
    own_gain = h / (1.0 + own_spread)
    left = r - _dot(z[:d], theta[:d])
    own_step = own_gain * (left - _dot(theta[d:], hidden))
    total = spread + own_spread
    for i in range(size):
        total += gain * product[i] * product[i] + abs(theta[i])
    for i in range(n_hidden):
        total += own_gain * own[i] * own[i] + abs(own_step * own[i])
    if not math.isfinite(total):
        return False
    coef[:] = theta
    for i in range(size):
        for j in range(size):
            inverse[i, j] -= gain * product[i] * product[j]
    for i in range(n_hidden):
        hidden[i] += own_step * own[i]
        for j in range(n_hidden):
            hidden_inverse[i, j] -= own_gain * own[i] * own[j]
    return True
