"""What is shown in the modes "apprentice" and "stopped", and whether rewards are learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.bandit.randomization import Randomization
from rolin.journal.events import Proposal, SettingsChanged
from rolin.policies import Policy
from rolin.policies.candidates import Candidates
from rolin.policies.keyed_random import Key

__all__ = ["Shown", "learns", "show_baseline"]

Floats = NDArray[np.float64]


class Shown(NamedTuple):
    """The baseline, and what the policy would have chosen."""

    chosen: tuple[int, ...]
    """Indices of the ranking, the chosen arm first."""
    propensities: Floats | None
    """(K,): 1 for the chosen arm, and 0 for all others; `None` if they are not recorded."""
    proposal: Proposal | None
    """What the policy would have chosen; `None` if it was not asked."""


def show_baseline(
    settings: SettingsChanged,
    randomization: Randomization,
    policy: Policy[Any],
    candidates: Candidates,
    key: Key,
    top_k: int,
) -> Shown:
    """Choose the first `top_k` arms in the order offered, whatever the policy would choose.

    In the mode "stopped" the policy is not asked, so nothing that is wrong with it can do harm.

    Parameters
    ----------
    settings
        The settings of the bandit, with its mode.
    randomization
        Mixes the floor into the policy's choices.
    policy
        The policy.
    candidates
        The arms that are not excluded.
    key
        Key of the decision's random numbers.
    top_k
        Number of arms to choose.
    """
    proposal = None
    if settings.mode == "apprentice":
        own = randomization.choose(policy, candidates, key, top_k, control=False)
        proposal = Proposal(own.chosen, own.propensities)
    certain = None
    if settings.propensities:
        certain = np.zeros(len(candidates.names))
        certain[0] = 1.0
    return Shown(tuple(range(top_k)), certain, proposal)


def learns(settings: SettingsChanged) -> bool:
    """Return whether the policy learns from rewards that are recorded now."""
    return settings.mode != "stopped"
