"""The decision of a policy, and the probabilities of its choices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin._support.html import html_table
from rolin.policies.keyed_random import Key

__all__ = ["SHOWN", "Decision", "Probabilities", "shown_ranking"]

Floats = NDArray[np.float64]
SHOWN = 20  # arms in a table for notebooks


class Decision(NamedTuple):
    """The decision of a policy; `policy.update(decision.arm, decision.context, reward)` learns from it."""

    arm: Name
    """The chosen arm."""
    context: Floats
    """(d,): the context of the chosen arm."""
    ranking: tuple[Name, ...]
    """The `top_k` best arms, the chosen arm first."""
    contexts: Floats
    """(top_k, d): the contexts of the ranking."""
    key: Key
    """The key of the random numbers: the same key, state and candidates give the same decision."""

    def __repr__(self) -> str:
        """Return one line."""
        return f"<Decision: arm {shown_ranking(self.ranking)}, key {self.key!r}>"

    def _repr_html_(self) -> str:
        """Return the ranking as an HTML table, for notebooks."""
        rows = [(str(rank), repr(arm)) for rank, arm in enumerate(self.ranking[:SHOWN])]
        return html_table(f"Decision, key {self.key!r}", ("rank", "arm"), rows)


def shown_ranking(ranking: tuple[Name, ...]) -> str:
    """Return a ranking as a short text, the chosen arm first."""
    more = f", … {len(ranking) - 3} more" if len(ranking) > 3 else ""
    return ", ".join(map(repr, ranking[:3])) + more


class Probabilities(NamedTuple):
    """The probability of each of K arms to be chosen first."""

    values: NDArray[np.float64]
    """(K,): the probabilities, which sum to 1."""
    std_error: NDArray[np.float64]
    """(K,): their standard errors; zero where the probability is computed rather than estimated."""
