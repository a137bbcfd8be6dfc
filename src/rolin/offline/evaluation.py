"""Estimate the value of a fixed policy by every estimator, with warnings when the log is inconclusive."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import count_of, level_of, number_of
from rolin._support.html import html_table
from rolin._support.optional import needs
from rolin._support.progress import Progress, reporter
from rolin.errors import DataError, OverlapWarning, ParameterError
from rolin.model.moments import Moments
from rolin.offline.calibration import Calibration, check_propensities
from rolin.offline.estimators import (
    Estimate,
    Terms,
    estimate_of,
    groups_of,
    ratio_of,
    standard_error,
    weighted_mean,
)
from rolin.offline.log import DecisionLog, check_log
from rolin.offline.overlap import (
    RareRewards,
    effective_size,
    notes_on,
    rare_rewards,
    unsupported_share,
)
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

# The log is inconclusive beyond these limits.
_REPEATED = 5  # rewards of an arm, from which on equal means are no coincidence


@dataclass(frozen=True)
class Evaluation:
    """The estimated reward per decision of a policy, by every estimator."""

    policy: str
    """Label of the policy."""
    n: int
    """Number of decisions in the log, without those of the baseline."""
    level: float
    """Level of the intervals."""
    logged: Estimate
    """The mean reward that was logged."""
    estimates: tuple[Estimate, ...]
    """One estimate per method."""
    effective_n: float
    """Number of decisions of the policy itself that would be as informative."""
    rare_rewards: RareRewards | None
    """How few rewards the estimates depend on, if most rewards are the same; `None` if they are not."""
    largest_share: float
    """Largest share of all weight that one decision has."""
    unsupported: float
    """Share of the policy's choices that have propensity 0 in the log; NaN if it is not known."""
    calibration: Calibration
    """The test of the logged propensities."""
    notes: tuple[str, ...]
    """Reasons not to trust the numbers; empty if there are none."""
    remarks: tuple[str, ...]
    """Further remarks."""

    def __getitem__(self, method: str) -> Estimate:
        """Return the estimate of a method, such as `"DR"` or `"logged"`."""
        for estimate in (self.logged, *self.estimates):
            if estimate.method == method:
                return estimate
        known = ", ".join(estimate.method for estimate in self.estimates)
        raise KeyError(f"there is no method {method!r}, only logged, {known}")

    def to_frame(self) -> pd.DataFrame:
        """Return the estimates as a data frame, one row per method."""
        with needs("sim"):
            import pandas as pd
        rows = [self.logged, *self.estimates]
        return pd.DataFrame(rows, columns=Estimate._fields).set_index("method")

    def to_json(self) -> str:
        """Return everything as JSON."""
        report = {
            "policy": self.policy, "n": self.n, "level": self.level, "effective_n": self.effective_n,
            "rare_rewards": None if self.rare_rewards is None else self.rare_rewards._asdict(),
            "largest_share": self.largest_share, "unsupported": self.unsupported,
            "calibration_p_value": self.calibration.p_value, "notes": self.notes,
            "remarks": self.remarks, "verdict": self.verdict,
            "estimates": [estimate._asdict() for estimate in (self.logged, *self.estimates)],
        }  # fmt: skip
        return json.dumps(_plain(report), indent=2, ensure_ascii=False, allow_nan=False)

    def plot(self, *others: Evaluation) -> Figure:
        """Draw the estimates with their intervals, beside the mean reward that was logged.

        Parameters
        ----------
        others
            Further evaluations, each drawn in a panel of its own.
        """
        with needs("sim"):
            from rolin.offline.figures import draw_estimates
        return draw_estimates(self, *others)

    def __repr__(self) -> str:
        """Return the doubly robust estimate, in one line."""
        e = self["DR"]
        warned = ", inconclusive" if self.notes else ""
        return (
            f"<Evaluation of {self.policy!r}: DR {e.value:.4g} ({e.low:.4g} to {e.high:.4g}), "
            f"logged {self.logged.value:.4g}, n = {self.n}{warned}>"
        )

    def _repr_html_(self) -> str:
        """Return the estimates, the notes and the verdict as a table for notebooks."""
        interval = f"{100 * self.level:g} % interval"

        def cells(value: float, low: float, high: float) -> list[str]:
            return [
                f"{self._rounded(value):.4g}",
                f"{self._rounded(low):.4g} to {self._rounded(high):.4g}",
            ]

        e = self.logged
        rows = [["logged", *cells(e.value, e.low, e.high), "", ""]]
        rows += [
            [e.method, *cells(e.value, e.low, e.high), *cells(e.gain, e.gain_low, e.gain_high)]
            for e in self.estimates
        ]
        return html_table(
            f"{self.policy}: reward per decision, estimated from {self.n} logged decisions",
            ["method", "value", interval, "gain", interval],
            rows,
            [
                *self._sizes,
                *(f"({remark})" for remark in self.remarks),
                *(f"! {note}" for note in self.notes),
                self.verdict,
            ],
        )

    @property
    def _sizes(self) -> list[str]:
        """How much the log says, in sentences."""
        lines = [f"Effective number of decisions: {self.effective_n:.0f} of {self.n}."]
        if (rare := self.rare_rewards) is not None:
            lines.append(
                f"Effective number of rewards other than {rare.usual:g}: {rare.effective_n:.0f} of {rare.n}."
            )
        return lines

    def _rounded(self, number: float) -> float:
        """Return 0 for a number that differs from it by rounding errors only."""
        scale = max(abs(e.value) for e in (self.logged, *self.estimates) if math.isfinite(e.value))
        return 0.0 if abs(number) < 1e-9 * scale else number

    def __str__(self) -> str:
        """Return the estimates as a table of text, with the notes and the verdict."""
        percent = f"{100 * self.level:g} %"

        def row(*numbers: float) -> str:
            value, low, high = map(self._rounded, numbers)
            return f"{value:9.4g}  {low:9.4g} to {high:<9.4g}"

        interval = f"{percent + ' interval':^21}"
        lines = [
            f"Value of {self.policy}, estimated from {self.n} logged decisions: reward per decision, and gain over the log",
            f"{'':8} {'value':>9}  {interval}  {'gain':>9}  {interval}",
            f"{'logged':8} {row(self.logged.value, self.logged.low, self.logged.high)}",
        ]
        lines += [
            f"{e.method:8} {row(e.value, e.low, e.high)}  {row(e.gain, e.gain_low, e.gain_high)}"
            for e in self.estimates
        ]
        lines += self._sizes
        lines += [f"({remark})" for remark in self.remarks]
        lines += [f"! {note}" for note in self.notes]
        return "\n".join([line.rstrip() for line in [*lines, self.verdict]])

    @property
    def verdict(self) -> str:
        """The conclusion in one sentence, by the doubly robust estimate (DR)."""
        e, percent = self["DR"], f"{100 * self.level:g} %"
        if self.notes:
            return "No verdict, because of the warnings marked with !."
        nothing = 1e-9 * max(abs(self.logged.value), abs(e.value))
        if e.gain_low <= nothing and e.gain_high >= -nothing:
            return f"By DR, no difference to the log is detected ({e.gain_low:.3g} to {e.gain_high:.3g}, {percent})."
        low, high = sorted((abs(e.gain_low), abs(e.gain_high)))
        better = "better" if e.gain > 0.0 else "worse"
        return f"By DR, it is {better} than the log by {low:.3g} to {high:.3g} ({percent})."


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
    progress: Progress = False,
) -> Evaluation:
    """Estimate the value of a policy that does not learn from the decisions of another one.

    Decisions in which the baseline was shown are left out, because its other arms had no chance. The people outside the
    share of the policy are chosen at random, so this does not bias the estimates. Of the modes `"apprentice"` and
    `"stopped"` it leaves out a time. A log that has no other decisions is evaluated with a warning, unless the policy
    would choose the baseline as well. [`lift`][rolin.offline.lift] estimates the gain over the baseline.

    Parameters
    ----------
    log
        The log; see [`read`][rolin.offline.read].
    policy
        A policy or a bandit as it is now, or a state file; a function of contexts and arms that returns the
        probability of every arm; `"uniform"`; or the probabilities for each decision, as a list or an (n, K) array.
    label
        Name of the policy in the report.
    reward_model
        A new policy whose posterior is the reward model of DM and DR. By default it is linear in the features, has
        arm effects, and learns its scales from the log.
    clip
        The largest weight of clipped IPS; by default √n.
    folds
        For DR, the number of folds of the log. Each fold is predicted by a model of the others.
    level
        Level of the intervals.
    seed
        Seed of the division into folds.
    progress
        `True` shows a bar; a function is called with the number of decisions done since its last call.
    """
    check_log(log)
    whole_log, drawn = log, log.drawn
    n = int(drawn.sum())
    if n < 2:
        raise DataError(f"the log has {n} decisions, expected at least 2")
    level = level_of(level)
    seed = count_of("seed", seed)
    clip = math.sqrt(n) if clip is None else number_of("clip", clip, ParameterError)
    if not clip > 0.0:
        raise ParameterError(f"clip={clip!r}, expected a positive number")
    label, policy = label or label_of(policy), resolved(policy)
    if n < len(log):
        log = log.take(drawn)
    model = default_model(log) if reward_model is None else reward_model
    check_model(model, log)
    with reporter(progress, "evaluating", len(whole_log)) as advance:
        targets = target_probabilities(whole_log, policy, advance)
    targets = [targets[i] for i in np.flatnonzero(drawn)]
    h = log.weights / log.weights.mean()
    w = np.array([p[k] for p, k in zip(targets, log.chosen, strict=True)]) / log.propensity
    groups = groups_of(log.people, n)
    if groups.max() == 0:
        raise DataError("all decisions of the log are for one person, expected at least 2 people")
    folds = min(count_of("folds", folds, least=2), int(groups.max()) + 1)
    r = log.rewards
    logged = weighted_mean(r, h)

    whole = fitted(model, log, np.ones(n, dtype=bool))
    direct = _expected(mean_rewards(whole, log, range(n)), targets)
    of_model = weighted_mean(direct, h)._replace(
        extra_variance=value_variance(whole, log, targets, groups)
    )
    crossed, crossed_chosen = _cross_fitted(model, log, targets, groups, folds, seed)

    ess = effective_size(h * w)
    rare = rare_rewards(r, h * w)
    terms = {
        "IPS": (weighted_mean(w * r, h), ess),
        "SNIPS": (ratio_of(w * r, w, h) if w.any() else Terms(math.nan, np.zeros(n)), ess),
        "clipped": (
            weighted_mean(np.minimum(w, clip) * r, h),
            effective_size(h * np.minimum(w, clip)),
        ),
        "DM": (of_model, math.nan),
        "DR": (weighted_mean(crossed + w * (r - crossed_chosen), h), ess),
    }
    estimates = tuple(
        estimate_of(name, term, logged, groups, level, size) for name, (term, size) in terms.items()
    )
    calibration = check_propensities(log)
    largest = float((h * w).max() / (h * w).sum()) if w.any() else 1.0
    unsupported = unsupported_share(log, targets, h)
    weights = weighted_mean(w, h)
    notes = notes_on(
        ess,
        rare,
        largest,
        unsupported,
        weights,
        standard_error(weights.each, groups)[0],
        calibration,
    )
    remarks = []
    if n < len(whole_log):
        remarks.append(
            f"{len(whole_log) - n} decisions in which the baseline was shown are left out"
        )
    if control := float(log.control.mean()):
        remarks.append(f"{100 * control:.3g} % of the log belongs to the control group")
    if (cut := float((h * np.maximum(w - clip, 0.0)).mean())) > 0.0:
        remarks.append(
            f"clipped IPS leaves out {100 * cut / weights.value:.2g} % of the weight, which biases it"
        )
    if isinstance(policy, Policy) and _has_learned_from(policy, whole_log):
        notes.append(
            "the policy has learned from these decisions, which biases the estimate upward: evaluate it on others"
        )
    report = Evaluation(
        label, n, level, estimate_of("logged", logged, logged, groups, level, n),
        estimates, ess, rare, largest, unsupported, calibration, tuple(notes), tuple(remarks),
    )  # fmt: skip
    for note in notes:
        warnings.warn(note, OverlapWarning, stacklevel=2)
    return report


def _has_learned_from(policy: Policy[Any], log: DecisionLog) -> bool:
    """Return whether a policy's evidence on the arms equals that of the log."""
    moments = getattr(policy, "moments", None)
    if not isinstance(moments, Moments):
        return False
    own = {arm: i for i, arm in enumerate(moments.arms)}
    # Its moments depend on the order of the rewards, so only counts can be compared.
    if policy.binary:
        chosen = {names[k] for names, k in zip(log.arms, log.chosen.tolist(), strict=True)}
        return moments.count == len(log) and set(own) == chosen
    rows: dict[Any, list[int]] = {}
    for i, (names, k) in enumerate(zip(log.arms, log.chosen.tolist(), strict=True)):
        rows.setdefault(names[k], []).append(i)
    often = {arm: own_rows for arm, own_rows in rows.items() if len(own_rows) >= _REPEATED}
    for arm, own_rows in often.items():
        if arm not in own:
            return False
        h, x = log.weights[own_rows], np.array([log.contexts[i][log.chosen[i]] for i in own_rows])
        theirs = [h.sum(), h @ log.rewards[own_rows] / h.sum(), *(h @ x / h.sum())]
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
    """Return predicted rewards of the policy and of the logged arm, each by a model of the other folds."""
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


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold; numbers that are not finite become null."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value
