"""Explain the score of an arm: a linear model is a sum of terms, and each term has a name.

    mean = Σ_j x_j θ̂_j + v̂_i

Every term has an uncertainty, x_j std(θ_j), and so has the sum. The latter is not the sum of the former,
because the coefficients are correlated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.html import html_table
from rolin._support.optional import needs
from rolin.bandit.state import BanditState
from rolin.errors import ParameterError, ShapeError, Unsupported
from rolin.features import Part, RecordedFeatures
from rolin.journal.events import LoggedDecision
from rolin.journal.folding import load_policy
from rolin.journal.validation import offered_index
from rolin.logs.record import PastDecision, reread
from rolin.model.posterior import Posterior
from rolin.policies import LinearPolicy, Policy
from rolin.policies.bayes_rolin_ts import BayesRoLinTS
from rolin.policies.naive import NaiveRoLinTS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Contribution", "Explanation", "explain"]

Floats = NDArray[np.float64]
_SHOWN = 15  # contributions in a text


@dataclass(frozen=True)
class Contribution:
    """The contribution of one feature to an arm's mean."""

    name: str
    """The feature."""
    value: float
    """Its value in the vector."""
    coefficient: float
    """Posterior mean of its coefficient."""
    contribution: float
    """Value times coefficient."""
    std: float
    """Standard deviation of the contribution."""


@dataclass(frozen=True, repr=False)
class Explanation:
    """The terms of an arm's mean by name, or of the difference between two arms."""

    arm: Name
    against: Name | None
    """The arm that it is compared with; all numbers are then differences."""
    scale: str
    """Unit of the numbers: `"reward"`, or `"logit"` for binary rewards."""
    contributions: tuple[Contribution, ...]
    """Contributions of the features, the largest first."""
    effect: float
    """The arm effect: what the features miss."""
    effect_std: float
    """Standard deviation of the arm effect."""
    mean: float
    """The sum of all contributions and the arm effect."""
    std: float
    """Standard deviation of the mean."""
    chosen: bool
    """Whether the decision chose the arm."""
    propensity: float | None
    """Probability of the arm to be chosen; `None` for differences and for explanations as of now."""
    score: float | None
    """What the arm was ranked by: the mean plus a draw or bound for its uncertainty. `None` in a control
    group, for joint draws and for differences."""
    explored: bool | None
    """Whether the arm was drawn uniformly, by the floor or in a control group, instead of having the highest
    score. `None` for arms that were not chosen, and if it is unknown."""
    version: int
    """Number of the last event that the model knew."""

    def __repr__(self) -> str:
        """Return one line."""
        arms = repr(self.arm) if self.against is None else f"{self.arm!r} against {self.against!r}"
        return (
            f"<Explanation of {arms}: mean {self.mean:.4g} ± {self.std:.2g}, "
            f"{len(self.contributions)} contributions>"
        )

    def _repr_html_(self) -> str:
        """Return the largest contributions as an HTML table, for notebooks."""
        rows = [
            (
                c.name,
                f"{c.value:.3g}",
                f"{c.coefficient:.3g}",
                f"{c.contribution:.4g}",
                f"{c.std:.2g}",
            )
            for c in self.contributions[:_SHOWN]
        ]
        if rest := self.contributions[_SHOWN:]:
            total = math.fsum(c.contribution for c in rest)
            rows.append((f"… {len(rest)} more", "", "", f"{total:.4g}", ""))
        rows.append(("arm effect", "", "", f"{self.effect:.4g}", f"{self.effect_std:.2g}"))
        header = ("feature", "value", "coefficient", "contribution", "std")
        return html_table(self._title(), header, rows, self._notes())

    def __str__(self) -> str:
        """Return the largest contributions as a text table."""
        lines = [
            self._title(),
            f"  {'':<40} {'value':>9} {'coefficient':>12} {'contribution':>13} {'±':>9}",
        ]
        lines += [
            f"  {_short(c.name):<40} {c.value:9.3g} {c.coefficient:12.3g} {c.contribution:13.4g} {c.std:9.2g}"
            for c in self.contributions[:_SHOWN]
        ]
        if rest := self.contributions[_SHOWN:]:
            total = math.fsum(c.contribution for c in rest)
            lines.append(f"  {f'… {len(rest)} more':<40} {'':9} {'':12} {total:13.4g}")
        lines.append(
            f"  {'arm effect':<40} {'':9} {'':12} {self.effect:13.4g} {self.effect_std:9.2g}"
        )
        lines += self._notes()
        return "\n".join(lines)

    def _title(self) -> str:
        """Return the arm, or the two arms, with the mean."""
        arms = f"arm {self.arm!r}"
        if self.against is not None:
            arms += f" against {self.against!r}"
        return f"{arms}: mean {self.mean:.4g} ± {self.std:.2g} ({self.scale}), the sum of"

    def _notes(self) -> list[str]:
        """Return the lines below the contributions."""
        notes = []
        if self.score is not None:
            notes.append(
                f"ranked by {self.score:.4g}: the mean and {self.score - self.mean:+.3g} for its uncertainty"
            )
        if self.propensity is not None:
            what = "chosen with" if self.chosen else "not chosen; it had"
            notes.append(f"{what} probability {self.propensity:.3g}")
        if self.explored:
            notes.append("drawn uniformly to explore, not chosen by its score")
        return notes

    def to_frame(self) -> pd.DataFrame:
        """Return the contributions and the arm effect as a data frame, one row each."""
        with needs("sim"):
            import pandas as pd
        own = Contribution("arm effect", math.nan, math.nan, self.effect, self.effect_std)
        return pd.DataFrame([asdict(c) for c in (*self.contributions, own)])

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain numbers, strings and lists."""
        return {**asdict(self), "contributions": [asdict(c) for c in self.contributions]}


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
    other = None if against is None else offered_index(decision, against)
    if index == other:
        raise ParameterError(f"against={against!r} is the arm itself, expected another one")
    if not isinstance(as_of, str) or as_of not in ("decision", "now"):
        raise ParameterError(f"as_of={as_of!r}, expected 'decision' or 'now'")
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
    coef, effect, mean = _averaged(
        [
            (weight, _summary(posterior, unit, sign, x, names))
            for weight, posterior, unit in _models(policy)
        ]
    )
    score, explored = _drawn(policy, decision, offered, index) if as_it_was else (None, None)
    p = decision.propensities
    alone = against is None
    return Explanation(
        arm=names[0],
        against=None if alone else names[1],
        scale="logit" if policy.binary else "reward",
        contributions=_contributions(decision, offered, policy, indices, coef),
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


class _Summary(NamedTuple):
    """What one posterior knows about an arm, or about the difference between two arms."""

    coefficients: _Moments
    effect: _Moments
    mean: _Moments


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
    posterior: Posterior, unit: float, sign: Floats, x: Floats, names: Sequence[Name]
) -> _Summary:
    """Return what a posterior knows about the coefficients, the arm effect and the mean.

    For two arms, about their difference. The coefficients are θ = θ̂ + T'z with standard normal z, so x'θ moves by
    (T x)'z, and the arm effect moves the other way; what remains is each arm's own uncertainty.
    """
    coef = posterior.coefficients
    effects = posterior.arm_effects(names)
    own = float(effects.own_variance.sum())
    loadings = sign @ effects.loadings
    moved = posterior.loadings(sign @ x)
    effect = float(sign @ effects.mean)
    return _Summary(
        _Moments(coef.mean, unit * coef.std),
        _Moments(effect, unit * math.sqrt(own + float(loadings @ loadings))),
        _Moments(
            float(sign @ x @ coef.mean) + effect,
            unit * math.sqrt(own + float((moved - loadings) @ (moved - loadings))),
        ),
    )


def _contributions(
    decision: LoggedDecision,
    offered: Floats,
    policy: LinearPolicy | BayesRoLinTS,
    indices: Sequence[int],
    coef: _Moments,
) -> tuple[Contribution, ...]:
    """Return the contribution of each feature, or its difference between two arms, largest first."""
    values: dict[tuple[str, int], float] = {}
    for sign, index in zip((1.0, -1.0), indices, strict=False):
        for name, j, value in _parts(decision, offered[index], policy, index):
            values[name, j] = values.get((name, j), 0.0) + sign * value
    found = [
        Contribution(
            name,
            value,
            float(coef.mean[j]),
            value * float(coef.mean[j]),
            abs(value) * float(coef.std[j]),
        )
        for (name, j), value in values.items()
        if value
    ]
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
    x = np.pad(offered, ((0, 0), (0, policy.n_features - offered.shape[1])))
    scores = policy.score(policy.candidates(x, decision.offered), decision.id)
    best = policy.rank(scores, decision.id, 1)[0]
    return float(scores.values[index]), best != decision.chosen[0]


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:39]}…"
