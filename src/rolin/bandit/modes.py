"""Who chooses: the policy, or in the modes "apprentice" and "stopped" the baseline."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin.bandit.randomization import Randomization
from rolin.journal.events import Proposal, SettingsChanged
from rolin.policies import Policy
from rolin.policies.candidates import Candidates
from rolin.policies.keyed_random import Key

__all__ = ["Shown", "choose", "learns"]

Floats = NDArray[np.float64]


class Shown(NamedTuple):
    """What is shown, and how likely it was."""

    chosen: tuple[int, ...]
    """Indices of the ranking, the chosen arm first."""
    propensities: Floats | None
    """(K,): probability of each arm to be chosen first; `None` if not computed."""
    control: bool
    """Whether arms were drawn uniformly, for the control group."""
    proposal: Proposal | None
    """What the policy would have chosen, if the baseline is shown and the policy was asked."""


def choose(
    settings: SettingsChanged,
    randomization: Randomization,
    policy: Policy[Any],
    candidates: Candidates,
    *,
    key: Key,
    unit: Key,
    top_k: int,
) -> Shown:
    """Choose `top_k` arms: by the policy, or the baseline, which is the first arms in the order offered.

    In the mode "stopped" the policy is not asked, so nothing that is wrong with it can do harm.

    Parameters
    ----------
    settings
        The settings of the bandit, with its mode.
    randomization
        Mixes the floor and the control group into the policy's choices.
    policy
        The policy.
    candidates
        The arms that are not excluded.
    key
        Key of the decision's random numbers.
    unit
        The person, or the decision if there is none: who is in the control group or not.
    top_k
        Number of arms to choose.
    """
    if settings.mode == "online":
        control = randomization.in_control(unit)
        chosen, p = randomization.choose(policy, candidates, key, top_k, control=control)
        return Shown(chosen, p, control, None)
    proposal = None
    if settings.mode == "apprentice":
        own = randomization.choose(policy, candidates, key, top_k, control=False)
        proposal = Proposal(own.chosen, own.propensities)
    certain = None
    if settings.propensities:
        certain = np.zeros(len(candidates.names))
        certain[0] = 1.0
    return Shown(tuple(range(top_k)), certain, False, proposal)


def learns(settings: SettingsChanged) -> bool:
    """Return whether the policy learns from rewards that are recorded now."""
    return settings.mode != "stopped"
