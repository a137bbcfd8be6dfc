"""The policies, one file each, and what works on any of them.

A new file in this folder is found by itself: `find` and `load` know its policies by name, and
the contract checks run over them.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from os import PathLike
from typing import Any, TypeVar, overload

from rolin import evidence_file, snapshot
from rolin.arms import PastArm
from rolin.errors import ApproximationWarning, MergeError, StateFileError, UnknownOption
from rolin.features import from_json
from rolin.policies.base import Policy
from rolin.policies.bayes_rolin_ts import BayesRoLinTS
from rolin.policies.decision import Decision
from rolin.policies.linear import LinearPolicy
from rolin.policies.rolin_ts import RoLinTS
from rolin.policies.starting import can_start, start

__all__ = ["Decision", "LinearPolicy", "Policy", "find", "load", "merge", "start"]

Kind = TypeVar("Kind", bound=Policy[Any])
Learns = TypeVar("Learns", LinearPolicy, BayesRoLinTS)


def find() -> dict[str, type[Policy[Any]]]:
    """Return every policy of this package, by name.

    >>> sorted(find())[:3]
    ['BayesRoLinTS', 'Greedy', 'HLinUCB']
    """
    found = {}
    for module in pkgutil.iter_modules(__path__):
        for name, value in vars(importlib.import_module(f"{__name__}.{module.name}")).items():
            if inspect.isclass(value) and issubclass(value, Policy):
                if not inspect.isabstract(value):
                    found[name] = value
    return found


@overload
def load(path: str | PathLike[str], *, seed: int | None = None, **options: Any) -> Policy[Any]: ...
@overload
def load(
    path: str | PathLike[str], kind: type[Kind], *, seed: int | None = None, **options: Any
) -> Kind: ...
def load(
    path: str | PathLike[str],
    kind: type[Policy[Any]] = Policy,
    *,
    seed: int | None = None,
    **options: Any,
) -> Policy[Any]:
    """Return the policy that `policy.save(path)` wrote; it continues exactly as that one would.

    From what [`rolin.fit`][rolin.fit] wrote, any policy with a Gaussian posterior starts: the `kind` that is
    asked for, by default `RoLinTS`, with the scales that the evidence says.

    Parameters
    ----------
    path
        The file.
    kind
        The class that is expected, such as `rolin.RoLinTS`; by default any.
    seed
        Another seed than the saved one. Two servers that start from one file need it, or they
        draw the same numbers.
    options
        Of a policy that starts from what was fitted, its options, such as `sampling="joint"`; one that was saved
        has its own.

    Raises
    ------
    StateFileError
        If the file is damaged, truncated, not a state of `rolin`, of another version, or of
        another kind of policy.
    FileNotFoundError
        If there is no such file.
    """
    state = snapshot.read(path)
    policies = find()
    if state.policy == evidence_file.KIND:
        return _started(str(path), state, kind, {"seed": seed, **options})
    if options:
        raise UnknownOption(
            f"{path} holds a {state.policy} that was saved with its options, expected no {next(iter(options))}"
        )
    if state.policy not in policies or not issubclass(policies[state.policy], kind):
        expected = sorted(name for name, policy in policies.items() if issubclass(policy, kind))
        raise StateFileError(
            f"{path} holds a {state.policy}, expected one of {', '.join(expected)}"
        )
    if seed is not None:
        state = state._replace(settings={**state.settings, "seed": seed})
    return policies[state.policy].from_state(state)


def _started(
    path: str, state: snapshot.State, kind: type[Policy[Any]], options: dict[str, Any]
) -> Policy[Any]:
    """Return a policy that starts from evidence."""
    if evidence_file.FOLDED in state.settings:
        raise StateFileError(f"{path} is a fold that was stopped: it holds a part of a log")
    if inspect.isabstract(kind):
        kind = RoLinTS if issubclass(RoLinTS, kind) else kind
    if inspect.isabstract(kind) or not can_start(kind):
        known = sorted(name for name, policy in find().items() if can_start(policy))
        raise StateFileError(
            f"{path} holds moments, from which {', '.join(known)} can start, but not {kind.__name__}"
        )
    features = None if state.features is None else from_json(state.features, "the map in the state")
    if state.settings.get("intercept_std") is not None:
        options = {"intercept_std": state.settings["intercept_std"], **options}
    return start(kind, evidence_file.moments_of(state), features=features, **options)


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
        if other.features != a.features:
            raise MergeError(f"features differ: {a.features!r} and {other.features!r}")
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
    both._decisions, both.features = max(decisions, 0), a.features
    return both


def _past(policy: Policy[Any]) -> set[PastArm]:
    return {name for name in policy._model.names if isinstance(name, PastArm)}
