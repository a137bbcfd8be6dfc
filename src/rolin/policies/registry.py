"""Policies by name: find them all, load a saved one.

A new file in this package is found by itself, and the contract checks run over its policies.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from os import PathLike
from typing import Any, TypeVar, overload

from rolin import policies
from rolin.errors import StateFileError, UnknownOption
from rolin.features import from_json
from rolin.model import state_file
from rolin.policies.base import Policy
from rolin.policies.bayes_rolin_ts import BayesRoLinTS
from rolin.policies.linear import LinearPolicy
from rolin.policies.rolin_ts import RoLinTS
from rolin.policies.warm_start import can_start, start

__all__ = ["find", "load"]

Kind = TypeVar("Kind", bound=Policy[Any])
Learns = TypeVar("Learns", LinearPolicy, BayesRoLinTS)


def find() -> dict[str, type[Policy[Any]]]:
    """Return every policy of this package, by name.

    >>> sorted(find())[:3]
    ['BayesRoLinTS', 'Greedy', 'HLinUCB']
    """
    found = {}
    for module in pkgutil.iter_modules(policies.__path__):
        for name, value in vars(
            importlib.import_module(f"{policies.__name__}.{module.name}")
        ).items():
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
    state = state_file.read(path)
    known = find()
    if state.policy == state_file.MOMENTS:
        return _started(str(path), state, kind, {"seed": seed, **options})
    if options:
        raise UnknownOption(
            f"{path} holds a {state.policy} that was saved with its options, expected no {next(iter(options))}"
        )
    if state.policy not in known or not issubclass(known[state.policy], kind):
        expected = sorted(name for name, policy in known.items() if issubclass(policy, kind))
        raise StateFileError(
            f"{path} holds a {state.policy}, expected one of {', '.join(expected)}"
        )
    if seed is not None:
        state = state._replace(settings={**state.settings, "seed": seed})
    return known[state.policy].from_state(state)


def _started(
    path: str, state: state_file.State, kind: type[Policy[Any]], options: dict[str, Any]
) -> Policy[Any]:
    """Return a policy that starts from evidence."""
    if state_file.FOLDED in state.settings:
        raise StateFileError(f"{path} is a fold that was stopped: it holds a part of a log")
    if inspect.isabstract(kind):
        kind = RoLinTS if issubclass(RoLinTS, kind) else kind
    if inspect.isabstract(kind) or not can_start(kind):
        known = sorted(name for name, policy in find().items() if can_start(policy))
        raise StateFileError(
            f"{path} holds moments, from which {', '.join(known)} can start, but not {kind.__name__}"
        )
    feature_map = (
        None if state.feature_map is None else from_json(state.feature_map, "the map in the state")
    )
    if state.settings.get("intercept_std") is not None:
        options = {"intercept_std": state.settings["intercept_std"], **options}
    return start(kind, state_file.moments_of(state), feature_map=feature_map, **options)
