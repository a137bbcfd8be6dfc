"""Test the logged propensities: compare how often arms were chosen with how often they should have been."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.checks import count_of
from rolin._support.distributions import chi2_tail, normal_tail
from rolin._support.optional import needs
from rolin.offline.log import DecisionLog, check_log

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Calibration", "Group", "check_propensities"]

Floats = NDArray[np.float64]
_STAKES = (0.003, 0.01, 0.03, 0.1, 0.3, 0.9)  # shares of the wealth that are bet, see `_bet`
_FEW = 20.0  # least variance of a count that is taken as normal


class Group(NamedTuple):
    """One arm, or all offers of similar propensity: expected and observed number of choices."""

    name: Name
    """Name of the arm, or the range of propensities."""
    offered: int
    """Number of offers."""
    expected: float
    """Number of choices that the propensities predict."""
    observed: float
    """Number of choices."""
    std: float
    """Standard deviation of the number of choices."""

    @property
    def z(self) -> float:
        """Difference of observed and expected, in standard deviations."""
        return (self.observed - self.expected) / self.std if self.std > 0.0 else 0.0


class Calibration(NamedTuple):
    """The result of the test whether arms were chosen as often as their propensities predict."""

    p_value: float
    """Probability of a difference this large if the propensities are true; small is bad."""
    by_propensity: list[Group]
    """Groups of similar propensity; empty if only the propensities of the chosen arms are known."""
    by_arm: list[Group]
    """One group per arm."""

    @property
    def ok(self) -> bool:
        """Whether the propensities are consistent with the choices, at a level of 0.1 %."""
        return self.p_value >= 0.001

    def to_frame(self) -> pd.DataFrame:
        """Return all groups as a data frame, one row each."""
        with needs("sim"):
            import pandas as pd
        kinds = ["propensity"] * len(self.by_propensity) + ["arm"] * len(self.by_arm)
        groups = [*self.by_propensity, *self.by_arm]
        frame = pd.DataFrame(groups, columns=Group._fields).assign(z=[group.z for group in groups])
        frame.insert(0, "by", kinds)
        return frame

    def __repr__(self) -> str:
        """Return the verdict, in one line."""
        return f"<Calibration: {self._verdict}>"

    @property
    def _verdict(self) -> str:
        verdict = (
            "the propensities are consistent with the choices"
            if self.ok
            else "the propensities are wrong"
        )
        return f"{verdict} (p = {self.p_value:.2g})"

    def __str__(self) -> str:
        """Return the verdict, and the three arms that differ most."""
        of = "chosen" if self.by_propensity else "choices, each counted 1/p,"
        lines = [self._verdict]
        lines += [
            f"  arm {group.name!r}: {of} {group.observed:.6g}, expected {group.expected:.6g} "
            f"± {group.std:.2g}"
            for group in sorted(self.by_arm, key=lambda g: -abs(g.z))[:3]
        ]
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Draw the observed shares of choices over the propensities."""
        with needs("sim"):
            from rolin.offline.figures import draw_calibration
        return draw_calibration(self)


def check_propensities(log: DecisionLog, *, bins: int = 10) -> Calibration:
    """Test whether arms were chosen as often as the logged propensities predict.

    Two tests share the error probability: one of all arms (the largest difference, with Bonferroni's correction), and
    one of groups of similar propensity (a chi-squared test with the exact covariance). If only the propensities of
    the chosen arms are known, each choice of an arm counts 1/p. These add up to the number of its offers, or less.
    So the test finds propensities that are too small, and others only by their effect on the sum.

    Parameters
    ----------
    log
        The log.
    bins
        Number of groups of similar propensity.
    """
    check_log(log)
    bins = count_of("bins", bins, least=2)
    if log.propensities is None:
        by_arm, p_value = _by_inverse(log)
        return Calibration(p_value, [], by_arm)
    by_arm = _arms(log, log.propensities)
    by_propensity, p_value = _bins(log, log.propensities, bins)
    return Calibration(min(1.0, 2.0 * min(p_value, _bonferroni(by_arm))), by_propensity, by_arm)


def _bonferroni(groups: list[Group]) -> float:
    large = [abs(group.z) for group in groups if group.std**2 >= _FEW]
    return min(1.0, len(large) * 2.0 * normal_tail(max(large))) if large else 1.0


def _codes(log: DecisionLog) -> tuple[list[Name], NDArray[np.int64]]:
    """Return the names of all arms, and for each offer, decision by decision, the index of its arm."""
    names: dict[Name, int] = {}
    parts: list[NDArray[np.int64]] = []
    last: list[Name] | None = None
    for offered in log.arms:
        if offered is not last:  # most decisions share one list
            last = offered
            own = np.array([names.setdefault(name, len(names)) for name in offered], dtype=np.int64)
        parts.append(own)
    return list(names), np.concatenate(parts)


def _arms(log: DecisionLog, tables: list[Floats]) -> list[Group]:
    names, codes = _codes(log)
    p = np.concatenate(tables)
    chosen = np.zeros(len(p))
    chosen[_chosen_offers(log)] = 1.0
    sums = [
        np.bincount(codes, weights=weights, minlength=len(names))
        for weights in (np.ones(len(p)), p, chosen, p * (1.0 - p))
    ]
    return [
        Group(name, int(a), float(b), float(c), float(d) ** 0.5)
        for name, a, b, c, d in zip(names, *sums, strict=True)
    ]


def _chosen_offers(log: DecisionLog) -> NDArray[np.int64]:
    """Return the index of each chosen arm among all offers."""
    sizes = np.array([len(names) for names in log.arms])
    indices: NDArray[np.int64] = np.cumsum(sizes) - sizes + log.chosen
    return indices


def _by_inverse(log: DecisionLog) -> tuple[list[Group], float]:
    """Return the groups and the p-value of a test that weighs each choice of an arm by 1/p.

    These weights add up to the number of offers, or to less: offers with a tiny p are rarely chosen, so they do not
    show. A larger sum means that propensities are too small. The test is a bet: a player who stakes the share λ of
    the wealth on every offer ends with Π (1 + λ (1{chosen}/p - 1)). If the propensities are true, this is rarely
    large, however they came about (Ville 1939).
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
    """Return the p-value of a bet: the inverse of the mean final wealth over several stakes, at most 1."""
    logs = np.array([np.log1p(share * gains).sum() for share in _STAKES])
    largest = float(logs.max())
    return min(1.0, math.exp(-min(largest + math.log(np.exp(logs - largest).mean()), 700.0)))


def _bins(log: DecisionLog, tables: list[Floats], bins: int) -> tuple[list[Group], float]:
    """Group the offers by propensity, so that all groups have the same number of expected choices."""
    p = np.concatenate(tables)
    order = np.argsort(p, kind="stable")
    mass = np.cumsum(p[order])
    edges = np.searchsorted(mass, np.linspace(0.0, mass[-1], bins + 1)[1:-1])
    limits = np.unique(p[order][edges])  # equal propensities share a group
    n_bins = len(limits) + 1
    group = np.searchsorted(limits, p, side="left")
    row = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    share = np.bincount(row * n_bins + group, weights=p, minlength=len(tables) * n_bins)
    share = share.reshape(len(tables), n_bins)
    offered, expected = np.bincount(group, minlength=n_bins), share.sum(axis=0)
    observed = np.bincount(group[_chosen_offers(log)], minlength=n_bins).astype(np.float64)
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
    return groups, chi2_tail(int(real.sum()), float(apart.sum()))
