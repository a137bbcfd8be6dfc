"""How much a log says about a policy, and reasons not to trust an estimate."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.offline.calibration import Calibration
from rolin.offline.estimators import Terms
from rolin.offline.log import DecisionLog

__all__ = ["RareRewards", "effective_size", "notes_on", "rare_rewards", "unsupported_share"]

Floats = NDArray[np.float64]

_FEW = 50.0  # effective decisions, at least
_SHARE = 0.1  # of all weight in one decision, at most
_UNSUPPORTED = 0.01  # share of the policy's choices with propensity 0 in the log, at most
_FAR = 4.0  # standard errors between the mean of the weights and 1, at most


class RareRewards(NamedTuple):
    """How many rewards differ from the usual one, such as clicks from no click."""

    usual: float
    """The most frequent reward."""
    n: int
    """Number of rewards that differ from it."""
    effective_n: float
    """Number of equally weighted ones that would be as informative (Kish)."""


def effective_size(weights: Floats) -> float:
    """Return the effective sample size, (Σw)²/Σw² (Kish 1965)."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0


def rare_rewards(rewards: Floats, weights: Floats) -> RareRewards | None:
    """Return how few rewards differ from the usual one; `None` if most of them do."""
    values, counts = np.unique(rewards, return_counts=True)
    usual = values[int(np.argmax(counts))]
    rare = rewards != usual
    if 2 * np.count_nonzero(rare) > len(rewards):
        return None
    return RareRewards(
        float(usual), int(np.count_nonzero(rare)), effective_size(weights * np.abs(rewards - usual))
    )


def unsupported_share(log: DecisionLog, targets: list[Floats], h: Floats) -> float:
    """Return the share of the policy's choices that the log could not have made."""
    if log.propensities is None:
        return math.nan
    missing = [
        float(p[logged == 0.0].sum()) for p, logged in zip(targets, log.propensities, strict=True)
    ]
    return float((h * np.array(missing)).mean())


def notes_on(
    ess: float,
    rare: RareRewards | None,
    largest: float,
    unsupported: float,
    weights: Terms,
    error: float,
    calibration: Calibration,
) -> list[str]:
    """Return the reasons not to trust the estimates, in sentences."""
    notes = []
    if ess < _FEW:
        notes.append(
            f"the log is only as informative as {ess:.3g} decisions of the policy itself: too few for a "
            "conclusion"
        )
    if rare is not None and rare.effective_n < _FEW:
        notes.append(
            f"the estimates depend on as few as {rare.effective_n:.2g} rewards other than {rare.usual:g} (of {rare.n}, by "
            "their weights): the intervals are too narrow"
        )
    if largest > _SHARE:
        notes.append(
            f"one decision has {100 * largest:.3g} % of all weight: the intervals cannot be trusted"
        )
    if unsupported > _UNSUPPORTED:
        notes.append(
            f"{100 * unsupported:.3g} % of the policy's choices have propensity 0 in the log; only DM "
            "estimates them"
        )
    possible = 1.0 - (0.0 if math.isnan(unsupported) else unsupported)
    if abs(weights.value - possible) > _FAR * max(error, 1e-12):
        notes.append(
            f"the weights have mean {weights.value:.3g} ± {error:.2g}, expected {possible:.3g}: the propensities "
            "are wrong, or the log rarely chose arms that the policy prefers"
        )
    if not calibration.ok:
        notes.append(str(calibration).splitlines()[0])
    return notes
