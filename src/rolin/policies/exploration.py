"""The option `exploration` of Thompson sampling: how far the draws of arms are from their means, and on which side."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import number_of
from rolin._support.repeated import is_repeated
from rolin.errors import ParameterError
from rolin.model.mixture import Mixture
from rolin.model.posterior import Posterior
from rolin.model.slopes import SlopePosterior
from rolin.policies.candidates import Candidates

__all__ = [
    "AUTO",
    "DrawRule",
    "Exploration",
    "WithExploration",
    "automatic",
    "exploration_of",
    "shown",
]

Floats = NDArray[np.float64]
Exploration = float | Literal["auto"]
"""A factor of at least 0; or `"auto"`."""
AUTO: Literal["auto"] = "auto"
# What "auto" does if rewards are spread over many arms, and if arms share one context and differ by nothing but their
# slopes. Chosen by the studies in docs/how-to/exploration.md and docs/how-to/arms.md, and on development worlds of the
# bake-off. With less optimism, arms with few rewards are tried too late; with more, too often where arms are many.
_LEAST, _OPTIMISM = 0.1, 0.5
_OPTIMISM_ALONE = 3.0


class DrawRule(NamedTuple):
    """How arms are drawn: mean + std * (optimism + exploration * z), with standard normal numbers z."""

    exploration: float
    """Factor on the standard deviations: 1 is Thompson sampling, 0 draws nothing."""
    optimism: float
    """Number of standard deviations that are added to every mean."""


def automatic(concentration: float, slopes: float = 0.0) -> DrawRule:
    """Return the rule of `"auto"`.

    If contexts or candidates vary, different arms are best in different rounds. Then even a greedy policy tries many
    arms, and it is enough to prefer those that are not well known. If one arm is chosen again and again, nothing else is
    learned about the other arms. Then the rule approaches Thompson sampling.

    Parameters
    ----------
    concentration
        Σ s_i², with the arms' shares s_i of all rewards.
    slopes
        If all arms have one context, the share of their slopes in the variance of what they have of their own. An arm
        that is not chosen is then not tried for free.
    """
    optimism = _OPTIMISM + (_OPTIMISM_ALONE - _OPTIMISM) * slopes
    return DrawRule(_LEAST + (1.0 - _LEAST) * concentration, optimism * (1.0 - concentration))


def exploration_of(value: object) -> Exploration:
    """Return a checked factor on the standard deviations of Thompson sampling, or `"auto"`."""
    if isinstance(value, str):
        if value == AUTO:
            return AUTO
        raise ParameterError(f"exploration={value!r}, expected a number of at least 0 or 'auto'")
    factor = number_of("exploration", value, ParameterError)
    if not 0.0 <= factor < math.inf:
        raise ParameterError(f"exploration={value!r}, expected a number of at least 0")
    return factor


def shown(exploration: Exploration) -> str:
    """Return a value of the option as text."""
    return exploration if isinstance(exploration, str) else f"{exploration:g}"


def have_one_context(contexts: Floats) -> bool:
    """Return whether several arms all have the same context, in one row or in equal ones."""
    if is_repeated(contexts):
        return len(contexts) > 1
    if len(contexts) < 2:
        return False
    # Most often, the first two are enough.
    return bool((contexts[0] == contexts[1]).all() and (contexts == contexts[0]).all())


class WithExploration:
    """Gives a policy the attributes `exploration` and `optimism`."""

    _exploration: Exploration

    @property
    def exploration(self) -> float:
        """Factor on the posterior's standard deviations in all draws, at present.

        It may be set at any time, to a number or to `"auto"`.
        """
        return self.draw_rule().exploration

    @exploration.setter
    def exploration(self, value: Exploration) -> None:
        self._exploration = exploration_of(value)
        model: Posterior | Mixture = self._model  # type: ignore[attr-defined]  # the policy has one
        model.stores_concentration = self._exploration == AUTO

    @property
    def optimism(self) -> float:
        """Number of standard deviations that all draws add to the means, at present: 0 unless `exploration="auto"`."""
        return self.draw_rule().optimism

    def draw_rule(self, candidates: Candidates | None = None) -> DrawRule:
        """Return how arms are drawn at present: the numbers `exploration` and `optimism`.

        With `"auto"`, they are 0.1 + 0.9 c and o (1 - c), where c = Σ s_i² is computed from the arms' shares s_i of all
        rewards. o is ½, with one exception. If arms have slopes and all candidates have the same context, different arms
        are best in different rounds, but an arm that is not chosen is not tried for free. Then o is ½ + 2½ v, where v is
        the share of the slopes in the prior variance of what an arm has of its own, in this context.

        Parameters
        ----------
        candidates
            The arms of one decision, and their contexts.
        """
        exploration = self._exploration
        if exploration != "auto":
            return DrawRule(exploration, 0.0)
        model = self._model  # type: ignore[attr-defined]  # the policy has one
        share = 0.0
        if (
            candidates is not None
            and isinstance(model, SlopePosterior)
            and model.slope_indices
            and have_one_context(candidates.contexts)
        ):
            share = model.share_of_slopes(candidates.contexts[0])
        return automatic(model.concentration, share)
