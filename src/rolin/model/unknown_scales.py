"""Estimate scales from moments alone, as a policy does that is given no numbers."""

from __future__ import annotations

from dataclasses import replace

from rolin.model.estimation import ScaleEstimate, estimate_scales
from rolin.model.first_guess import (
    LearnedScale,
    guess_scales,
    placeholders,
    with_learned_intercept,
)
from rolin.model.moments import Moments
from rolin.model.scales import InterceptScale, Scales

__all__ = ["estimate_unknown_scales"]


def estimate_unknown_scales(
    moments: Moments, *, intercept_std: InterceptScale = "learn"
) -> ScaleEstimate:
    """Estimate all scales from moments, starting from a guess in the units of the data.

    Parameters
    ----------
    moments
        The evidence. With slopes, slope_std is estimated, too.
    intercept_std
        Prior standard deviation of the intercept: a number; `"learn"`; or `None` for no intercept.

    Notes
    -----
    If all rewards are equal, there is no guess, and the estimate starts from the default `Scales`.
    """
    unknown: set[LearnedScale] = {"noise_std", "arm_std", "coef_std"}
    if moments.slopes:
        unknown.add("slope_std")
    given: dict[str, float | None] = {}
    if intercept_std == "learn":
        unknown.add("intercept_std")
    elif intercept_std is not None:
        given["intercept_std"] = float(intercept_std)
    start = placeholders(unknown, has_intercept=intercept_std is not None)
    scales = Scales(**start, **given, slopes=moments.slopes or None)  # type: ignore[arg-type]  # numbers by name
    guess = guess_scales(moments, scales, unknown)
    if guess is None:
        return estimate_scales(moments, prior=Scales(intercept_std=scales.intercept_std))
    found = estimate_scales(moments, prior=guess, guessed_from_data=True)
    if intercept_std != "learn":
        return found
    return replace(found, scales=with_learned_intercept(moments, found.scales))
