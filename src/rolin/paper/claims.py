"""What the paper says of its results, as claims that a simulation can confirm or refute.

A claim is a sentence and a function from results to checks. A check compares two numbers and says
yes, no, or that the runs cannot tell; what counts as "similar" or "slightly" stands here, once.
All intervals are at 95 %, from paired runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rolin.simulation.comparison import Estimate, rounded
from rolin.simulation.result import Result

__all__ = [
    "Check",
    "Claim",
    "above",
    "at_least",
    "at_most",
    "linear",
    "lower",
    "not_lower",
    "similar",
    "sublinear",
    "verdict",
    "within",
    "worst",
]

Results = Mapping[str, Result]
"""Result of every environment, by its title."""

# Growth (last quarter over third) from which regret counts as linear: halfway between a straight
# line, 1, and the square root of the rounds, 0.84.
LINEAR = 0.92
# Regrets within a fifth of each other count as similar, and a fifth more as slightly more.
SIMILAR = 1.2


@dataclass(frozen=True)
class Check:
    """One comparison of numbers."""

    where: str
    """Environment and policy."""
    outcome: bool | None
    """Whether it holds; `None` if the runs cannot tell."""
    evidence: str
    """The numbers."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and how it is checked."""

    name: str
    """A short name."""
    source: str
    """Section."""
    says: str
    """What the paper says."""
    check: Callable[[Results], Sequence[Check]]


def verdict(checks: Sequence[Check]) -> str:
    """Sum up the checks of a claim in a word or two."""
    outcomes = {check.outcome for check in checks}
    if True in outcomes:
        if False in outcomes:
            return "holds in part"
        return "holds where it can be told" if None in outcomes else "holds"
    if False in outcomes:
        return "fails where it can be told" if None in outcomes else "fails"
    return "cannot be told"


def above(estimate: Estimate, threshold: float) -> bool | None:
    """Whether an estimate is above a threshold, if its interval says so."""
    if estimate.low > threshold:
        return True
    return False if estimate.high < threshold else None


def within(estimate: Estimate, low: float, high: float) -> bool | None:
    """Whether an estimate lies between two numbers, if its interval says so."""
    if estimate.low > low and estimate.high < high:
        return True
    return False if estimate.high < low or estimate.low > high else None


def lower(result: Result, where: str, first: str, second: str) -> Check:
    """Check that the first policy has less regret than the second."""
    comparison = result.compare(first, second)
    difference = comparison.difference
    outcome = above(difference, 0.0)
    return Check(
        f"{where}: {first} against {second}",
        None if outcome is None else not outcome,
        f"regrets {result.final(first)} and {result.final(second)}, difference "
        f"{difference} ({_interval(difference)}), less in {comparison.wins:.0%} of the runs",
    )


def not_lower(result: Result, where: str, first: str, second: str) -> Check:
    """Check that the first policy has more regret than the second, or at least not less."""
    check = lower(result, where, first, second)
    return replace(check, outcome=None if check.outcome is None else not check.outcome)


def at_least(result: Result, where: str, first: str, second: str, factor: float) -> Check:
    """Check that the first policy has at least so many times the regret of the second."""
    ratio = result.compare(first, second).ratio
    return Check(
        f"{where}: {first} over {second}",
        above(ratio, factor),
        f"ratio {ratio} ({_interval(ratio)}), claimed ≥ {factor:g}",
    )


def at_most(result: Result, where: str, first: str, second: str, factor: float) -> Check:
    """Check that the first policy has at most so many times the regret of the second."""
    ratio = result.compare(first, second).ratio
    outcome = above(ratio, factor)
    return Check(
        f"{where}: {first} over {second}",
        None if outcome is None else not outcome,
        f"ratio {ratio} ({_interval(ratio)}), claimed ≤ {factor:g}",
    )


def similar(result: Result, where: str, first: str, second: str) -> Check:
    """Check that two policies have about the same regret."""
    ratio = result.compare(first, second).ratio
    return Check(
        f"{where}: {first} over {second}",
        within(ratio, 1 / SIMILAR, SIMILAR),
        f"ratio {ratio} ({_interval(ratio)}), similar is {1 / SIMILAR:.2f} to {SIMILAR:g}",
    )


def sublinear(result: Result, where: str, policy: str) -> Check:
    """Check that regret grows less than linearly."""
    growth = result.growth(policy)
    outcome = above(growth, LINEAR)
    return Check(
        f"{where}: {policy}",
        None if outcome is None else not outcome,
        f"last quarter over third {growth} ({_interval(growth)}), sublinear is < {LINEAR}",
    )


def worst(result: Result, where: str, policy: str) -> list[Check]:
    """Check that every other policy has less regret."""
    return [lower(result, where, other, policy) for other in result.policies if other != policy]


def linear(result: Result, where: str, policy: str) -> Check:
    """Check that regret grows linearly."""
    growth = result.growth(policy)
    return Check(
        f"{where}: {policy}",
        above(growth, LINEAR),
        f"last quarter over third {growth} ({_interval(growth)}), linear is > {LINEAR}",
    )


def _interval(estimate: Estimate) -> str:
    return f"{rounded(estimate.low)} to {rounded(estimate.high)}"
