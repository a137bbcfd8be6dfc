"""Are the logged propensities true? Observed choices against the probabilities they should have had."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr

from rolin._support.arms import Name
from rolin._support.checks import count_of
from rolin._support.optional import needs
from rolin.offline.log import DecisionLog

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Calibration", "Group", "check_propensities"]

Floats = NDArray[np.float64]
_STAKES = (0.003, 0.01, 0.03, 0.1, 0.3, 0.9)
_FEW = 20.0  # variance that a count must have, to be nearly normal


class Group(NamedTuple):
    """Arms of alike propensity, or one arm: how often it should have been chosen, and was."""

    name: Name
    offered: int
    """How often it was offered."""
    expected: float
    """How often it should have been chosen, by the propensities."""
    observed: float
    """How often it was."""
    std: float
    """How far the two may be apart: one standard deviation."""

    @property
    def z(self) -> float:
        """How many standard deviations they are apart."""
        return (self.observed - self.expected) / self.std if self.std > 0.0 else 0.0


class Calibration(NamedTuple):
    """Whether arms were chosen as often as the log says."""

    p_value: float
    """How likely so large a difference is if the propensities are true; small is bad."""
    by_propensity: list[Group]
    """Arms of alike propensity; none if only those of the chosen arms are known."""
    by_arm: list[Group]

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the propensities, at 0.1 %."""
        return self.p_value >= 0.001

    def __str__(self) -> str:
        """Return the verdict, and the worst of the arms."""
        of = "chosen" if self.by_propensity else "choices, each counted 1/p,"
        verdict = (
            "nothing speaks against the propensities" if self.ok else "the propensities are wrong"
        )
        lines = [f"{verdict} (p = {self.p_value:.2g})"]
        lines += [
            f"  arm {group.name!r}: {of} {group.observed:.6g}, expected {group.expected:.6g} "
            f"± {group.std:.2g}"
            for group in sorted(self.by_arm, key=lambda g: -abs(g.z))[:3]
        ]
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Draw observed shares over propensities."""
        with needs("sim"):
            from rolin.offline.figures import draw_calibration
        return draw_calibration(self)


def check_propensities(log: DecisionLog, *, bins: int = 10) -> Calibration:
    """Compare how often arms were chosen with how often they should have been.

    Two tests share the error: one of all arms (the largest difference of any, with Bonferroni's
    correction), and one of groups of alike propensity (a chi-squared test with the exact covariance).
    Where only the propensities of chosen arms are known, an arm's choices count 1/p each, which
    add up to the number of times it was offered, or less; so arms whose propensities are too small are found,
    and of those that are too large only what it makes of the others.

    Parameters
    ----------
    log
        The log.
    bins
        Number of groups of alike propensity.
    """
    bins = count_of("bins", bins, least=2)
    if log.propensities is None:
        by_arm, p_value = _by_inverse(log)
        return Calibration(p_value, [], by_arm)
    by_arm = _arms(log, log.propensities)
    by_propensity, p_value = _bins(log, log.propensities, bins)
    return Calibration(min(1.0, 2.0 * min(p_value, _bonferroni(by_arm))), by_propensity, by_arm)


def _bonferroni(groups: list[Group]) -> float:
    large = [abs(group.z) for group in groups if group.std**2 >= _FEW]
    return min(1.0, len(large) * 2.0 * float(ndtr(-max(large)))) if large else 1.0


def _codes(log: DecisionLog) -> tuple[list[Name], NDArray[np.int64]]:
    """Return the names of all arms, and which of them each offer is of, decision after decision."""
    names: dict[Name, int] = {}
    parts: list[NDArray[np.int64]] = []
    last: list[Name] | None = None
    for offered in log.arms:
        if offered is not last:  # mostly they are the same
            last = offered
            own = np.array([names.setdefault(name, len(names)) for name in offered], dtype=np.int64)
        parts.append(own)
    return list(names), np.concatenate(parts)


def _arms(log: DecisionLog, tables: list[Floats]) -> list[Group]:
    names, codes = _codes(log)
    p = np.concatenate(tables)
    chosen = np.zeros(len(p))
    chosen[_places_chosen(log)] = 1.0
    sums = [
        np.bincount(codes, weights=weights, minlength=len(names))
        for weights in (np.ones(len(p)), p, chosen, p * (1.0 - p))
    ]
    return [
        Group(name, int(a), float(b), float(c), float(d) ** 0.5)
        for name, a, b, c, d in zip(names, *sums, strict=True)
    ]


def _places_chosen(log: DecisionLog) -> NDArray[np.int64]:
    """Return where the chosen arms are among all offers."""
    sizes = np.array([len(names) for names in log.arms])
    places: NDArray[np.int64] = np.cumsum(sizes) - sizes + log.chosen
    return places


def _by_inverse(log: DecisionLog) -> tuple[list[Group], float]:
    """Weigh an arm's choices by 1/p: then they add up to how often it was offered, or less.

    Less, because offers at which p was tiny are hardly ever taken, and never seen. More is a sign that
    propensities are too small, and is tested as a bet is won: a player who stakes the share λ of what he has
    on every offer has Π (1 + λ (1{chosen}/p - 1)) in the end, which is hardly ever large if the propensities
    are true (Ville 1939), however they came about.
    """
    offers: dict[Name, int] = {}
    taken: dict[Name, list[float]] = {}
    for names, p, k in zip(log.arms, log.propensity, log.chosen, strict=True):
        for name in names:
            offers[name] = offers.get(name, 0) + 1
        taken.setdefault(names[k], []).append(float(p))
    groups, p_values = [], []
    for name, chosen in taken.items():
        p, n = np.array(chosen), offers[name]
        spread = float((1.0 / p.min() - 1.0) * n) ** 0.5
        groups.append(Group(name, n, float(n), float((1.0 / p).sum()), spread))
        missed = n - len(p)
        p_values.append(_bet(np.concatenate([1.0 / p - 1.0, np.full(missed, -1.0)])))
    sizes = np.array([len(names) for names in log.arms])
    p_values.append(_bet(1.0 / log.propensity / sizes - 1.0))
    return groups, min(1.0, len(p_values) * min(p_values))


def _bet(gains: Floats) -> float:
    """Return how likely it is to win as much, staking some share each time, if nothing can be won."""
    logs = np.array([np.log1p(share * gains).sum() for share in _STAKES])
    largest = float(logs.max())
    return min(1.0, math.exp(-min(largest + math.log(np.exp(logs - largest).mean()), 700.0)))


def _bins(log: DecisionLog, tables: list[Floats], bins: int) -> tuple[list[Group], float]:
    """Group (decision, arm) pairs by propensity, each group with as many expected choices."""
    p = np.concatenate(tables)
    order = np.argsort(p, kind="stable")
    mass = np.cumsum(p[order])
    edges = np.searchsorted(mass, np.linspace(0.0, mass[-1], bins + 1)[1:-1])
    limits = np.unique(p[order][edges])  # equal propensities are in one group
    n_bins = len(limits) + 1
    place = np.searchsorted(limits, p, side="left")
    row = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    share = np.bincount(row * n_bins + place, weights=p, minlength=len(tables) * n_bins)
    share = share.reshape(len(tables), n_bins)
    offered, expected = np.bincount(place, minlength=n_bins), share.sum(axis=0)
    observed = np.bincount(place[_places_chosen(log)], minlength=n_bins).astype(np.float64)
    covariance = np.diag(expected) - share.T @ share
    groups = []
    for b in range(n_bins):
        low = 0.0 if b == 0 else float(limits[b - 1])
        high = float(limits[b]) if b < len(limits) else float(p.max())
        groups.append(
            Group(
                f"{low:.3g} to {high:.3g}", int(offered[b]), expected[b], observed[b],
                float(covariance[b, b]) ** 0.5,
            )
        )  # fmt: skip
    values, vectors = np.linalg.eigh(covariance)
    real = values >= _FEW
    if not real.any():
        return groups, 1.0
    apart = (vectors[:, real].T @ (observed - expected)) ** 2 / values[real]
    return groups, float(chdtrc(int(real.sum()), float(apart.sum())))
