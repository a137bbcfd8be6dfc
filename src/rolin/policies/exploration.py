"""The option `exploration` of Thompson sampling: a factor on the standard deviations of all draws."""

from __future__ import annotations

import math

from rolin._support.checks import number_of
from rolin.errors import ParameterError

__all__ = ["WithExploration", "exploration_of"]


def exploration_of(value: object) -> float:
    """Return a checked factor on the standard deviations of Thompson sampling."""
    factor = number_of("exploration", value, ParameterError)
    if not 0.0 <= factor < math.inf:
        raise ParameterError(f"exploration={value!r}, expected a number of at least 0")
    return factor


class WithExploration:
    """Gives a policy the attribute `exploration`."""

    _exploration: float

    @property
    def exploration(self) -> float:
        """Factor on the posterior's standard deviations in all draws; it may be changed at any time."""
        return self._exploration

    @exploration.setter
    def exploration(self, value: float) -> None:
        self._exploration = exploration_of(value)
