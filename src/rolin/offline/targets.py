"""What a policy would have done: the probability of every arm, at every decision of a log."""

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
from rolin.policies import Policy, load

__all__ = ["Resolved", "Target", "label_of", "resolved", "target_probabilities"]

Floats = NDArray[np.float64]
Target = (
    Policy[Any] | Bandit | Callable[[Floats, Sequence[Name]], Any] | str | PathLike[str] | Sequence[Any]
    | Floats
)  # fmt: skip
"""A policy, as it is, or the file of its state; a function of contexts and arms that returns the probability of every arm; `"uniform"`;
or these probabilities themselves, for each decision."""


Resolved = Policy[Any] | Callable[[Floats, Sequence[Name]], Any] | str | Sequence[Any] | Floats
"""The same, without bandits and files."""


def label_of(target: Target) -> str:
    """Return what to call a target in a table."""
    if isinstance(target, Bandit):
        target = target.policy
    if isinstance(target, (str, PathLike)):
        return str(target)
    if isinstance(target, Policy):
        return type(target).__name__
    return getattr(target, "__name__", "given probabilities") if callable(target) else "given"


def resolved(target: Target) -> Resolved:
    """Return the policy of a bandit or of a file; anything else as it is."""
    if isinstance(target, Bandit):
        return target.policy
    if isinstance(target, (str, PathLike)) and target != "uniform":
        if not Path(target).is_file():
            raise InputError(
                f"policy={target!r}, expected 'uniform', the file of a state, a policy, or probabilities"
            )
        return load(target)
    return target


def target_probabilities(
    log: DecisionLog, target: Resolved, progress: Callable[[int], None] = lambda _: None
) -> list[Floats]:
    """Return, for each decision, the probability with which the target would choose each arm."""
    if isinstance(target, str):  # which `resolved` has left
        progress(len(log))
        return [np.full(len(names), 1.0 / len(names)) for names in log.arms]
    if isinstance(target, type):
        raise InputError(f"policy={target!r} is a class, expected a policy: replay one that learns")
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
        progress(len(log))
        return [_checked(log, i, p) for i, p in enumerate(given)]
    found: list[Floats] = []
    for i in range(len(log)):
        # The same question again, of the same objects, has the same answer.
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
                    "the policy is called with contexts and arms, and returns the probability of every arm: "
                    f"{error}"
                ) from error
        progress(1)
    return found


def _of_policy(policy: Policy[Any], contexts: Floats, arms: Sequence[Name]) -> Floats:
    """Return a policy's probabilities; an arm that it has removed would not have been offered."""
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
