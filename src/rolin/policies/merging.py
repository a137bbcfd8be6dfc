"""One policy from two that learned apart."""

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
    """Return the policy that one learner would be, had it seen all that `a` and `b` saw.

    Parameters
    ----------
    a
        A policy.
    b
        Another of the same kind and settings (the seed may differ; that of `a` is kept).
    base
        The state that both started from, if they did not start empty. Without it, what they had
        learned before they parted is counted twice.

    Raises
    ------
    MergeError
        If they differ in kind or settings, did not start from `base`, or if an arm has come back
        without its past since then: which rewards belong to which life could not be told.
    """
    if not isinstance(a, (LinearPolicy, BayesRoLinTS)):
        raise MergeError(f"{a!r} is not a policy that can be merged")
    if a.settings.get("half_life") is not None:
        raise MergeError(
            "learners that forget by themselves cannot be merged: which of their rewards came "
            "first is not known; decay both by a clock of your own instead"
        )
    if not a.exact:
        warnings.warn(
            f"two {type(a).__name__} merge to nearly what one learner would be, not exactly: what an "
            "outcome teaches depends on what was known before it",
            ApproximationWarning,
            stacklevel=2,
        )
    started_with = set() if base is None else _past(base)
    for other in (b,) if base is None else (b, base):
        if type(other) is not type(a):
            raise MergeError(f"{type(a).__name__} cannot be merged with {type(other).__name__}")
        ours, theirs = ({**p.settings, "seed": None} for p in (a, other))
        if different := [name for name in ours if ours[name] != theirs[name]]:
            name = different[0]
            raise MergeError(f"{name} differs: {ours[name]!r} and {theirs[name]!r}")
        if other.feature_map != a.feature_map:
            raise MergeError(f"feature maps differ: {a.feature_map!r} and {other.feature_map!r}")
    for policy in (a, b):
        if begun := _past(policy) ^ started_with:
            name = next(iter(begun)).name
            raise MergeError(
                f"arm {name!r} has begun a new life since the start, and the other learner cannot "
                "know which of its rewards belong to which life"
            )
    news, decisions = b.moments, a.n_decisions + b.n_decisions
    removed = {*a.removed_arms, *b.removed_arms}
    if base is not None:
        started = base.moments
        _ = a.moments - started  # refuses a base that `a` did not start from
        news = news - started
        decisions -= base.n_decisions
        removed -= set(base.removed_arms) & {*a.arms, *b.arms}  # since restored
    both = type(a)(**a.settings)
    both._model.fill(a.moments + news, removed)
    both._decisions, both.feature_map = max(decisions, 0), a.feature_map
    return both


def _past(policy: Policy[Any]) -> set[PastArm]:
    return {name for name in policy._model.names if isinstance(name, PastArm)}
