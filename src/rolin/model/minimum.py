"""Minima and crossings of functions of one number, in few evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["CLOSE", "crossing", "minimum", "minimum_around", "weights_at_minimum"]

Floats = NDArray[np.float64]
CLOSE = 1e-6  # tolerance for the logarithm of a scale
_WALK = 4  # steps downhill from the point that a search begins at
_SECTION = 0.5 * (3.0 - math.sqrt(5.0))  # the smaller part of a golden section
# `weights_at_minimum`: the most points that it tries, and the steps of Newton's method on a polynomial.
_MOST, _NEWTON = 10, 20
# The next coefficient of a polynomial is taken to be at most as large as the last one, or as this share of the curvature,
# if the last one happens to be smaller.
_LEAST_BEND = 0.025
# Points closer than this, in units of `apart`, are the same; then one that is so far beside it is tried. Weights of
# more than the last number are not used.
_SAME, _BESIDE, _LARGE = 1e-3, 0.1, 100.0


def minimum(f: Callable[[float], float], grid: Floats, close: float = CLOSE) -> float:
    """Return where a function is smallest: the best point of a grid, refined."""
    points: list[float] = grid.tolist()
    return _refined(f, points, [f(t) for t in points], close)


def minimum_around(
    f: Callable[[float], float], start: float, apart: float, close: float = CLOSE
) -> float | None:
    """Return where a function is smallest near a point, or `None` if it goes on falling away from it."""
    points = [start - apart, start, start + apart]
    values = [f(t) for t in points]
    for _ in range(_WALK):
        best = int(np.argmin(values))
        if best == 1:
            return _refined(f, points, values, close, hastily=True)
        # Go on downhill, in larger steps.
        apart *= 2.0
        if best == 0:
            points, values = [points[0] - apart, *points[:2]], [f(points[0] - apart), *values[:2]]
        else:
            points, values = [*points[1:], points[2] + apart], [*values[1:], f(points[2] + apart)]
    return None


def weights_at_minimum(
    f: Callable[[float], float], apart: float, close: float = CLOSE
) -> Floats | None:
    """Return weights that interpolate from the points tried, in their order, to a minimum near zero.

    The polynomial through all points is minimized, until its error is small. For a function that is almost a parabola, this
    takes 4 or 5 evaluations, the minimum itself not being one of them.

    Parameters
    ----------
    f
        A smooth function, NaN where it is not defined.
    apart
        About how far from its minimum it rises by 1.
    close
        How close to the minimum to come.

    Returns
    -------
    weights
        Values of any smooth function at the points that `f` was called with, times these weights, add up to its value
        at the minimum. `None` if no minimum was found.
    """
    points, values = [0.0, apart], [f(0.0), f(apart)]
    # The vertex of a parabola that rises by 1 comes next, unless it is near a known point.
    t = min(max(0.5 * (1.0 - values[1] + values[0]), -2.0), 3.0)
    t = apart * (-0.2 if abs(t) < 0.2 else 1.2 if abs(t - 1.0) < 0.2 else t)
    while math.isfinite(sum(values)) and len(points) < _MOST:
        if min(abs(t - point) for point in points) < _SAME * apart:
            t += _BESIDE * apart  # a point that is known already tells nothing
        points.append(t)
        values.append(f(t))
        found = _lowest(points, values)
        if found is not None:
            t, error = found
            if error < close:
                weights = _lagrange(np.array(points), t)
                # Large weights would multiply rounding errors.
                return weights if np.abs(weights).max() < _LARGE else None
        else:  # go on downhill, in larger steps
            (low, f_low), *_, (high, f_high) = sorted(zip(points, values, strict=True))
            t = 2.0 * low - high if f_low < f_high else 2.0 * high - low
    return None


def _lagrange(points: Floats, t: float) -> Floats:
    """Return the weights with which values at some points add up to that of the polynomial through them at t."""
    same = np.eye(len(points), dtype=bool)
    ratios = (t - points) / np.where(same, 1.0, points[:, None] - points)
    weights: Floats = np.where(same, 1.0, ratios).prod(axis=1)
    return weights


def _lowest(points: list[float], values: list[float]) -> tuple[float, float] | None:
    """Return where the polynomial through some points is smallest, and about how far from there the function is smallest.

    If the polynomial has no minimum near the points, those farthest from the lowest are left out, down to a parabola.
    """
    best = points[values.index(min(values))]
    x = sorted(points, key=lambda point: abs(point - best))
    c = [values[points.index(point)] for point in x]
    for k in range(1, len(x)):  # Newton's divided differences
        for i in range(len(x) - 1, k - 1, -1):
            c[i] = (c[i] - c[i - 1]) / (x[i] - x[i - k])
    low, high = 2.0 * min(x) - max(x), 2.0 * max(x) - min(x)
    for n in range(len(x), 2, -1):
        t = best
        for _ in range(_NEWTON):
            # Horner's scheme for the polynomial, its derivatives, and Π |t - x| with a bound for its derivative.
            value = slope = bend = change = 0.0
            product = 1.0
            for k in range(n - 1, -1, -1):
                by = t - x[k]
                bend = bend * by + 2.0 * slope
                slope = slope * by + value
                value = value * by + c[k]
                change = change * abs(by) + product
                product *= abs(by)
            t -= slope / bend if bend > 0.0 else math.inf
            if not low <= t <= high:
                break
            if abs(slope) < 1e-3 * CLOSE * bend:
                return t, change * max(abs(c[n - 1]) / bend, _LEAST_BEND)
    return None


def _refined(
    f: Callable[[float], float],
    points: list[float],
    values: list[float],
    close: float,
    *,
    hastily: bool = False,
) -> float:
    """Return the minimum next to the best of some points, by Brent's method.

    Brent (1973), chapter 5: parabolas through the three best points, golden sections where these fail. (The overhead of
    SciPy's implementation is larger than all evaluations of the function.) `hastily` begins with a parabola through
    the given points, and leaves out the last two steps, which only confirm the others: 4 of 12 evaluations less.
    """
    best = int(np.argmin(values))
    low, high = max(best - 1, 0), min(best + 1, len(points) - 1)
    left, right = points[low], points[high]
    t = u = v = points[best]
    f_t = f_u = f_v = values[best]
    moved = before = 0.0
    if hastily:
        (f_u, u), (f_v, v) = sorted([(values[low], left), (values[high], right)])
        moved = before = right - left
    for _ in range(100):
        middle = 0.5 * (left + right)
        if abs(t - middle) + 0.5 * (right - left) < 2.0 * close:
            break
        p = (t - u) ** 2 * (f_t - f_v) - (t - v) ** 2 * (f_t - f_u)
        q = 2.0 * ((t - u) * (f_t - f_v) - (t - v) * (f_t - f_u))
        jump = -p / q if q else math.inf
        if abs(jump) < 0.5 * abs(before) and left < t + jump < right:
            if hastily and abs(jump) < close and abs(t - u) * abs(t - v) < close:
                break  # so near that the parabola is as good as the function
            before, moved = moved, jump
        else:
            before = (left if t >= middle else right) - t
            moved = _SECTION * before
        if abs(moved) < close:
            moved = close if middle > t else -close
        trial = t + moved
        value = f(trial)
        if value <= f_t:
            left, right = (left, t) if trial < t else (t, right)
            v, f_v, u, f_u, t, f_t = u, f_u, t, f_t, trial, value
            continue
        left, right = (trial, right) if trial < t else (left, trial)
        if value <= f_u or u == t:
            v, f_v, u, f_u = u, f_u, trial, value
        elif value <= f_v or v in (t, u):
            v, f_v = trial, value
    return t


def crossing(f: Callable[[float], float], inside: float, outside: float, steps: int = 30) -> float:
    """Return where a function becomes positive, by bisection; it is negative at `inside`.

    30 steps reach a relative error of 1e-8.
    """
    for _ in range(steps):
        middle = 0.5 * (inside + outside)
        if f(middle) > 0.0:
            outside = middle
        else:
            inside = middle
    return outside
