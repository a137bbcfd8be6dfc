"""What a policy would have been worth: every estimator in one table, with what speaks against it."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import count_of, level_of, number_of
from rolin._support.optional import needs
from rolin.errors import DataError, OverlapWarning, ParameterError
from rolin.model.moments import Moments
from rolin.offline.calibration import Calibration, check_propensities
from rolin.offline.estimators import (
    Estimate,
    Terms,
    estimate_of,
    groups_of,
    mean_of,
    ratio_of,
    standard_error,
)
from rolin.offline.log import DecisionLog
from rolin.offline.reward_model import (
    check_model,
    default_model,
    fitted,
    mean_rewards,
    value_variance,
)
from rolin.offline.targets import Target, label_of, resolved, target_probabilities
from rolin.policies import LinearPolicy, Policy

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Evaluation", "evaluate"]

Floats = NDArray[np.float64]

# When the log says too little: fewer effective decisions, a larger share of one decision, more of the
# policy's choices where nothing was logged, weights whose mean is further from 1, than these.
_FEW = 50.0
_SHARE = 0.1
_UNSUPPORTED = 0.01
_FAR = 4.0
_REPEATED = 5  # rewards of an arm whose mean is hardly the same by chance


@dataclass(frozen=True)
class Evaluation:
    """What a policy would have been worth per decision, by every estimator."""

    policy: str
    """What was evaluated."""
    n: int
    """Number of decisions in the log."""
    level: float
    """Of the intervals."""
    logged: Estimate
    """What was logged: the mean reward."""
    estimates: tuple[Estimate, ...]
    effective_n: float
    """As many decisions of the policy itself would say as much."""
    largest_share: float
    """Share of all weight that one decision has."""
    unsupported: float
    """Share of the policy's choices that could not have been logged; NaN if that is not known."""
    calibration: Calibration
    """Whether the logged propensities are true."""
    notes: tuple[str, ...]
    """Why the numbers cannot be trusted; none if they can."""
    remarks: tuple[str, ...]
    """What else to know of them."""

    def __getitem__(self, method: str) -> Estimate:
        """Return the estimate of a method, by name."""
        for estimate in (self.logged, *self.estimates):
            if estimate.method == method:
                return estimate
        known = ", ".join(estimate.method for estimate in self.estimates)
        raise KeyError(f"no method {method!r}, only logged, {known}")

    def to_frame(self) -> pd.DataFrame:
        """Return the estimates as a data frame, one row each."""
        with needs("sim"):
            import pandas as pd
        rows = [self.logged, *self.estimates]
        return pd.DataFrame(rows, columns=Estimate._fields).set_index("method")

    def to_json(self) -> str:
        """Return everything as JSON."""
        report = {
            "policy": self.policy, "n": self.n, "level": self.level, "effective_n": self.effective_n,
            "largest_share": self.largest_share, "unsupported": self.unsupported,
            "calibration_p_value": self.calibration.p_value, "notes": self.notes,
            "remarks": self.remarks, "verdict": self.verdict,
            "estimates": [estimate._asdict() for estimate in (self.logged, *self.estimates)],
        }  # fmt: skip
        return json.dumps(_plain(report), indent=2, ensure_ascii=False, allow_nan=False)

    def plot(self) -> Figure:
        """Draw the estimates with their intervals, beside what was logged."""
        with needs("sim"):
            from rolin.offline.figures import draw_estimates
        return draw_estimates(self)

    def __str__(self) -> str:
        """Return the table as text, with the notes and what it comes to."""
        percent = f"{100 * self.level:g} %"
        scale = max(abs(e.value) for e in (self.logged, *self.estimates) if math.isfinite(e.value))

        def row(*numbers: float) -> str:
            value, low, high = (0.0 if abs(x) < 1e-9 * scale else x for x in numbers)
            return f"{value:9.4g}  {low:9.4g} to {high:<9.4g}"

        interval = f"{percent + ' interval':^21}"
        lines = [
            f"{self.policy}, by {self.n} logged decisions: reward per decision, and gain over what was logged",
            f"{'':8} {'value':>9}  {interval}  {'gain':>9}  {interval}",
            f"{'logged':8} {row(self.logged.value, self.logged.low, self.logged.high)}",
        ]
        lines += [
            f"{e.method:8} {row(e.value, e.low, e.high)}  {row(e.gain, e.gain_low, e.gain_high)}"
            for e in self.estimates
        ]
        lines.append(f"Effective number of decisions: {self.effective_n:.0f} of {self.n}.")
        lines += [f"({remark})" for remark in self.remarks]
        lines += [f"! {note}" for note in self.notes]
        return "\n".join([line.rstrip() for line in [*lines, self.verdict]])

    @property
    def verdict(self) -> str:
        """What it comes to, in a sentence: by the doubly robust estimate, unless that cannot be trusted."""
        e, percent = self["DR"], f"{100 * self.level:g} %"
        if self.notes:
            return "So the log cannot tell."
        nothing = 1e-9 * max(abs(self.logged.value), abs(e.value))
        if e.gain_low <= nothing and e.gain_high >= -nothing:
            return f"By DR, it cannot be told from what was logged ({e.gain_low:.3g} to {e.gain_high:.3g}, {percent})."
        low, high = sorted((abs(e.gain_low), abs(e.gain_high)))
        better = "better" if e.gain > 0.0 else "worse"
        return f"By DR, it is {better} than what was logged by {low:.3g} to {high:.3g} ({percent})."


def evaluate(
    log: DecisionLog,
    policy: Target,
    *,
    label: str | None = None,
    reward_model: LinearPolicy | None = None,
    clip: float | None = None,
    folds: int = 5,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Say what a policy that no longer learns would have been worth, by the decisions of another.

    Parameters
    ----------
    log
        The log; see [`read`][rolin.offline.read].
    policy
        A policy or a bandit as it is now, or the file of its state; a function of contexts and arms that
        returns the probability of every arm; `"uniform"`; or these probabilities for each decision, as a list or an (n, K) array.
    label
        What to call it.
    reward_model
        A new policy whose posterior is the reward model of DM and DR; by default linear in the features,
        with arm effects, and scales that are learned from the log.
    clip
        The largest weight of clipped IPS; by default √n.
    folds
        For DR, the number of parts of the log, each predicted by a model of the others.
    level
        Of the intervals.
    seed
        Of the division into folds.
    progress
        Is called with 1 at each decision.
    """
    if not isinstance(log, DecisionLog):
        raise ParameterError(f"log={log!r}, expected a DecisionLog: rolin.offline.read makes one")
    n = len(log)
    if n < 2:
        raise DataError(f"the log has {n} decisions, expected at least 2")
    level = level_of(level)
    seed = count_of("seed", seed)
    clip = math.sqrt(n) if clip is None else number_of("clip", clip, ParameterError)
    if not clip > 0.0:
        raise ParameterError(f"clip={clip!r}, expected a positive number")
    model = default_model(log) if reward_model is None else reward_model
    check_model(model, log)
    label, policy = label or label_of(policy), resolved(policy)
    targets = target_probabilities(log, policy, progress)
    h = log.weights / log.weights.mean()
    w = np.array([p[k] for p, k in zip(targets, log.chosen, strict=True)]) / log.propensity
    groups = groups_of(log.people, n)
    if groups.max() == 0:
        raise DataError("all decisions of the log are for one person, expected at least 2 people")
    folds = min(count_of("folds", folds, least=2), int(groups.max()) + 1)
    r = log.rewards
    logged = mean_of(r, h)

    whole = fitted(model, log, np.ones(n, dtype=bool))
    direct = _expected(mean_rewards(whole, log, range(n)), targets)
    of_model = mean_of(direct, h)._replace(
        extra_variance=value_variance(whole, log, targets, groups)
    )
    crossed, crossed_chosen = _cross_fitted(model, log, targets, groups, folds, seed)

    ess = _kish(h * w)
    terms = {
        "IPS": (mean_of(w * r, h), ess),
        "SNIPS": (ratio_of(w * r, w, h) if w.any() else Terms(math.nan, np.zeros(n)), ess),
        "clipped": (mean_of(np.minimum(w, clip) * r, h), _kish(h * np.minimum(w, clip))),
        "DM": (of_model, math.nan),
        "DR": (mean_of(crossed + w * (r - crossed_chosen), h), ess),
    }
    estimates = tuple(
        estimate_of(name, term, logged, groups, level, size) for name, (term, size) in terms.items()
    )
    calibration = check_propensities(log)
    largest = float((h * w).max() / (h * w).sum()) if w.any() else 1.0
    unsupported = _unsupported(log, targets, h)
    weights = mean_of(w, h)
    notes = _notes(
        ess, largest, unsupported, weights, standard_error(weights.each, groups)[0], calibration
    )
    remarks = []
    if control := float(log.control.mean()):
        remarks.append(f"{100 * control:.3g} % of what was logged is of the control group")
    if (cut := float((h * np.maximum(w - clip, 0.0)).mean())) > 0.0:
        remarks.append(
            f"clipped IPS leaves out {100 * cut / weights.value:.2g} % of the weight, which biases it"
        )
    if isinstance(policy, Policy) and _has_learned_from(policy, log):
        notes.append(
            "the policy has learned from these very decisions, so that they flatter it: evaluate it on others"
        )
    report = Evaluation(
        label, n, level, estimate_of("logged", logged, logged, groups, level, n),
        estimates, ess, largest, unsupported, calibration, tuple(notes), tuple(remarks),
    )  # fmt: skip
    for note in notes:
        warnings.warn(note, OverlapWarning, stacklevel=2)
    return report


def _has_learned_from(policy: Policy[Any], log: DecisionLog) -> bool:
    """Return whether a policy's evidence on the arms is exactly what the log holds of them."""
    moments = getattr(policy, "moments", None)
    if not isinstance(moments, Moments):
        return False
    own = {arm: i for i, arm in enumerate(moments.arms)}
    if policy.binary:  # what an outcome was worth depended on its time: count them
        chosen = {names[k] for names, k in zip(log.arms, log.chosen.tolist(), strict=True)}
        return moments.count == len(log) and set(own) == chosen
    rows: dict[Any, list[int]] = {}
    for i, (names, k) in enumerate(zip(log.arms, log.chosen.tolist(), strict=True)):
        rows.setdefault(names[k], []).append(i)
    often = {arm: places for arm, places in rows.items() if len(places) >= _REPEATED}
    for arm, places in often.items():
        if arm not in own:
            return False
        h, x = log.weights[places], np.array([log.contexts[i][log.chosen[i]] for i in places])
        theirs = [h.sum(), h @ log.rewards[places] / h.sum(), *(h @ x / h.sum())]
        k = own[arm]
        ours = [moments.weight[k], moments.mean_reward[k], *moments.mean_context[k]]
        if len(ours) != len(theirs) or not np.allclose(theirs, ours, rtol=1e-9, atol=1e-12):
            return False
    return bool(often)


def _expected(means: list[Floats], targets: list[Floats]) -> Floats:
    return np.array([q @ p for q, p in zip(means, targets, strict=True)])


def _cross_fitted(
    model: LinearPolicy,
    log: DecisionLog,
    targets: list[Floats],
    groups: NDArray[np.int64],
    folds: int,
    seed: int,
) -> tuple[Floats, Floats]:
    """Predict each part of the log by a model of the others: of the policy, and of the logged arm."""
    n = len(log)
    # Decisions for one person are in one fold.
    fold = np.random.default_rng(seed).permutation(int(groups.max()) + 1)[groups] % folds
    expected, chosen = np.empty(n), np.empty(n)
    for part in range(folds):
        rows = np.flatnonzero(fold == part).tolist()
        means = mean_rewards(fitted(model, log, fold != part), log, rows)
        for i, q in zip(rows, means, strict=True):
            expected[i], chosen[i] = q @ targets[i], q[log.chosen[i]]
    return expected, chosen


def _kish(weights: Floats) -> float:
    """Return the effective sample size, (Σw)²/Σw² (Kish 1965)."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0


def _unsupported(log: DecisionLog, targets: list[Floats], h: Floats) -> float:
    """Return the share of the policy's choices that the log could not have made."""
    if log.propensities is None:
        return math.nan
    missing = [
        float(p[logged == 0.0].sum()) for p, logged in zip(targets, log.propensities, strict=True)
    ]
    return float((h * np.array(missing)).mean())


def _notes(
    ess: float,
    largest: float,
    unsupported: float,
    weights: Terms,
    error: float,
    calibration: Calibration,
) -> list[str]:
    notes = []
    if ess < _FEW:
        notes.append(
            f"the log says only as much as {ess:.3g} decisions of the policy itself would: too little to "
            "say anything"
        )
    if largest > _SHARE:
        notes.append(
            f"one decision has {100 * largest:.3g} % of all weight: the intervals cannot be trusted"
        )
    if unsupported > _UNSUPPORTED:
        notes.append(
            f"{100 * unsupported:.3g} % of the policy's choices could not have been logged: only DM says "
            "anything about them, by its model"
        )
    possible = 1.0 - (0.0 if math.isnan(unsupported) else unsupported)
    if abs(weights.value - possible) > _FAR * max(error, 1e-12):
        notes.append(
            f"the weights have mean {weights.value:.3g} ± {error:.2g}, expected {possible:.3g}: the propensities "
            "are wrong, or arms that the policy likes are hardly ever chosen"
        )
    if not calibration.ok:
        notes.append(str(calibration).splitlines()[0])
    return notes


def _plain(value: Any) -> Any:
    """Return what JSON can hold: numbers that are not finite become null."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value
