"""Merge two policies that learned separately."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from rolin._support.arms import PastArm
from rolin.errors import ApproximationWarning, MergeError
from rolin.policies.base import Policy
from rolin.policies.bayes_rolin_ts import BayesRoLinTS
from rolin.policies.linear import LinearPolicy

__all__ = ["merge"]

Learns = TypeVar("Learns", LinearPolicy, BayesRoLinTS)


def merge(a: Learns, b: Learns, *, base: Learns | None = None) -> Learns:
    """Return the policy that has learned from all rewards of `a` and `b`.

    Parameters
    ----------
    a
        A policy.
    b
        Another policy of the same class and settings. Only the seed may differ; the result has the seed of `a`.
    base
        The state that both started from, if they did not start empty. Without it, what they learned before they were
        separated is counted twice.

    Raises
    ------
    MergeError
        If they differ in class or settings, did not start from `base`, or if an arm has been restored without its
        past since then, because it is not known which rewards belong to the restored arm.
    """
    if not isinstance(a, (LinearPolicy, BayesRoLinTS)):
        raise MergeError(f"{a!r} is not a policy that can be merged")
    if a.settings.get("half_life") is not None:
        raise MergeError(
            "policies with a half_life cannot be merged, because the order of their rewards is not known: create them "
            "without half_life and call decay(…) on both"
        )
    if not a.exact:
        warnings.warn(
            f"merging two {type(a).__name__} is an approximation: the update for a binary reward depends on the current "
            "posterior",
            ApproximationWarning,
            stacklevel=2,
        )
    started_with = set() if base is None else _past(base)
    for other in (b,) if base is None else (b, base):
        if type(other) is not type(a):
            raise MergeError(f"{type(a).__name__} cannot be merged with {type(other).__name__}")
        # Policies without slopes do not have these settings.
        ours, theirs = (
            {"slope_std": 0.0, "slopes": None, **p.settings, "seed": None} for p in (a, other)
        )
        if different := [name for name in ours if ours[name] != theirs[name]]:
            name = different[0]
            raise MergeError(f"{name} differs: {ours[name]!r} and {theirs[name]!r}")
        if other.feature_map != a.feature_map:
            raise MergeError(f"feature maps differ: {a.feature_map!r} and {other.feature_map!r}")
    for policy in (a, b):
        if begun := _past(policy) ^ started_with:
            name = next(iter(begun)).name
            raise MergeError(
                f"arm {name!r} was restored without its past since the start, so it is not known which of the other "
                "policy's rewards belong to the restored arm"
            )
    news, decisions = b.moments, a.n_decisions + b.n_decisions
    removed = {*a.removed_arms, *b.removed_arms}
    if base is not None:
        started = base.moments
        _check_started_from(a, base)
        news = news - started
        decisions -= base.n_decisions
        removed -= set(base.removed_arms) & {*a.arms, *b.arms}  # restored since then
    both = type(a)(**a.settings)
    both._model.fill(a.moments + news, removed)
    both._decisions, both.feature_map = max(decisions, 0), a.feature_map
    return both


def _check_started_from(policy: Any, base: Any) -> None:
    """Reject a policy that lacks evidence of the one that it should have started from."""
    try:
        policy.moments - base.moments
    except MergeError as error:
        raise MergeError(f"the policy did not start from base: {error}") from error


def _past(policy: Policy[Any]) -> set[PastArm]:
    return {name for name in policy._model.names if isinstance(name, PastArm)}
