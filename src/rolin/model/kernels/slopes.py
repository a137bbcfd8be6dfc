"""Update and predict arms that have slopes of their own.

Given θ, the own coefficients u_i = (v_i, b_i) of the arms are independent, u_i | θ, data ~ N(a_i - B_i θ, V_i)
(docs/explanation/maths.md, "Slopes per arm"). They are stored in units of their prior standard deviations Δ: row i of
`own` is a (q, q + 1 + n) matrix with

======== ============ ======================================================================================
columns  content
======== ============ ======================================================================================
0 … q-1  T            lower triangle with Δ T'T Δ = V_i; at first the identity
q        Δ⁻¹a_i       what the rewards say about u_i
q+1 …    Δ⁻¹B_i       the columns of B_i for the n features without slopes
======== ============ ======================================================================================

The other columns of B_i follow from V_i: those features, and the intercept, are entries of z = (1, x_S). So
x_S - B_i'z = D⁻¹V_i z, which is computed without subtraction. Row 0 is the prior.

`columns` holds the indices of the s = q - 1 features with slopes, then those of the n others. `stds` holds Δ, which must be
positive.
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
from rolin.model.kernels.predict import best_of

__all__ = [
    "fold_slopes",
    "observe_slopes",
    "observe_slopes_many",
    "residuals_slopes",
    "score_drawn",
]


@compiled(reorder=True)
def scaled_entries(context: Floats, stds: Floats, columns: Rows, z: Floats) -> None:
    """Write Δz, with z = (1, x_S)."""
    z[0] = stds[0]
    for j in range(1, stds.shape[0]):
        z[j] = stds[j] * context[columns[j - 1]]


@compiled(reorder=True)
def own_products(own: Floats, z: Floats, f: Floats, p: Floats) -> tuple[float, float]:
    """Write f = T Δz and p = T'f; return the own variance z'V z = |f|², and z'a."""
    q = z.shape[0]
    variance, level = 0.0, 0.0
    p[:q] = 0.0
    for k in range(q):
        row, total = own[k], 0.0
        for i in range(k + 1):
            total += row[i] * z[i]
        for i in range(k + 1):
            p[i] += total * row[i]
        f[k] = total
        variance += total * total
        level += row[q] * z[k]
    return variance, level


@compiled(reorder=True)
def residual(
    context: Floats, z: Floats, p: Floats, own: Floats, stds: Floats, columns: Rows, u: Floats
) -> None:
    """Write u = x - B'z; an intercept is last."""
    q, d = stds.shape[0], context.shape[0]
    for j in range(1, q):
        c = columns[j - 1]
        u[c] = p[j] / stds[j]
    for j in range(d + 1 - q):
        c = columns[q - 1 + j]
        value = context[c]
        for k in range(q):
            value -= z[k] * own[k, q + 1 + j]
        u[c] = value
    if u.shape[0] > d:
        u[d] = p[0] / stds[0]


@compiled(reorder=False)
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


@compiled(reorder=False)
def _update_own(
    own: Floats,
    f: Floats,
    p: Floats,
    noise: float,
    y: float,
    u: Floats,
    columns: Rows,
    gain: Floats,
) -> None:
    """Update T by Carlson's method (see `update_coefficients`), a and B by the gain V z/(σ²/h + z'V z)."""
    q = f.shape[0]
    before = noise
    gain[:q] = 0.0
    for j in range(q):
        fj = f[j]
        after = before + fj * fj
        keep, take = math.sqrt(before / after), fj / math.sqrt(before * after)
        for i in range(j + 1):
            t = own[j, i]
            own[j, i] = keep * t - take * gain[i]
            gain[i] += fj * t
        before = after
    for k in range(q):
        g = p[k] / before
        own[k, q] += g * y
        for j in range(own.shape[1] - q - 1):
            own[k, q + 1 + j] += g * u[columns[q - 1 + j]]


@compiled(reorder=False)
def fold_slopes(
    context: Floats, reward: float, weight: float, row: int, arms: Floats, tails: Tails,
    coef: Floats, factor: Floats, scatter: Floats, numbers: Floats,
    own: Floats, arm_scatter: Floats, stds: Floats, columns: Rows,
) -> bool:  # fmt: skip
    """Fold one observation of this weight into the state, or return False and change nothing.

    With V, a, B of the arm before it (docs/explanation/maths.md, "Slopes per arm"):

        c = σ²/h + z'V z,  u = x - B'z,  y = r - z'a,  M += u u'/c,  b += u y/c
        g = V z/c,  a += g y,  B += g u',  V -= g (V z)'
    """
    size, d, q = factor.shape[0], context.shape[0], stds.shape[0]
    if not is_within(row, context, arms, tails):
        return False
    # The arrays have these shapes, unless threads change the state without a lock.
    if row >= own.shape[0] or row >= arm_scatter.shape[0] or columns.shape[0] != d:
        return False
    if own.shape[1] != q or own.shape[2] != d + 2 or arm_scatter.shape[2] != 1 + d:
        return False
    work = np.empty((7, max(size, q, d) + 2))
    u, f, alpha, gain, step = work[0, :size], work[1], work[2], work[3], work[4, : 1 + d]
    z, own_f = work[5, :q], work[6, :q]
    p = np.empty(q)
    before = arms[row, WEIGHT]
    if before == 0.0:  # the first reward of the arm, or the first after all others were forgotten
        own[row] = own[0]
    if not differences(context, reward, weight, row, arms, tails, scatter, step):
        return False
    scaled_entries(context, stds, columns, z)
    own_variance, level = own_products(own[row], z, own_f, p)
    residual(context, z, p, own[row], stds, columns, u)
    finite, scaled, y = _predict(
        weight, reward, own_variance, level, before, coef, factor, numbers, u, f, alpha
    )
    if not finite:
        return False
    update_coefficients(weight, scaled, coef, factor, numbers, f, alpha, gain)
    _update_own(own[row], own_f, p, numbers[NOISE_VARIANCE] / weight, y, u, columns, gain)
    pull = before * (weight / (before + weight))
    for i in range(q - 1):
        t = pull * step[1 + columns[i]]
        for j in range(1 + d):
            arm_scatter[row, i, j] += t * step[j]
    update_moments(weight, row, arms, tails, scatter, numbers, step)
    return True


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
    own: Floats,  # (rows, q, q + 1 + n)
    arm_scatter: Floats,  # (rows, s, 1 + d)
    stds: Floats,  # (q,)
    columns: Rows,  # (d,)
) -> bool:
    """Fold one weighted observation into the state, or return False and change nothing."""
    grown = numbers[WEIGHT_OF_NEW] * numbers[AGEING]
    folded = fold_slopes(
        context, reward, weight * grown, row, arms, tails, coef, factor, scatter, numbers,
        own, arm_scatter, stds, columns,
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
    arm_scatter: Floats,
    stds: Floats,
    columns: Rows,
) -> int:
    """Fold n observations one by one, up to the first that is not finite; return the number folded."""
    for t in range(rows.shape[0]):
        if not observe_slopes(
            contexts[t], rewards[t], weights[t], rows[t], arms, tails, coef, factor, scatter, numbers,
            own, arm_scatter, stds, columns,
        ):  # fmt: skip
            return t
    return len(rows)


@compiled(reorder=True)
def residuals_slopes(
    contexts: Floats,  # (K, d), or (1, d) for one context that all arms share
    rows: Rows,  # (K,)
    theta: Floats,  # (D,)
    own: Floats,
    stds: Floats,
    columns: Rows,
    u: Floats,  # (K, D), written: u = x - B'z
    out: Floats,  # (≥ 2, K), written: z'a + u'θ, and the arm's own variance z'V z
) -> None:
    """Prepare a prediction; see `residuals` of arms without slopes."""
    n_arms, q, size = rows.shape[0], stds.shape[0], theta.shape[0]
    last = own.shape[0] - 1
    work = np.empty((3, q))
    z, f, p = work[0], work[1], work[2]
    shared = contexts.shape[0] < n_arms
    if shared:
        scaled_entries(contexts[0], stds, columns, z)
    for k in range(n_arms):
        row = min(rows[k], last)
        context = contexts[0] if shared else contexts[k]
        if not shared:
            scaled_entries(context, stds, columns, z)
        variance, mean = own_products(own[row], z, f, p)
        residual(context, z, p, own[row], stds, columns, u[k])
        for j in range(size):
            mean += u[k, j] * theta[j]
        out[0, k] = mean
        out[1, k] = variance


@compiled(reorder=True)
def score_drawn(
    draws: Floats,  # (K,)
    out: Floats,  # (3, K), as left by `residuals_slopes` with drawn coefficients; row 2 is written
) -> int:
    """Complete a joint draw: add the draw of every arm's own coefficients; return `best_of` the scores."""
    for k in range(draws.shape[0]):
        out[2, k] = out[0, k] + draws[k] * math.sqrt(out[1, k])
    return best_of(out[2])
