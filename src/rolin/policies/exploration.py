"""The option `exploration` of Thompson sampling: how many standard deviations draws add to the means."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
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
# What "auto" does if rewards are spread over many arms. Chosen by the study in docs/how-to/exploration.md, and on
# development worlds of the bake-off: with less optimism, arms with few rewards are tried too late, and with more, too often
# where there are many arms.
_LEAST, _OPTIMISM = 0.1, 0.5
# The factor if arms share one context and differ by nothing but their slopes. The optimism is then that of `best_of`. With
# 1.2 times as much, an arm whose rewards do not arrive gets a third of the decisions instead of a quarter.
_LEAST_ALONE = 0.2


class DrawRule(NamedTuple):
    """How arms are drawn: mean + std * (optimism + exploration * z), with standard normal numbers z."""

    exploration: float
    """Factor on the standard deviations: 1 is Thompson sampling, 0 draws nothing."""
    optimism: float
    """Number of standard deviations that are added to every mean."""


@lru_cache(maxsize=1000)
def best_of(n: int) -> float:
    """Return how far the best of n arms is expected to be above their mean, in standard deviations.

    Blom (1958), *Statistical Estimates and Transformed Beta-Variables*, whose formula is 5 % too large for two arms, and
    closer for more.

    >>> [round(best_of(n), 1) for n in (1, 3, 10, 1000)]
    [0.0, 0.9, 1.5, 3.2]
    """
    return NormalDist().inv_cdf((n - 0.375) / (n + 0.25))


def automatic(concentration: float, slopes: float = 0.0, n_arms: int = 1) -> DrawRule:
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
        that is not chosen is then not tried for free. So an arm that is not known at all counts as much as the best of
        the known ones is expected to be worth.
    n_arms
        Number of arms of the decision; it matters only with `slopes`.
    """
    least, optimism = _LEAST, _OPTIMISM
    if slopes:
        least += (_LEAST_ALONE - _LEAST) * slopes
        optimism += (best_of(n_arms) - _OPTIMISM) * slopes
    return DrawRule(least + (1.0 - least) * concentration, optimism * (1.0 - concentration))


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
    _is_ever_automatic = True

    @property
    def exploration(self) -> float:
        """Factor on the posterior's standard deviations in all draws, at present.

        It may be set at any time, to a number or to `"auto"`.
        """
        return self.draw_rule().exploration

    @exploration.setter
    def exploration(self, value: Exploration) -> None:
        exploration = exploration_of(value)
        if exploration == AUTO and not self._is_ever_automatic:
            raise ParameterError(
                f"{type(self).__name__} has no exploration={AUTO!r}, expected a number of at least 0"
            )
        self._exploration = exploration
        model: Posterior | Mixture = self._model  # type: ignore[attr-defined]  # the policy has one
        model.stores_concentration = self._exploration == AUTO

    @property
    def optimism(self) -> float:
        """Number of standard deviations that draws add to the means, at present: 0 unless `exploration="auto"`.

        If arms have slopes and share one context, `draw_rule` returns a larger number. With joint sampling, it counts the
        standard deviations that are left when the coefficients are known.
        """
        return self.draw_rule().optimism

    def draw_rule(self, candidates: Candidates | None = None) -> DrawRule:
        """Return how arms are drawn at present: the numbers `exploration` and `optimism`.

        With `"auto"`, they are f + (1 - f) c and o (1 - c), where c = Σ s_i² is computed from the arms' shares s_i of all
        rewards. Usually, f = 0.1 and o = 0.5. There is one exception: if arms have slopes and all K candidates have the same
        context, an arm that is not chosen is not tried for free. Then f = 0.1 + 0.1 v and o = 0.5 + (b - 0.5) v. Here, v is
        the share of the slopes in the prior variance of what an arm has of its own, in this context, and b is the expected
        maximum of K standard normal numbers.

        Parameters
        ----------
        candidates
            The arms of one decision, and their contexts.
        """
        exploration = self._exploration
        if exploration != "auto":
            return DrawRule(exploration, 0.0)
        model = self._model  # type: ignore[attr-defined]  # the policy has one
        if (
            candidates is not None
            and isinstance(model, SlopePosterior)
            and model.slope_indices
            and have_one_context(candidates.contexts)
        ):
            share = model.share_of_slopes(candidates.contexts[0])
            return automatic(model.concentration, share, len(candidates.rows))
        return automatic(model.concentration)
