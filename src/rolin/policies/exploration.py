"""The option `exploration` of Thompson sampling: a factor on the standard deviations of all draws."""

from __future__ import annotations

import math
from typing import Literal

from rolin._support.checks import number_of
from rolin.errors import ParameterError
from rolin.model.mixture import Mixture
from rolin.model.posterior import Posterior

__all__ = ["AUTO", "Exploration", "WithExploration", "automatic", "exploration_of"]

Exploration = float | Literal["auto"]
"""A factor of at least 0; or `"auto"`."""
AUTO: Literal["auto"] = "auto"
# The factor if rewards are spread over many arms. Chosen by the study in docs/how-to/exploration.md.
_LEAST = 0.25


def automatic(concentration: float) -> float:
    """Return the factor of `"auto"`: ¼ + ¾ Σ s_i², with the arms' shares s_i of all rewards.

    If contexts or candidates vary, different arms are best in different rounds. Then even a greedy policy tries many
    arms, and little more exploration pays. If one arm is chosen again and again, nothing else is learned about the
    other arms. Then the factor approaches 1, which is Thompson sampling.
    """
    return _LEAST + (1.0 - _LEAST) * concentration


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
