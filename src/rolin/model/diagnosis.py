"""Find out whether the features miss something that differs between arms.

Everything is computed from moments, of a policy or of a log. The scales maximize the restricted likelihood, which does
not depend on a prior of the coefficients. The test of arm_std = 0 compares the maximum with the likelihood at 0.
Zero is the smallest possible arm_std. Without arm effects, the statistic is therefore 0 half of the time, and χ² with
one degree of freedom otherwise (Self & Liang 1987).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin.errors import DataError, ParameterError
from rolin.model.answers import Answer, format_p_value
from rolin.model.estimation import ScaleEstimate, estimate_scales, mode, with_slope_guess
from rolin.model.evidence import Evidence
from rolin.model.gain import CandidateSets, LikelyPosterior, estimate_gain
from rolin.model.moments import Moments
from rolin.model.posterior import Posterior
from rolin.model.report import Diagnosis, Effect
from rolin.model.scales import Scales
from rolin.model.slope_diagnosis import (
    LikelihoodRatio,
    diagnose_slopes,
    has_enough_for_slopes,
    likelihood_ratio,
    restricted_best,
    slope_variance,
    too_few_for_slopes,
)
from rolin.model.slope_likelihood import SlopeEvidence, SlopePoint
from rolin.model.slopes import SlopePosterior

__all__ = ["Diagnosis", "Effect", "diagnose"]

# Arm effects below this share of what features and arms explain do not matter.
_MATTERS = 0.1
# The same relative to the noise variance, for features that explain almost nothing themselves.
_MATTERS_BESIDE_NOISE = 0.01
_SIGNIFICANT = 0.05
# Noise below this share of a reward's variance is the rounding error of a perfect fit.
_PERFECT = 1e-12
_PERFECT_FIT = (
    "The features reproduce the rewards exactly. Is one of them computed from the reward?"
)
_REACH = NormalDist().inv_cdf(0.975)  # half-width of a 95 % interval, in standard deviations


class _Verdict(NamedTuple):
    answer: Answer
    because: str


class _LikelyScales(NamedTuple):
    """A value of arm_std within its interval, with the best noise_std for it."""

    arm_std: float
    noise_std: float
    weight: float
    """Likelihood, relative to the most likely value."""
    slope_std: float | tuple[float, ...] | None = None
    """The best slope_std for it; `None` if there are no slopes."""

    def within(self, scales: Scales) -> Scales:
        """Return the scales with these values."""
        changed = replace(scales, arm_std=self.arm_std, noise_std=self.noise_std)
        return changed if self.slope_std is None else replace(changed, slope_std=self.slope_std)


def _listed(feature_names: Sequence[str]) -> list[str]:
    """Return the names of features as a list; reject what is not one."""
    given: Any = feature_names
    try:
        names = list(given)
    except TypeError:
        names = [None]
    if isinstance(given, (str, bytes)) or not all(isinstance(name, (str, int)) for name in names):
        raise ParameterError(f"feature_names={given!r}, expected a list of texts")
    return names


class _Effects(NamedTuple):
    arms: tuple[Effect, ...]
    coefficients: tuple[Effect, ...]


def diagnose(
    moments: Moments,
    *,
    prior: Scales | None = None,
    feature_names: Sequence[str] | None = None,
    binary: bool = False,
    contexts: Sequence[ArrayLike] | NDArray[np.float64] | None = None,
    arms: Sequence[Any] | None = None,
) -> Diagnosis:
    """Test whether there are arm effects that the features miss, and estimate them and what they are worth.

    Parameters
    ----------
    moments
        The evidence: `policy.moments`, or `Moments.of` a log. With slopes, the report also says whether arms differ in
        slopes, and arm effects are tested given the slopes: they are the arms' levels where all features are 0.
    prior
        The scales to use where there are too few data to estimate them, and the prior of the coefficients. If it has
        no intercept, one is added: a level that all arms share is not an arm effect. If features are linearly
        dependent, as those of categories are, the reported coefficients depend on this prior.
    feature_names
        Names of the d features, for the report.
    binary
        Whether the moments are those of a logistic policy. Everything is then on the logit scale, the noise is known,
        and the shares of a reward's variance and the log scores are left out. Only the gain is one of rewards.
    contexts
        For each of some decisions, the (K, d) contexts of its candidates, such as those of a log. They say among which
        arms choices are made, for the gain of choosing with arm effects. By default one choice among `arms` with their
        average features.
    arms
        For each decision, a list of its K arms; or one list for all. By default 0 … K - 1, or without contexts, all
        arms.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, arms = rng.normal(size=(2000, 2)), rng.integers(20, size=2000)
    >>> r = x @ [1.0, -1.0] + rng.normal(size=20)[arms] + rng.normal(size=2000)
    >>> diagnose(Moments.of(arms, x, r)).answer
    'yes'
    """
    d = moments.n_features
    names = [f"x{j}" for j in range(d)] if feature_names is None else _listed(feature_names)
    if len(names) != d:
        raise ParameterError(f"feature_names has {len(names)} names, expected {d}, one per feature")
    if moments.count == 0:
        raise DataError("there are no rewards to diagnose, expected at least one")
    prior = Scales() if prior is None else prior
    if not prior.has_intercept:
        prior = replace(prior, intercept_std=_any_level(moments))
    learn: set[Any] = {"arm_std", "coef_std"} if binary else {"noise_std", "arm_std", "coef_std"}
    asks_for_slopes, plain = bool(moments.slopes), moments.with_slopes(())
    if has_enough_for_slopes(moments, prior):
        learn.add("slope_std")
    else:
        moments = plain
    no_slopes = _without_slopes(prior)
    found = estimate_scales(
        moments, method="reml", prior=prior if moments.slopes else no_slopes, learn=learn
    )
    scales = found.scales
    test = LikelihoodRatio(math.nan, math.nan)
    variances = learn - {"coef_std"}
    simple = Evidence(plain, no_slopes)
    evidence: Evidence | SlopeEvidence = simple
    if moments.slopes:
        evidence = SlopeEvidence(moments, with_slope_guess(moments, prior))
    if "arm_std" not in found.not_learned:
        at_zero = _given(evidence, 0.0, variances).deviance
        test = likelihood_ratio(at_zero, restricted_best(evidence, variances).deviance)
    # If features are linearly dependent, as those of categories are, only a prior determines the coefficients.
    weak = replace(scales, coef_std=prior.coef_std, coef_mean=prior.coef_mean)
    if simple.has_full_rank:
        weak = replace(scales, coef_std=_any_slope(moments), coef_mean=0.0)
    posterior = _posterior(weak, moments)
    shares = _shares(moments, posterior)
    verdict = _verdict(found, test.p_value, shares)
    likely = _likely(evidence, found, variances)
    effects = _effects(moments, weak, likely, names)
    candidates = CandidateSets(moments, contexts, arms)
    gain = None
    if "arm_std" not in found.not_learned:
        linear = _estimate_linear(plain, no_slopes, binary=binary)
        total = sum(each.weight for each in likely)
        posteriors = [
            LikelyPosterior(_posterior(each.within(scales), moments), each.weight / total)
            for each in likely
        ]
        gain = estimate_gain(posteriors, linear, candidates, binary=binary)
    slopes = None
    if moments.slopes:
        explained = (shares["features"] + shares["arms"]) / shares["noise"] * scales.noise_std**2
        slopes = diagnose_slopes(moments, prior, found, variances, explained, names)
        if shares["noise"] < _PERFECT:
            slopes = replace(slopes, answer="cannot tell", because=_PERFECT_FIT)
    elif asks_for_slopes:
        slopes = too_few_for_slopes()
    return Diagnosis(
        answer=verdict.answer,
        because=verdict.because,
        rewards=moments.count,
        noise_std=found.noise_std,
        arm_std=found.arm_std,
        statistic=test.statistic,
        p_value=test.p_value,
        shares={} if binary else shares,
        log_scores={} if binary else _log_scores(moments, prior),
        arms=effects.arms,
        coefficients=effects.coefficients,
        gain=gain,
        slopes=slopes,
    )


def _without_slopes(scales: Scales) -> Scales:
    """Return the scales of a model whose arms have no slopes."""
    return replace(scales, slope_std=0.0, slopes=None)


def _any_level(moments: Moments) -> float:
    """Return a standard deviation so large that it hardly restricts an intercept."""
    h, r = moments.weight, moments.mean_reward
    square = float((moments.reward_scatter + h @ r**2) / h.sum())
    return min(max(10.0 * math.sqrt(square), 1e-100), 1e100)


def _any_slope(moments: Moments) -> tuple[float, ...]:
    """Return standard deviations so large that they hardly restrict the coefficients."""
    h, x = moments.weight, moments.mean_context
    square = (np.diag(moments.scatter) + h @ x**2) / h.sum()
    size = np.sqrt(np.where(square > 0.0, square, 1.0))
    return tuple(np.clip(_any_level(moments) / size, 1e-100, 1e100).tolist())


def _given(evidence: Evidence | SlopeEvidence, arm_std: float, learn: set[str]) -> SlopePoint:
    """Return the maximum of the restricted likelihood with this arm_std."""
    prior = evidence.prior if isinstance(evidence, Evidence) else evidence.plain.prior
    given = evidence.under(replace(prior, arm_std=arm_std))
    return restricted_best(given, learn - {"arm_std"})


def _posterior(scales: Scales, moments: Moments) -> Posterior:
    """Return the posterior, with slopes if the moments have them."""
    return (SlopePosterior if moments.slopes else Posterior).of(scales, moments)


def _shares(moments: Moments, posterior: Posterior) -> dict[str, float]:
    """Return the shares that features, arms and noise have in the variance of a reward of weight 1."""
    h, d = moments.weight, moments.n_features
    theta = posterior.coefficients.mean[:d]
    apart = moments.mean_context - h @ moments.mean_context / h.sum()
    scatter = moments.scatter + (apart * h[:, None]).T @ apart
    parts = {
        "features": float(theta @ scatter @ theta / h.sum()),
        "arms": posterior.scales.arm_std**2,
    }
    if moments.slopes:
        parts["slopes"] = slope_variance(moments, posterior.scales.slope_std)
    parts["noise"] = posterior.scales.noise_std**2
    total = sum(parts.values())
    return {name: part / total for name, part in parts.items()}


def _verdict(found: ScaleEstimate, p_value: float, shares: dict[str, float]) -> _Verdict:
    """Return whether there are arm effects, and why."""
    arm_std, noise_variance = found.arm_std, found.scales.noise_std**2
    if "arm_std" in found.not_learned:
        return _Verdict(
            "cannot tell",
            "Too few rewards. To tell arm effects from noise, some arms must have more than one reward, and there "
            "must be more arms than features that differ between arms.",
        )
    if shares["noise"] < _PERFECT:
        return _Verdict(
            "cannot tell",
            _PERFECT_FIT,
        )
    if p_value < _SIGNIFICANT:
        return _Verdict(
            "yes",
            f"Arms differ by more than their features and chance explain ({format_p_value(p_value)}). The arm effects "
            f"have a standard deviation of {arm_std.value:.3g} ({arm_std.low:.3g} to {arm_std.high:.3g}).",
        )
    # The variance that features explain, and the largest share that arm effects may have beside it.
    explained, whole = (
        shares["features"] / shares["noise"] * noise_variance,
        "what features and arms explain",
    )
    if explained == 0.0:  # without features: beside the noise
        explained, whole = noise_variance, "a reward's variance"
    most = arm_std.high**2 / (explained + arm_std.high**2)
    beside_noise = arm_std.high**2 / noise_variance
    if most >= _MATTERS and beside_noise < _MATTERS_BESIDE_NOISE:
        most, whole = beside_noise, "the noise's variance"
    if most < _MATTERS:
        return _Verdict(
            "no",
            f"There is no sign of arm effects. If there are any, their standard deviation is below "
            f"{arm_std.high:.3g}, which is {most:.1%} of {whole}.",
        )
    return _Verdict(
        "cannot tell",
        f"There is no clear sign of arm effects ({format_p_value(p_value)}), but a standard deviation of up to "
        f"{arm_std.high:.3g} cannot be excluded. That would be {most:.0%} of {whole}. More rewards are needed.",
    )


def _log_scores(moments: Moments, prior: Scales) -> dict[str, float]:
    """Return the log evidence per reward of three models, each with the scales that fit it best.

    This is the log score of predicting each reward from those before it; it does not depend on their order.
    """
    whole, moments = moments, moments.with_slopes(())
    no_features = replace(
        moments,
        scatter=np.zeros((0, 0)),
        cross=np.zeros(0),
        mean_context=np.zeros((len(moments.arms), 0)),
    )
    usual = _without_slopes(prior)
    plain = replace(usual, coef_std=1.0, coef_mean=0.0)
    models: dict[str, tuple[Moments, Scales, tuple[Any, ...]]] = {
        "robust (features, arms)": (moments, usual, ("noise_std", "arm_std", "coef_std")),
        "linear (features only)": (moments, replace(usual, arm_std=0.0), ("noise_std", "coef_std")),
        "per arm (arms only)": (no_features, plain, ("noise_std", "arm_std")),
    }
    scores = {}
    if whole.slopes:
        every: set[Any] = {"noise_std", "arm_std", "coef_std", "slope_std"}
        scales = mode(whole, with_slope_guess(whole, prior), every, "ml")
        log_evidence = _posterior(replace(scales, slopes=whole.slopes), whole).log_evidence
        scores["slopes (features, arms)"] = log_evidence / whole.count
    for name, (evidence, guess, learn) in models.items():
        scales = estimate_scales(evidence, method="ml", prior=guess, learn=learn).scales
        scores[name] = _posterior(scales, evidence).log_evidence / moments.count
    return scores


def _likely(
    evidence: Evidence | SlopeEvidence, found: ScaleEstimate, learn: set[str]
) -> list[_LikelyScales]:
    """Return values of arm_std across its interval, with the noise_std and the weight of each.

    The weights are those of a flat prior on arm_std (Gelman 2006). They make the intervals of the effects account for
    the uncertainty of arm_std. The best arm_std alone would not do: it may be zero.
    """
    if "arm_std" in found.not_learned:
        return [_LikelyScales(found.arm_std.value, found.noise_std.value, 1.0)]
    _, low, high = found.arm_std
    if high == math.inf:
        high = 10.0 * max(found.arm_std.value, found.noise_std.value)
    points = [(a, _given(evidence, a, learn)) for a in np.linspace(low, high, 9).tolist()]
    lowest = min(point.deviance for _, point in points)
    return [
        _LikelyScales(
            a,
            math.sqrt(point.shared.noise),
            math.exp(-0.5 * (point.deviance - lowest)),
            None if isinstance(evidence, Evidence) else evidence.slope_std_at(point),
        )
        for a, point in points
    ]


def _estimate_linear(moments: Moments, prior: Scales, *, binary: bool) -> Posterior:
    """Return the posterior of a model without arm effects and slopes, whose prior of the coefficients fits it."""
    learn: tuple[Any, ...] = ("coef_std",) if binary else ("noise_std", "coef_std")
    prior = replace(prior, arm_std=0.0)
    scales = estimate_scales(moments, method="reml", prior=prior, learn=learn).scales
    return Posterior.of(scales, moments)


def _effects(
    moments: Moments,
    scales: Scales,
    likely: list[_LikelyScales],
    names: list[str],
) -> _Effects:
    """Return arm effects and coefficients: means and intervals over all likely scales."""
    firsts, seconds, shrinkages = [], [], []
    total = sum(each.weight for each in likely)
    for each in likely:
        weight = each.weight / total
        posterior = _posterior(each.within(scales), moments)
        arms, coefficients = posterior.arm_effects(moments.arms), posterior.coefficients
        mean = np.concatenate([arms.mean, coefficients.mean])
        std = np.concatenate([arms.std, coefficients.std])
        firsts.append(weight * mean)
        seconds.append(weight * (std**2 + mean**2))
        shrinkages.append(weight * posterior.shrinkage(moments.arms))
    mean = np.sum(firsts, axis=0)
    reach = _REACH * np.sqrt(np.maximum(np.sum(seconds, axis=0) - mean**2, 0.0))
    ends = list(zip(mean.tolist(), (mean - reach).tolist(), (mean + reach).tolist(), strict=True))
    shrinkage = np.sum(shrinkages, axis=0).tolist()
    k = len(moments.arms)
    found = [
        Effect(arm, *end, h, w)
        for arm, end, h, w in zip(
            moments.arms, ends[:k], moments.weight.tolist(), shrinkage, strict=True
        )
    ]
    slopes = zip([*names, "level" if "intercept" in names else "intercept"], ends[k:], strict=True)
    return _Effects(
        tuple(sorted(found, key=lambda effect: -effect.value)),
        tuple(Effect(name, *end) for name, end in slopes),
    )
