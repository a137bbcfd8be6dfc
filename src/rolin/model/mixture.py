"""A mixture of models with different scales, weighted by how well they predict.

Everything is in units of the noise: coef_std/noise_std is given, arm_std/noise_std is one of a few numbers t_g, and the
noise itself has a scaled inverse χ² prior. Given t_g, the posterior of the noise follows from the squared errors Q_g
of all predictions (docs/explanation/maths.md, "Scales integrated out"):

    σ² | data, g ~ (ν₀ guess² + Q_g)/χ²_ν,   ν = ν₀ + N,
    p(g | data) ∝ p(g) exp(-D_g/2) (ν₀ guess² + Q_g)^(-ν/2)

where D_g are the log determinants of the evidence. The moments are the same for all t_g, so only the coefficients are
stored once per t_g.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin._support.checks import first_not_finite
from rolin.errors import NotFiniteError, ParameterError
from rolin.model import kernels
from rolin.model.kernels.mixture import weigh
from rolin.model.learner import Learner
from rolin.model.moments import Moments, check_factor
from rolin.model.posterior import Posterior, add_up_weights
from rolin.model.scales import Scales
from rolin.model.solve import solve_coefficients
from rolin.model.summaries import Prediction

__all__ = ["N_RATIOS", "Beliefs", "Mixture"]

Floats = NDArray[np.float64]

# Values of arm_std/noise_std, in units of its guess. They differ by factors of two, about the precision to which 50
# arms determine it.
_GRID = np.array([0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
N_RATIOS = len(_GRID)
"""Number of ratios, and so of models."""
# The guess of the noise counts as this many rewards: the smallest number for which all variances are finite.
_NOISE_COUNT = 3.0


class Beliefs(NamedTuple):
    """Posterior of the scales, as (G,) arrays over the ratios arm_std/noise_std."""

    ratio: Floats
    """arm_std/noise_std"""
    weight: Floats
    """Probability of each ratio; they sum to 1."""
    noise_std: Floats
    """The noise given each ratio: s with σ² ~ s² ν/χ²_ν"""
    freedom: float
    """ν"""


class Mixture(Learner):
    """The running posterior of the robust linear model and of its scales.

    Parameters
    ----------
    scales
        Guesses of noise_std and arm_std; coef_std and intercept_std are relative to the noise.
    n_features
        Number d of features of a context, the intercept not counted.
    """

    shares_coefficients = True

    def __init__(self, scales: Scales, n_features: int) -> None:
        super().__init__(n_features)
        self.guess = scales
        self.stores_concentration = False  # see `Posterior`
        noise = scales.noise_std
        if scales.arm_std == 0.0:
            raise ParameterError("arm_std=0, expected a positive number as the guess")
        unit = scales.arm_std / noise
        # Half-Cauchy prior around the guess: its mass around each number; the first has all mass below the second.
        mass = math.log(2.0) * _GRID / (1.0 + _GRID**2)
        mass[0] = _GRID[1] * math.sqrt(0.5)
        self._log_prior = np.log(mass / mass.sum())
        self.ratio = unit * _GRID
        self.parts = [Posterior(of_part, n_features) for of_part in self._scales_of_parts(scales)]
        """One posterior per ratio, for a model whose noise is 1. They share their moments."""
        first = self.parts[0]
        self._arms: Floats
        self._tails: NDArray[np.float32]
        self._scatter: Floats
        self._coef: Floats  # (G, D)
        self._factor: Floats  # (G, D, D)
        self._numbers: Floats  # (G, 12)
        self.commit(
            _arms=first._arms,
            _tails=first._tails,
            _scatter=first._scatter,
            _coef=np.stack([part._coef for part in self.parts]),
            _factor=np.stack([part._factor for part in self.parts]),
            _numbers=np.stack([part._numbers for part in self.parts]),
        )

    def _scales_of_parts(self, scales: Scales) -> list[Scales]:
        """Return the scales of every posterior, in units of the noise."""
        noise, coef, intercept = scales.noise_std, scales.coef_std, scales.intercept_std
        given = replace(
            scales,
            noise_std=1.0,
            coef_std=tuple(c / noise for c in coef) if isinstance(coef, tuple) else coef / noise,
            intercept_std=None if intercept is None else intercept / noise,
        )
        return [replace(given, arm_std=float(t)) for t in self.ratio]

    def parts_with(self, scales: Scales) -> list[Posterior]:
        """Return copies of the posteriors that have other scales, for `commit`; nothing else in them changes."""
        parts = [copy.copy(part) for part in self.parts]
        for part, of_part in zip(parts, self._scales_of_parts(scales), strict=True):
            part.scales = of_part
        return parts

    def commit(self, **changes: Any) -> None:
        """Set several attributes at once, and let all posteriors use the arrays of the mixture."""
        state = vars(self) | changes
        parts = []
        for g, part in enumerate(state["parts"]):
            new = copy.copy(part)
            new.commit(
                **{name: state[name] for name in ("_index", "_scatter", "_arms", "_tails")},
                **{name: state[name][g] for name in ("_coef", "_factor", "_numbers")},
                n_features=state["n_features"],
                _shape=state["_shape"],
            )
            parts.append(new)
        super().commit(**(changes | {"parts": parts}))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state, after copying or unpickling, and share its arrays."""
        self.commit(**state)

    # -- learning ----------------------------------------------------------------------------

    def observe(
        self, arm: Name, context: ArrayLike, reward: SupportsFloat, weight: SupportsFloat = 1.0
    ) -> None:
        """Learn from one reward, in O(G d²)."""
        name, x, r, h = self.checked_observation(arm, context, reward, weight)
        known, seen = len(self._index), self._numbers[0, kernels.SEEN]
        row = self._index.row_of.get(name, 0)
        try:
            if not row:
                self._reserve(known + 1)
                row = self._index.add(name)
            if not kernels.observe_mixture(
                x, r, h, row,
                self._arms, self._tails, self._coef, self._factor, self._scatter, self._numbers,
            ):  # fmt: skip
                raise NotFiniteError(
                    "context, reward or weight is too large or too small to compute with, given what has been learned"
                )
        except BaseException:  # also Ctrl-C, before or after the kernel
            if self._numbers[0, kernels.SEEN] == seen:
                self._index.drop(known)
            raise

    def _reserve(self, last_row: int) -> int:
        first = copy.copy(self.parts[0])  # so that no part has arrays that the others do not have
        first._reserve(last_row)
        if first._arms is not self._arms:
            self.commit(_arms=first._arms, _tails=first._tails)
        return last_row

    def fill(self, moments: Moments, removed: Iterable[Name] = ()) -> None:
        """Replace all evidence with `moments`."""
        self.commit(**self.filled(moments, removed))

    def filled(self, moments: Moments, removed: Iterable[Name] = ()) -> dict[str, Any]:
        """Return the changes that replace all evidence with `moments`, for `commit`."""
        filled = self.parts[0].filled(moments, removed)
        solved = [solve_coefficients(part.scales, moments) for part in self.parts]
        numbers = np.tile(filled["_numbers"], (len(self.parts), 1))
        for g, (part, new) in enumerate(zip(self.parts, solved, strict=True)):
            numbers[g, kernels.ARM_VARIANCE] = part.scales.arm_std**2
            numbers[g, kernels.LOG_DETERMINANTS] = new.log_determinants
            numbers[g, kernels.QUADRATIC] = new.quadratic
        return {
            **{name: filled[name] for name in ("_index", "_arms", "_tails", "_scatter")},
            "_coef": np.stack([new.coef for new in solved]),
            "_factor": np.stack([new.factor for new in solved]),
            "_numbers": numbers,
        }

    def extend(self, n_features: int) -> None:
        """Append features, initialized from the prior."""
        parts = [copy.copy(part) for part in self.parts]
        for part in parts:
            part.extend(n_features)
        first = parts[0]
        self.commit(
            n_features=n_features,
            _shape=(n_features,),
            _arms=first._arms,
            _tails=first._tails,
            _scatter=first._scatter,
            _coef=np.stack([part._coef for part in parts]),
            _factor=np.stack([part._factor for part in parts]),
        )

    def decay(self, factor: float) -> None:
        """Multiply all evidence by a factor of at most 1; the prior stays."""
        factor = check_factor(factor)
        if factor < 1.0:
            self.fill(self.moments.decayed(factor), self.removed_arms)

    # -- reading -----------------------------------------------------------------------------

    @property
    def moments(self) -> Moments:
        """All evidence so far (a copy)."""
        return self.parts[0].moments

    @property
    def concentration(self) -> float:
        """How much the rewards concentrate on few arms; see `Posterior`."""
        return self.parts[0].concentration

    @property
    def beliefs(self) -> Beliefs:
        """The posterior of the scales."""
        freedom, table = self.weigh()
        return Beliefs(self.ratio, table[0], table[2], freedom)

    def weigh(self) -> tuple[float, Floats]:
        """Return ν and a (3, G) table: weights, their cumulative sums, and the noise of each ratio."""
        table = np.empty((3, len(self.ratio)))
        guess = _NOISE_COUNT * self.guess.noise_std**2
        return weigh(self._numbers, self._log_prior, guess, _NOISE_COUNT, table), table

    def predict_each(self, contexts: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return (G, K) means, and (G, K) standard deviations in units of the noise."""
        zeros = np.zeros(len(rows))
        tables = [part.score(contexts, rows, zeros)[1] for part in self.parts]
        return np.stack([table[0] for table in tables]), np.stack([table[1] for table in tables])

    def predict(self, contexts: ArrayLike, arms: Iterable[Name] | None = None) -> Prediction:
        """Return mean and standard deviation of each arm's mean reward, over all scales."""
        x, _, rows = self.candidates(contexts, arms)
        if not np.isfinite(x).all():
            raise first_not_finite("contexts", x)
        beliefs = self.beliefs
        each, std = self.predict_each(x, rows)
        mean = beliefs.weight @ each
        # The variance of Student's t, s² ν/(ν - 2), plus the variance between the models.
        noise = beliefs.noise_std**2 * (beliefs.freedom / (beliefs.freedom - 2.0))
        with np.errstate(over="ignore"):
            variance = beliefs.weight @ (noise[:, None] * std**2 + (each - mean) ** 2)
        if not np.isfinite(variance).all():
            raise first_not_finite("contexts", x)
        return Prediction(mean, np.sqrt(variance))

    # -- state -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the running state as named arrays (views, not copies)."""
        stored = self._numbers[:, : kernels.N_STORED]
        own = {"coef": self._coef, "factor": self._factor, "numbers": stored}
        if self.stores_concentration:
            own["sums"] = self._numbers[0, kernels.TOTAL_WEIGHT : kernels.SQUARED_WEIGHTS + 1]
        return {**self.parts[0].arrays(), **own}

    def restore(self, names: Iterable[Name], removed: Iterable[Name], arrays: Any) -> None:
        """Restore the state of a mixture that had these names and arrays."""
        super().restore(names, removed, arrays)
        if not self.stores_concentration:
            add_up_weights(self._arms, self._numbers[0])
        self.commit()
