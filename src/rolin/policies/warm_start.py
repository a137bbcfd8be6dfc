"""The evidence that `Policy.from_fit` starts from, and the options that go with it."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal, NamedTuple, Protocol

from rolin.errors import ParameterError, StateFileError, UnknownOption
from rolin.features import BaseFeatureMap, from_json
from rolin.model import state_file
from rolin.model.estimation import estimate_scales
from rolin.model.moments import Moments
from rolin.model.scales import Scales
from rolin.policies.options import options_of

__all__ = ["FitLike", "FittedEvidence", "UnsetScales", "evidence_of", "is_fit", "options_for"]

UnsetScales = Literal["learn", "estimate"]
"""Scales that are not given: the policy learns them and keeps learning, or they are estimated once."""
_SCALES = ("noise_std", "arm_std", "coef_std")


class FitLike(Protocol):
    """What a [`Fit`][rolin.Fit] has: moments, a feature map, and the prior of the intercept."""

    @property
    def moments(self) -> Moments:
        """The evidence, without a prior."""

    @property
    def feature_map(self) -> BaseFeatureMap | None:
        """The map from raw features to vectors, if there is one."""

    @property
    def intercept_std(self) -> float | None:
        """Prior standard deviation of an intercept; `None` for no intercept."""


class FittedEvidence(NamedTuple):
    """What a policy starts from."""

    moments: Moments
    feature_map: BaseFeatureMap | None
    intercept_std: float | None


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
        return FittedEvidence(fit.moments, fit.feature_map, fit.intercept_std)
    except AttributeError:
        raise ParameterError(f"fit={fit!r}, expected a Fit, its file, or Moments") from None


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
    if evidence.intercept_std is not None:
        options.setdefault("intercept_std", evidence.intercept_std)
    # A class that takes any option passes it on to the next one.
    known = next((names for base in policy.__mro__ if (names := options_of(base)) is not None), [])
    missing = [name for name in _SCALES if name in known and name not in given]
    if unset == "estimate" and missing:
        prior = Scales(intercept_std=options.get("intercept_std"))
        found = estimate_scales(evidence.moments, prior=prior).scales
        options |= {name: getattr(found, name) for name in missing}
    else:
        options |= dict.fromkeys(missing, "learn")
    return {"n_features": evidence.moments.n_features, **options}
