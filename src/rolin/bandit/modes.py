"""Who decides, what is shown if the policy does not, and whether rewards are learned."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name
from rolin.bandit.randomization import Randomization
from rolin.errors import ArmError, RolinError
from rolin.journal.events import Proposal, SettingsChanged
from rolin.policies import Policy
from rolin.policies.candidates import Candidates
from rolin.policies.keyed_random import Key

__all__ = [
    "Decides",
    "Shown",
    "baseline_index",
    "learns",
    "propose",
    "show_baseline",
    "who_decides",
]

Floats = NDArray[np.float64]


class Decides(Enum):
    """Who decides."""

    POLICY = auto()
    CONTROL = auto()
    """Chance: the person is in the control group."""
    OUTSIDE_SHARE = auto()
    """The baseline: the person is outside the share of the policy."""
    BASELINE = auto()
    """The baseline: the bandit is in the mode "apprentice" or "stopped"."""


def who_decides(settings: SettingsChanged, randomization: Randomization, unit: Key) -> Decides:
    """Return who decides for a person, or for a decision without one.

    The mode comes first, then the control group, then the share. So the control group is drawn from all people, and
    those inside and outside the share differ by chance only.
    """
    if settings.mode != "online":
        return Decides.BASELINE
    if randomization.in_control(unit):
        return Decides.CONTROL
    return Decides.POLICY if randomization.in_share(unit) else Decides.OUTSIDE_SHARE


def baseline_index(names: Sequence[Name], baseline: Name | None) -> int:
    """Return the index of the baseline among the arms that are not excluded: by default the first."""
    if baseline is None:
        return 0
    for index, name in enumerate(names):
        if name == baseline and type(name) is type(baseline):
            return index
    raise ArmError(
        f"baseline={baseline!r}, expected one of the offered arms that are not excluded: {list(names)!r}",
        argument="baseline",
    )


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
    first: int,
) -> Shown:
    """Choose the baseline, whatever the policy would choose; the others of a ranking follow in the order offered.

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
    first
        Index of the baseline.
    """
    proposal = None
    if settings.mode != "stopped":
        proposal = _proposal(randomization, policy, candidates, key, top_k)
    certain = None
    if settings.propensities:
        certain = np.zeros(len(candidates.names))
        certain[first] = 1.0
    others = (index for index in range(top_k) if index != first)
    return Shown((first, *others)[:top_k], certain, proposal)


def propose(
    randomization: Randomization, shadow: Policy[Any], candidates: Candidates, key: Key, top_k: int
) -> Proposal | None:
    """Return what a shadow would choose; `None` if it cannot, because a shadow must not prevent a decision."""
    try:
        own = shadow.candidates(candidates.contexts, candidates.names)
        return _proposal(randomization, shadow, own, key, top_k)
    except RolinError:
        return None


def _proposal(
    randomization: Randomization, policy: Policy[Any], candidates: Candidates, key: Key, top_k: int
) -> Proposal:
    chosen, p = randomization.choose(policy, candidates, key, top_k, control=False)
    if p is not None:
        p.flags.writeable = False  # a record is never changed
    return Proposal(chosen, p)


def learns(settings: SettingsChanged) -> bool:
    """Return whether the policy learns from rewards that are recorded now."""
    return settings.mode != "stopped"
