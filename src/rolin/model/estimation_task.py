"""An estimate of the scales that needs no model, so that it can run in another thread while the model learns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass

from rolin.errors import NotFiniteError, ScaleWarning
from rolin.model.estimation import Method, mode
from rolin.model.first_guess import LearnedScale, guess_scales, with_learned_intercept
from rolin.model.moments import Moments
from rolin.model.scales import Scales

__all__ = ["EstimationTask"]

_LEAST_NOISE = 1e-6  # the smallest estimate of the noise, relative to the largest in the history


@dataclass(frozen=True, eq=False)
class EstimationTask:
    """All that an estimate of the scales reads, as copies. `run` depends on nothing else, and changes nothing."""

    moments: Moments | None
    """The evidence; `None` if all rewards are equal, so that no scales can be guessed."""
    guess: Scales
    """The scales before the first estimate: guesses, or placeholders where there are none."""
    learn: Set[LearnedScale]
    unknown: Set[LearnedScale]
    method: Method
    largest_noise: float
    """The largest noise_std that was ever learned; 0 before the first estimate."""
    roughly: bool
    """Whether to be faster with slopes, for estimates that come again and again."""
    latest: Scales | None
    """The latest estimate, if there is any. The search begins near it."""
    step: Callable[[Scales], Scales] | None = None
    """Returns the scales to use from those that are estimated, if these are too far away to go to at once."""

    def run(self) -> Scales | None:
        """Return the estimated scales, or `None` if there are none.

        A warning says so, unless all rewards are still equal, or all that are remembered have become equal.
        """
        if self.moments is None:
            return None
        try:
            found = self._estimated(self.moments)
        except NotFiniteError as error:
            # Suppressed only if warnings are errors: an estimate never makes an update fail.
            with suppress(ScaleWarning):
                warnings.warn(
                    f"{error}; the earlier scales are still in use", ScaleWarning, stacklevel=2
                )
            return None
        return found if found is None or self.step is None else self.step(found)

    def _estimated(self, moments: Moments) -> Scales | None:
        guess: Scales | None = self.guess
        if self.unknown:
            guess = guess_scales(moments, self.guess, self.unknown)
        if guess is None:
            return None
        scales = mode(
            moments,
            guess,
            {name for name in self.learn if name != "intercept_std"},
            self.method,
            guessed_from_data="arm_std" in self.unknown,
            roughly=self.roughly,
            start=self.latest,
        )
        if "intercept_std" in self.learn:
            scales = with_learned_intercept(moments, scales)
        # With forgetting, a long time of equal rewards would shrink the noise to nothing. Then no other reward
        # could be computed with.
        return scales if scales.noise_std >= _LEAST_NOISE * self.largest_noise else None
