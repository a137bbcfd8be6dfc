"""Why an arm is scored as it is: a linear model is the sum of its parts, and each has a name.

    mean = Σ_j x_j θ̂_j + v̂_i

Every term comes with its own uncertainty, x_j std(θ_j), and the sum with its own, which is not theirs added up:
coefficients are known better together than each alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.optional import needs
from rolin.bandit.state import LiveState
from rolin.errors import ParameterError, ShapeError, Unsupported
from rolin.features import Part, RecordedFeatures
from rolin.journal.events import LoggedDecision
from rolin.journal.folding import replay
from rolin.journal.validation import offered_place
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
    """What one feature adds to an arm's mean."""

    name: str
    """The feature."""
    value: float
    """Its value in the vector."""
    coefficient: float
    """What a value of 1 adds, as far as is known."""
    contribution: float
    """Their product."""
    std: float
    """How uncertain that is."""


@dataclass(frozen=True)
class Explanation:
    """What an arm's mean consists of, by name; or by how much it differs from that of another arm."""

    arm: Name
    against: Name | None
    """The arm that it is compared with: then everything here is a difference."""
    scale: str
    """What the numbers are: `"reward"`, or `"logit"` for yes/no rewards."""
    contributions: tuple[Contribution, ...]
    """Those of the features, the largest first."""
    effect: float
    """The arm's own effect: what the features miss."""
    effect_std: float
    """How uncertain that is."""
    mean: float
    """The sum of all contributions and the effect."""
    std: float
    """How uncertain that is."""
    chosen: bool
    """Whether the decision chose the arm."""
    propensity: float | None
    """How likely the arm was to be chosen; `None` of differences, and of what is known now."""
    score: float | None
    """What the arm was ranked by: the mean plus what was drawn, or added, for its uncertainty. `None` in a
    control group, for joint draws and for differences."""
    explored: bool | None
    """Whether the decision was not the one with the highest score, since it was drawn at random: by the floor, or
    in a control group. `None` of other arms, and if that cannot be told."""
    version: int
    """The last event that the model knew."""

    def __str__(self) -> str:
        """Return the explanation as text, with the largest contributions."""
        whom = f"arm {self.arm!r}"
        if self.against is not None:
            whom += f" against {self.against!r}"
        lines = [
            f"{whom}: mean {self.mean:.4g} ± {self.std:.2g} ({self.scale}), of which",
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
            f"  {'the arm’s own effect':<40} {'':9} {'':12} {self.effect:13.4g} {self.effect_std:9.2g}"
        )
        if self.score is not None:
            lines.append(
                f"ranked by {self.score:.4g}: the mean, and {self.score - self.mean:+.3g} for what is uncertain"
            )
        if self.propensity is not None:
            what = "chosen with" if self.chosen else "not chosen; it had"
            lines.append(f"{what} probability {self.propensity:.3g}")
        if self.explored:
            lines.append("drawn at random, to explore: not for its score")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """Return contributions and effect as a data frame, one row each."""
        with needs("sim"):
            import pandas as pd
        own = Contribution("arm effect", math.nan, math.nan, self.effect, self.effect_std)
        return pd.DataFrame([asdict(c) for c in (*self.contributions, own)])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain numbers, texts and lists."""
        return {**asdict(self), "contributions": [asdict(c) for c in self.contributions]}


def explain(
    live: LiveState,
    decision: LoggedDecision,
    arm: Name | None,
    against: Name | None,
    as_of: str,
) -> Explanation:
    """Say what the mean of an arm consists of; see `Bandit.explain`."""
    k = decision.chosen[0] if arm is None else offered_place(decision, arm)
    other = None if against is None else offered_place(decision, against)
    if k == other:
        raise ParameterError(f"against={against!r} is the arm itself, expected another one")
    if as_of not in ("decision", "now"):
        raise ParameterError(f"as_of={as_of!r}, expected 'decision' or 'now'")
    known = None if decision.imported else decision.version
    if known is None and as_of == "decision":
        raise Unsupported(
            f"decision {decision.id!r} was imported, so what decided it is not known: as_of='now'"
        )
    if known is None or known > live.version:
        live.refresh()
    with live.lock:
        policy, version = live.current()
        if known is not None and known >= live.changed:  # nothing was learned since
            return _explained(policy, decision, k, other, version=known, as_it_was=True)
        if as_of == "now":
            if (
                policy.feature_map is not None
            ):  # also by fields that were recorded, and are used since
                decision = reread(PastDecision(decision, {}), policy.feature_map).decision
            return _explained(policy, decision, k, other, version=version, as_it_was=False)
    before, version = replay(live.journal, kind=type(policy), upto=known)
    return _explained(before, decision, k, other, version=version, as_it_was=True)


def _explained(
    policy: Policy[Any],
    decision: LoggedDecision,
    k: int,
    against: int | None,
    *,
    version: int,
    as_it_was: bool,
) -> Explanation:
    """Explain by a policy that is as it was, so that what it drew can be drawn again, or not."""
    if not isinstance(policy, (LinearPolicy, BayesRoLinTS)) or isinstance(policy, NaiveRoLinTS):
        raise Unsupported(f"{type(policy).__name__} has no coefficients that could explain it")
    which = [k] if against is None else [k, against]
    sign = np.array([1.0, -1.0][: len(which)])
    x = np.array([_padded(decision.context_of(i), policy) for i in which])
    names = [decision.offered[i] for i in which]
    models = _models(policy)
    weight = np.array([model[0] for model in models])
    each = [_summary(posterior, unit, sign, x, names) for _, posterior, unit in models]
    # of several models: what they say on average, and how far they disagree
    averages = [weight @ np.array([summary[i] for summary in each]) for i in (0, 2, 4)]
    stds = [
        np.sqrt(weight @ np.array([s[i + 1] ** 2 + (s[i] - average) ** 2 for s in each]))
        for i, average in zip((0, 2, 4), averages, strict=True)
    ]
    score, explored = _drawn(policy, decision, k) if as_it_was else (None, None)
    p = decision.propensities
    alone = against is None
    return Explanation(
        arm=names[0],
        against=None if alone else names[1],
        scale="logit" if policy.binary else "reward",
        contributions=_contributions(decision, policy, which, averages[0], stds[0]),
        effect=float(averages[1]),
        effect_std=float(stds[1]),
        mean=float(averages[2]),
        std=float(stds[2]),
        chosen=k == decision.chosen[0],
        propensity=float(p[k]) if p is not None and alone and as_it_was else None,
        score=score if alone else None,
        explored=explored if k == decision.chosen[0] else None,
        version=version,
    )


def _models(policy: LinearPolicy | BayesRoLinTS) -> list[tuple[float, Posterior, float]]:
    """Return the models that a policy believes in, how much, and the unit of their uncertainty."""
    if isinstance(policy, LinearPolicy):
        return [(1.0, policy.posterior, 1.0)]
    _, weights, noise, freedom = policy.beliefs
    spread = math.sqrt(freedom / (freedom - 2.0))  # of Student's t
    parts = zip(weights.tolist(), policy._model.parts, noise.tolist(), strict=True)
    return [(weight, part, spread * unit) for weight, part, unit in parts]


def _has_intercept(policy: LinearPolicy | BayesRoLinTS) -> bool:
    return policy.settings.get("intercept_std") is not None


def _padded(x: Floats, policy: LinearPolicy | BayesRoLinTS) -> Floats:
    """Return a context with as many numbers as there are coefficients."""
    if len(x) > policy.n_features:
        raise ShapeError(
            f"the decision has {len(x)} features, and the policy n_features={policy.n_features}: it is another's"
        )
    x = np.pad(x, (0, policy.n_features - len(x)))  # features that came later were 0
    return np.append(x, 1.0) if _has_intercept(policy) else x


def _summary(
    posterior: Posterior, unit: float, sign: Floats, x: Floats, names: Sequence[Name]
) -> tuple[Floats, Floats, float, float, float, float]:
    """Return mean and standard deviation of coefficients, of the effect, and of the whole.

    Of two arms, of the difference. What is uncertain of it follows the coefficients (θ = θ̂ + T'z, so x'θ moves by
    (T x)'z, and the effect against it), but for what is the arms' own.
    """
    coef = posterior.coefficients
    effects = posterior.arm_effects(names)
    own = float(effects.own_variance.sum())
    loadings = sign @ effects.loadings
    moved = sign @ x @ posterior._factor.T
    effect = float(sign @ effects.mean)
    return (
        coef.mean,
        unit * coef.std,
        effect,
        unit * math.sqrt(own + float(loadings @ loadings)),
        float(sign @ x @ coef.mean) + effect,
        unit * math.sqrt(own + float((moved - loadings) @ (moved - loadings))),
    )


def _contributions(
    decision: LoggedDecision,
    policy: LinearPolicy | BayesRoLinTS,
    which: Sequence[int],
    coef: Floats,
    coef_std: Floats,
) -> tuple[Contribution, ...]:
    """Return what each feature adds, or how far two arms differ by it, the largest first."""
    values: dict[tuple[str, int], float] = {}
    for sign, k in zip((1.0, -1.0), which, strict=False):
        for name, place, value in _parts(decision, policy, k):
            values[name, place] = values.get((name, place), 0.0) + sign * value
    found = [
        Contribution(
            name,
            value,
            float(coef[place]),
            value * float(coef[place]),
            abs(value) * float(coef_std[place]),
        )
        for (name, place), value in values.items()
        if value
    ]
    return tuple(sorted(found, key=lambda c: (-abs(c.contribution), c.name)))


def _parts(decision: LoggedDecision, policy: LinearPolicy | BayesRoLinTS, k: int) -> list[Part]:
    """Return the terms of an arm's vector, by name; a policy's own intercept is the last."""
    if isinstance(decision.given, RecordedFeatures):
        parts = decision.given.parts(k)
    else:
        x = decision.context_of(k)
        parts = [Part(f"x{i}", int(i), float(x[i])) for i in np.flatnonzero(x)]
    if _has_intercept(policy):
        parts.append(Part("intercept of the policy", policy.n_features, 1.0))
    return parts


def _drawn(
    policy: Policy[Any], decision: LoggedDecision, k: int
) -> tuple[float | None, bool | None]:
    """Return the score that an arm had, and whether the decision was not made by scores."""
    if decision.control:
        return None, True
    if getattr(policy, "sampling", "marginal") == "joint" and decision.propensities is not None:
        return None, None  # drawn from the probabilities, not by scores
    x = decision.offered_contexts
    x = np.pad(x, ((0, 0), (0, policy.n_features - x.shape[1])))
    candidates = policy.candidates(x, decision.offered)
    scores = policy.score(candidates, decision.id)
    best = policy.rank(scores, decision.id, 1)[0]
    return float(scores.values[k]), best != decision.chosen[0]


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:39]}…"
