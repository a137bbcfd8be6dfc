"""What a bandit believes of its arms."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.bandit import Bandit
from rolin.errors import RolinError
from rolin.model.posterior import Posterior
from rolin.policies import Policy
from rolin.service.statistics.arms import ArmCounts
from rolin.service.statistics.schema import ArmEstimate, ArmEstimates

__all__ = ["LEVEL", "SORTS", "Beliefs", "LatestBeliefs", "beliefs_of", "page_of"]

_FRESH = 1.0  # seconds for which they are not computed again
LEVEL = 0.95
"""Level of the intervals."""
Floats = NDArray[np.float64]
_NUMBERS = (
    "pulls", "chosen", "observed", "mean", "low", "high", "effect", "effect_std", "shrinkage",
)  # fmt: skip
SORTS = ("arm", *_NUMBERS)
"""What arms can be sorted by."""


class Beliefs(NamedTuple):
    """Columns of what a policy believes of the arms that it has seen; NaN where it believes nothing."""

    arms: list[str]
    removed: NDArray[np.bool_]
    columns: dict[str, Floats]
    version: int


def beliefs_of(policy: Policy[Any], version: int) -> Beliefs:
    """Return what a policy believes of its arms, each in its average situation so far.

    Parameters
    ----------
    policy
        The policy; nobody may change it meanwhile.
    version
        Number of the last event that it knows.
    """
    active, removed = policy.arms, policy.removed_arms
    n, names = len(active) + len(removed), [*active, *removed]
    columns = {name: np.full(n, np.nan) for name in _NUMBERS}
    is_removed = np.arange(n) >= len(active)
    moments = getattr(policy, "moments", None)
    if moments is not None:
        row = {name: i for i, name in enumerate(moments.arms)}
        rows = [row.get(name, -1) for name in names]
        if not getattr(policy, "binary", False):  # whose weights are not numbers of rewards
            columns["pulls"] = np.append(moments.weight, 0.0)[rows]
        if hasattr(policy, "predict") and active:
            contexts = moments.mean_context[[row[name] for name in active]]
            _predict(policy, contexts, active, columns)
        posterior = getattr(policy, "posterior", None)
        if isinstance(posterior, Posterior) and active:
            _effects(posterior, active, columns)
    return Beliefs([str(name) for name in names], is_removed, columns, version)


def _predict(
    policy: Any, contexts: Floats, arms: Sequence[Name], columns: dict[str, Floats]
) -> None:
    try:
        found = policy.predict(contexts, arms)
    except RolinError:  # a policy without a prediction in its present state
        return
    low, high = found.interval(LEVEL)
    for name, values in (("mean", found.mean), ("low", low), ("high", high)):
        columns[name][: len(arms)] = values


def _effects(posterior: Posterior, arms: Sequence[Name], columns: dict[str, Floats]) -> None:
    effects = posterior.arm_effects(arms)
    columns["effect"][: len(arms)] = effects.mean
    columns["effect_std"][: len(arms)] = effects.std
    columns["shrinkage"][: len(arms)] = posterior.shrinkage(arms)


def page_of(
    beliefs: Beliefs, counts: ArmCounts, search: str, sort: str, offset: int, limit: int
) -> ArmEstimates:
    """Return some of the arms: those that a policy has seen, and those that were only offered.

    Parameters
    ----------
    beliefs
        What the policy believes.
    counts
        What was counted.
    search
        Part of the name, in upper or lower case.
    sort
        One of `SORTS`; with a minus, the largest first. Arms without a number come last.
    offset, limit
        Which part of them.
    """
    known = set(beliefs.arms)
    names = [*beliefs.arms, *(arm for arm in counts.index if arm not in known)]
    more = len(names) - len(known)
    columns = {
        name: np.append(values, np.full(more, np.nan)) for name, values in beliefs.columns.items()
    }
    columns["chosen"], columns["observed"] = counts.chosen(names), counts.mean_rewards(names)
    pulls = columns["pulls"]
    columns["pulls"] = np.where(np.isnan(pulls), counts.rewards(names), pulls)
    removed = np.append(beliefs.removed, np.zeros(more, dtype=bool))
    wanted = search.casefold()
    rows = [i for i, name in enumerate(names) if wanted in name.casefold()]
    key, down = sort.removeprefix("-"), sort.startswith("-")
    if key == "arm":
        rows.sort(key=lambda i: names[i].casefold(), reverse=down)
    else:
        values = columns[key][rows] * (-1.0 if down else 1.0)  # NaN is sorted last
        rows = [rows[i] for i in np.argsort(values, kind="stable")]
    arms = [
        ArmEstimate(
            arm=names[i],
            removed=bool(removed[i]),
            pulls=float(columns["pulls"][i]),
            chosen=int(columns["chosen"][i]),
            **{name: _number(columns[name][i]) for name in _NUMBERS[2:]},
        )
        for i in rows[offset : offset + limit]
    ]
    return ArmEstimates(arms, len(rows), LEVEL, beliefs.version)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


class LatestBeliefs:
    """What a bandit believes of its arms, computed again only if it has learned and some time has passed.

    Parameters
    ----------
    bandit
        The bandit.
    """

    def __init__(self, bandit: Bandit[Any]) -> None:
        self._bandit = bandit
        self._lock = threading.Lock()
        self._found: Beliefs | None = None
        self._not_before = 0.0

    def renew(self) -> None:
        """Compute them again when they are asked for: somebody has changed an arm, and wants to see it."""
        self._not_before = 0.0

    def get(self) -> Beliefs:
        """Return them. Decisions wait only while the policy is copied."""
        with self._lock:
            start, version = monotonic(), self._bandit.version
            found = self._found
            if found is None or (found.version != version and start >= self._not_before):
                self._found = found = beliefs_of(self._bandit.copy_policy(), version)
                # At most a tenth of the time is spent on it, also with many arms and features.
                self._not_before = start + max(_FRESH, 10.0 * (monotonic() - start))
            return found
