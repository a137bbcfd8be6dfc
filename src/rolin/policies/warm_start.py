"""The evidence that `Policy.from_fit` starts from, and the options that go with it."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal, NamedTuple, Protocol

from rolin.errors import ParameterError, StateFileError, UnknownOption
from rolin.features import BaseFeatureMap, from_json
from rolin.model import state_file
from rolin.model.estimation import Learned, estimate_scales
from rolin.model.moments import Moments
from rolin.model.scales import InterceptScale, Scales, check_slopes
from rolin.policies.options import options_of

__all__ = ["FitLike", "FittedEvidence", "UnsetScales", "evidence_of", "is_fit", "options_for"]

UnsetScales = Literal["learn", "estimate"]
"""Scales that are not given: the policy learns them and keeps learning, or they are estimated once."""
_SCALES: tuple[Learned, ...] = ("noise_std", "arm_std", "coef_std")


class FitLike(Protocol):
    """What a [`Fit`][rolin.Fit] has: moments, a feature map, and the prior of the intercept."""

    @property
    def moments(self) -> Moments:
        """The evidence, without a prior."""

    @property
    def feature_map(self) -> BaseFeatureMap | None:
        """The map from raw features to vectors, if there is one."""

    @property
    def intercept_std(self) -> InterceptScale:
        """Prior standard deviation of an intercept: a number; `"learn"`; or `None` for no intercept."""


class FittedEvidence(NamedTuple):
    """What a policy starts from."""

    moments: Moments
    feature_map: BaseFeatureMap | None
    intercept_std: float | None
    """Prior standard deviation of the intercept; `None` for the default of the policy."""


def is_fit(state: state_file.State) -> bool:
    """Return whether a state file holds a fit rather than a policy."""
    return state.policy == state_file.MOMENTS


def evidence_of(fit: str | PathLike[str] | FitLike | Moments) -> FittedEvidence:
    """Return the evidence of a fit, or of the file that it was saved to."""
    if isinstance(fit, Moments):
        return FittedEvidence(fit, None, None)
    if isinstance(fit, (str, PathLike)):
        return _read(fit)
    try:
        moments, feature_map, intercept_std = fit.moments, fit.feature_map, fit.intercept_std
    except AttributeError:
        raise ParameterError(f"fit={fit!r}, expected a Fit, its file, or Moments") from None
    return FittedEvidence(
        moments, feature_map, None if isinstance(intercept_std, str) else intercept_std
    )


def _read(path: str | PathLike[str]) -> FittedEvidence:
    state = state_file.read(path)
    if not is_fit(state):
        raise StateFileError(
            f"{path} holds a {state.policy}, not a fit: rolin.load({str(path)!r}) restores it"
        )
    if state_file.FOLDED in state.settings:
        raise StateFileError(
            f"{path} is the checkpoint of a fit that was interrupted and holds only a part of the log: run the fit "
            "again to resume it"
        )
    text = state.feature_map
    return FittedEvidence(
        state_file.moments_of(state),
        None if text is None else from_json(text, "the map in the state"),
        state.settings.get("intercept_std"),
    )


def options_for(
    policy: type, evidence: FittedEvidence, unset: UnsetScales | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a policy that starts from evidence."""
    if "n_features" in given:
        raise UnknownOption(
            f"n_features={given['n_features']!r} was given, but n_features is {evidence.moments.n_features} as in "
            "the fit: leave it out"
        )
    options = dict(given)
    slopes = _slopes_for(evidence.moments, given)
    if slopes and slopes != tuple(range(evidence.moments.n_features)):
        options.setdefault("slopes", slopes)
    if evidence.intercept_std is not None:
        options.setdefault("intercept_std", evidence.intercept_std)
    # A class that takes any option passes it on to the next one.
    known = next((names for base in policy.__mro__ if (names := options_of(base)) is not None), [])
    missing = [name for name in _SCALES if name in known and name not in given]
    if unset == "estimate" and missing:
        prior = Scales(
            intercept_std=options.get("intercept_std"),
            slope_std=given["slope_std"] if slopes else 0.0,
            slopes=options.get("slopes", slopes) if slopes else None,
        )
        moments = evidence.moments.with_slopes(slopes)
        found = estimate_scales(moments, prior=prior, learn=_SCALES).scales
        options |= {name: getattr(found, name) for name in missing}
    else:
        options |= dict.fromkeys(missing, "learn")
    return {"n_features": evidence.moments.n_features, **options}


def _slopes_for(moments: Moments, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the features that the arms of a policy have slopes for: those of the evidence, if it has none of its own."""
    slope_std, slopes = given.get("slope_std", 0.0), given.get("slopes")
    if isinstance(slope_std, (int, float)) and slope_std == 0.0:
        return ()
    wanted = moments.slopes if slopes is None else check_slopes(slopes)
    missing = [j for j in wanted if j not in moments.slopes]
    if missing or (slopes is None and not wanted and moments.n_features):
        raise ParameterError(
            f"slope_std={slope_std!r} with slopes={'all' if slopes is None else list(wanted)}, but the fit has "
            f"{f'slopes for {list(moments.slopes)} only' if moments.slopes else 'no slopes'}: fit the log again with "
            f"slopes={True if slopes is None else list(wanted)}, or collect the moments with slopes=…"
        )
    return wanted
