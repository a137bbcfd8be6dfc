"""Do the features miss something that differs between arms? The misspecification report.

Everything is computed from moments: of a policy, or of a log. The scales are those of the restricted
likelihood (which does not depend on any prior of the coefficients), and the test of arm_std = 0
compares its maximum with its value there. Zero is at the edge of what arm_std can be, so that without
arm effects the statistic is 0 half of the time and χ² with one degree of freedom the other half
(Self & Liang 1987).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rolin._support.arms import Name
from rolin._support.optional import needs
from rolin.errors import DataError, ParameterError
from rolin.model.estimation import Interval, ScaleEstimate, estimate_scales
from rolin.model.likelihood import Evidence, Point, Search
from rolin.model.moments import Moments
from rolin.model.posterior import Posterior
from rolin.model.scales import Scales

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Diagnosis", "Effect", "diagnose"]

Answer = Literal["yes", "no", "cannot tell"]

# Below this share of what features and arms explain, arm effects would not matter much.
_MATTERS = 0.1
# The same, beside the noise: for features that explain next to nothing themselves.
_MATTERS_BESIDE_NOISE = 0.01
_SIGNIFICANT = 0.05
_SHOWN, _WIDEST = 20, 40  # coefficients in a text, and letters of their names
# Below this share of a reward's variance, noise is the rounding of a perfect fit.
_PERFECT = 1e-12


@dataclass(frozen=True)
class Effect:
    """An arm's own effect, or a coefficient, with a 95 % interval."""

    name: Name
    value: float
    low: float
    high: float
    weight: float = math.nan
    """Of an arm: the weight of its rewards, their number if all weigh 1."""
    shrinkage: float = math.nan
    """Of an arm: how much of what it showed is believed, from 0 to 1."""


@dataclass(frozen=True)
class Diagnosis:
    """What the data say about effects that the features miss."""

    answer: Answer
    """Whether there are arm effects."""
    because: str
    """Why."""
    rewards: float
    """Number of rewards."""
    noise_std: Interval
    arm_std: Interval
    statistic: float
    """Twice the rise of the log restricted likelihood from arm_std = 0 to its best; NaN if untold."""
    p_value: float
    """Probability of such a rise without arm effects; NaN if it cannot be told."""
    shares: dict[str, float]
    """Of a reward's variance: what features, arms and noise carry. Empty of yes/no rewards."""
    log_scores: dict[str, float]
    """Mean log density of a reward, predicted from those before it, by three models. Empty of
    yes/no rewards."""
    arms: tuple[Effect, ...]
    """Effect of every arm, highest first."""
    coefficients: tuple[Effect, ...]

    def __str__(self) -> str:
        """Return the report as text, with at most ten arms from each end."""
        lines = [
            f"Do the features miss something that differs between arms? {self.answer.upper()}."
        ]
        lines += [self.because, ""]
        lines += [f"rewards remembered: {self.rewards:g}; arms: {len(self.arms)}"]
        for name in ("noise_std", "arm_std"):
            value, low, high = getattr(self, name)
            told = f"95 % interval {low:.3g} to {high:.3g}"
            if low == high:
                told = "as given" if not self.shares else "as given: the data do not tell"
            lines.append(f"{name:<10} {value:10.4g}   {told}")
        if not math.isnan(self.p_value):
            lines.append(f"test of arm_std = 0: statistic {self.statistic:.2f}, {self.p_told}")
        if self.shares:
            parts = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
            lines.append(f"variance of a reward: {parts}")
        if self.log_scores:
            lines += ["", "log score per reward, one step ahead (higher is better)"]
            lines += [f"  {name:<24} {score:9.4f}" for name, score in self.log_scores.items()]
        shown = self.largest_coefficients(_SHOWN)
        width = max([12, *(min(len(str(c.name)), _WIDEST) for c in shown)])
        lines += ["", f"{'coefficient':<{width + 2}} {'value':>8}  95 % interval"]
        lines += [
            f"  {_short(c.name, width):<{width}} {c.value:8.3g}  {c.low:.3g} to {c.high:.3g}"
            for c in shown
        ]
        if len(shown) < len(self.coefficients):
            lines.append(f"  … {len(self.coefficients) - len(shown)} smaller ones")
        arms = self.arms if len(self.arms) <= 20 else (*self.arms[:10], *self.arms[-10:])
        width = max([12, *(min(len(str(arm.name)), _WIDEST) for arm in arms)])
        lines += [
            "",
            f"{'arm':<{width + 2}} {'effect':>8}  95 % interval          weight  shrinkage",
        ]
        rows = [_row(arm, width) for arm in arms]
        if len(arms) < len(self.arms):
            rows.insert(10, f"  … {len(self.arms) - 20} more")
        return "\n".join([*lines, *rows])

    @property
    def p_told(self) -> str:
        """The p-value as text."""
        return _p_told(self.p_value)

    def largest_coefficients(self, n: int) -> list[Effect]:
        """Return the n largest coefficients, in their order; all, if there are no more."""
        by_size = sorted(self.coefficients, key=lambda c: -abs(c.value))
        kept = {id(c) for c in by_size[:n]}
        return [c for c in self.coefficients if id(c) in kept]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain numbers, texts and lists; what cannot be told is `None`."""
        report: dict[str, Any] = _plain(asdict(self))
        return report

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(
            self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False, default=str
        )

    def plot(self) -> Figure:
        """Draw the arms' effects and the coefficients, with their intervals."""
        with needs("sim"):
            from rolin.model.figures import draw_effects
        return draw_effects(self)


def diagnose(
    moments: Moments,
    *,
    prior: Scales | None = None,
    feature_names: Sequence[str] | None = None,
    binary: bool = False,
) -> Diagnosis:
    """Say whether there are arm effects that the features miss.

    Parameters
    ----------
    moments
        The evidence: `policy.moments`, or `Moments.of` a log.
    prior
        The model: the scales kept where the data are too few, and the prior of the coefficients. If it
        has no intercept, one is added: a level that all arms share is no arm effect. Where features add up
        to others, as those of categories do, the coefficients of the report are told apart by this prior.
    feature_names
        Names of the d features, for the report.
    binary
        Whether the moments are those of a logistic policy: then all is on the logit scale, the noise
        is known, and shares of a reward's variance and log scores are left out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, arms = rng.normal(size=(2000, 2)), rng.integers(20, size=2000)
    >>> r = x @ [1.0, -1.0] + rng.normal(size=20)[arms] + rng.normal(size=2000)
    >>> diagnose(Moments.of(arms, x, r)).answer
    'yes'
    """
    d = moments.n_features
    names = [f"x{j}" for j in range(d)] if feature_names is None else list(feature_names)
    if len(names) != d:
        raise ParameterError(f"feature_names has {len(names)} names, expected {d}")
    if moments.count == 0:
        raise DataError("there are no rewards to diagnose")
    prior = Scales() if prior is None else prior
    if not prior.has_intercept:
        prior = replace(prior, intercept_std=_any_level(moments))
    learn: set[Any] = {"arm_std", "coef_std"} if binary else {"noise_std", "arm_std", "coef_std"}
    found = estimate_scales(moments, method="reml", prior=prior, learn=learn)
    scales = found.scales
    statistic, p_value = math.nan, math.nan
    evidence, variances = Evidence(moments, prior), learn - {"coef_std"}
    if "arm_std" not in found.kept:
        statistic, p_value = _test(evidence, variances)
    # Of features that add up to others, as categories do, coefficients can only be told by a prior.
    weak = replace(scales, coef_std=prior.coef_std, coef_mean=prior.coef_mean)
    if evidence.has_full_rank:
        weak = replace(scales, coef_std=_any_slope(moments), coef_mean=0.0)
    posterior = Posterior.of(weak, moments)
    shares = _shares(moments, posterior)
    answer, because = _verdict(found.kept, found.arm_std, p_value, shares, scales)
    return Diagnosis(
        answer=answer,
        because=because,
        rewards=moments.count,
        noise_std=found.noise_std,
        arm_std=found.arm_std,
        statistic=statistic,
        p_value=p_value,
        shares={} if binary else shares,
        log_scores={} if binary else _log_scores(moments, prior),
        **_effects(moments, weak, _likely(evidence, found, variances), names),
    )


def _any_level(moments: Moments) -> float:
    """Return a standard deviation with which an intercept is all but free."""
    h, r = moments.weight, moments.mean_reward
    square = float((moments.reward_scatter + h @ r**2) / h.sum())
    return min(max(10.0 * math.sqrt(square), 1e-100), 1e100)


def _any_slope(moments: Moments) -> tuple[float, ...]:
    """Return standard deviations with which the coefficients are all but free."""
    h, x = moments.weight, moments.mean_context
    square = (np.diag(moments.scatter) + h @ x**2) / h.sum()
    size = np.sqrt(np.where(square > 0.0, square, 1.0))
    return tuple(np.clip(_any_level(moments) / size, 1e-100, 1e100).tolist())


def _test(evidence: Evidence, learn: set[str]) -> tuple[float, float]:
    """Return the likelihood ratio statistic of arm_std = 0, and its p-value."""
    free = Search(evidence, learn, "reml").best()
    zero = _given(evidence, 0.0, learn)
    statistic = max(zero.deviance - free.deviance, 0.0)
    if statistic == 0.0:
        return 0.0, 1.0
    return statistic, 0.5 * math.erfc(math.sqrt(0.5 * statistic))  # ½ P(χ²₁ > statistic)


def _given(evidence: Evidence, arm_std: float, learn: set[str]) -> Point:
    """Return the maximum of the restricted likelihood with this arm_std."""
    given = evidence.under(replace(evidence.prior, arm_std=arm_std))
    return Search(given, learn - {"arm_std"}, "reml").best()


def _shares(moments: Moments, posterior: Posterior) -> dict[str, float]:
    """Return what features, arms and noise carry of the variance of a reward of weight 1."""
    h, d = moments.weight, moments.n_features
    theta = posterior.coefficients.mean[:d]
    apart = moments.mean_context - h @ moments.mean_context / h.sum()
    scatter = moments.scatter + (apart * h[:, None]).T @ apart
    parts = {
        "features": float(theta @ scatter @ theta / h.sum()),
        "arms": posterior.scales.arm_std**2,
        "noise": posterior.scales.noise_std**2,
    }
    total = sum(parts.values())
    return {name: part / total for name, part in parts.items()}


def _verdict(
    kept: Sequence[str], arm_std: Interval, p_value: float, shares: dict[str, float], scales: Scales
) -> tuple[Answer, str]:
    if "arm_std" in kept:
        return "cannot tell", (
            "Too few rewards: telling arm effects from noise takes arms that were pulled more than "
            "once, and more arms than features that tell them apart."
        )
    if shares["noise"] < _PERFECT:
        return "cannot tell", (
            "The features reproduce the rewards exactly: is one of them made from the reward?"
        )
    if p_value < _SIGNIFICANT:
        return "yes", (
            f"Arms differ by more than their features and chance explain ({_p_told(p_value)}): their own "
            f"effects have a standard deviation of {arm_std.value:.3g} ({arm_std.low:.3g} to "
            f"{arm_std.high:.3g})."
        )
    # The features' part in the units of the scales, and the most that the arms' may be.
    features = shares["features"] / shares["noise"] * scales.noise_std**2
    explained, what = features, "what features and arms explain"
    if features == 0.0:  # without features, beside the noise
        explained, what = scales.noise_std**2, "a reward's variance"
    most = arm_std.high**2 / (explained + arm_std.high**2)
    beside_noise = arm_std.high**2 / scales.noise_std**2
    if most >= _MATTERS and beside_noise < _MATTERS_BESIDE_NOISE:
        most, what = beside_noise, "the noise's variance"
    if most < _MATTERS:
        return "no", (
            f"There is no sign of arm effects, and if there are any, their standard deviation is "
            f"below {arm_std.high:.3g}: {most:.1%} of {what}."
        )
    return "cannot tell", (
        f"There is no clear sign of arm effects ({_p_told(p_value)}), but a standard deviation of up to "
        f"{arm_std.high:.3g} cannot be excluded, which would be {most:.0%} of {what}. More rewards "
        "would tell."
    )


def _log_scores(moments: Moments, prior: Scales) -> dict[str, float]:
    """Return log evidence per reward: the log score of predicting each from those before it.

    Its densities multiply to the same whatever the order. Each model has the scales that suit it best.
    """
    no_features = replace(
        moments,
        scatter=np.zeros((0, 0)),
        cross=np.zeros(0),
        mean_context=np.zeros((len(moments.arms), 0)),
    )
    plain = replace(prior, coef_std=1.0, coef_mean=0.0)
    models: dict[str, tuple[Moments, Scales, tuple[Any, ...]]] = {
        "robust (features, arms)": (moments, prior, ("noise_std", "arm_std", "coef_std")),
        "linear (features only)": (moments, replace(prior, arm_std=0.0), ("noise_std", "coef_std")),
        "per arm (arms only)": (no_features, plain, ("noise_std", "arm_std")),
    }
    scores = {}
    for name, (evidence, guess, learn) in models.items():
        scales = estimate_scales(evidence, method="ml", prior=guess, learn=learn).scales
        scores[name] = Posterior.of(scales, evidence).log_evidence / moments.count
    return scores


_REACH = NormalDist().inv_cdf(0.975)


def _likely(
    evidence: Evidence, found: ScaleEstimate, learn: set[str]
) -> list[tuple[float, float, float]]:
    """Return values of arm_std across its interval, with the noise and the weight of each.

    Weights are those of a flat prior on arm_std (Gelman 2006). An effect's interval is to hold it
    whatever arm_std is, not as if the best one were the true one: that may be zero.
    """
    if "arm_std" in found.kept:
        return [(found.arm_std.value, found.noise_std.value, 1.0)]
    _, low, high = found.arm_std
    if high == math.inf:
        high = 10.0 * max(found.arm_std.value, found.noise_std.value)
    points = []
    for arm_std in np.linspace(low, high, 9).tolist():
        point = _given(evidence, arm_std, learn)
        points.append((arm_std, math.sqrt(point.noise), point.deviance))
    lowest = min(deviance for _, _, deviance in points)
    return [(a, noise, math.exp(-0.5 * (deviance - lowest))) for a, noise, deviance in points]


def _effects(
    moments: Moments,
    scales: Scales,
    likely: list[tuple[float, float, float]],
    names: list[str],
) -> dict[str, tuple[Effect, ...]]:
    """Return arm effects and coefficients: means and intervals over all likely scales."""
    firsts, seconds, shrinkages = [], [], []
    total = sum(weight for _, _, weight in likely)
    for arm_std, noise, likelihood in likely:
        weight = likelihood / total
        posterior = Posterior.of(replace(scales, arm_std=arm_std, noise_std=noise), moments)
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
    return {
        "arms": tuple(sorted(found, key=lambda effect: -effect.value)),
        "coefficients": tuple(Effect(name, *end) for name, end in slopes),
    }


def _row(arm: Effect, width: int) -> str:
    interval = f"{arm.low:.3g} to {arm.high:.3g}"
    numbers = f"{arm.value:8.3g}  {interval:<18} {arm.weight:10g} {arm.shrinkage:10.2f}"
    return f"  {_short(arm.name, width):<{width}} {numbers}"


def _p_told(p_value: float) -> str:
    """Return a p-value as text; one that is no ordinary number any more is not zero."""
    return f"p = {p_value:.2g}" if p_value > 0.0 else "p < 1e-300"


def _short(name: Name, width: int) -> str:
    text = str(name)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: NaN and infinities are `None`."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        if hasattr(value, "_asdict"):
            return _plain(value._asdict())
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
