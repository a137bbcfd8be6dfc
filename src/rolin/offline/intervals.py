"""Check on a log whether the intervals of a policy hold, and by which factor they are off.

A policy learns from the first ninth of the log and predicts the rewards up to the first third. Then it learns these too
and predicts the rest. Two things are compared with its predictions: the mean reward of each arm, whose uncertainty is
what the policy does not know yet, and single rewards, one step ahead, whose uncertainty is mostly noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import canonical
from rolin._support.checks import as_batch
from rolin._support.progress import Progress, check_progress, reporter
from rolin.bandit.bandit import Bandit
from rolin.errors import DataError, ParameterError, Unsupported
from rolin.journal import Journal
from rolin.logs.frames import RewardLog
from rolin.logs.past_rewards import rewards_of
from rolin.logs.reader import past_decisions
from rolin.logs.record import PastDecision
from rolin.model.adaptive import Adaptive
from rolin.model.held_out import HeldOut, estimate_width, residuals_of
from rolin.model.logistic import probability_of
from rolin.model.posterior import Posterior
from rolin.model.slopes import SlopePosterior
from rolin.offline.interval_check import REACH, ArmAverage, IntervalCheck, OneStep
from rolin.offline.log import DecisionLog
from rolin.policies import LinearPolicy, RoLinTS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_intervals"]

Floats = NDArray[np.float64]
# Ends of the parts of a log, as shares; each part is predicted from all parts before it. A part is twice as long as
# those before it together: longer parts say more about the posterior, but the posterior is then one of fewer rewards.
_ENDS = (1 / 9, 1 / 3, 1.0)
_LEAST = 81  # rewards


def check_intervals(
    log: DecisionLog
    | RewardLog
    | Bandit[Any]
    | Journal
    | str
    | PathLike[str]
    | Iterable[PastDecision]
    | pd.DataFrame,
    policy: LinearPolicy | None = None,
    *,
    progress: Progress = False,
    **columns: Any,
) -> IntervalCheck:
    """Test on a log whether the intervals of a policy's predictions hold.

    It is valid for a log of random choices and for the log of a bandit, if each choice used only the past, the contexts
    and chance. It says nothing about contexts in which an arm was never chosen.

    Parameters
    ----------
    log
        The rewards in the order in which they came: a log of [`read`][rolin.offline.read] or
        [`read_log`][rolin.logs.read_log], a bandit, or any source of [`past_decisions`][rolin.logs.past_decisions].
    policy
        The policy whose intervals are checked. A new policy with the same settings learns from the log; what the given
        one has learned is not used. Scales that it learns are learned once, from the whole log. By default the policy
        of the bandit; or for other logs, a RoLinTS with an intercept that learns all scales.
    progress
        `True` shows a bar; a function is called with the number of rewards done since its last call.
    columns
        Options of the reader, for sources that are files or tables.

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> arms, x = rng.integers(40, size=4000), rng.normal(size=(4000, 2))
    >>> rewards = x @ [1.0, -1.0] + rng.normal(size=40)[arms] + rng.normal(size=4000)
    >>> log = RewardLog(arms.tolist(), x, rewards, np.ones(4000), ["a", "b"])
    >>> check_intervals(log).verdict
    'hold'
    """
    check_progress(progress)
    if isinstance(log, Bandit):
        policy = log.policy if policy is None else policy
        log = log.journal
    rewards = _rewards(log, columns)
    if isinstance(policy, LinearPolicy) and policy.feature_map is not None:
        more = max(policy.n_features - rewards.contexts.shape[1], 0)
        # Features that the map got later were 0 before.
        rewards = rewards._replace(contexts=np.pad(rewards.contexts, ((0, 0), (0, more))))
    n = len(rewards.arms)
    if n < _LEAST:
        raise DataError(f"the log has {n} rewards, expected at least {_LEAST} to check intervals")
    ends = [round(share * n) for share in _ENDS]
    own = _fresh(_new_policy(rewards) if policy is None else policy, rewards)
    _learn(own, rewards, slice(0, ends[0]))
    blocks, z = [], np.empty(n - ends[0])
    with reporter(progress, "checking intervals", len(z)) as advance:
        for start, end in pairwise(ends):
            part = slice(start, end)
            held_out, means = _held_out(own, rewards, part)
            blocks.append(held_out)
            z[start - ends[0] : end - ends[0]] = _one_step_ahead(own, rewards, part, advance)
    return IntervalCheck(
        type(own).__name__,
        estimate_width(blocks, kurtosis=_kurtosis(z)),
        _summary(z, own.binary),
        _averages(blocks[-1], means, rewards, slice(ends[-2], n)),
    )


def _rewards(log: Any, columns: dict[str, Any]) -> RewardLog:
    """Return the rewards of any log, in order."""
    if isinstance(log, RewardLog):
        batch = as_batch(log.arms, log.contexts, log.rewards, log.weights)
        return RewardLog(list(batch.arms), *batch[1:], log.features)
    if isinstance(log, DecisionLog):
        rows = range(len(log))
        chosen = log.chosen.tolist()
        contexts = [log.contexts[i][chosen[i]] for i in rows]
        return RewardLog(
            [log.arms[i][chosen[i]] for i in rows],
            np.array(contexts).reshape(len(log), log.n_features),
            log.rewards,
            log.weights,
            [f"x{j}" for j in range(log.n_features)],
        )
    return rewards_of(past_decisions(log, **columns))


def _fresh(policy: object, log: RewardLog) -> LinearPolicy:
    """Return a policy with the same settings that has learned nothing, except the scales that it learns.

    These are learned from the whole log. Learned from a first part with few rewards per arm, they would often be off,
    and with them the intervals of that time.
    """
    if not (isinstance(policy, LinearPolicy) and isinstance(policy.posterior, Posterior)):
        raise ParameterError(
            f"policy={policy!r}, expected a policy with a Gaussian posterior, such as RoLinTS"
        )
    if isinstance(policy.posterior, SlopePosterior):
        raise Unsupported(
            "intervals of a policy whose arms have slopes cannot be checked, because the check knows one uncertain number "
            "per arm only: check the same policy with slope_std=0"
        )
    fresh = type(policy)(**policy.settings)
    if not fresh.learns_scales:
        return fresh
    _learn(fresh, log, slice(None))
    fresh.learn_scales()
    model = fresh.posterior
    # A guess that comes from the data also needs rewards that differ by more than rounding errors.
    if not np.ptp(log.rewards) or (isinstance(model, Adaptive) and not model.has_scales):
        raise DataError("all rewards of the log are equal, so no scales can be learned from them")
    scales = fresh.scales
    known = {**fresh.settings, "learn_by": "map"}
    learned = {
        name: getattr(scales, name)
        for name, value in known.items()
        if value == "learn" or (isinstance(value, tuple) and value[:1] == ("learn",))
    }
    if "intercept_std" in learned:
        learned["intercept_mean"] = scales.intercept_mean
    return type(policy)(**known | learned)


def _new_policy(log: RewardLog) -> LinearPolicy:
    """Return a policy that learns all scales, with guesses of the size of the rewards."""
    unit = float(log.rewards.std()) or float(np.abs(log.rewards).max()) or 1.0
    level = float(np.sqrt((log.rewards**2).mean())) or 1.0
    return RoLinTS(
        n_features=log.contexts.shape[1],
        noise_std=("learn", unit),
        arm_std=("learn", 0.5 * unit),
        coef_std=("learn", unit),
        intercept_std=10.0 * level,  # so large that it hardly restricts an intercept
        learn_by="reml",
        seed=0,
    )


def _learn(policy: LinearPolicy, log: RewardLog, part: slice) -> None:
    policy.update_many(
        log.arms[part], log.contexts[part], log.rewards[part], weights=log.weights[part]
    )


def _held_out(policy: LinearPolicy, log: RewardLog, part: slice) -> tuple[HeldOut, Floats]:
    """Return a part of the log as the policy's posterior sees it, and the predicted mean of each reward."""
    posterior, rewards, weights = policy.posterior, log.rewards[part], log.weights[part]
    found = residuals_of(posterior, log.arms[part], log.contexts[part], rewards)
    means = rewards - found.values
    if policy.binary:
        # Outcomes are observations of the logit around its predicted mean, linearized there:
        # y - E[p] = E[p(1 - p)] (logit - mean) + noise of variance E[p(1 - p)].
        logit = means
        std = np.sqrt((found.loadings**2).sum(axis=1) + found.own_variance[found.codes])
        means, p_std = probability_of(logit, std)
        slope = np.maximum(means * (1.0 - means) - p_std**2, 1e-12)
        found = found._replace(values=(rewards - means) / slope)
        weights = weights * slope
    return HeldOut(found, weights, posterior.scales.noise_std), means


def _one_step_ahead(
    policy: LinearPolicy, log: RewardLog, part: slice, advance: Callable[[int], None]
) -> list[float]:
    """Return the standardized residual of each reward, predicted from all before it, and learn from each."""
    z = []
    for i in range(part.start, part.stop):
        arm, x = log.arms[i], log.contexts[i]
        reward, weight = float(log.rewards[i]), float(log.weights[i])
        prediction = policy.predict(x[None], [arm])
        mean, std = float(prediction.mean[0]), float(prediction.std[0])
        noise = policy.scales.noise_std
        variance = max(mean * (1.0 - mean), 1e-12) if policy.binary else std**2 + noise**2 / weight
        z.append((reward - mean) / math.sqrt(variance))
        policy.update(arm, x, reward, weight)
        advance(1)
    return z


def _kurtosis(z: Floats) -> float:
    """Return the excess kurtosis of standardized residuals around 0, which is at least -2."""
    square = float((z**2).mean())
    return float((z**4).mean()) / square**2 - 3.0 if square > 0.0 else 0.0


def _summary(z: Floats, binary: bool) -> OneStep:
    n = len(z)
    root = math.sqrt(float((z**2).mean()))
    error = float((z**2).std()) / (2.0 * root * math.sqrt(n)) if root > 0.0 else 0.0
    held = math.nan if binary else float((np.abs(z) <= REACH).mean())
    return OneStep(n, root, error, held, math.sqrt(held * (1.0 - held) / n))


def _averages(
    held_out: HeldOut, means: Floats, log: RewardLog, part: slice
) -> tuple[ArmAverage, ...]:
    """Return the mean reward of each arm in the last part, and what was predicted."""
    code_of = {name: i for i, name in enumerate(held_out.arms)}
    codes = np.array([code_of[canonical(name)] for name in log.arms[part]], dtype=np.int64)
    weights, k = log.weights[part], len(code_of)
    total = np.bincount(codes, weights, minlength=k)
    observed = np.bincount(codes, weights * log.rewards[part], minlength=k) / total
    predicted = np.bincount(codes, weights * means, minlength=k) / total
    # A residual on the logit scale times its share of the weight is one of the probability.
    std = held_out.std * held_out.weight / total
    rows = zip(code_of, *(a.tolist() for a in (total, observed, predicted, std)), strict=True)
    return tuple(sorted((ArmAverage(*row) for row in rows), key=lambda arm: -abs(arm.z)))
