"""Update arms that have slopes of their own.

Given θ, the own coefficients u_i = (v_i, b_i) of the arms are independent, u_i | θ, data ~ N(a_i - B_i θ, V_i)
(docs/explanation/maths.md, "Slopes per arm"). They are stored in units of their prior standard deviations Δ: row i of
`own` is a (q, d + 2) matrix with

========= ========== ======================================================================================
columns   content
========= ========== ======================================================================================
0 … q-1   T          lower triangle with Δ T'T Δ = V_i; at first the identity
q         Δ⁻¹a_i     what the rewards say about u_i
q+1 …     Δ⁻¹B_i     the columns of B_i for the n features without slopes
========= ========== ======================================================================================

The other columns of B_i follow from V_i: those features, and the intercept, are entries of z = (1, x_S). So
x_S - B_i'z = D⁻¹V_i z, which is computed without subtraction. Row 0 is the prior.

Row i of `parts` is a (q, 1 + d) matrix. Its rows after the first are S_i, the scatter of x_S with (r, x) around the means of
the arm. Row 0 of `parts` has no scatter. It has Δ, which must be positive, in its last column, and in the other columns of
its first row the indices of the s = q - 1 features with slopes, then those of the n others. So these need no arrays of
their own: passing one to a kernel takes 0.07 µs.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, Rows, compiled
from rolin.model.kernels.layout import (
    AGEING,
    NOISE_VARIANCE,
    QUADRATIC,
    WEIGHT,
    WEIGHT_OF_NEW,
    Tails,
)
from rolin.model.kernels.observe import (
    age,
    differences,
    dot,
    is_within,
    times,
    update_coefficients,
    update_moments,
)

__all__ = [
    "column",
    "fold_slopes",
    "has_parts",
    "invert_stds",
    "observe_slopes",
    "observe_slopes_many",
    "own_products",
    "residual",
    "scaled_entries",
    "without_own",
]


@compiled(reorder=False, inline=True)
def column(prior: Floats, j: int) -> int:
    """Return the index of the j-th feature, where those with slopes are first."""
    return int(prior[0, j])


@compiled(reorder=True, inline=True)
def scaled_entries(context: Floats, prior: Floats, z: Floats) -> None:
    """Write Δz, with z = (1, x_S)."""
    d = context.shape[0]
    z[0] = prior[0, d]
    for j in range(1, z.shape[0]):
        z[j] = prior[j, d] * context[column(prior, j - 1)]


@compiled(reorder=True, inline=True)
def invert_stds(prior: Floats, inverse: Floats) -> None:
    """Write 1/Δ."""
    for j in range(inverse.shape[0]):
        inverse[j] = 1.0 / prior[j, prior.shape[1] - 1]


@compiled(reorder=True, inline=True)
def own_products(own: Floats, z: Floats, f: Floats, p: Floats) -> tuple[float, float]:
    """Write f = T Δz and p = T'f; return the own variance z'V z = |f|², and z'a.

    Four rows at a time, which takes three quarters of the time. T is zero above its diagonal.
    """
    q = z.shape[0]
    variance, level = 0.0, 0.0
    for i in range(q):
        p[i] = 0.0
    whole = q - q % 4
    for k in range(0, whole, 4):
        f0, f1, f2, f3 = 0.0, 0.0, 0.0, 0.0
        for i in range(k + 4):
            f0 += own[k, i] * z[i]
            f1 += own[k + 1, i] * z[i]
            f2 += own[k + 2, i] * z[i]
            f3 += own[k + 3, i] * z[i]
        for i in range(k + 4):
            p[i] += f0 * own[k, i] + f1 * own[k + 1, i] + f2 * own[k + 2, i] + f3 * own[k + 3, i]
        f[k], f[k + 1], f[k + 2], f[k + 3] = f0, f1, f2, f3
        variance += f0 * f0 + f1 * f1 + f2 * f2 + f3 * f3
        for i in range(k, k + 4):
            level += own[i, q] * z[i]
    for k in range(whole, q):
        total = 0.0
        for i in range(k + 1):
            total += own[k, i] * z[i]
        for i in range(k + 1):
            p[i] += total * own[k, i]
        f[k] = total
        variance += total * total
        level += own[k, q] * z[k]
    return variance, level


@compiled(reorder=True, inline=True)
def without_own(value: float, z: Floats, own: Floats, at: int) -> float:
    """Return x_j - B_j'z for a feature without slopes, whose column of `own` is given."""
    for k in range(z.shape[0]):
        value -= z[k] * own[k, at]
    return value


@compiled(reorder=True, inline=True)
def residual(
    context: Floats, z: Floats, p: Floats, own: Floats, inverse: Floats, columns: Floats, u: Floats
) -> None:  # fmt: skip
    """Write u = x - B'z; an intercept is last. `inverse` holds 1/Δ, `columns` the indices of the features."""
    q, d = inverse.shape[0], context.shape[0]
    for j in range(1, q):
        u[int(columns[j - 1])] = p[j] * inverse[j]
    for j in range(d + 1 - q):
        c = int(columns[q - 1 + j])
        u[c] = without_own(context[c], z, own, q + 1 + j)
    if u.shape[0] > d:
        u[d] = p[0] * inverse[0]


@compiled(reorder=False, inline=True)
def _predict(
    weight: float, reward: float, own_variance: float, level: float, before: float, coef: Floats, factor: Floats,
    numbers: Floats, u: Floats, f: Floats, alpha: Floats,
) -> tuple[bool, float, float]:  # fmt: skip
    """Write T u and α; return whether the state stays finite, (y - u'θ̂)/(c + u'M⁻¹u), and y."""
    size = factor.shape[0]
    c = numbers[NOISE_VARIANCE] / weight + own_variance
    y = reward - level
    error = y - dot(u, coef)
    times(factor, u, f)
    total = c
    alpha[0] = math.sqrt(c)
    for j in range(size):
        total += f[j] * f[j]
        alpha[1 + j] = math.sqrt(total)
    scaled = error / total
    finite = 0.0 < c < np.inf and total < np.inf and 1.0 / total < np.inf
    finite &= before + weight < np.inf and abs(scaled) < np.inf and abs(y) < np.inf
    finite &= numbers[QUADRATIC] + scaled * scaled * total < np.inf
    return finite, scaled, y


@compiled(reorder=False, inline=True)
def _update_own(
    own: Floats,
    f: Floats,
    p: Floats,
    noise: float,
    y: float,
    u: Floats,
    prior: Floats,
    gain: Floats,
) -> None:
    """Update T by Carlson's method (see `update_coefficients`), a and B by the gain V z/(σ²/h + z'V z)."""
    q = f.shape[0]
    total, root = noise, math.sqrt(noise)
    for i in range(q):
        gain[i] = 0.0
    for j in range(q):
        row, fj = own[j], f[j]
        total += fj * fj
        before, root = root, math.sqrt(total)
        keep = before / root
        take = fj / (before * root)
        for i in range(j + 1):
            t = row[i]
            row[i] = keep * t - take * gain[i]
            gain[i] += fj * t
    for k in range(q):
        row, g = own[k], p[k] / total
        row[q] += g * y
        for j in range(q + 1, row.shape[0]):
            row[j] += g * u[column(prior, j - 2)]


@compiled(reorder=False, inline=True)
def has_parts(row: int, n_features: int, own: Floats, parts: Floats) -> bool:
    """Return whether the arrays have this row and these features; see `is_within`."""
    if row >= own.shape[0] or row >= parts.shape[0] or own.shape[1] != parts.shape[1]:
        return False
    return bool(own.shape[2] == n_features + 2 and parts.shape[2] == 1 + n_features)


@compiled(reorder=False, inline=True)
def fold_slopes(
    context: Floats, reward: float, weight: float, row: int, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, scatter: Floats, numbers: Floats,
    own: Floats, parts: Floats,
) -> bool:  # fmt: skip
    """Fold one observation of this weight into the state, or return False and change nothing.

    With V, a, B of the arm before it (docs/explanation/maths.md, "Slopes per arm"):

        c = σ²/h + z'V z,  u = x - B'z,  y = r - z'a,  M += u u'/c,  b += u y/c
        g = V z/c,  a += g y,  B += g u',  V -= g (V z)'

    One `return` and few names for slices save a tenth of the time, because Numba counts references to arrays.
    """
    size, d, q = factor.shape[0], context.shape[0], own.shape[1]
    work = np.empty((9, max(size, q, d) + 2))
    u, f, alpha, gain, step = work[0, :size], work[1], work[2], work[3], work[4, : 1 + d]
    z, own_f, p, inverse = work[5, :q], work[6, :q], work[7, :q], work[8, :q]
    scaled, y, before = 0.0, 0.0, 0.0
    # The arrays have these shapes, unless threads change the state without a lock.
    finite = is_within(row, context, arms, tails) and has_parts(row, d, own, parts)
    if finite:
        before = arms[row, WEIGHT]
        # The first reward of the arm, or the first after all others were forgotten.
        if before == 0.0:
            own[row] = own[0]
        finite = differences(context, reward, weight, row, arms, tails, scatter, step)
    if finite:
        scaled_entries(context, parts[0], z)
        invert_stds(parts[0], inverse)
        own_variance, level = own_products(own[row], z, own_f, p)
        residual(context, z, p, own[row], inverse, parts[0, 0], u)
        finite, scaled, y = _predict(
            weight, reward, own_variance, level, before, coef, factor, numbers, u, f, alpha
        )
    if finite:
        update_coefficients(weight, scaled, coef, factor, numbers, f, alpha, gain)
        noise = numbers[NOISE_VARIANCE] / weight
        _update_own(own[row], own_f, p, noise, y, u, parts[0], gain)
        pull = before * (weight / (before + weight))
        for i in range(q - 1):
            t = pull * step[1 + column(parts[0], i)]
            for j in range(1 + d):
                parts[row, 1 + i, j] += t * step[j]
        update_moments(weight, row, arms, tails, scatter, numbers, step)
    return finite


@compiled(reorder=False)
def observe_slopes(
    context: Floats,  # (d,)
    reward: float,
    weight: float,
    row: int,
    arms: Floats,
    tails: Tails,
    coef: Floats,
    factor: Floats,
    scatter: Floats,
    numbers: Floats,
    own: Floats,  # (rows, q, d + 2)
    parts: Floats,  # (rows, q, 1 + d)
) -> bool:
    """Fold one weighted observation into the state, or return False and change nothing."""
    grown = numbers[WEIGHT_OF_NEW] * numbers[AGEING]
    folded = fold_slopes(
        context, reward, weight * grown, row, arms, tails, coef, factor, scatter, numbers,
        own, parts,
    )  # fmt: skip
    if folded:
        age(weight, grown, numbers)
    return folded


@compiled(reorder=False)
def observe_slopes_many(
    contexts: Floats,  # (n, d)
    rewards: Floats,  # (n,)
    weights: Floats,  # (n,)
    rows: Rows,  # (n,)
    arms: Floats,
    tails: Tails,
    coef: Floats,
    factor: Floats,
    scatter: Floats,
    numbers: Floats,
    own: Floats,
    parts: Floats,
) -> int:
    """Fold n observations one by one, up to the first that is not finite; return the number folded."""
    for t in range(rows.shape[0]):
        if not observe_slopes(
            contexts[t], rewards[t], weights[t], rows[t], arms, tails, coef, factor, scatter, numbers,
            own, parts,
        ):  # fmt: skip
            return t
    return len(rows)
