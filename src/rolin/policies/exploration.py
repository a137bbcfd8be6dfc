"""The option `exploration` of Thompson sampling: a factor on the standard deviations of all draws."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rolin._support.checks import number_of
from rolin._support.repeated import is_repeated
from rolin.errors import ParameterError
from rolin.model.mixture import Mixture
from rolin.model.posterior import Posterior
from rolin.model.slopes import SlopePosterior
from rolin.policies.candidates import Candidates

__all__ = ["AUTO", "Exploration", "WithExploration", "automatic", "exploration_of"]

Floats = NDArray[np.float64]
Exploration = float | Literal["auto"]
"""A factor of at least 0; or `"auto"`."""
AUTO: Literal["auto"] = "auto"
# The factor if rewards are spread over many arms. Chosen by the study in docs/how-to/exploration.md.
_LEAST = 0.25
# The same if arms share one context and differ by nothing but their slopes. Chosen by the study in docs/how-to/arms.md.
_LEAST_ALONE = 0.5


def automatic(concentration: float, least: float = _LEAST) -> float:
    """Return the factor of `"auto"`: least + (1 - least) Σ s_i², with the arms' shares s_i of all rewards.

    If contexts or candidates vary, different arms are best in different rounds. Then even a greedy policy tries many
    arms, and little more exploration pays. If one arm is chosen again and again, nothing else is learned about the
    other arms. Then the factor approaches 1, which is Thompson sampling.
    """
    return least + (1.0 - least) * concentration


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


def have_one_context(contexts: Floats) -> bool:
    """Return whether several arms all have the same context, in one row or in equal ones."""
    if is_repeated(contexts):
        return len(contexts) > 1
    if len(contexts) < 2:
        return False
    # Most often, the first two are enough.
    return bool((contexts[0] == contexts[1]).all() and (contexts == contexts[0]).all())


class WithExploration:
    """Gives a policy the attribute `exploration`."""

    _exploration: Exploration

    @property
    def exploration(self) -> float:
        """Factor on the posterior's standard deviations in all draws, at present.

        It may be set at any time, to a number or to `"auto"`.
        """
        factor = self._exploration
        if factor == "auto":
            return automatic(self._model.concentration)  # type: ignore[attr-defined]  # the policy's model has it
        return factor

    @exploration.setter
    def exploration(self, value: Exploration) -> None:
        self._exploration = exploration_of(value)
        model: Posterior | Mixture = self._model  # type: ignore[attr-defined]  # the policy has one
        model.stores_concentration = self._exploration == AUTO

    def exploration_for(self, candidates: Candidates) -> float:
        """Return the factor of one decision. It is `exploration`, with one exception for `"auto"`.

        If arms have slopes and all have the same context, different arms are best in different rounds, but an arm that
        is not chosen is not tried for free. Then the factor is l + (1 - l) Σ s_i² with l = ¼ + ¼ v, where v is the share
        of the slopes in the prior variance of what an arm has of its own, in this context. Without any slopes, v = 0.

        Parameters
        ----------
        candidates
            The arms and their contexts.
        """
        model = self._model  # type: ignore[attr-defined]  # the policy has one
        if (
            self._exploration == AUTO
            and isinstance(model, SlopePosterior)
            and model.slope_indices
            and have_one_context(candidates.contexts)
        ):
            share = model.share_of_slopes(candidates.contexts[0])
            return automatic(model.concentration, _LEAST + (_LEAST_ALONE - _LEAST) * share)
        return self.exploration
