"""Compute the explanation of an arm's score.

    mean = Σ_j x_j θ̂_j + z'û_i,   z = (1, x_S)

u_i is what the arm has of its own: its effect, and its slopes for the features S, if it has slopes. Every term has an
uncertainty, such as x_j std(θ_j), and so has the sum. The latter is not the sum of the former, because the terms are
correlated: θ = θ̂ + T'z with standard normal z, and u_i moves with the same z (`OwnCoefficients`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.bandit.explanation import Contribution, Explanation, SlopeContribution
from rolin.bandit.state import BanditState
from rolin.errors import ParameterError, ShapeError, Unsupported
from rolin.features import Part, RecordedFeatures
from rolin.journal.events import LoggedDecision
from rolin.journal.folding import load_policy
from rolin.journal.validation import offered_index
from rolin.logs.record import PastDecision, reread
from rolin.model.first_guess import placeholders
from rolin.model.posterior import Posterior
from rolin.policies import LinearPolicy, Policy
from rolin.policies.bayes_rolin_ts import BayesRoLinTS
from rolin.policies.naive import NaiveRoLinTS

__all__ = ["explain"]

Floats = NDArray[np.float64]
# The standard deviation of coefficients before their scale is known.
_NOT_USED = placeholders({"coef_std"}, has_intercept=True)["coef_std"]
_ZERO = 1e-110  # the model of slopes computes with 1e-120 in place of scales that are 0


def explain(
    state: BanditState[Any],
    refresh: Callable[[], None],
    decision: LoggedDecision,
    arm: Name | None,
    against: Name | None,
    as_of: str,
) -> Explanation:
    """Explain the mean of an arm; see `Bandit.explain`."""
    index = decision.chosen[0] if arm is None else offered_index(decision, arm)
    other = None if against is None else offered_index(decision, against, "against")
    if index == other:
        raise ParameterError(
            f"against={against!r} is the arm itself, expected another one", argument="against"
        )
    if not isinstance(as_of, str) or as_of not in ("decision", "now"):
        raise ParameterError(f"as_of={as_of!r}, expected 'decision' or 'now'", argument="as_of")
    known = None if decision.imported else decision.version
    if known is None and as_of == "decision":
        raise Unsupported(
            f"decision {decision.id!r} was imported, so the model that made it is unknown: use as_of='now'"
        )
    if known is None or known > state.version:
        refresh()
    with state.lock:
        policy, version = state.current()
        if known is not None and state.same_since(known):
            return _explained(policy, decision, index, other, version=known, as_it_was=True)
        if as_of == "now":
            # Fields that were recorded, but are used only since then, count as well.
            if policy.feature_map is not None:
                decision = reread(PastDecision(decision, {}), policy.feature_map).decision
            return _explained(policy, decision, index, other, version=version, as_it_was=False)
    before, version = load_policy(state.journal, kind=type(policy), upto=known)
    return _explained(before, decision, index, other, version=version, as_it_was=True)


def _explained(
    policy: Policy[Any],
    decision: LoggedDecision,
    index: int,
    against: int | None,
    *,
    version: int,
    as_it_was: bool,
) -> Explanation:
    """Explain by a policy in the state of the decision, which can repeat its draws, or in a later one."""
    if not isinstance(policy, (LinearPolicy, BayesRoLinTS)) or isinstance(policy, NaiveRoLinTS):
        raise Unsupported(f"{type(policy).__name__} has no coefficients that could explain it")
    offered = decision.offered_contexts  # raw features are encoded once, here
    indices = [index] if against is None else [index, against]
    sign = np.array([1.0, -1.0][: len(indices)])
    x = np.array([_padded(offered[i], policy) for i in indices])
    names = [decision.offered[i] for i in indices]
    terms = _terms(decision, offered, policy, indices)
    models = _models(policy)
    summary = _averaged(
        [(weight, _summary(p, unit, sign, x, names, terms)) for weight, p, unit in models]
    )
    effect, mean = summary.effect, summary.mean
    has_slopes = any(model.own_coefficients([]).features for _, model, _ in models)
    score, explored = _drawn(policy, decision, offered, index) if as_it_was else (None, None)
    p = decision.propensities
    alone = against is None
    return Explanation(
        arm=names[0],
        against=None if alone else names[1],
        scale="logit" if policy.binary else "reward",
        contributions=_contributions(terms, sign, summary, has_slopes=has_slopes),
        effect=float(effect.mean),
        effect_std=float(effect.std),
        mean=float(mean.mean),
        std=float(mean.std),
        chosen=index == decision.chosen[0],
        propensity=float(p[index]) if p is not None and alone and as_it_was else None,
        score=score if alone else None,
        explored=explored if index == decision.chosen[0] else None,
        version=version,
    )


class _Moments(NamedTuple):
    """Mean and standard deviation of a number, or of several."""

    mean: Any
    std: Any


class _Term(NamedTuple):
    """One named term of the vectors of an arm, or of two arms."""

    name: str
    feature: int
    """Index of its coefficient."""
    values: Floats
    """Its value for each arm."""


class _Summary(NamedTuple):
    """What one posterior knows about an arm, or about the difference between two arms."""

    coefficients: _Moments
    effect: _Moments
    mean: _Moments
    own: _Moments
    """What the arms' own slopes add, for each term."""
    total: _Moments
    """What the shared coefficient and the arms' own slopes add, for each term."""


def _averaged(models: Sequence[tuple[float, _Summary]]) -> _Summary:
    """Return mean and standard deviation over several models, including their disagreement."""
    weight = np.array([weight for weight, _ in models])
    parts = []
    for each in zip(*(summary for _, summary in models), strict=True):
        mean = weight @ np.array([part.mean for part in each])
        variance = weight @ np.array([part.std**2 + (part.mean - mean) ** 2 for part in each])
        parts.append(_Moments(mean, np.sqrt(variance)))
    return _Summary(*parts)


def _models(policy: LinearPolicy | BayesRoLinTS) -> list[tuple[float, Posterior, float]]:
    """Return the posteriors of a policy with their weights and the units of their uncertainty."""
    if isinstance(policy, LinearPolicy):
        return [(1.0, policy.posterior, 1.0)]
    _, weights, noise, freedom = policy.beliefs
    spread = math.sqrt(freedom / (freedom - 2.0))  # standard deviation of Student's t
    parts = zip(weights.tolist(), policy.posteriors, noise.tolist(), strict=True)
    return [(weight, part, spread * unit) for weight, part, unit in parts]


def _has_intercept(policy: LinearPolicy | BayesRoLinTS) -> bool:
    return policy.settings.get("intercept_std") is not None


def _padded(x: Floats, policy: LinearPolicy | BayesRoLinTS) -> Floats:
    """Return a context with one number per coefficient."""
    if len(x) > policy.n_features:
        raise ShapeError(
            f"the decision has {len(x)} features, but the policy has n_features={policy.n_features}: the "
            "decision belongs to another policy"
        )
    x = np.pad(x, (0, policy.n_features - len(x)))  # features added later were 0
    return np.append(x, 1.0) if _has_intercept(policy) else x


def _summary(
    posterior: Posterior,
    unit: float,
    sign: Floats,
    x: Floats,
    names: Sequence[Name],
    terms: Sequence[_Term],
) -> _Summary:
    """Return what a posterior knows about the coefficients, the arm effect, the mean, and each term.

    For two arms, about their difference.
    """
    coef, own = posterior.coefficients, posterior.own_coefficients(names)
    # As long as no scale is known, features are not used: what stands for their scale says nothing.
    is_used = coef.std > 2.0 * _NOT_USED

    def moments(shared: Floats, weights: Floats) -> _Moments:
        """Return the moments of c'θ + Σ_k w_k'u_k, with c = `shared` and w_k = `weights[k]`.

        θ moves it by (T c)'z, and what the arms have of their own moves it the other way; what remains is each arm's
        own uncertainty.
        """
        alone = float(np.einsum("kp,kpq,kq->", weights, own.covariance, weights))
        loadings = posterior.loadings(shared * is_used) - np.tensordot(
            weights, own.loadings, axes=2
        )
        mean = float(shared @ coef.mean) + float((weights * own.mean).sum())
        std = math.sqrt(alone + float(loadings @ loadings))
        if std <= _ZERO * np.abs(weights).max(initial=0.0):
            std = 0.0
        return _Moments(mean, unit * std)

    entries = sign[:, None] * own.entries(x)
    none, effect = np.zeros(len(coef.mean)), np.zeros_like(entries)
    effect[:, 0] = sign
    of_terms = np.zeros((4, len(terms)))
    position = {feature: i for i, feature in enumerate(own.features, start=1)}
    for t, term in enumerate(terms if position else ()):
        shared, weights = none.copy(), np.zeros_like(entries)
        shared[term.feature] = sign @ term.values
        if term.feature in position:
            weights[:, position[term.feature]] = sign * term.values
        of_terms[:, t] = (*moments(none, weights), *moments(shared, weights))
    return _Summary(
        _Moments(coef.mean, unit * coef.std * is_used),
        moments(none, effect),
        moments(sign @ x, entries),
        _Moments(*of_terms[:2]),
        _Moments(*of_terms[2:]),
    )


def _terms(
    decision: LoggedDecision,
    offered: Floats,
    policy: LinearPolicy | BayesRoLinTS,
    indices: Sequence[int],
) -> list[_Term]:
    """Return the terms of the vectors of an arm, or of two arms, by name."""
    values: dict[tuple[str, int], Floats] = {}
    for k, index in enumerate(indices):
        for name, j, value in _parts(decision, offered[index], policy, index):
            values.setdefault((name, j), np.zeros(len(indices)))[k] += value
    return [_Term(name, j, each) for (name, j), each in values.items()]


def _contributions(
    terms: Sequence[_Term], sign: Floats, summary: _Summary, *, has_slopes: bool
) -> tuple[Contribution, ...]:
    """Return the contribution of each feature, or its difference between two arms, largest first."""
    coef, own, total = summary.coefficients, summary.own, summary.total
    found: list[Contribution] = []
    for t, (name, j, values) in enumerate(terms):
        value, coefficient = float(sign @ values), float(coef.mean[j])
        shared = value * coefficient
        if has_slopes and (value or own.std[t] > 0.0):
            # Adding 0 makes 0 of -0.
            numbers = map(
                float, (total.mean[t], total.std[t], shared + 0.0, own.mean[t], own.std[t])
            )
            found.append(SlopeContribution(name, value, coefficient, *numbers))
        elif value and not has_slopes:
            std = abs(value) * float(coef.std[j])
            found.append(Contribution(name, value, coefficient, shared, std))
    return tuple(sorted(found, key=lambda c: (-abs(c.contribution), c.name)))


def _parts(
    decision: LoggedDecision, x: Floats, policy: LinearPolicy | BayesRoLinTS, index: int
) -> list[Part]:
    """Return the terms of an arm's vector by name; the intercept of the policy comes last."""
    if isinstance(decision.given, RecordedFeatures):
        parts = decision.given.parts(index, x)
    else:
        parts = [Part(f"x{i}", int(i), float(x[i])) for i in np.flatnonzero(x)]
    if _has_intercept(policy):
        parts.append(Part("intercept of the policy", policy.n_features, 1.0))
    return parts


def _drawn(
    policy: Policy[Any], decision: LoggedDecision, offered: Floats, index: int
) -> tuple[float | None, bool | None]:
    """Return the score of an arm, and whether the decision was not made by scores."""
    if decision.control:
        return None, True
    if getattr(policy, "sampling", "marginal") == "joint" and decision.propensities is not None:
        return None, None  # drawn from the probabilities, not by scores
    if isinstance(policy, LinearPolicy) and policy.chooses_by_counts:
        return None, None  # drawn by the numbers of rewards
    x = np.pad(offered, ((0, 0), (0, policy.n_features - offered.shape[1])))
    scores = policy.score(policy.candidates(x, decision.offered), decision.id)
    best = policy.rank(scores, decision.id, 1)[0]
    # The baseline has not been drawn, whatever its score.
    return float(scores.values[index]), best != decision.chosen[0] and not decision.is_baseline
