"""The policies, one file each, and what works on any of them.

A new file in this folder is found by itself: `find` and `load` know its policies by name, and
the contract checks run over them.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from os import PathLike

from rolin import snapshot
from rolin.arms import PastArm
from rolin.errors import MergeError, StateFileError
from rolin.policies.base import LinearPolicy
from rolin.policies.decision import Decision

__all__ = ["Decision", "LinearPolicy", "find", "load", "merge"]


def find() -> dict[str, type[LinearPolicy]]:
    """Return every policy of this package, by name.

    >>> sorted(find())[:3]
    ['Greedy', 'LinTS', 'LinUCB']
    """
    found = {}
    for module in pkgutil.iter_modules(__path__):
        for name, value in vars(importlib.import_module(f"{__name__}.{module.name}")).items():
            if inspect.isclass(value) and issubclass(value, LinearPolicy):
                if not inspect.isabstract(value):
                    found[name] = value
    return found


def load(path: str | PathLike[str], *, seed: int | None = None) -> LinearPolicy:
    """Return the policy that `policy.save(path)` wrote; it continues exactly as that one would.

    Parameters
    ----------
    path
        The file.
    seed
        Another seed than the saved one. Two servers that start from one file need it, or they
        draw the same numbers.

    Raises
    ------
    StateFileError
        If the file is damaged, truncated, not a state of `rolin`, or of another version.
    FileNotFoundError
        If there is no such file.
    """
    state = snapshot.read(path)
    policies = find()
    if state.policy not in policies:
        raise StateFileError(
            f"{path} holds a {state.policy}, expected one of {', '.join(sorted(policies))}"
        )
    if seed is not None:
        state = state._replace(settings={**state.settings, "seed": seed})
    return policies[state.policy].from_state(state)


def merge(a: LinearPolicy, b: LinearPolicy, *, base: LinearPolicy | None = None) -> LinearPolicy:
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
    if not isinstance(a, LinearPolicy):
        raise MergeError(f"{a!r} is not a policy that can be merged")
    started_with = set() if base is None else _past(base)
    for other in (b,) if base is None else (b, base):
        if type(other) is not type(a):
            raise MergeError(f"{type(a).__name__} cannot be merged with {type(other).__name__}")
        ours, theirs = ({**p.settings, "seed": None} for p in (a, other))
        if different := [name for name in ours if ours[name] != theirs[name]]:
            name = different[0]
            raise MergeError(f"{name} differs: {ours[name]!r} and {theirs[name]!r}")
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
    return a.with_moments(a.moments + news, removed, max(decisions, 0))


def _past(policy: LinearPolicy) -> set[PastArm]:
    return {name for name in policy.posterior.names if isinstance(name, PastArm)}
