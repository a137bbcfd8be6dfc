"""Statements of the paper about its results, which a simulation confirms or refutes.

A claim is a sentence of the paper and a function from results to checks. A check compares two numbers.
Its outcome is yes, no, or inconclusive. This module also defines what "similar" and "slightly" mean.
All intervals have a confidence level of 95 % and come from paired runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rolin.simulation.comparison import RunEstimate, format_interval
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
"""The result of every environment, by the title of the environment."""

# Growth (`Result.growth`) above which regret counts as linear: halfway between linear regret, 1, and
# the square root of the rounds, 0.84.
LINEAR = 0.92
# Two regrets are similar if their ratio lies between 1/SIMILAR and SIMILAR; a regret is slightly higher
# than another if it is at most SIMILAR times the other.
SIMILAR = 1.2


@dataclass(frozen=True)
class Check:
    """The comparison of two numbers."""

    where: str
    """The environment and the policies that are compared."""
    outcome: bool | None
    """Whether the claim holds here; `None` if the runs are inconclusive."""
    evidence: str
    """The numbers, as text."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the checks that confirm or refute it."""

    name: str
    """A short name."""
    source: str
    """The section of the paper."""
    says: str
    """The sentence."""
    check: Callable[[Results], Sequence[Check]]
    """Compares the numbers of the results."""


def verdict(checks: Sequence[Check]) -> str:
    """Summarize the checks of a claim in a few words."""
    outcomes = {check.outcome for check in checks}
    if True in outcomes:
        if False in outcomes:
            return "holds in part"
        return "holds where conclusive" if None in outcomes else "holds"
    if False in outcomes:
        return "fails where conclusive" if None in outcomes else "fails"
    return "inconclusive"


def above(estimate: RunEstimate, threshold: float) -> bool | None:
    """Return whether an estimate is above a threshold; `None` if its interval contains the threshold."""
    if estimate.low > threshold:
        return True
    return False if estimate.high < threshold else None


def within(estimate: RunEstimate, low: float, high: float) -> bool | None:
    """Return whether an estimate lies between two numbers; `None` if its interval is inconclusive."""
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
        f"{difference} ({format_interval(difference)}), less in {comparison.wins:.0%} of the runs",
    )


def not_lower(result: Result, where: str, first: str, second: str) -> Check:
    """Check that the first policy does not have less regret than the second."""
    check = lower(result, where, first, second)
    return replace(check, outcome=None if check.outcome is None else not check.outcome)


def at_least(result: Result, where: str, first: str, second: str, factor: float) -> Check:
    """Check that the first policy has at least `factor` times the regret of the second."""
    ratio = result.compare(first, second).ratio
    return Check(
        f"{where}: {first} over {second}",
        above(ratio, factor),
        f"ratio {ratio} ({format_interval(ratio)}), claimed ≥ {factor:g}",
    )


def at_most(result: Result, where: str, first: str, second: str, factor: float) -> Check:
    """Check that the first policy has at most `factor` times the regret of the second."""
    ratio = result.compare(first, second).ratio
    outcome = above(ratio, factor)
    return Check(
        f"{where}: {first} over {second}",
        None if outcome is None else not outcome,
        f"ratio {ratio} ({format_interval(ratio)}), claimed ≤ {factor:g}",
    )


def similar(result: Result, where: str, first: str, second: str) -> Check:
    """Check that two policies have similar regret."""
    ratio = result.compare(first, second).ratio
    return Check(
        f"{where}: {first} over {second}",
        within(ratio, 1 / SIMILAR, SIMILAR),
        f"ratio {ratio} ({format_interval(ratio)}), similar is {1 / SIMILAR:.2f} to {SIMILAR:g}",
    )


def sublinear(result: Result, where: str, policy: str) -> Check:
    """Check that the regret of a policy grows less than linearly."""
    growth = result.growth(policy)
    outcome = above(growth, LINEAR)
    return Check(
        f"{where}: {policy}",
        None if outcome is None else not outcome,
        f"last quarter over third {growth} ({format_interval(growth)}), sublinear is < {LINEAR}",
    )


def worst(result: Result, where: str, policy: str) -> list[Check]:
    """Check that every other policy has less regret than this one."""
    return [lower(result, where, other, policy) for other in result.policies if other != policy]


def linear(result: Result, where: str, policy: str) -> Check:
    """Check that the regret of a policy grows linearly."""
    growth = result.growth(policy)
    return Check(
        f"{where}: {policy}",
        above(growth, LINEAR),
        f"last quarter over third {growth} ({format_interval(growth)}), linear is > {LINEAR}",
    )
