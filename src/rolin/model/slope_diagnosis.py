"""Find out whether arms differ in slopes: whether they react differently to the same features.

The test of slope_std = 0 compares the maximum of the restricted likelihood with its maximum at 0; arm effects are free in
both. As for arm effects, zero is the smallest possible value, so that without slopes the statistic is 0 half of the
time, and χ² with one degree of freedom otherwise (Self & Liang 1987). With few arms it is 0 more often, so the test
errs less often than it says (Crainiceanu & Ruppert 2004).
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.model.answers import Answer, format_p_value
from rolin.model.estimation import Interval, ScaleEstimate, with_slope_guess
from rolin.model.evidence import Evidence
from rolin.model.likelihood import Search
from rolin.model.moments import Moments
from rolin.model.scales import Scales
from rolin.model.slope_likelihood import SlopeEvidence, SlopePoint, SlopeSearch, possible_slopes
from rolin.model.slope_report import FeatureSlopes, SlopeDiagnosis

__all__ = [
    "LikelihoodRatio",
    "diagnose_slopes",
    "has_enough_for_slopes",
    "likelihood_ratio",
    "restricted_best",
    "slope_variance",
    "too_few_for_slopes",
]

# Slopes below this share of what features, arms and slopes explain do not matter, and neither do those below this share of the noise.
_MATTERS, _MATTERS_BESIDE_NOISE = 0.1, 0.01
_SIGNIFICANT = 0.05
_MAX_NAMED = 5  # features in a sentence


class LikelihoodRatio(NamedTuple):
    """The test of a scale of zero."""

    statistic: float
    p_value: float


def likelihood_ratio(at_zero: float, lowest: float) -> LikelihoodRatio:
    """Return statistic and p-value of a scale of zero, from the deviances at zero and at the maximum."""
    statistic = max(at_zero - lowest, 0.0)
    if statistic == 0.0:
        return LikelihoodRatio(0.0, 1.0)
    return LikelihoodRatio(statistic, 0.5 * math.erfc(math.sqrt(0.5 * statistic)))  # ½ P(χ²₁ > ·)


def has_enough_for_slopes(moments: Moments, prior: Scales) -> bool:
    """Return whether slope_std can be estimated from these moments."""
    if not moments.slopes:
        return False
    evidence = SlopeEvidence(moments, with_slope_guess(moments, prior))
    return "slope_std" in possible_slopes(evidence, "reml")


def restricted_best(evidence: Evidence | SlopeEvidence, learn: Set[str]) -> SlopePoint:
    """Return the maximum of the restricted likelihood over the free scales."""
    if isinstance(evidence, SlopeEvidence):
        return SlopeSearch(evidence, learn, "reml").best()
    return SlopePoint(Search(evidence, learn, "reml").best(), 0.0)


def slope_variance(moments: Moments, slope_std: float | tuple[float, ...]) -> float:
    """Return the variance that slopes add to a reward: Σ slope_std_j² var(x_j)."""
    h, x = moments.weight, moments.mean_context
    apart = x - h @ x / h.sum()
    variance = (np.diag(moments.scatter) + h @ apart**2) / h.sum()
    square: NDArray[np.float64] = variance[list(moments.slopes)]
    return float((np.asarray(slope_std) ** 2 * square).sum())


def diagnose_slopes(
    moments: Moments,
    prior: Scales,
    found: ScaleEstimate,
    learn: Set[str],
    explained: float,
    names: Sequence[str],
) -> SlopeDiagnosis:
    """Return whether arms differ in slopes, and for which features.

    Parameters
    ----------
    moments
        The evidence, with slopes.
    prior
        The scales that the estimates start from.
    found
        The estimate of all scales, slope_std included.
    learn
        The free scales of the restricted likelihood.
    explained
        The variance of a reward that features and arm effects explain.
    names
        Names of the d features.
    """
    assert found.slope_std is not None  # because it was estimated
    evidence = SlopeEvidence(moments, with_slope_guess(moments, prior))
    search = SlopeSearch(evidence, learn, "reml")
    at_zero = search.best(slope=0.0).deviance
    test = likelihood_ratio(at_zero, search.best().deviance)
    features = _tested_alone(moments, prior, learn, at_zero, names)
    answer, because = _verdict(moments, found, test.p_value, explained, features)
    return SlopeDiagnosis(answer, because, found.slope_std, *test, features)


def too_few_for_slopes() -> SlopeDiagnosis:
    """Return the answer where slope_std cannot be estimated."""
    return SlopeDiagnosis(
        "cannot tell",
        "Too few rewards, or features that do not vary. To tell slopes from noise, there must be several arms, and some "
        "must have rewards for different values of their features. Are the fields named correctly?",
        Interval(math.nan, math.nan, math.nan),
        math.nan,
        math.nan,
        (),
    )


def _tested_alone(
    moments: Moments, prior: Scales, learn: Set[str], at_zero: float, names: Sequence[str]
) -> tuple[FeatureSlopes, ...]:
    """Return the test of each feature with slopes, if no other feature has them; Holm's correction."""
    assert moments.arm_scatter is not None  # because there are slopes
    tests = []
    for i, j in enumerate(moments.slopes):
        alone = replace(moments, slopes=(j,), arm_scatter=moments.arm_scatter[:, i : i + 1])
        guess = prior.slope_std[i] if isinstance(prior.slope_std, tuple) else prior.slope_std
        given = with_slope_guess(alone, replace(prior, slope_std=guess, slopes=None))
        evidence = SlopeEvidence(alone, given)
        best = SlopeSearch(evidence, learn, "reml").best()
        test = likelihood_ratio(at_zero, best.deviance)
        tests.append((names[j], math.sqrt(best.slope * best.shared.noise), test))
    tests.sort(key=lambda each: (each[2].p_value, -each[2].statistic))
    features, adjusted = [], 0.0
    for rank, (name, slope_std, test) in enumerate(tests):
        adjusted = max(adjusted, min((len(tests) - rank) * test.p_value, 1.0))
        features.append(FeatureSlopes(name, slope_std, *test, adjusted))
    return tuple(features)


def _verdict(
    moments: Moments,
    found: ScaleEstimate,
    p_value: float,
    explained: float,
    features: Sequence[FeatureSlopes],
) -> tuple[Answer, str]:
    """Return whether arms differ in slopes, and why."""
    assert found.slope_std is not None  # because it was estimated
    value, low, high = found.slope_std
    if p_value < _SIGNIFICANT:
        clear = [str(f.name) for f in features if f.adjusted < _SIGNIFICANT]
        named = ", ".join(clear[:_MAX_NAMED]) + (", …" if len(clear) > _MAX_NAMED else "")
        where = (
            f"The features whose slopes differ clearly: {named}."
            if clear
            else "No single feature stands out."
        )
        return "yes", (
            f"Arms react differently to the same features ({format_p_value(p_value)}). Their slopes have a standard "
            f"deviation of {value:.3g} ({low:.3g} to {high:.3g}) around the shared coefficients. {where}"
        )
    # The largest variance that slopes may add to a reward, beside what the rest explains, or beside the noise.
    scales = found.scales.slope_std
    at_value = slope_variance(moments, scales) if value > 0.0 else 0.0
    sizes = slope_variance(moments, tuple(1.0 for _ in moments.slopes))
    most = at_value * (high / value) ** 2 if value > 0.0 else high**2 * sizes
    noise = found.scales.noise_std**2
    share, whole = most / (explained + most), "what features, arms and slopes explain"
    if explained == 0.0:
        share, whole = most / (most + noise), "a reward's variance"
    if share >= _MATTERS and most / noise < _MATTERS_BESIDE_NOISE:
        share, whole = most / noise, "the noise's variance"
    if share < _MATTERS:
        return "no", (
            f"There is no sign of slopes. If there are any, their standard deviation is below {high:.3g}, which is "
            f"{share:.1%} of {whole}."
        )
    limit = f"a standard deviation of up to {high:.3g}" if high < math.inf else "any size"
    part = f" That would be {share:.0%} of {whole}." if high < math.inf else ""
    return "cannot tell", (
        f"There is no clear sign of slopes ({format_p_value(p_value)}), but {limit} cannot be excluded.{part} More "
        "rewards are needed."
    )
