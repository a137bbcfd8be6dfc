"""The likelihood of the scales: one reduction for every ρ, and O(d) for everything else; or one for every κ, and O(K).

Reducing a symmetric matrix to tridiagonal form does not change its determinant and its quadratic forms, also after
adding a multiple of the identity. So each step of the search for the coefficients' scale costs O(d). Computing
eigenvalues instead would take three times as long.

With fewer arms than features, the roles are exchanged. For a given κ, the arms' means have the covariance
σ²(B + ρI) with B = diag(1/H) + X̄(C + I/κ)⁻¹X̄', and each step of the search for the arms' scale costs O(K).
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, compiled

__all__ = [
    "ARM_GUESS",
    "CENTERED",
    "COEF",
    "COEF_GUESS",
    "COUNT",
    "FLAT",
    "HELD",
    "LEAST_NOISE",
    "NOISE_GUESS",
    "NOISE_HIGH",
    "NOISE_LOW",
    "N_NUMBERS",
    "POWER",
    "PSEUDO",
    "divide_by_root",
    "profile",
    "profile_of_arms",
    "reduce",
    "reduce_arms",
    "shrink",
    "standardize",
    "tridiagonal",
]

# Entries of `numbers`, the settings of a likelihood. COEF is coef_std² if it is fixed, HELD is κ if that is fixed;
# otherwise they are NaN. FLAT is 1 for the restricted likelihood. NOISE_LOW and NOISE_HIGH are the logarithms between
# which the noise is searched. ARM_GUESS and POWER are those of the prior of ρ, whose power is NaN if there is none.
# CENTERED is 1 if there is an intercept.
COUNT, PSEUDO, NOISE_GUESS, COEF_GUESS, LEAST_NOISE, COEF, HELD, FLAT = range(8)
NOISE_LOW, NOISE_HIGH, ARM_GUESS, POWER, CENTERED, N_NUMBERS = 8, 9, 10, 11, 12, 13
# The grid of logarithms of κ or ρ on which the search begins: its start, its step, its size. That of ρ is around the guess
# first, if there is a prior.
_LOW, _STEP, _TRIED = math.log(1e-9), math.log(10.0), 19
_NEAR, _TRIED_NEAR = math.log(1e-4), 9
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_MAX_STEPS = 40  # of the search after the grid
_CLOSE = 1e-6  # tolerance of the search
_ROWS_OF_ARMS = 4  # of the tridiagonal form for a given κ; for a given ρ there are 3
_NEGLIGIBLE = 1e-30  # of the largest diagonal element, for a column of the reduction
_SMALLEST_NORM = 1e-150  # its square is a normal number
_LOG_2PI = math.log(2.0 * math.pi)


@compiled(reorder=True)
def standardize(
    moments: tuple[Floats, Floats, Floats, Floats, Floats],  # C, g, H, x̄ and r̄
    mean: Floats,  # (d,): the prior's
    relative: Floats,  # (d,): the prior's standard deviations, relative to their geometric mean
    out: tuple[Floats, Floats, Floats, Floats],  # written: C, g, x̄ and r̄, in units of the prior around its mean
) -> tuple[float, float, float, float]:
    """Standardize moments by the prior.

    Return by how much the scatter of the rewards changes; the weighted sums of squares of the new r̄, as they are and around their
    mean; and the largest square of a feature.
    """
    scatter, cross, weight, x, r = moments
    new_scatter, new_cross, new_x, new_r = out
    n, d = x.shape
    shift, largest = 0.0, 0.0
    size = np.zeros(d)
    for i in range(d):
        along = 0.0
        for j in range(d):
            along += scatter[i, j] * mean[j]
            new_scatter[i, j] = scatter[i, j] * (relative[i] * relative[j])
        new_cross[i] = (cross[i] - along) * relative[i]
        shift += mean[i] * (along - 2.0 * cross[i])
    total, level, square, apart = 0.0, 0.0, 0.0, 0.0
    for k in range(n):
        dot = 0.0
        for j in range(d):
            dot += x[k, j] * mean[j]
            new_x[k, j] = x[k, j] * relative[j]
            size[j] += weight[k] * new_x[k, j] * new_x[k, j]
        new_r[k] = r[k] - dot
        total += weight[k]
        level += weight[k] * new_r[k]
        square += weight[k] * new_r[k] * new_r[k]
    for k in range(n):
        error = new_r[k] - level / total
        apart += weight[k] * error * error
    for j in range(d):
        largest = max(largest, new_scatter[j, j] + size[j])
    return shift, square, apart, largest


@compiled(reorder=True)
def shrink(
    weight: Floats,  # (K,)
    x: Floats,  # (K, d)
    r: Floats,  # (K,)
    ratio: float,
    centered: bool,
    rows: Floats,  # (K, 1 + d), written: r̄ and x̄, times the root of H/(1 + Hρ)
) -> float:
    """Write the arms as rows of a regression with noise of variance σ²; return Σ log(1 + Hρ).

    If `centered`, they are taken around the weighted means, which integrates out an intercept with a flat prior.
    """
    n, d = x.shape
    mean, mean_r, total, log_arms = np.zeros(d), 0.0, 0.0, 0.0
    for k in range(n):
        shrunk = weight[k] / (1.0 + ratio * weight[k])
        log_arms += math.log1p(ratio * weight[k])
        total += shrunk
        if centered:
            mean_r += shrunk * r[k]
            for j in range(d):
                mean[j] += shrunk * x[k, j]
    if centered and total > 0.0:
        mean /= total
        mean_r /= total
        log_arms += math.log(total)
    for k in range(n):
        root = math.sqrt(weight[k] / (1.0 + ratio * weight[k]))
        rows[k, 0] = root * (r[k] - mean_r)
        for j in range(d):
            rows[k, 1 + j] = root * (x[k, j] - mean[j])
    return log_arms


@compiled(reorder=True)
def tridiagonal(
    a: Floats,  # (n, n), overwritten
    rows: Floats,  # (p, n), changed: multiplied by the same orthogonal matrix
    out: Floats,  # (2, n), written: diagonal, and subdiagonal from 1 on
) -> None:
    """Reduce a symmetric matrix to tridiagonal form. Householder reflections: Golub & Van Loan, Algorithm 8.3.1."""
    p, d = rows.shape
    largest = 0.0
    for i in range(d):
        largest = max(largest, a[i, i])
    # Beyond the rank of A, only rounding errors are left. Each reflection shrinks them again, until their squares
    # underflow and the reflection is not finite. A column this small changes no digit of the result.
    least = max(_NEGLIGIBLE * largest, _SMALLEST_NORM)
    w, v = np.empty(d), np.empty(d)  # v: the vector of the reflection
    for k in range(d - 2):
        norm = 0.0
        for i in range(k + 1, d):
            norm += a[i, k] * a[i, k]
        norm = math.sqrt(norm)
        out[0, k] = a[k, k]
        if norm <= least:
            out[1, k + 1] = 0.0
            continue
        out[1, k + 1] = -norm if a[k + 1, k] > 0.0 else norm
        length = 0.0
        for i in range(k + 1, d):
            v[i] = a[i, k] - (out[1, k + 1] if i == k + 1 else 0.0)
            length += v[i] * v[i]
        beta, half = 2.0 / length, 0.0
        for i in range(k + 1, d):
            dot = 0.0
            for j in range(k + 1, d):
                dot += a[i, j] * v[j]
            w[i] = beta * dot
            half += w[i] * v[i]
        half *= 0.5 * beta
        for i in range(k + 1, d):
            w[i] -= half * v[i]
        for i in range(k + 1, d):
            for j in range(k + 1, d):
                a[i, j] -= v[i] * w[j] + w[i] * v[j]
        for c in range(p):
            along = 0.0
            for i in range(k + 1, d):
                along += rows[c, i] * v[i]
            along *= beta
            for i in range(k + 1, d):
                rows[c, i] -= along * v[i]
    for k in range(max(d - 2, 0), d):
        out[0, k] = a[k, k]
    if d > 0:
        out[1, 0] = 0.0
    if d > 1:
        out[1, d - 1] = a[d - 1, d - 2]


@compiled(reorder=True)
def reduce(
    scatter: Floats,  # (d, d)
    cross: Floats,  # (d,)
    weight: Floats,  # (K,)
    x: Floats,  # (K, d)
    r: Floats,  # (K,)
    ratio: float,
    centered: bool,
    out: Floats,  # (3, d), written: diagonal, subdiagonal (from 1), and b along the new axes
) -> tuple[float, float]:
    """Reduce A to tridiagonal form; return Σ H/(1 + Hρ) r̄² and Σ log(1 + Hρ).

    A = C + Σ H/(1 + Hρ) x̄x̄' and b = g + Σ H/(1 + Hρ) x̄r̄. If `centered`, around the weighted means, which
    integrates out an intercept with a flat prior. For few features; otherwise BLAS and LAPACK are faster.
    """
    n, d = x.shape
    a, b, square = scatter.copy(), out[2], 0.0
    b[:] = cross
    rows = np.empty((n, 1 + d))
    log_arms = shrink(weight, x, r, ratio, centered, rows)
    for k in range(n):
        apart, row = rows[k, 0], rows[k, 1:]
        square += apart * apart
        for i in range(d):
            b[i] += apart * row[i]
            for j in range(i + 1):
                a[i, j] += row[i] * row[j]
    for i in range(d):
        for j in range(i):
            a[j, i] = a[i, j]
    tridiagonal(a, b.reshape((1, d)), out[:2])
    return square, log_arms


@compiled(reorder=True)
def _solved(tri: Floats, shift: float) -> tuple[float, float]:
    """Return log det(A + shift) and b'(A + shift)⁻¹b."""
    product, log_det, form, pivot, y = 1.0, 0.0, 0.0, 1.0, 0.0
    least = max(shift, 1e-300)  # a lower bound for the pivots of a positive matrix plus the shift
    for k in range(tri.shape[1]):
        back = tri[1, k] / pivot if k > 0 else 0.0
        y = tri[2, k] - back * y
        pivot = max(tri[0, k] + shift - (back * tri[1, k] if k > 0 else 0.0), least)
        form += y * y / pivot
        product *= pivot
        if not 1e-150 < product < 1e150:  # one logarithm for many pivots
            log_det += math.log(product)
            product = 1.0
    return log_det + math.log(product), form


@compiled(reorder=True)
def _deviance(
    tri: Floats, square: float, log_arms: float, numbers: Floats, kappa: float, noise: float
) -> tuple[float, float]:
    """Return -2 log likelihood, and the noise variance: the given one, or the best one if `noise` is NaN."""
    pseudo, guess = numbers[PSEUDO], numbers[NOISE_GUESS]
    flat = numbers[FLAT] > 0.0  # restricted: the limit of a large κ, without its logarithm
    log_det, form = _solved(tri, 0.0 if flat else 1.0 / kappa)
    rest = max(square - form, 0.0) + pseudo * guess
    count = numbers[COUNT] + pseudo
    variance = max(rest / max(count, 1.0), numbers[LEAST_NOISE]) if math.isnan(noise) else noise
    deviance = count * (_LOG_2PI + math.log(variance)) + rest / variance + log_arms + log_det
    if not flat:
        deviance += tri.shape[1] * math.log(kappa)
    if pseudo > 0.0 and math.isnan(numbers[COEF]):
        # coef_std is learned: log-normal prior around the guess
        t = 0.5 * math.log(kappa / numbers[COEF_GUESS])
        deviance += t * t
    return deviance, variance


@compiled(reorder=True)
def _along(
    tri: Floats, square: float, logs: float, numbers: Floats, noise: float, t: float
) -> float:
    """Return the deviance if the free scale is e^t: ρ given κ; given ρ, it is κ, or the noise if coef_std is fixed."""
    if tri.shape[0] == _ROWS_OF_ARMS:
        return deviance_of_arms(tri, square, logs, numbers, math.exp(t), noise)[0]
    if math.isnan(numbers[COEF]):
        return _deviance(tri, square, logs, numbers, math.exp(t), noise)[0]
    kappa = numbers[COEF] / math.exp(t)
    return _deviance(tri, square, logs, numbers, kappa, math.exp(t))[0]


@compiled(reorder=True)
def _minimum(
    tri: Floats,
    square: float,
    logs: float,
    numbers: Floats,
    noise: float,
    low: float,
    step: float,
    tried: int,
) -> float:
    """Return where `_along` is smallest: the best point of a grid, refined by Brent's method.

    Brent (1973), chapter 5: parabolas through the three best points, golden sections where these fail.
    """
    best, lowest, last, below, above = 0, math.inf, math.inf, math.inf, math.inf
    for i in range(tried):
        value = _along(tri, square, logs, numbers, noise, low + i * step)
        if value < lowest:
            best, lowest, below, above = i, value, last, math.inf
        elif i == best + 1:
            above = value
        last = value
    t, f_t = low + best * step, lowest
    left, right = (t - step if best > 0 else t), (t + step if best < tried - 1 else t)
    u, f_u, v, f_v = left, below, right, above
    if above < below:
        u, f_u, v, f_v = v, f_v, u, f_u
    moved = before = right - left
    for _ in range(_MAX_STEPS):
        middle = 0.5 * (left + right)
        if right - left < 4.0 * _CLOSE or abs(t - middle) + 0.5 * (right - left) < 2.0 * _CLOSE:
            break
        p = (t - u) * (t - u) * (f_t - f_v) - (t - v) * (t - v) * (f_t - f_u)
        q = 2.0 * ((t - u) * (f_t - f_v) - (t - v) * (f_t - f_u))
        jump = -p / q if q != 0.0 else math.inf
        if abs(jump) < 0.5 * abs(before) and left < t + jump < right:
            if abs(jump) < _CLOSE and abs(t - u) * abs(t - v) < _CLOSE:
                break  # so near that the parabola is as good as the function
            before, moved = moved, jump
        else:
            before = (left if t >= middle else right) - t
            moved = (1.0 - _GOLDEN) * before
        if abs(moved) < _CLOSE:
            moved = _CLOSE if middle > t else -_CLOSE
        trial = t + moved
        f = _along(tri, square, logs, numbers, noise, trial)
        if f <= f_t:
            left, right = (left, t) if trial < t else (t, right)
            v, f_v, u, f_u, t, f_t = u, f_u, t, f_t, trial, f
        else:
            left, right = (trial, right) if trial < t else (left, trial)
            if f <= f_u or u == t:
                v, f_v, u, f_u = u, f_u, trial, f
            elif f <= f_v or v in (t, u):
                v, f_v = trial, f
    return t


@compiled(reorder=True)
def profile(
    tri: Floats,  # (3, d), written by `reduce`
    square: float,
    log_arms: float,
    numbers: Floats,
    noise: float,  # NaN to find the best one
) -> tuple[float, float, float]:
    """Return the lowest deviance for one ρ, and the noise variance and κ of this minimum."""
    free_coef = math.isnan(numbers[COEF])
    if numbers[FLAT] > 0.0:
        deviance, variance = _deviance(tri, square, log_arms, numbers, 1.0, noise)
        coef = numbers[COEF_GUESS] * numbers[NOISE_GUESS] if free_coef else numbers[COEF]
        return deviance, variance, coef / variance
    if not math.isnan(numbers[HELD]):
        kappa = numbers[HELD]
        deviance, variance = _deviance(tri, square, log_arms, numbers, kappa, noise)
        return deviance, variance, kappa
    if not free_coef and not math.isnan(noise):
        deviance, variance = _deviance(tri, square, log_arms, numbers, numbers[COEF] / noise, noise)
        return deviance, variance, numbers[COEF] / variance
    low, step = _LOW, _STEP
    if not free_coef:  # search over the noise
        low, step = numbers[NOISE_LOW], (numbers[NOISE_HIGH] - numbers[NOISE_LOW]) / (_TRIED - 1)
    t = _minimum(tri, square, log_arms, numbers, noise, low, step, _TRIED)
    if free_coef:
        kappa = math.exp(t)
        deviance, variance = _deviance(tri, square, log_arms, numbers, kappa, noise)
    else:
        kappa = numbers[COEF] / math.exp(t)
        deviance, variance = _deviance(tri, square, log_arms, numbers, kappa, math.exp(t))
    return deviance, variance, kappa


# -- for a given κ ------------------------------------------------------------------------------


@compiled(reorder=True)
def divide_by_root(
    tri: Floats,  # (2, d): diagonal and subdiagonal (from 1) of C
    columns: Floats,  # (d, m)
    shift: float,  # 1/κ
    out: Floats,  # (d, m), written: columns w with w'w = columns'(C + shift)⁻¹ columns
) -> float:
    """Divide columns by the root of C + shift; return the log determinant of this matrix."""
    d, m = columns.shape
    product, log_det, pivot = 1.0, 0.0, 1.0
    for k in range(d):
        root = math.sqrt(pivot)
        back = tri[1, k] / root if k > 0 else 0.0
        pivot = max(tri[0, k] + shift - back * back, shift)
        scale = 1.0 / math.sqrt(pivot)
        for c in range(m):
            above = back * out[k - 1, c] if k > 0 else 0.0
            out[k, c] = scale * (columns[k, c] - above)
        product *= pivot
        if not 1e-150 < product < 1e150:  # one logarithm for many pivots
            log_det += math.log(product)
            product = 1.0
    return log_det + math.log(product)


@compiled(reorder=True)
def deviance_of_arms(
    tri: Floats,  # (4, K): diagonal and subdiagonal (from 1) of B; the arms' errors and ones, along the new axes
    square: float,
    logs: float,
    numbers: Floats,
    ratio: float,
    noise: float,  # NaN to find the best one
) -> tuple[float, float]:
    """Return -2 log likelihood for one ρ, and the noise variance."""
    product, log_det, pivot, y, z = 1.0, 0.0, 1.0, 0.0, 0.0
    form, level, ones = 0.0, 0.0, 0.0
    least = max(ratio, 1e-300)
    for k in range(tri.shape[1]):
        back = tri[1, k] / pivot if k > 0 else 0.0
        y = tri[2, k] - back * y
        z = tri[3, k] - back * z
        pivot = max(tri[0, k] + ratio - (back * tri[1, k] if k > 0 else 0.0), least)
        scale = 1.0 / pivot
        form += y * y * scale
        level += y * z * scale
        ones += z * z * scale
        product *= pivot
        if not 1e-150 < product < 1e150:
            log_det += math.log(product)
            product = 1.0
    log_det += math.log(product)
    if numbers[CENTERED] > 0.0 and ones > 0.0:  # integrate out the intercept
        form -= level * level / ones
        log_det += math.log(ones)
    pseudo, count = numbers[PSEUDO], numbers[COUNT] + numbers[PSEUDO]
    rest = max(square + form, 0.0) + pseudo * numbers[NOISE_GUESS]
    variance = max(rest / max(count, 1.0), numbers[LEAST_NOISE]) if math.isnan(noise) else noise
    deviance = count * (_LOG_2PI + math.log(variance)) + rest / variance + logs + log_det
    if not math.isnan(numbers[POWER]):
        deviance += 2.0 * math.log1p(ratio / numbers[ARM_GUESS])
        deviance -= numbers[POWER] * math.log(ratio)
    return deviance, variance


@compiled(reorder=True)
def reduce_arms(
    tri: Floats,  # (2, d): diagonal and subdiagonal (from 1) of C
    columns: Floats,  # (d, K + 1): x̄ of each arm, then g
    shift: float,  # 1/κ
    r: Floats,  # (K,)
    inverse: Floats,  # (K,): 1/H
    out: Floats,  # (4, K), written: B in tridiagonal form; the arms' errors and ones, along the new axes
) -> tuple[float, float]:
    """Integrate out the coefficients; return log det(C + shift) and g'(C + shift)⁻¹g. For few arms and features."""
    d, k = columns.shape[0], len(r)
    divided, sums = np.empty((d, k + 1)), np.zeros((k + 1, k + 1))
    log_det = divide_by_root(tri, columns, shift, divided)
    for i in range(d):
        row = divided[i]
        for a in range(k + 1):
            for b in range(a + 1):
                sums[a, b] += row[a] * row[b]
    matrix = np.empty((k, k))
    for a in range(k):
        for b in range(a + 1):
            matrix[a, b] = matrix[b, a] = sums[a, b]
        matrix[a, a] += inverse[a]
        out[2, a], out[3, a] = r[a] - sums[k, a], 1.0
    tridiagonal(matrix, out[2:], out[:2])
    return log_det, sums[k, k]


@compiled(reorder=True)
def profile_of_arms(
    tri: Floats, square: float, logs: float, numbers: Floats, noise: float
) -> tuple[float, float, float]:
    """Return the lowest deviance for one κ, and the noise variance and ρ of this minimum."""
    has_prior, t = not math.isnan(numbers[POWER]), math.nan
    if has_prior:
        low = _NEAR + math.log(numbers[ARM_GUESS])
        t = _minimum(tri, square, logs, numbers, noise, low, _STEP, _TRIED_NEAR)
        if not low + _STEP < t < low + (_TRIED_NEAR - 2) * _STEP:
            t = math.nan
    if math.isnan(t):
        t = _minimum(tri, square, logs, numbers, noise, _LOW, _STEP, _TRIED)
    ratio = math.exp(t)
    deviance, variance = deviance_of_arms(tri, square, logs, numbers, ratio, noise)
    if not has_prior:
        at_zero, variance_at_zero = deviance_of_arms(tri, square, logs, numbers, 0.0, noise)
        if at_zero <= deviance:
            return at_zero, variance_at_zero, 0.0
    return deviance, variance, ratio
