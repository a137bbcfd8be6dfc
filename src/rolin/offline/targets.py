"""The probability of every arm under the policy to evaluate, for every decision of a log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.checks import as_floats
from rolin.bandit.bandit import Bandit
from rolin.errors import InputError, RolinError, ShapeError
from rolin.offline.log import DecisionLog
from rolin.policies import Policy
from rolin.policies.registry import load_or_start

__all__ = ["Resolved", "Target", "label_of", "resolved", "target_probabilities"]

Floats = NDArray[np.float64]
Target = (
    Policy[Any] | Bandit[Any] | Callable[[Floats, Sequence[Name]], Any] | str | PathLike[str] | Sequence[Any]
    | Floats
)  # fmt: skip
"""A policy or a bandit as it is, or a state file; a function of contexts and arms that returns the probability of every
arm; `"uniform"`; or the probabilities for each decision."""

Resolved = Policy[Any] | Callable[[Floats, Sequence[Name]], Any] | str | Sequence[Any] | Floats
"""A `Target` that is neither a bandit nor a file."""


def label_of(target: Target) -> str:
    """Return the name of a target in a report."""
    if isinstance(target, Bandit):
        target = target.policy
    if isinstance(target, (str, PathLike)):
        return str(target)
    if isinstance(target, Policy):
        return type(target).__name__
    return getattr(target, "__name__", "given probabilities") if callable(target) else "given"


def resolved(target: Target) -> Resolved:
    """Return the policy of a bandit or of a state file, and any other target unchanged."""
    if isinstance(target, Bandit):
        policy: Policy[Any] = target.policy
        return policy
    if isinstance(target, (str, PathLike)) and target != "uniform":
        if not Path(target).is_file():
            raise InputError(
                f"policy={target!r}, expected 'uniform', a state file, a policy, or probabilities"
            )
        return load_or_start(target)
    return target


def target_probabilities(
    log: DecisionLog, target: Resolved, advance: Callable[[int], None] = lambda _: None
) -> list[Floats]:
    """Return, for each decision, the probability with which the target would choose each arm.

    Parameters
    ----------
    log
        The log.
    target
        The target.
    advance
        Is called with the number of decisions done since its last call.
    """
    if isinstance(target, str):  # "uniform": `resolved` has replaced all other texts
        advance(len(log))
        return [np.full(len(names), 1.0 / len(names)) for names in log.arms]
    if isinstance(target, type):
        raise InputError(
            f"policy={target!r} is a class, expected a policy; rolin.offline.replay evaluates one that learns"
        )
    if isinstance(target, Policy):
        ask: Callable[[Floats, Sequence[Name]], Any] = partial(_of_policy, target)
    elif callable(target):
        ask = target
    else:
        try:
            given = list(target)
        except TypeError:
            raise InputError(f"policy={target!r}, expected a policy or probabilities") from None
        if len(given) != len(log):
            raise ShapeError(f"probabilities of {len(given)} decisions, expected {len(log)}")
        advance(len(log))
        return [_checked(log, i, p) for i, p in enumerate(given)]
    found: list[Floats] = []
    for i in range(len(log)):
        # The same arms and contexts, the same objects even: the answer is the same.
        again = i > 0 and log.contexts[i] is log.contexts[i - 1] and log.arms[i] is log.arms[i - 1]
        if again:
            found.append(found[-1])
        else:
            try:
                found.append(_checked(log, i, ask(log.contexts[i], log.arms[i])))
            except RolinError as error:
                raise type(error)(f"decision {log.ids[i]}: {error}") from error
            except TypeError as error:
                raise InputError(
                    "the function must take contexts and arms, and return the probability of every arm: "
                    f"{error}"
                ) from error
        advance(1)
    return found


def _of_policy(policy: Policy[Any], contexts: Floats, arms: Sequence[Name]) -> Floats:
    """Return the probabilities of a policy; arms that it has removed have probability 0."""
    removed = set(policy.removed_arms)
    if removed.isdisjoint(arms):
        return policy.probabilities(contexts, arms)
    left = [k for k, name in enumerate(arms) if name not in removed]
    p = np.zeros(len(arms))
    p[left] = policy.probabilities(contexts[left], [arms[k] for k in left])
    return p


def _checked(log: DecisionLog, i: int, probabilities: Any) -> Floats:
    p, k = as_floats("probabilities", probabilities), len(log.arms[i])
    if p.shape != (k,):
        raise ShapeError(f"decision {log.ids[i]}: {p.shape} probabilities, expected ({k},)")
    if not ((p >= 0.0) & (p <= 1.0 + 1e-9)).all() or abs(p.sum() - 1.0) > 1e-6:
        raise InputError(
            f"decision {log.ids[i]}: the policy's probabilities are not numbers from 0 to 1 that sum to 1"
        )
    return p
