"""The likelihood of the scales, once its matrix is reduced (`rolin.model.kernels.evidence`): O(d) or O(K) for every point.

For a given ρ, it is a function of κ and the noise; for a given κ, one of ρ and the noise.
"""

from __future__ import annotations

import math

import numpy as np

from rolin._support.compile import Floats, compiled
from rolin.model.kernels.evidence import reduce

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
    "profile",
    "profile_of_arms",
    "reduce_and_profile",
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
_LOG_2PI = math.log(2.0 * math.pi)


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
    best, lowest = low, math.inf
    for i in range(tried):
        value = _along(tri, square, logs, numbers, noise, low + i * step)
        if value < lowest:
            best, lowest = low + i * step, value
    left, right = max(best - step, low), min(best + step, low + (tried - 1) * step)
    t = u = v = best
    f_t = f_u = f_v = lowest
    moved = before = 0.0
    for _ in range(_MAX_STEPS):
        middle = 0.5 * (left + right)
        if right - left < 4.0 * _CLOSE or abs(t - middle) + 0.5 * (right - left) < 2.0 * _CLOSE:
            break
        p = (t - u) * (t - u) * (f_t - f_v) - (t - v) * (t - v) * (f_t - f_u)
        q = 2.0 * ((t - u) * (f_t - f_v) - (t - v) * (f_t - f_u))
        jump = -p / q if q != 0.0 else math.inf
        if abs(jump) < 0.5 * abs(before) and left < t + jump < right:
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


@compiled(reorder=True)
def reduce_and_profile(
    scatter: Floats,  # (d, d)
    cross: Floats,  # (d,)
    square: float,
    weight: Floats,  # (K,)
    x: Floats,  # (K, d)
    r: Floats,  # (K,)
    ratio: float,
    numbers: Floats,
    noise: float,  # NaN to find the best one
) -> tuple[float, float, float]:
    """Return what `profile` does, from the evidence itself. For few features: one call takes less time than two."""
    tri = np.empty((3, len(cross)))
    between, log_arms = reduce(scatter, cross, weight, x, r, ratio, numbers[CENTERED] > 0.0, tri)
    return profile(tri, between + square, log_arms, numbers, noise)


# -- for a given κ ------------------------------------------------------------------------------


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
