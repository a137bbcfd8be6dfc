"""Policies that start from evidence, rather than from nothing."""

from __future__ import annotations

from typing import Any, TypeVar

from rolin.errors import ParameterError, Unsupported
from rolin.features import BaseFeatureMap
from rolin.model.estimation import estimate_scales
from rolin.model.moments import Moments
from rolin.model.scales import Scales
from rolin.policies.base import Policy, options_of
from rolin.policies.bayes_rolin_ts import BayesRoLinTS
from rolin.policies.linear import LinearPolicy
from rolin.policies.naive import NaiveRoLinTS

__all__ = ["can_start", "start"]

Kind = TypeVar("Kind", bound=Policy[Any])
_LEARNED = ("noise_std", "arm_std", "coef_std")


def can_start(kind: type[Policy[Any]]) -> bool:
    """Return whether policies of a class can start from moments: of yes or no they are no evidence."""
    return issubclass(kind, (LinearPolicy, BayesRoLinTS)) and not kind.binary


def start(
    kind: type[Kind], moments: Moments, *, feature_map: BaseFeatureMap | None = None, **options: Any
) -> Kind:
    """Return a policy that has seen what these moments are the evidence of.

    Parameters
    ----------
    kind
        Its class.
    moments
        The evidence.
    feature_map
        What made vectors of raw features.
    options
        Options of the policy; scales that are not given are learned from the moments.
    """
    if not (isinstance(kind, type) and issubclass(kind, Policy)):
        raise ParameterError(f"kind={kind!r}, expected the class of a policy")
    if not can_start(kind):
        why = "its rewards are yes or no" if kind.binary else "it keeps no moments"
        raise Unsupported(f"{kind.__name__} cannot start from moments: {why}")
    known = options_of(kind) or []
    unset = [name for name in _LEARNED if name in known and name not in options]
    if issubclass(kind, (BayesRoLinTS, NaiveRoLinTS)):  # which take numbers
        prior = Scales(intercept_std=options.get("intercept_std"))
        found = estimate_scales(moments, prior=prior).scales
        options |= {name: getattr(found, name) for name in unset}
    else:
        options |= dict.fromkeys(unset, "learn")
    make: Any = kind
    policy = make(n_features=moments.n_features, **options)
    policy._model.fill(moments)
    if feature_map is not None:
        policy.change_feature_map(feature_map)
    return policy  # type: ignore[no-any-return]  # of that class
