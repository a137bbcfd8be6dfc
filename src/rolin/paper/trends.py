"""Claims about Figure 1, and about all figures with "similar trends"."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from rolin.paper import claims
from rolin.paper.claims import Check, Claim, Results
from rolin.paper.setting import ABSTRACT, H_LIN_UCB, MISSPECIFIED, MOST, PANELS, SAFE_FALCON, WELL
from rolin.simulation.comparison import format_interval, mean_over_runs

__all__ = ["abstract", "figure_1", "hidden_trends", "trends"]


def figure_1(ours: list[str], linear: str, source: str) -> tuple[Claim, ...]:
    """Return all claims about Figure 1."""
    return (
        *trends(ours, linear, source),
        *hidden_trends(H_LIN_UCB, ours, linear, source),
        *safe_trends(ours, source),
    )


def abstract(ours: list[str], linear: str) -> tuple[Claim, ...]:
    """Return the claims of the abstract, which the introduction repeats, about regret."""
    sentence = f"RoLinTS is comparably statistically efficient to {linear} when the misspecification is low"

    def comparable(panel: str) -> Callable[[Results], list[Check]]:
        return lambda results: [
            claims.at_most(results[panel], panel, name, linear, claims.SIMILAR) for name in ours
        ]

    return (
        Claim(
            "comparably efficient without misspecification", ABSTRACT,
            f"{sentence} (here σ₀ = 0).", comparable(WELL),
        ),
        Claim(
            "comparably efficient with slight misspecification", ABSTRACT,
            f"{sentence} (here σ₀ = 0.25, which Section 6.1 calls slightly misspecified).",
            comparable(MISSPECIFIED[0]),
        ),
        Claim(
            "more robust when misspecification is high", ABSTRACT,
            f"RoLinTS is more robust than {linear} when the misspecification is high (σ₀ = 0.5).",
            lambda results: [claims.lower(results[MOST], MOST, name, linear) for name in ours],
        ),
    )  # fmt: skip


def trends(ours: list[str], linear: str, source: str) -> tuple[Claim, ...]:
    """Return the claims about the robust policies and their linear baseline in a figure like Figure 1."""

    def each(
        check: Callable[..., Check], panels: list[str], *args: object
    ) -> Callable[[Results], list[Check]]:
        return lambda results: [check(results[p], p, name, *args) for p in panels for name in ours]

    return (
        Claim(
            "linear bandit, sublinear regret", source,
            f"σ₀ = 0 is a contextual linear bandit, and {linear} has a sublinear regret.",
            lambda results: [claims.sublinear(results[WELL], WELL, linear)],
        ),
        Claim(
            "not better where there is nothing to gain", source,
            f"At σ₀ = 0, the robust policy is not expected to outperform {linear}.",
            each(claims.not_lower, [WELL], linear),
        ),
        Claim(
            "sublinear without misspecification", source,
            "At σ₀ = 0, all variants of the robust policy have a sublinear regret in n.",
            each(claims.sublinear, [WELL]),
        ),
        Claim(
            "more doubt costs more", source,
            "At σ₀ = 0, a higher regret corresponds to higher values of s₀.",
            lambda results: [
                claims.lower(results[WELL], WELL, small, large)
                for small, large in pairwise(ours)
            ],
        ),
        Claim(
            "a slightly wrong linear bandit fails", source,
            f"At σ₀ = 0.25 the model is only slightly misspecified, yet {linear} fails and has a "
            "linear regret.",
            lambda results: [claims.linear(results[p], p, linear) for p in MISSPECIFIED[:1]],
        ),
        Claim(
            "robust to its own s₀", source,
            "At σ₀ = 0.25, all variants have a sublinear regret, even with s₀ ∈ {0.5, 1}.",
            each(claims.sublinear, MISSPECIFIED[:1]),
        ),
        Claim(
            "the gap grows with σ₀", source,
            f"The gap in the regret of {linear} and the robust policy increases with σ₀.",
            lambda results: [
                check for name in ours for check in growing_gaps(results, linear, name)
            ],
        ),
        Claim(
            "at least twice lower", source,
            f"At σ₀ = 0.5, the robust policy has at least twice lower regret than {linear}, for all "
            "values of s₀.",
            lambda results: [claims.at_least(results[MOST], MOST, linear, name, 2.0) for name in ours],
        ),
    )  # fmt: skip


def hidden_trends(
    hidden: str, ours: list[str], linear: str, source: str, suffix: str = ""
) -> tuple[Claim, ...]:
    """Return the claims about hLinUCB, for one of its settings."""
    return (
        Claim(
            "hLinUCB wins where the model is right" + suffix, source,
            f"At σ₀ = 0, hLinUCB outperforms both {linear} and the robust policy.",
            lambda results: [
                claims.lower(results[WELL], WELL, hidden, name) for name in [linear, *ours]
            ],
        ),
        Claim(
            "hLinUCB is like the linear bandit where it is wrong" + suffix, source,
            f"At σ₀ > 0, hLinUCB performs similarly to {linear}.",
            lambda results: [
                claims.similar(results[p], p, hidden, linear) for p in MISSPECIFIED
            ],
        ),
        Claim(
            "hLinUCB loses where the model is wrong" + suffix, source,
            "At σ₀ > 0, the robust policy outperforms hLinUCB.",
            lambda results: [
                claims.lower(results[p], p, name, hidden) for p in MISSPECIFIED for name in ours
            ],
        ),
    )  # fmt: skip


def safe_trends(ours: list[str], source: str) -> tuple[Claim, ...]:
    """Return the claims about Safe-FALCON."""
    return (
        Claim(
            "Safe-FALCON is not competitive", source,
            "Safe-FALCON is too conservative to be competitive.",
            lambda results: [
                check for p in PANELS for check in claims.worst(results[p], p, SAFE_FALCON)
            ],
        ),
        Claim(
            "Safe-FALCON is an order of magnitude worse", source,
            "In all experiments, Safe-FALCON's regret at n = 3000 is an order of magnitude higher than "
            "that of the robust policy.",
            lambda results: [
                claims.at_least(results[p], p, SAFE_FALCON, name, 10.0)
                for p in PANELS
                for name in ours
            ],
        ),
    )  # fmt: skip


def growing_gaps(results: Results, linear: str, ours: str) -> list[Check]:
    """Check that the excess regret of the linear policy grows from panel to panel.

    Run i has the same coefficients, contexts and noise in every panel, so the growth is paired too.
    """
    gaps = [results[p].regret[linear][:, -1] - results[p].regret[ours][:, -1] for p in PANELS]
    checks = []
    for (before, less), (after, more) in pairwise(zip(PANELS, gaps, strict=True)):
        rise = mean_over_runs(more - less)
        checks.append(
            Check(
                f"{linear} minus {ours}, {before} to {after}",
                claims.above(rise, 0.0),
                f"gaps {mean_over_runs(less)} and {mean_over_runs(more)}, rise {rise} "
                f"({format_interval(rise)})",
            )
        )
    return checks
