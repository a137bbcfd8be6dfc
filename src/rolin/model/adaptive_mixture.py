"""A mixture that also learns coef_std.

noise_std and arm_std are integrated out. coef_std is estimated as `Adaptive` does it: at the mode of the marginal
likelihood of all three, times a weak prior. Only coef_std/noise_std matters to the mixture, so the estimate is scaled
to the guess of the noise (docs/explanation/maths.md, "Scales integrated out").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin.errors import NotFiniteError
from rolin.model import kernels
from rolin.model.estimation_task import EstimationTask
from rolin.model.first_guess import LearnedScale
from rolin.model.mixture import Mixture
from rolin.model.moments import Moments, check_factor
from rolin.model.scale_schedule import (
    FIRST_ESTIMATE,
    MAX_HISTORY,
    LearnsScales,
    ScaleEvent,
    until_next,
)
from rolin.model.scales import Scales

__all__ = ["AdaptiveMixture"]

# Scales beyond these could not be computed with.
_RANGE = 1e-100, 1e100
_LEARN: frozenset[LearnedScale] = frozenset({"noise_std", "arm_std", "coef_std"})


@dataclass(frozen=True)
class _Relative:
    """Turns estimated scales into those of a mixture: the guesses, with an estimated coef_std."""

    guess: Scales

    def __call__(self, found: Scales) -> Scales:
        if found.coef_std == self.guess.coef_std:  # nothing could be learned of it
            return self.guess
        ratio = np.array(found.coef_std) / found.noise_std
        coef = np.clip(ratio * self.guess.noise_std, *_RANGE).tolist()
        return replace(self.guess, coef_std=tuple(coef) if isinstance(coef, list) else coef)


class AdaptiveMixture(LearnsScales, Mixture):
    """The running posterior of the robust linear model and of its scales, one of which is estimated: coef_std.

    Parameters
    ----------
    scales
        Guesses of all scales; coef_std and intercept_std are relative to the noise.
    n_features
        Number d of features of a context, the intercept not counted.

    Examples
    --------
    >>> mixture = AdaptiveMixture(Scales(coef_std=0.1), n_features=1)
    >>> for i in range(10):
    ...     mixture.observe(i % 3, [1.0 + i], 5.0 * i)
    >>> mixture.history[0].seen, mixture.scales.coef_std > 0.1
    (10, True)
    """

    def __init__(self, scales: Scales, n_features: int) -> None:
        super().__init__(scales, n_features)
        self.history: list[ScaleEvent] = []
        self._due: float = FIRST_ESTIMATE

    @property
    def scales(self) -> Scales:
        """The guesses, with the coef_std that is in use."""
        return self.history[-1].scales if self.history else self.guess

    @property
    def _seen(self) -> int:
        return int(self._numbers[0, kernels.SEEN])

    def observe(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one reward; if due, also learn coef_std.

        Each of these changes is made completely or not at all. If a signal comes between them, the next reward makes
        up for what is missing.
        """
        super().observe(arm, context, reward, weight)
        if self.is_due and self._learns_when_due:
            self.learn_scales(roughly=True)

    def estimation_task(self, *, roughly: bool = False) -> EstimationTask:
        """Return `estimate_scales` as a task, which can run in another thread while this model learns."""
        return EstimationTask(
            self.moments, self.guess, _LEARN, frozenset(), "map", 0.0, roughly, None, _Relative(self.guess)
        )  # fmt: skip

    def settle(self, scales: Scales | None) -> None:
        """Use estimated scales (`None` for the current ones) until the next estimate is due."""
        changes: dict[str, Any] = {}
        with suppress(NotFiniteError):  # then the current scales stay
            if scales is not None:
                changes = self._adopted(scales)
        remembered = min(self._seen, float(self._numbers[0, kernels.COUNT]))
        self.commit(**changes, _due=self._seen + until_next(remembered))

    def _adopted(self, scales: Scales) -> dict[str, Any]:
        parts = self.parts_with(scales)
        solved = [part.renewed(part.scales, 1.0) for part in parts]
        return {
            "parts": parts,
            **{
                name: np.stack([changes[name] for changes in solved])
                for name in ("_coef", "_factor", "_numbers")
            },
            "history": [*self.history[1 - MAX_HISTORY :], ScaleEvent(self._seen, scales)],
        }

    def decay(self, factor: float) -> None:
        """Multiply all evidence by a factor of at most 1; the prior stays."""
        factor = check_factor(factor)
        if factor < 1.0:
            changes = self.filled(self.moments.decayed(factor), self.removed_arms)
            changes["_numbers"][:, kernels.SEEN] = self._seen
            self.commit(**changes)

    def fill(self, moments: Moments, removed: Iterable[Name] = ()) -> None:
        """Replace all evidence with `moments`, and learn coef_std from it."""
        self.commit(**self.filled(moments, removed))
        self.learn_scales()

    # -- state -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays; most of them are views."""
        rows = [[event.seen, *np.atleast_1d(event.scales.coef_std)] for event in self.history]
        width = 1 + np.size(self.guess.coef_std)
        return {
            **super().arrays(),
            "age": np.array([self._seen, self._due], dtype=np.float64),
            "learned": np.array(rows, dtype=np.float64).reshape(len(rows), width),
        }

    def restore(
        self, names: Iterable[Name], removed: Iterable[Name], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Restore the state of a mixture that had these names and arrays."""
        self.history = [self._event_of(row) for row in arrays["learned"].tolist()]
        super().restore(names, removed, arrays)
        seen, due = arrays["age"].tolist()
        self._numbers[:, kernels.SEEN] = int(seen)
        self.commit(parts=self.parts_with(self.scales), _due=due)

    def _event_of(self, row: list[float]) -> ScaleEvent:
        """Return an event of the history from its row."""
        seen, *coef = row
        is_tuple = isinstance(self.guess.coef_std, tuple)
        return ScaleEvent(
            int(seen), replace(self.guess, coef_std=tuple(coef) if is_tuple else coef[0])
        )
