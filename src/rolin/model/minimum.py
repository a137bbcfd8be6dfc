"""Minima and crossings of functions of one number, in few evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["CLOSE", "crossing", "minimum", "minimum_around"]

Floats = NDArray[np.float64]
CLOSE = 1e-6  # tolerance for the logarithm of a scale
_WALK = 4  # steps downhill from the point that a search begins at
_SECTION = 0.5 * (3.0 - math.sqrt(5.0))  # the smaller part of a golden section


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
