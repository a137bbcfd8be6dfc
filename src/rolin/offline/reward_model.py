"""Predict the reward of every arm by a posterior: the reward model of DM and DR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.errors import ParameterError
from rolin.journal.folding import adaptive_of
from rolin.model.logistic import LogisticPosterior, probability_of
from rolin.offline.log import DecisionLog
from rolin.policies import LinearPolicy
from rolin.policies.rolin_ts import RoLinTS

__all__ = ["check_model", "default_model", "fitted", "mean_rewards", "value_variance"]

Floats = NDArray[np.float64]
_CHUNK = 100_000  # arms predicted at a time
_STEP = 1e-4  # of a logit, for the numerical derivative of a probability


def default_model(log: DecisionLog) -> LinearPolicy:
    """Return a linear model with arm effects that learns its scales from the log."""
    r = log.rewards
    spread = float(r.std()) or 1.0
    x = np.concatenate(log.contexts[:1000])
    size = np.sqrt((x**2).mean(axis=0)) if x.size else np.ones(log.n_features)
    return RoLinTS(
        n_features=log.n_features,
        coef_std=tuple(spread / np.where(size > 0.0, size, 1.0)) or 1.0,
        intercept_std=10.0 * spread,
        intercept_mean=float(r.mean()),
        arm_std=("learn", 0.5 * spread),
        noise_std=("learn", spread),
        seed=0,
    )


def check_model(model: Any, log: DecisionLog) -> None:
    """Reject a model without a Gaussian posterior, or with another number of features than the log."""
    if not isinstance(model, LinearPolicy):
        raise ParameterError(f"reward_model={model!r}, expected a policy with a posterior")
    if model.n_features != log.n_features:
        raise ParameterError(
            f"reward_model has {model.n_features} features, the log has {log.n_features}"
        )


def fitted(model: LinearPolicy, log: DecisionLog, rows: NDArray[Any]) -> LinearPolicy:
    """Return a new model with the same settings, fitted to some decisions of a log."""
    new = type(model)(**model.settings)
    if adaptive := adaptive_of(new):
        adaptive.wait_for_scales()  # once, at the end, is enough
    indices: list[int] = np.flatnonzero(rows).tolist()
    new.update_many(
        [log.arms[i][log.chosen[i]] for i in indices],
        np.array([log.contexts[i][log.chosen[i]] for i in indices]).reshape(len(indices), -1),
        log.rewards[indices],
        log.weights[indices],
    )
    if new.learns_scales:
        new.learn_scales()
    return new


def mean_rewards(model: LinearPolicy, log: DecisionLog, rows: Sequence[int]) -> list[Floats]:
    """Return the predicted mean reward of every arm, for some decisions."""
    means: list[Floats] = []
    for x, arms, sizes in _chunks(log, rows):
        mean, _ = _predicted(model, x, arms)
        means += np.split(mean, np.cumsum(sizes)[:-1])
    return means


def value_variance(
    model: LinearPolicy, log: DecisionLog, targets: Sequence[Floats], groups: NDArray[np.int64]
) -> float:
    """Return the posterior variance of the mean reward of a policy with these probabilities.

    The mean reward is linear in the coefficients θ and in what the arms have of their own, u_i = (v_i, b_i): their effects
    and slopes. It is f = c'θ + Σ s_i'u_i. With θ = θ̂ + T'z and u_i = û_i - L_i z + noise of covariance V_i, its variance is
    |T c - Σ L_i's_i|² + Σ s_i'V_i s_i. Binary rewards are linearized around their predictions.

    The posterior assumes that the noise of all rewards is independent. If decisions belong to groups, such as
    people, the noise is added up by group instead: a reward with mean μ moves the mean of f by cov(f, μ) h/σ² times
    its residual.
    """
    posterior = model.posterior
    c, names, s = _functional(model, log, targets)
    index = {name: k for k, name in enumerate(names)}
    own = posterior.own_coefficients(names)
    g = posterior.loadings(c) - np.tensordot(s, own.loadings, axes=2)
    alone = np.einsum("kpq,kq->kp", own.covariance, s)  # V_i s_i
    variance = float(g @ g + (s * alone).sum())
    if len(np.unique(groups)) == len(log):
        return variance
    rows = np.array([index[log.arms[i][k]] for i, k in enumerate(log.chosen.tolist())])
    x = np.array([log.contexts[i][k] for i, k in enumerate(log.chosen.tolist())])
    mean, _ = _predicted(model, x, [names[k] for k in rows])
    entries = own.entries(x)
    if posterior.scales.has_intercept:
        x = np.column_stack([x, np.ones(len(x))])
    # cov(f, μ) of μ = x'θ + z'u_i: (T x - L_i'z)'g + z'V_i s_i
    of_shared, of_own = posterior.loadings(np.eye(len(c))) @ g, alone - own.loadings @ g
    influence = x @ of_shared + (entries * of_own[rows]).sum(axis=1)
    precision = log.weights / posterior.scales.noise_std**2
    each = influence * precision * (log.rewards - mean)
    spread = mean * (1.0 - mean) if model.binary else posterior.scales.noise_std**2
    independent = float((influence**2 * precision**2 * spread / log.weights).sum())
    sums = np.bincount(groups, weights=each)
    together = float((sums**2).sum()) * len(sums) / (len(sums) - 1)
    return variance + max(together - independent, 0.0)


def _functional(
    model: LinearPolicy, log: DecisionLog, targets: Sequence[Floats]
) -> tuple[Floats, list[Any], Floats]:
    """Return c, the names of the arms, and the (K, q) factors s_i of the mean reward c'θ + Σ s_i'u_i."""
    d, intercept = log.n_features, model.posterior.scales.has_intercept
    none = model.posterior.own_coefficients([])
    index: dict[Any, int] = {}
    c, s = np.zeros(d + intercept), np.zeros((0, none.mean.shape[1]))
    start, n = 0, log.weights.sum()
    for x, arms, sizes in _chunks(log, range(len(log))):
        stop = start + len(sizes)
        weight = np.concatenate(targets[start:stop]) * np.repeat(log.weights[start:stop], sizes)
        weight *= _predicted(model, x, arms)[1] / n
        start = stop
        c[:d] += weight @ x
        if intercept:
            c[-1] += weight.sum()
        codes = [index.setdefault(name, len(index)) for name in arms]
        s = np.pad(s, ((0, len(index) - len(s)), (0, 0)))
        np.add.at(s, codes, weight[:, None] * none.entries(x))
    return c, list(index), s


def _chunks(log: DecisionLog, rows: Sequence[int]) -> Any:
    """Yield contexts, arms and numbers of arms of several decisions at a time."""
    group: list[int] = []
    held = 0
    for i in rows:
        group.append(i)
        held += len(log.arms[i])
        if held >= _CHUNK:
            yield _together(log, group)
            group, held = [], 0
    if group:
        yield _together(log, group)


def _together(log: DecisionLog, group: Sequence[int]) -> tuple[Floats, list[Any], list[int]]:
    x = np.concatenate([log.contexts[i] for i in group])
    return x, [a for i in group for a in log.arms[i]], [len(log.arms[i]) for i in group]


def _predicted(model: LinearPolicy, x: Floats, arms: Sequence[Any]) -> tuple[Floats, Floats]:
    """Return mean rewards, and how they follow what the posterior is of."""
    posterior = model.posterior
    rows = posterior.rows_of(arms)
    _, table = posterior.score(np.ascontiguousarray(x), rows, np.zeros(len(x)))
    mean, std = table[0].copy(), table[1].copy()
    if not isinstance(posterior, LogisticPosterior):
        return mean, np.ones(len(mean))
    up, down = (probability_of(mean + step, std).mean for step in (_STEP, -_STEP))
    return probability_of(mean, std).mean, (up - down) / (2.0 * _STEP)
