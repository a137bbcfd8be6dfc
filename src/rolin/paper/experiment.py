"""An experiment of the paper, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rolin.environments.base import Environment
from rolin.paper.claims import Claim
from rolin.simulation.runner import MakePolicy

__all__ = ["Experiment"]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Policies that play in several environments, and what the paper says came of it."""

    name: str
    """What the command calls it."""
    title: str
    """Title of the figure."""
    source: str
    """Where it is in the paper."""
    environments: Mapping[str, Environment]
    """A panel of the figure each, by its title."""
    policies: Mapping[str, MakePolicy]
    """What plays, by name."""
    rounds: int
    runs: int
    claims: tuple[Claim, ...]
    settings: Mapping[str, Any]
    """The options that made it, for the record: a run with other ones cannot be resumed."""
    undrawn: frozenset[str] = frozenset()
    """Policies that play for a claim, and are not in the paper's figure."""
    notes: tuple[str, ...] = ()
    """What else there is to report, such as numbers estimated from data."""
    least_runs: int = 2
    """Runs below which verdicts are not to be trusted."""
