"""Replay evaluation: let a policy decide again, and use the decisions in which it agrees with the log.

Li et al. (2011), *Unbiased Offline Evaluation of Contextual-bandit-based News Article Recommendation
Algorithms*. The policy decides at every decision of the log. If it chooses the logged arm, it sees the reward and
learns; otherwise the decision is skipped. If the log was not uniform, an agreement is accepted with probability
m/p, where m is the least propensity, so that every choice of the policy is accepted equally often.
"""

from __future__ import annotations

import copy
import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import level_of, number_of
from rolin._support.distributions import student_margin
from rolin._support.optional import needs
from rolin._support.progress import Progress, reporter
from rolin.errors import DataError, OverlapWarning, ParameterError
from rolin.journal.folding import adaptive_of
from rolin.offline.estimators import groups_of, standard_error, weighted_mean
from rolin.offline.log import DecisionLog, check_log
from rolin.policies import Decision, Policy
from rolin.policies.keyed_random import KeyedGenerator

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Replay", "replay"]

Floats = NDArray[np.float64]
_FEW = 50  # agreements; with fewer, the mean is too uncertain
_STREAM = 4  # random stream of the draws that accept agreements


class Replay(NamedTuple):
    """The rewards of a policy in the decisions in which it agreed with the log."""

    value: float
    """Mean reward."""
    std_error: float
    low: float
    high: float
    """Ends of the interval."""
    rows: NDArray[np.int64]
    """Indices of the decisions that were used."""
    rewards: Floats
    """Their rewards, in order, which show how the policy learned."""
    logged: float
    """Mean reward of all decisions of the log, without those of the baseline, for comparison."""
    policy: Policy[Any]
    """The policy after the replay."""

    def to_frame(self) -> pd.DataFrame:
        """Return the decisions that were used as a data frame: row of the log, reward, and mean reward so far."""
        with needs("sim"):
            import pandas as pd
        mean = np.cumsum(self.rewards) / np.arange(1, len(self.rewards) + 1)
        return pd.DataFrame({"row": self.rows, "reward": self.rewards, "mean_reward": mean})

    def __repr__(self) -> str:
        """Return the value with its interval, in one line."""
        return f"<Replay: {self}>"

    def __str__(self) -> str:
        """Return the value with its interval."""
        few = " ! too few for a conclusion" if len(self.rows) < _FEW else ""
        return (
            f"replay used {len(self.rows)} decisions: {self.value:.4g} per decision "
            f"({self.low:.4g} to {self.high:.4g}); logged: {self.logged:.4g}{few}"
        )


def replay(
    log: DecisionLog,
    policy: Policy[Any],
    *,
    learn: bool = True,
    min_propensity: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress = False,
) -> Replay:
    """Let a copy of a policy play through a log, and learn from the decisions in which it agrees.

    Decisions in which the baseline was shown are left out, because its other arms had no chance.

    Parameters
    ----------
    log
        The log, in the order in which the decisions were made.
    policy
        A new policy, or one that has learned something.
    learn
        Whether it learns.
    min_propensity
        m, by default the least propensity in the log. A larger number uses more decisions, but biases the result
        where propensities are below it.
    level
        Level of the interval.
    seed
        Seed of the draws that accept agreements.
    progress
        `True` shows a bar; a function is called with the number of decisions done since its last call.
    """
    check_log(log)
    if not isinstance(policy, Policy):
        raise ParameterError(f"policy={policy!r}, expected a policy of rolin")
    own = copy.deepcopy(policy)
    if model := adaptive_of(own):
        model.learn_scales_when_due()
    kept = np.flatnonzero(log.drawn)
    if len(kept) < len(log):
        log = log.take(kept)
    m = _least(log) if min_propensity is None else number_of("min_propensity", min_propensity)
    if not 0.0 < m <= 1.0:
        raise DataError(
            f"the least propensity is {m:g}, expected above 0: log with a floor, replay the control group only, or "
            "give min_propensity"
        )
    level = level_of(level)
    draws = KeyedGenerator(seed)
    used = []
    with reporter(progress, "replaying", len(log)) as advance:
        for i in range(len(log)):
            # Separate keys: neither the log nor what is accepted may depend on the policy's draws.
            decision = _decision(own, log.contexts[i], log.arms[i], f"replay {i}")
            advance(1)
            p = log.propensity[i]
            if decision.arm != log.arms[i][int(log.chosen[i])]:
                continue
            if m < p and draws.at(f"keep {i}", _STREAM).random() >= m / p:
                continue
            used.append(i)
            if learn:
                own.update(decision.arm, decision.context, log.rewards[i], log.weights[i])
    rows = np.array(used, dtype=np.int64)
    rewards, weights = log.rewards[rows], log.weights[rows]
    n = len(rewards)
    if n < 2:
        raise DataError(f"replay used {n} decisions, too few for a conclusion")
    if n < _FEW:
        warnings.warn(
            f"replay used only {n} decisions: too few for a conclusion",
            OverlapWarning,
            stacklevel=2,
        )
    terms = weighted_mean(rewards, weights / weights.mean())
    people = None if log.people is None else [log.people[i] for i in used]
    error, groups = standard_error(terms.each, groups_of(people, n))
    if groups < 2:
        raise DataError(
            "all decisions that replay used are for one person, expected at least 2 people"
        )
    reach = student_margin(groups - 1, level)
    low, high = terms.value - reach * error, terms.value + reach * error
    if people is None and np.isin(log.rewards, (0.0, 1.0)).all() and (weights == 1.0).all():
        low, high = _wilson(terms.value, n, reach)
    logged = weighted_mean(log.rewards, log.weights / log.weights.mean()).value
    return Replay(terms.value, error, low, high, kept[rows], rewards, logged, own)


def _decision(policy: Policy[Any], contexts: Floats, arms: list[Any], key: str) -> Decision:
    """Return the decision of a policy; arms that it has removed are not offered."""
    removed = set(policy.removed_arms)
    if removed.isdisjoint(arms):
        return policy.decide(contexts, arms, key=key)
    left = [k for k, name in enumerate(arms) if name not in removed]
    return policy.decide(contexts[left], [arms[k] for k in left], key=key)


def _wilson(share: float, n: int, reach: float) -> tuple[float, float]:
    """Return an interval for a share of n, which also holds for a share of 0 (Wilson 1927)."""
    z2 = reach**2 / n
    middle = (share + 0.5 * z2) / (1.0 + z2)
    half = reach * math.sqrt(share * (1.0 - share) / n + z2 / (4.0 * n)) / (1.0 + z2)
    return middle - half, middle + half


def _least(log: DecisionLog) -> float:
    """Return the least known propensity of any arm that was offered."""
    if log.propensities is None:
        return float(log.propensity.min())
    return float(min(p.min() for p in log.propensities))
