"""Estimate the scales from moments: noise_std, arm_std, coef_std and slope_std."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from rolin._support.optional import needs
from rolin.errors import InputError, NotFiniteError, ParameterError, RolinError
from rolin.model.evidence import SMALL, Evidence
from rolin.model.first_guess import SLOPE_SHARE
from rolin.model.likelihood import AT_GUESS, NEVER_ZERO, Point, Search, point_by_squares
from rolin.model.moments import Moments
from rolin.model.scales import Scales
from rolin.model.slope_likelihood import (
    SlopeEvidence,
    SlopePoint,
    SlopeSearch,
    possible_slopes,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Interval",
    "Learned",
    "Method",
    "ScaleEstimate",
    "check_method",
    "estimate_scales",
    "mode",
    "with_slope_guess",
]

Method = Literal["map", "reml", "ml", "moments", "moments-as-printed"]
"""How scales are learned; [`estimate_scales`][rolin.model.estimate_scales] explains each value."""
Learned = Literal["noise_std", "arm_std", "coef_std", "slope_std"]


class Interval(NamedTuple):
    """An estimate, with a 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class ScaleEstimate:
    """The scales estimated from moments, with 95 % intervals."""

    scales: Scales
    """The scales to use: those that were learned, and the prior's numbers for all others."""
    noise_std: Interval
    arm_std: Interval
    coef_std: Interval
    """The scale of the coefficients; a factor, if the prior has one number per feature."""
    log_likelihood: float
    """Maximum of the likelihood (for `"map"`, of the posterior density); NaN for the methods of moments."""
    not_learned: tuple[Learned, ...]
    """Scales that should be learned, but stay as in the prior: there are too few data."""
    slope_std: Interval | None = None
    """The scale of the arms' slopes, if there are any; their geometric mean, if there is one number per feature."""

    @property
    def intervals(self) -> dict[str, Interval]:
        """All estimates with their intervals, by the name of the scale."""
        found = {name: getattr(self, name) for name in get_args(Learned)}
        return {name: interval for name, interval in found.items() if interval is not None}

    def __repr__(self) -> str:
        """Return the estimates in one line."""
        values = (f"{name}={found.value:.4g}" for name, found in self.intervals.items())
        return f"<ScaleEstimate: {', '.join(values)}>"

    def __str__(self) -> str:
        """Return the estimates with their intervals, and which scales could not be learned."""
        lines = [
            f"{name} = {value:.4g} ({low:.3g} to {high:.3g})"
            if low < high
            else f"{name} = {value:.4g} (as given)"
            for name, (value, low, high) in self.intervals.items()
        ]
        if self.not_learned:
            lines.append(f"too few data to learn {', '.join(self.not_learned)}: as given")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """Return the estimates as a data frame, one row per scale. Needs pandas (`rolin[sim]`)."""
        with needs("sim"):
            import pandas as pd
        rows = [{"scale": name, **found._asdict()} for name, found in self.intervals.items()]
        return pd.DataFrame(rows, columns=["scale", "value", "low", "high"])


def estimate_scales(
    moments: Moments,
    *,
    method: Method = "map",
    prior: Scales | None = None,
    learn: Iterable[Learned] | None = None,
    guessed_from_data: bool = False,
) -> ScaleEstimate:
    """Estimate noise_std, arm_std, coef_std and slope_std from moments, in O(K d² + d³) per step.

    Parameters
    ----------
    moments
        The evidence.
    method
        `"map"`: the mode of the marginal likelihood times a weak prior on the scales, which prevents extreme
        estimates from few data. `"ml"`: maximum of the marginal likelihood. `"reml"`: maximum of the restricted
        likelihood, with a flat prior on the coefficients. `"moments"`: Appendix D of the paper, corrected.
        `"moments-as-printed"`: with the degrees of freedom printed in the paper, for comparison.
    prior
        The scales to use for those that are not learned, and the center of the prior of `"map"`.
    learn
        The scales to learn; by default all. `slope_std` is learned only from moments with the scatter of each arm
        (`Moments.of(…, slopes=…)`); a step then takes O(K d³).
    guessed_from_data
        Whether `prior` comes from the same data. The prior of `"map"` then has its mode at the guess of arm_std, as if
        a policy learns its scales without any number to start from.

    Notes
    -----
    The methods of moments do not estimate slope_std. An intercept has a flat prior. `"reml"` and the methods of moments do
    not estimate coef_std. It then maximizes the marginal likelihood given the other scales.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x, arms = rng.normal(size=(2000, 3)), rng.integers(50, size=2000)
    >>> effects = 0.5 * rng.normal(size=50)
    >>> r = x @ [1.0, -1.0, 0.5] + effects[arms] + 2.0 * rng.normal(size=2000)
    >>> found = estimate_scales(Moments.of(arms, x, r), method="reml")
    >>> round(found.noise_std.value, 1), found.arm_std.low < 0.5 < found.arm_std.high
    (2.0, True)
    """
    prior = Scales() if prior is None else prior
    for name, value, kind in (("moments", moments, Moments), ("prior", prior, Scales)):
        if not isinstance(value, kind):
            raise InputError(f"{name}={value!r}, expected {kind.__name__}")
    if learn is None:
        learn = tuple(name for name in get_args(Learned) if name != "slope_std" or moments.slopes)
    if isinstance(learn, str) or not isinstance(learn, Iterable):
        raise ParameterError(f"learn={learn!r}, expected a list of names of scales")
    asked = tuple(learn)
    check_method("method", method)
    if prior.has_slopes and not moments.slopes:
        raise ParameterError(
            f"prior has slope_std={prior.slope_std!r}, but the moments have no slopes; expected Moments.of(…, slopes=…)"
        )
    for name in asked:
        if name not in get_args(Learned):
            raise ParameterError(f"learn has {name!r}, expected some of {get_args(Learned)}")
    with _computing():
        power = AT_GUESS if guessed_from_data else NEVER_ZERO
        found = _estimate(moments, method, prior, asked, power)
        values = (interval.value for interval in found.intervals.values())
        if not all(map(math.isfinite, values)):
            raise ValueError(f"{found}")
    return found


def mode(
    moments: Moments,
    prior: Scales,
    learn: Set[Learned],
    method: Method,
    *,
    guessed_from_data: bool = False,
    roughly: bool = False,
    start: Scales | None = None,
) -> Scales:
    """Return the scales that `estimate_scales` finds, without intervals, in a tenth of the time.

    If the guess comes from the same data, the prior of `"map"` has its mode at the guess of arm_std. `roughly` is faster with
    slopes: scales are then found to 0.5 %. If `start` is given, the maximum near these scales is looked for first: they
    should be an estimate from fewer data.
    """
    with _computing():
        if _has_slopes(moments, prior, learn):
            power = AT_GUESS if guessed_from_data else NEVER_ZERO
            return _slope_mode(moments, prior, learn, method, power, roughly=roughly, start=start)
        evidence = Evidence(moments, prior).compressed()
        wanted = learn & evidence.possible(method)
        if not wanted:
            return prior
        if method not in ("map", "ml"):
            return _estimate(moments, method, prior, tuple(learn)).scales
        power = AT_GUESS if guessed_from_data else NEVER_ZERO
        search = Search(evidence, wanted, method, power=power)
        near = None if start is None else Point.of(start)
        in_units = guessed_from_data and isinstance(prior.coef_std, tuple)
        if near is None and in_units and len(evidence.cross) > SMALL:
            # This saves most of the time of a first estimate. If coef_std starts from one number for all features, whose
            # units may differ, there are more often several maxima, so then the whole range is searched.
            near = point_by_squares(evidence)
        return _scales(evidence, search.best(near), wanted)


def _has_slopes(moments: Moments, prior: Scales, learn: Iterable[str]) -> bool:
    """Return whether the model has slopes: they are learned, or have a given scale."""
    return bool(moments.slopes) and (prior.has_slopes or "slope_std" in learn)


def with_slope_guess(moments: Moments, prior: Scales) -> Scales:
    """Return the prior with the features that the moments have slopes for, and a guess of their scale."""
    named = prior.slopes is not None or isinstance(prior.slope_std, tuple)
    if prior.has_slopes and named:
        indices = tuple(prior.slope_indices(moments.n_features).tolist())
        if indices != moments.slopes:
            raise ParameterError(
                f"prior has slopes for the features {list(indices)}, but the moments for {list(moments.slopes)}; expected "
                "the same features"
            )
    if not prior.has_slopes:
        _, std = prior.prior(moments.n_features)
        guess = tuple((SLOPE_SHARE * std[list(moments.slopes)]).tolist())
        prior = replace(prior, slope_std=guess[0] if len(set(guess)) == 1 else guess)
    return replace(prior, slopes=moments.slopes)


def _slope_mode(
    moments: Moments,
    prior: Scales,
    learn: Set[Learned],
    method: Method,
    power: float,
    *,
    roughly: bool,
    start: Scales | None,
) -> Scales:
    """Return what `mode` does, for arms with slopes."""
    if method not in ("map", "ml"):
        return replace(_estimate(moments, method, prior, tuple(learn)).scales, slopes=prior.slopes)
    evidence = SlopeEvidence(moments, with_slope_guess(moments, prior))
    wanted = learn & possible_slopes(evidence, method)
    if not wanted:
        return prior
    search = SlopeSearch(evidence, wanted, method, power=power)
    is_usual = method == "map" and "arm_std" in wanted
    point = search.roughly_best(start) if roughly and is_usual else search.best()
    return replace(_slope_scales(evidence, point, wanted), slopes=prior.slopes)


def _slope_scales(evidence: SlopeEvidence, point: SlopePoint, wanted: Set[str]) -> Scales:
    """Return the scales of the prior, with those that were learned replaced."""
    scales = _scales(evidence.plain, point.shared, wanted - {"slope_std"})
    if "slope_std" in wanted:
        return replace(scales, slope_std=evidence.slope_std_at(point))
    return scales


def check_method(name: str, method: object) -> None:
    """Reject unknown methods."""
    if not isinstance(method, str) or method not in get_args(Method):
        raise ParameterError(f"{name}={method!r}, expected one of {get_args(Method)}")


@contextmanager
def _computing() -> Iterator[None]:
    """Turn all errors of numbers out of range into `NotFiniteError`."""
    try:
        with np.errstate(all="ignore"):
            yield
    except RolinError:
        raise
    except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
        raise NotFiniteError(
            f"the scales cannot be estimated: prior and moments differ by too many orders of magnitude ({error})"
        ) from error


def _scales(evidence: Evidence, point: Point, wanted: Set[str]) -> Scales:
    """Return the scales of the prior, with those that were learned replaced."""
    noise, coef = math.sqrt(point.noise), math.sqrt(point.coef * point.noise)
    arm = noise * math.sqrt(point.arm)
    coef_std: float | tuple[float, ...] = coef
    if isinstance(evidence.prior.coef_std, tuple):
        coef_std = tuple((np.array(evidence.prior.coef_std) * coef / evidence.unit).tolist())
    learned = {"noise_std": noise, "arm_std": arm, "coef_std": coef_std}
    if not (math.isfinite(noise + arm) and np.isfinite(coef_std).all()):
        raise ValueError(f"found {learned}")
    return replace(evidence.prior, **{name: learned[name] for name in wanted})  # type: ignore[arg-type]  # each its own


def _estimate(
    moments: Moments,
    method: Method,
    prior: Scales,
    asked: tuple[Learned, ...],
    power: float = NEVER_ZERO,
) -> ScaleEstimate:
    if _has_slopes(moments, prior, asked):
        return _estimate_slopes(moments, method, prior, asked, power)
    evidence = Evidence(moments, prior)
    possible = evidence.possible(method)
    wanted = {name for name in asked if name in possible}
    not_learned = tuple(name for name in asked if name not in possible)
    by = "reml" if method.startswith("moments") else method
    likelihood = Search(evidence, wanted, by, power=power)
    point = around = likelihood.best()
    if method.startswith("moments"):
        point = _by_moments(evidence, moments, wanted, printed=method == "moments-as-printed")
    coefficients = likelihood
    if method not in ("map", "ml"):
        # These methods do not estimate coef_std. It maximizes the marginal likelihood, given the others.
        given = replace(prior, noise_std=point.noise**0.5, arm_std=(point.arm * point.noise) ** 0.5)
        coefficients = Search(evidence.under(given), wanted & {"coef_std"}, "ml")
        point = point._replace(coef=coefficients.best().coef)
    noise = math.sqrt(point.noise)
    arm, coef = noise * math.sqrt(point.arm), noise * math.sqrt(point.coef)
    intervals = {
        name: (value, value)
        for name, value in zip(
            ("noise_std", "arm_std", "coef_std"), (noise, arm, coef), strict=True
        )
    }
    if "noise_std" in wanted:
        intervals["noise_std"] = _noise_interval(noise, evidence, evidence.within_freedom)
    if "arm_std" in wanted:
        if method == "map":  # its prior excludes an arm_std of zero, but the interval may reach it
            likelihood = Search(evidence, wanted, "ml")
            around = likelihood.best()
        intervals["arm_std"] = likelihood.arm_interval(around)
    if "coef_std" in wanted:
        intervals["coef_std"] = coefficients.coef_interval(point)
    return ScaleEstimate(
        _scales(evidence, point, wanted),
        _around(noise, *intervals["noise_std"]),
        _around(arm, *intervals["arm_std"]),
        _around(coef, *intervals["coef_std"]),
        math.nan if method.startswith("moments") else -0.5 * point.deviance,
        not_learned,
    )


def _estimate_slopes(
    moments: Moments, method: Method, prior: Scales, asked: tuple[Learned, ...], power: float
) -> ScaleEstimate:
    """Return what `_estimate` does, for arms with slopes."""
    if method.startswith("moments"):
        raise ParameterError(
            f"method={method!r} does not estimate slope_std, expected 'map', 'reml' or 'ml'"
        )
    evidence = SlopeEvidence(moments, with_slope_guess(moments, prior))
    plain, possible = evidence.plain, possible_slopes(evidence, method)
    wanted = {name for name in asked if name in possible}
    search = SlopeSearch(evidence, wanted, method, power=power)
    point, coefficients = search.best(), search
    if method == "reml":  # it does not estimate coef_std
        noise = point.shared.noise
        slope_std = _slope_scales(evidence, point, {"slope_std"}).slope_std
        given = replace(
            plain.prior, noise_std=noise**0.5, arm_std=(point.shared.arm * noise) ** 0.5, slope_std=slope_std
        )  # fmt: skip
        coefficients = SlopeSearch(SlopeEvidence(moments, given), wanted & {"coef_std"}, "ml")
        found = coefficients.best()
        point = point._replace(shared=point.shared._replace(coef=found.shared.coef))
    noise = math.sqrt(point.shared.noise)
    values = {
        "noise_std": noise,
        "arm_std": noise * math.sqrt(point.shared.arm),
        "coef_std": noise * math.sqrt(point.shared.coef),
        "slope_std": noise * math.sqrt(point.slope),
    }
    intervals = {name: (value, value) for name, value in values.items()}
    if "noise_std" in wanted:
        freedom = plain.count - len(plain.weight) - evidence.slope_ranks
        intervals["noise_std"] = _noise_interval(noise, plain, freedom)
    around, likelihood = point, search
    if method == "map":  # its prior excludes scales of zero, but the intervals may reach it
        likelihood = SlopeSearch(evidence, wanted, "ml")
        around = likelihood.best()
    for name in ("arm", "slope"):
        if f"{name}_std" in wanted:
            intervals[f"{name}_std"] = likelihood.interval_of(name, around)
    if "coef_std" in wanted:
        intervals["coef_std"] = coefficients.coef_interval(point)
    found_intervals = {name: _around(values[name], *intervals[name]) for name in values}
    return ScaleEstimate(
        _slope_scales(evidence, point, wanted),
        found_intervals["noise_std"],
        found_intervals["arm_std"],
        found_intervals["coef_std"],
        -0.5 * point.deviance,
        tuple(name for name in asked if name not in possible),
        found_intervals["slope_std"],
    )


def _around(value: float, low: float, high: float) -> Interval:
    """Return an interval that contains its estimate. That of the likelihood may not contain one from moments."""
    return Interval(value, min(low, value), max(high, value))


def _noise_interval(noise: float, evidence: Evidence, freedom: float) -> tuple[float, float]:
    """Return the ends of the 95 % interval of noise_std, from the rewards within arms alone.

    `freedom` is the number of rewards within arms, minus what is estimated from them.
    """
    from scipy.special import chdtri  # takes 0.1 s to import

    if freedom >= 1:
        low, high = (noise * math.sqrt(freedom / chdtri(freedom, p)) for p in (0.025, 0.975))
        return low, high
    # No arm has enough rewards: all variation might be arm effects.
    freedom = max(evidence.count - evidence.rank - evidence.fixed, 1.0)
    return 0.0, noise * math.sqrt(freedom / chdtri(freedom, 0.975))


def _by_moments(evidence: Evidence, moments: Moments, wanted: Set[str], *, printed: bool) -> Point:
    """Return Appendix D's estimates, corrected or as printed.

    σ̂² is the residual sum of squares of the regression within arms, divided by its degrees of freedom. σ̂₀² is what the
    regression on all rewards leaves beyond that. The coefficients are shared by all arms, so their rank is
    subtracted once, while the paper subtracts d for every arm. Its d₀ is a trace.
    """
    prior, d = evidence.prior, moments.n_features
    h = evidence.weight
    noise = prior.noise_std**2
    if "noise_std" in wanted:
        left = evidence.within.rest(evidence.within_rank)
        freedom = evidence.count - len(h) * d if printed else evidence.within_freedom
        if freedom > 0:  # may be negative as printed; the guess then stays
            noise = max(left / freedom, evidence.least_noise)
    arm = prior.arm_std**2
    if "arm_std" in wanted:
        left = evidence.total.rest(evidence.rank)
        lost = d if printed else evidence.rank + evidence.fixed
        room = float(h.sum()) - evidence.absorbed()  # n - d₀
        arm = max((left - (evidence.count - lost) * noise) / room, 0.0)
    return Point(math.nan, noise, arm / noise, evidence.unit**2 / noise)
