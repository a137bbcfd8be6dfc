"""The definition of an experiment of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rolin.environments.base import Environment
from rolin.paper.claims import Claim
from rolin.simulation.play import MakePolicy

__all__ = ["Experiment"]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Policies that are simulated in several environments, and the claims of the paper about the results."""

    name: str
    """Name of the command, as in `rolin reproduce NAME`."""
    title: str
    """Title of the figure."""
    source: str
    """Section and figure of the paper."""
    environments: Mapping[str, Environment]
    """By title: each environment is one panel of the figure."""
    policies: Mapping[str, MakePolicy]
    """By name: functions that make the policies."""
    rounds: int
    """Number of rounds in a run."""
    runs: int
    """Default number of runs."""
    claims: tuple[Claim, ...]
    """Statements of the paper to check."""
    settings: Mapping[str, Any]
    """The options of the experiment. Runs with other options cannot be resumed."""
    not_drawn: frozenset[str] = frozenset()
    """Policies that a claim needs but the figure does not show."""
    known: Mapping[str, str] = field(default_factory=dict)
    """By title: the policy that knows the scales of this environment, which the figure shows in this panel only."""
    notes: tuple[str, ...] = ()
    """Other facts to report, such as numbers estimated from data."""
    min_runs: int = 2
    """Number of runs below which the verdicts are not reliable."""
