"""Policies by name: find them all, load a saved one.

A new file in this package is found automatically, and the contract checks run over its policies.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from os import PathLike
from typing import Any, TypeVar, overload

from rolin import policies
from rolin.errors import ParameterError, StateFileError
from rolin.model import state_file
from rolin.policies.base import Policy
from rolin.policies.rolin_ts import RoLinTS
from rolin.policies.warm_start import is_fit

__all__ = ["find", "load", "load_or_start"]

Kind = TypeVar("Kind", bound=Policy[Any])


def find() -> dict[str, type[Policy[Any]]]:
    """Return every policy of this package, by name.

    >>> sorted(find())[:3]
    ['BayesRoLinTS', 'DisjointLinUCB', 'Greedy']
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
def load(path: str | PathLike[str], *, seed: int | None = None) -> Policy[Any]: ...
@overload
def load(path: str | PathLike[str], kind: type[Kind], *, seed: int | None = None) -> Kind: ...
def load(
    path: str | PathLike[str], kind: type[Policy[Any]] = Policy, *, seed: int | None = None
) -> Policy[Any]:
    """Restore a policy that `policy.save(path)` wrote; it continues exactly as the saved one would.

    A file that [`Fit.save`][rolin.Fit] wrote holds no policy:
    [`RoLinTS.from_fit(path)`][rolin.Policy.from_fit] starts one.

    Parameters
    ----------
    path
        The file.
    kind
        The expected class, such as `rolin.RoLinTS`, or a class of your own; by default any class of `rolin`.
    seed
        A new seed instead of the saved one. Servers that start from the same file need different seeds,
        otherwise they draw the same random numbers.

    Raises
    ------
    StateFileError
        If the file is damaged, truncated, not a state of `rolin`, from another version of the format, holds
        another kind of policy, or holds a fit.
    FileNotFoundError
        If there is no such file.
    """
    if not (isinstance(kind, type) and issubclass(kind, Policy)):
        raise ParameterError(f"kind={kind!r}, expected a class such as rolin.RoLinTS")
    state = state_file.read(path)
    known = find()
    if not inspect.isabstract(kind):
        known[kind.__name__] = kind  # which may be defined elsewhere
    if is_fit(state):
        name = kind.__name__ if kind in known.values() else RoLinTS.__name__
        raise StateFileError(
            f"{path} holds a fit, not a policy: {name}.from_fit({str(path)!r}) starts one"
        )
    if state.policy not in known or not issubclass(known[state.policy], kind):
        expected = sorted(name for name, policy in known.items() if issubclass(policy, kind))
        one = f"a {expected[0]}" if len(expected) == 1 else f"one of {', '.join(expected)}"
        raise StateFileError(f"{path} holds a {state.policy}, expected {one}")
    if seed is not None:
        state = state._replace(settings={**state.settings, "seed": seed})
    return known[state.policy].from_state(state)


def load_or_start(path: str | PathLike[str]) -> Policy[Any]:
    """Return the policy in a state file, or a `RoLinTS` that starts from the fit in it."""
    return RoLinTS.from_fit(path) if is_fit(state_file.read(path)) else load(path)
