"""Replay: let a policy play through a log, and count the decisions in which it agrees.

Li et al. (2011), *Unbiased Offline Evaluation of Contextual-bandit-based News Article Recommendation
Algorithms*. The policy is asked at every decision; where it chooses the arm that was logged, it sees the
reward and learns, otherwise the decision is passed over. Where the log was not uniform, an
agreement is kept with probability m/p, m being the least propensity, so that whatever the policy
chooses is kept equally often.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from rolin._support.checks import level_of, number_of
from rolin.errors import DataError, OverlapWarning, ParameterError
from rolin.journal.folding import adaptive_of
from rolin.offline.estimators import groups_of, mean_of, standard_error
from rolin.offline.log import DecisionLog
from rolin.policies import Decision, Policy
from rolin.policies.keyed_random import KeyedGenerator

__all__ = ["Replay", "replay"]

Floats = NDArray[np.float64]
_FEW = 50  # agreements, below which a mean says little
_KEEP = 4  # stream of the draws that keep agreements


class Replay(NamedTuple):
    """What a policy got, in the decisions in which it agreed with the log."""

    value: float
    """Mean reward."""
    std_error: float
    low: float
    high: float
    """Ends of the interval."""
    kept: NDArray[np.int64]
    """Numbers, from 0, of the decisions that were kept."""
    rewards: Floats
    """Their rewards, in order: how the policy did as it learned."""
    logged: float
    """Mean reward of all decisions of the log, to compare with."""
    policy: Policy[Any]
    """The policy afterwards."""

    def __str__(self) -> str:
        """Return the value with its interval."""
        few = " ! too few to say anything" if len(self.kept) < _FEW else ""
        return (
            f"replay kept {len(self.kept)} decisions: {self.value:.4g} a decision "
            f"({self.low:.4g} to {self.high:.4g}); logged: {self.logged:.4g}{few}"
        )


def replay(
    log: DecisionLog,
    policy: Policy[Any],
    *,
    learn: bool = True,
    least_propensity: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Replay:
    """Let a policy play through a log; it is copied, and the copy learns.

    Parameters
    ----------
    log
        The log, in the order in which the decisions were made.
    policy
        A new policy, or one that has learned something.
    learn
        Whether it learns as it goes.
    least_propensity
        m: by default the least in the log. A larger one keeps more decisions, and is wrong where
        propensities are below it.
    level
        Of the interval.
    seed
        Of the draws that keep or pass over agreements.
    progress
        Is called with 1 at each decision.
    """
    if not isinstance(policy, Policy):
        raise ParameterError(f"policy={policy!r}, expected a policy of rolin")
    own = copy.deepcopy(policy)
    if model := adaptive_of(own):
        model.by_itself = True
    m = _least(log) if least_propensity is None else number_of("least_propensity", least_propensity)
    if not 0.0 < m <= 1.0:
        raise DataError(
            f"the least propensity is {m:g}, expected above 0: an arm that could not be chosen can "
            "never be agreed on; log with a floor, replay the control group, or say least_propensity"
        )
    level = level_of(level)
    draws = KeyedGenerator(seed)
    kept = []
    for i in range(len(log)):
        # Keys of their own: neither what is kept nor what was logged may know the policy's draws.
        decision = _decision(own, log.contexts[i], log.arms[i], f"replay {i}")
        progress(1)
        k = int(log.chosen[i])
        if decision.arm != log.arms[i][k]:
            continue
        if m < log.propensity[i] and draws.at(f"keep {i}", _KEEP).random() >= m / log.propensity[i]:
            continue
        kept.append(i)
        if learn:
            own.update(decision.arm, decision.context, log.rewards[i], log.weights[i])
    places = np.array(kept, dtype=np.int64)
    rewards, weights = log.rewards[places], log.weights[places]
    n = len(rewards)
    if n < 2:
        raise DataError(f"replay kept {n} decisions, too few to say anything")
    if n < _FEW:
        warnings.warn(
            f"replay kept only {n} decisions: too few to say anything",
            OverlapWarning,
            stacklevel=2,
        )
    terms = mean_of(rewards, weights / weights.mean())
    people = None if log.people is None else [log.people[i] for i in kept]
    error, groups = standard_error(terms.each, groups_of(people, n))
    if groups < 2:
        raise DataError(
            "all decisions that replay kept are for one person, expected at least 2 people"
        )
    reach = float(stdtrit(groups - 1, 0.5 + 0.5 * level))
    low, high = terms.value - reach * error, terms.value + reach * error
    if people is None and np.isin(log.rewards, (0.0, 1.0)).all() and (weights == 1.0).all():
        low, high = _wilson(terms.value, n, reach)
    logged = mean_of(log.rewards, log.weights / log.weights.mean()).value
    return Replay(terms.value, error, low, high, places, rewards, logged, own)


def _decision(policy: Policy[Any], contexts: Floats, arms: list[Any], key: str) -> Decision:
    """Ask a policy; an arm that it has removed would not have been offered."""
    removed = set(policy.removed_arms)
    if removed.isdisjoint(arms):
        return policy.decide(contexts, arms, key=key)
    left = [k for k, name in enumerate(arms) if name not in removed]
    return policy.decide(contexts[left], [arms[k] for k in left], key=key)


def _wilson(share: float, n: int, reach: float) -> tuple[float, float]:
    """Return an interval for a share that is also right for none of n (Wilson 1927)."""
    z2 = reach**2 / n
    middle = (share + 0.5 * z2) / (1.0 + z2)
    half = reach * math.sqrt(share * (1.0 - share) / n + z2 / (4.0 * n)) / (1.0 + z2)
    return middle - half, middle + half


def _least(log: DecisionLog) -> float:
    """Return the least propensity of any arm that was offered, as far as they are known."""
    if log.propensities is None:
        return float(log.propensity.min())
    return float(min(p.min() for p in log.propensities))
