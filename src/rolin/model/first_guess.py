"""Guesses of the scales from the first rewards, for those who know no numbers beforehand.

All guesses are in the units of the data. So rewards in cents lead to the same decisions as rewards in dollars.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rolin.errors import NotFiniteError, ParameterError
from rolin.model.kernels.moments import spread_of_features
from rolin.model.moments import Moments
from rolin.model.scales import Scales

__all__ = [
    "SLOPE_SHARE",
    "LearnedScale",
    "check_size",
    "guess_scales",
    "placeholders",
    "typical_of",
    "with_learned_intercept",
]

Floats = NDArray[np.float64]
LearnedScale = Literal["noise_std", "arm_std", "coef_std", "intercept_std", "slope_std"]

# The guess of arm_std, relative to the noise. The weak prior of the estimate is centered on it.
_ARM_SHARE = 0.5
# The guess of slope_std, relative to the guess of coef_std. As long as one arm alone is pulled, nothing tells its slopes
# from shared coefficients. If the guess then favors shared ones, the other arms seem to be known, and are not tried: with
# a share of ½, 4 of 12 runs stayed with one of two arms (wine, one class against the others), with 1 none did. In made
# problems with 12 features, 6 of 90 and 2 of 90 runs did. Without slopes, the regret is at most 6 % higher than with ½.
SLOPE_SHARE = 1.0
# Rewards that differ by less, relative to their size, are equal up to rounding.
_ROUNDING = 1e-10
# Features whose standard deviations differ from their median by at most this factor are in the same unit.
_SAME_UNIT = 4.0
# Scales in the unit of larger numbers could not be computed with.
_LARGEST = 1e100

# With these scales nothing is learned: coefficients are far below the rounding error of the level, and the noise drowns
# every reward. All arms have the same mean and the same width, to the last bit. The width is that of the level, or
# without an intercept, that of the arm effects. The squared ratio of noise and coefficients must not overflow.
_NOISE, _NO_COEFFICIENT, _WIDTH = 1e90, 1e-60, 1.0


def placeholders(unknown: Set[str], *, has_intercept: bool) -> dict[str, float]:
    """Return scales with which nothing is learned, for those that no guess is known of."""
    values = {
        "noise_std": _NOISE,
        "arm_std": 0.0 if has_intercept else _WIDTH,
        "coef_std": _NO_COEFFICIENT,
        "intercept_std": _WIDTH,
        "slope_std": 0.0,
    }
    return {name: value for name, value in values.items() if name in unknown}


def check_size(contexts: Floats, rewards: Floats | float) -> None:
    """Reject numbers that no scales could be guessed from.

    Scales reject them because the posterior overflows. The placeholders do not, and one such number would be in the
    evidence for good.
    """
    for values in (contexts, rewards):
        # The sum of squares is fast. If it is small, so is every number.
        if (
            not np.vdot(values, values) <= _LARGEST
            and _LARGEST < np.abs(values).max(initial=0.0) < np.inf
        ):
            raise NotFiniteError("context or reward is too large or too small to compute with")


@contextmanager
def _in_range() -> Iterator[None]:
    """Raise `NotFiniteError` for what overflows or is out of the range of scales."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (ArithmeticError, ParameterError):
        raise NotFiniteError(
            "no scales can be guessed: rewards, features or weights are too large or too small to compute with"
        ) from None


@_in_range()
def guess_scales(moments: Moments, scales: Scales, unknown: Set[str]) -> Scales | None:
    """Return the scales with guesses for the unknown ones; `None` as long as all rewards are equal.

    The rewards' standard deviation s is the guess of the noise. Arm effects are guessed at s/2. Coefficients are
    guessed in the units of their features, such that all features together explain as much variance as the noise.
    Slopes are guessed to be as large.
    """
    variance = _variance_of_rewards(moments, scales)
    if variance is None:
        return None
    guesses: dict[str, Any] = {}
    noise = scales.noise_std
    if "noise_std" in unknown:
        noise = guesses["noise_std"] = math.sqrt(variance)
    if "arm_std" in unknown:
        guesses["arm_std"] = _ARM_SHARE * noise
    if "coef_std" in unknown:
        guesses["coef_std"] = _guess_coefficients(moments, scales, noise)
    if "slope_std" in unknown:
        known = guesses.get("coef_std")
        if known is None:
            known = _guess_coefficients(moments, scales, noise)
        every = SLOPE_SHARE * np.broadcast_to(known, moments.n_features)
        guesses["slope_std"] = tuple(every[scales.slope_indices(moments.n_features)].tolist())
    return replace(scales, **guesses)


@_in_range()
def with_learned_intercept(moments: Moments, scales: Scales) -> Scales:
    """Return the scales with a prior of the intercept that is worth about one reward.

    It is centered on the mean reward. Its variance is that of a reward plus that of x̄'θ, because the intercept is
    the level at x = 0, which may be far from the features' means.
    """
    variance = _variance_of_rewards(moments, scales)
    if variance is None:
        return scales
    h, d = moments.weight, moments.n_features
    mean, std = scales.prior(d)
    center = h @ moments.mean_context / h.sum()
    level = float(h @ moments.mean_reward / h.sum() - center @ mean[:d])
    spread = math.sqrt(variance + float(np.sum((std[:d] * center) ** 2)))
    return replace(scales, intercept_mean=level, intercept_std=spread)


def _variance_of_rewards(moments: Moments, scales: Scales) -> float | None:
    """Return the variance of a reward of weight 1 around the level; `None` if the rewards do not differ."""
    h, r = moments.weight, moments.mean_reward
    if not len(h):
        return None
    apart = r - h @ r / h.sum() if scales.has_intercept else r
    variance = (moments.reward_scatter + float(h @ apart**2)) / moments.count
    largest = float(np.abs(r).max()) + math.sqrt(moments.reward_scatter / moments.count)
    return variance if variance > (_ROUNDING * largest) ** 2 else None


def _guess_coefficients(moments: Moments, scales: Scales, noise: float) -> Any:
    """Return one guess per feature.

    Features whose standard deviations are within a factor of the usual one have the same unit, and so the same guess: a
    rare yes/no feature varies little, but that does not make its coefficient large. Others are brought to within this
    factor, such as an income among ratios. Features that have not varied yet get the usual guess.
    """
    if not moments.n_features:
        return noise
    variance, largest = out = np.empty((2, moments.n_features))
    spread_of_features(
        moments.scatter, moments.weight, moments.mean_context, scales.has_intercept, out
    )
    spread = np.sqrt(variance)
    varies = spread > _ROUNDING * largest
    # If nothing varies, the level of the features is all that is known of their unit.
    known = spread[varies] if varies.any() else largest
    known = np.sort(known[known > 0.0])
    n = len(known)
    usual = float(0.5 * (known[(n - 1) // 2] + known[n // 2])) if n else 1.0  # the median
    ratio = np.where(varies, spread / usual, 1.0)
    unit = usual * (ratio / np.clip(ratio, 1.0 / _SAME_UNIT, _SAME_UNIT))
    explained = math.sqrt(float(np.sum(variance[varies] / unit[varies] ** 2))) or 1.0
    return tuple((noise / (explained * unit)).tolist())


def typical_of(scales: float | tuple[float, ...]) -> float:
    """Return the geometric mean of the scales of coefficients or slopes; 0 if one of them is 0."""
    if isinstance(scales, float):  # its own mean; NumPy would take 8 µs
        return scales
    if not np.size(scales):
        return 1.0
    return float(np.exp(np.log(scales).mean())) if np.all(scales) else 0.0
